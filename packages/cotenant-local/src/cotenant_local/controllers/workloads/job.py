"""Job: runs pods until enough of them have succeeded.

Pods that run to completion must be counted once each, replaced when they fail (with back-off), stopped when the limits
are reached, and the job must report how it ended. A pure function over the job and its pods. A failed pod is replaced
10 s after it failed, doubled with each further failure up to 10 min.
Limits: pods are counted while they exist and never below what the status already says, without upstream's finalizer on
each pod: a finished pod that is deleted before its job has ended is run again. podFailurePolicy and successPolicy are
not read.
Source: Kubernetes documentation "Jobs" (completion modes, back-off limit, deadline, TTL, suspending), condition reasons
worded as upstream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant.model.whole_number import whole_number
from cotenant_local.controllers.runtime.actions import JOBS, PODS, Create, Delete, Draft, EmitEvent, Patch, Plan
from cotenant_local.controllers.views.core import ConditionView, seconds, stamp
from cotenant_local.controllers.views.pods import PodObjectView
from cotenant_local.controllers.views.workloads import JobView, PodGroupView
from cotenant_local.controllers.workloads.job_groups import add_group, group_name, wants_group
from cotenant_local.controllers.workloads.pods import claim, conditions_with, pod_from

KIND, API_VERSION = "Job", "batch/v1"
INDEX = "batch.kubernetes.io/job-completion-index"
CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
JOB_NAME = "batch.kubernetes.io/job-name"
Groups = Callable[[str, str], PodGroupView | None]  # the PodGroup of a namespace and name
BACKOFF_S, MAX_BACKOFF_S = 10.0, 600.0
BURST = 500


@dataclass(slots=True)
class _Count:
    active: list[PodObjectView]
    terminating: int
    succeeded: int
    failed: int
    done: frozenset[int]  # completed indexes
    last_failure_s: float


def finished(job: JobView) -> ConditionView | None:
    """The job's terminal condition (Complete or Failed); None while it runs."""
    for condition in job.status.conditions:
        if condition.type in ("Complete", "Failed") and condition.status == "True":
            return condition
    return None


def reconcile(job: JobView, candidates: Iterable[PodObjectView], now_s: float, groups: Groups | None = None) -> Plan:
    """Create, replace and stop pods; update the status. `candidates`: pods controlled by it or without a controller.

    `groups`: with it the job gets a Workload and a PodGroup, and its pods name that.
    """
    draft = Draft()
    end = finished(job)
    if job.metadata.terminating:
        return draft.plan("being deleted")
    pods = _claimed(draft, job, candidates)
    count = _count(job, pods)
    if end is not None:
        for pod in count.active:
            _delete(draft, pod, "the job has finished")
        _write_status(draft, job, count, end.type, "", "", now_s)
        _expire(draft, job, now_s)
        return draft.plan(f"{end.type}: {end.reason}")
    outcome = _outcome(draft, job, count, now_s)
    if outcome is not None:
        kind, reason, message = outcome
        for pod in count.active:
            _delete(draft, pod, message)
        draft.add(
            EmitEvent(
                job, KIND, API_VERSION, "Normal" if kind == "Complete" else "Warning", _event(kind, reason), message
            )
        )
        _write_status(draft, job, count, kind, reason, message, now_s)
        return draft.plan(message)
    if job.spec.suspend:
        for pod in count.active:
            _delete(draft, pod, "the job is suspended")
        _write_status(draft, job, count, "Suspended", "JobSuspended", "Job suspended", now_s)
        return draft.plan("suspended")
    group = ""
    if groups is not None and wants_group(job):
        group = add_group(draft, job, groups(job.metadata.namespace, group_name(job)), bool(pods))
    _write_status(draft, job, count, "", "", "", now_s)
    _keep_running(draft, job, count, now_s, group)
    return draft.plan("enough pods are running")


def _claimed(draft: Draft, job: JobView, candidates: Iterable[PodObjectView]) -> Sequence[PodObjectView]:
    if job.spec.selector.is_empty:  # no selector: only pods that already name the job as controller
        return [p for p in candidates if (c := p.metadata.controller) is not None and c.uid == job.metadata.uid]
    claimed = claim(job.metadata, KIND, API_VERSION, job.spec.selector, candidates)
    for patch in claimed.actions:
        draft.add(patch, f"claim {patch.name}")
    return claimed.owned


def _count(job: JobView, pods: Sequence[PodObjectView]) -> _Count:
    indexed = job.spec.completion_mode == "Indexed"
    ended = [p for p in pods if p.finished]
    succeeded = [p for p in ended if p.status.phase == "Succeeded"]
    # a pod deleted while it runs counts as failed only once its phase is Failed
    failed = [p for p in ended if p.status.phase == "Failed"]
    done = {i for p in succeeded if (i := index_of(p)) is not None and i < (job.spec.completions or 0)}
    done |= _indexes(job.status.completed_indexes, job.spec.completions or 0)
    restarts = sum(p.restarts for p in pods if p.spec.restart_policy == "OnFailure")
    return _Count(
        active=[p for p in pods if p.active],
        terminating=sum(p.metadata.terminating and not p.finished for p in pods),
        succeeded=len(done) if indexed else max(job.status.succeeded, len(succeeded)),
        failed=max(job.status.failed, len(failed) + restarts),
        done=frozenset(done) if indexed else frozenset(),
        last_failure_s=max((_ended_s(p) for p in failed), default=0.0),
    )


def _ended_s(pod: PodObjectView) -> float:
    ends = [seconds(c.state.terminated.finished_at) for c in pod.status.container_statuses if c.state.terminated]
    known = [e for e in ends if e is not None]
    if known:
        return max(known)
    condition = pod.ready_condition
    return (seconds(condition.last_transition_time) if condition else None) or pod.metadata.created_s


def _outcome(draft: Draft, job: JobView, count: _Count, now_s: float) -> tuple[str, str, str] | None:
    """Whether and how the job ends now: (condition, reason, message)."""
    if count.failed > job.spec.backoff_limit:
        return "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    started, deadline = seconds(job.status.start_time), job.spec.active_deadline_seconds
    if deadline is not None and started is not None and not job.spec.suspend:
        if now_s >= started + deadline:
            return "Failed", "DeadlineExceeded", "Job was active longer than specified deadline"
        draft.requeue_at(started + deadline)
    desired = job.spec.completions
    if desired is not None:
        complete = count.succeeded >= desired
    else:  # work queue: after the first success no pod is created, and the job ends when the others have finished
        complete = count.succeeded > 0 and not count.active
    if complete:
        return "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
    return None


def _event(kind: str, reason: str) -> str:
    return "Completed" if kind == "Complete" else reason


def _keep_running(draft: Draft, job: JobView, count: _Count, now_s: float, group: str) -> None:
    desired = job.spec.parallelism
    if job.spec.completions is not None:
        desired = min(desired, job.spec.completions - count.succeeded)
    elif count.succeeded > 0:
        desired = min(desired, len(count.active))
    active = sorted(count.active, key=lambda p: (bool(p.spec.node_name), p.ready, -p.metadata.created_s))
    if len(active) > desired:
        for pod in active[: len(active) - desired]:
            _delete(draft, pod, "more active pods than the parallelism")
        return
    missing = min(desired - len(active) - count.terminating, BURST)
    if missing <= 0:
        return
    if count.failed and count.last_failure_s:
        due = count.last_failure_s + min(BACKOFF_S * 2.0 ** min(count.failed - 1, 10), MAX_BACKOFF_S)
        if now_s < due:
            draft.requeue_at(due)
            draft.reasons.append(f"{count.failed} failed: the next pod is created in {due - now_s:.0f} s")
            return
    for manifest in _new_pods(job, count, missing):
        if group:
            manifest["spec"]["schedulingGroup"] = {"podGroupName": group}
        draft.add(Create(PODS, job.metadata.namespace, manifest))
    draft.reasons.append(f"create {missing}: {len(active)} of {desired} are active")
    text = f"Created {missing} pod{'s' if missing > 1 else ''}"
    draft.add(EmitEvent(job, KIND, API_VERSION, "Normal", "SuccessfulCreate", text))


def _new_pods(job: JobView, count: _Count, missing: int) -> list[Manifest]:
    if job.spec.completion_mode != "Indexed":
        return [_pod(job)] * missing
    used = {index_of(p) for p in count.active}
    free = (i for i in range(job.spec.completions or 0) if i not in count.done and i not in used)
    return [_pod(job, i) for i, _ in zip(free, range(missing), strict=False)]


def _pod(job: JobView, index: int | None = None) -> Manifest:
    pod = pod_from(job.spec.template, job.metadata, KIND, API_VERSION, suffix="" if index is None else f"{index}-")
    uid, name = job.metadata.uid, job.metadata.name
    labels = {CONTROLLER_UID: uid, "controller-uid": uid, JOB_NAME: name, "job-name": name}
    metadata = pod["metadata"]
    metadata["labels"] = {**metadata.get("labels", {}), **labels}
    if index is not None:
        metadata["labels"][INDEX] = str(index)
        metadata["annotations"] = {**metadata.get("annotations", {}), INDEX: str(index)}
        pod["spec"].setdefault("hostname", f"{name}-{index}")
        variable = {"name": "JOB_COMPLETION_INDEX", "value": str(index)}
        containers = pod["spec"].get("containers") or []
        pod["spec"]["containers"] = [{**c, "env": [*(c.get("env") or []), variable]} for c in containers]
    return pod


def index_of(pod: PodObjectView) -> int | None:
    """The completion index of a pod of an Indexed job."""
    return whole_number(pod.metadata.annotations.get(INDEX, ""))


def _indexes(text: str, completions: int) -> set[int]:
    """The indexes below `completions` in text such as `0-2,5`; parts that are no ranges are skipped."""
    out: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        low, high = whole_number(first), whole_number(last or first)
        if low is not None and high is not None:
            out |= set(range(low, min(high + 1, completions)))
    return out


def _ranges(indexes: Iterable[int]) -> str:
    """Format numbers as `0-2,5`."""
    runs: list[list[int]] = []
    for i in sorted(indexes):
        if runs and runs[-1][1] == i - 1:
            runs[-1][1] = i
        else:
            runs.append([i, i])
    return ",".join(str(a) if a == b else f"{a},{b}" if b == a + 1 else f"{a}-{b}" for a, b in runs)


def _delete(draft: Draft, pod: PodObjectView, why: str) -> None:
    draft.add(
        Delete(PODS, pod.metadata.namespace, pod.metadata.name, pod.metadata.uid), f"delete {pod.metadata.name}: {why}"
    )


def _expire(draft: Draft, job: JobView, now_s: float) -> None:
    ttl = job.spec.ttl_seconds_after_finished
    end = finished(job)
    if ttl is None or end is None:
        return
    due = (seconds(end.last_transition_time) or now_s) + ttl
    if now_s >= due:
        draft.add(Delete(JOBS, job.metadata.namespace, job.metadata.name, job.metadata.uid), f"finished {ttl} s ago")
    else:
        draft.requeue_at(due)


def _write_status(
    draft: Draft, job: JobView, count: _Count, kind: str, reason: str, message: str, now_s: float
) -> None:
    before, now = job.status, stamp(now_s)
    ended = kind in ("Complete", "Failed")
    started: str | None = msgspec.to_builtins(before.start_time)
    conditions: list[Manifest] = _encoded(before.conditions)
    if kind == "Suspended":
        started = None
        if not any(c.type == kind and c.status == "True" for c in before.conditions):
            conditions = conditions_with(before.conditions, kind, "True", reason, message, now)
            draft.add(EmitEvent(job, KIND, API_VERSION, "Normal", "Suspended", message))
    else:
        started = started or now
        if any(c.type == "Suspended" and c.status == "True" for c in before.conditions):
            conditions = conditions_with(before.conditions, "Suspended", "False", "JobResumed", "Job resumed", now)
            draft.add(EmitEvent(job, KIND, API_VERSION, "Normal", "Resumed", "Job resumed"))
        if ended and finished(job) is None:
            first = "SuccessCriteriaMet" if kind == "Complete" else "FailureTarget"
            views = msgspec.convert(conditions, tuple[ConditionView, ...])
            conditions = conditions_with(views, first, "True", reason, message, now)
            views = msgspec.convert(conditions, tuple[ConditionView, ...])
            conditions = conditions_with(views, kind, "True", reason, message, now)
    active = 0 if ended or kind == "Suspended" else len(count.active)
    desired: Manifest = {
        "active": active,
        "ready": sum(p.ready for p in count.active) if active else 0,
        "terminating": count.terminating,
        "succeeded": count.succeeded,
        "failed": count.failed,
        "completedIndexes": _ranges(count.done),
        "startTime": started,
        "conditions": conditions,
    }
    if kind == "Complete":
        desired["completionTime"] = msgspec.to_builtins(before.completion_time) or now
    current: Manifest = msgspec.to_builtins(before)
    current["conditions"] = _encoded(before.conditions)
    changed = {k: v for k, v in desired.items() if current.get(k) != v}
    if changed:
        changed = {k: (None if v in ("", None) else v) for k, v in changed.items()}
        draft.add(Patch(JOBS, job.metadata.namespace, job.metadata.name, {"status": changed}, "status"))


def _encoded(conditions: Sequence[ConditionView]) -> list[Manifest]:
    return [{k: v for k, v in msgspec.to_builtins(c).items() if v not in (None, "", 0)} for c in conditions]
