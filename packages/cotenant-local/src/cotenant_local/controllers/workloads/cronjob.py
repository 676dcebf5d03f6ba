"""CronJob: a Job at each time of a schedule.

A pure function over the CronJob and its Jobs. The Job of a time has a name that follows from it, so a plan that was
carried out half, or twice, makes none twice. Of several times that were missed only the latest is run, unless it is
past its deadline.
Source: Kubernetes documentation "CronJob" (limitations, concurrency, deadline, history), names and reasons as upstream.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.apiserver.schema.kinds.cron_schedule import BadSchedule, Schedule, parse
from cotenant_local.controllers.runtime.actions import CRON_JOBS, JOBS, Create, Delete, Draft, EmitEvent, Patch, Plan
from cotenant_local.controllers.views.core import seconds, stamp
from cotenant_local.controllers.views.scheduled import CronJob
from cotenant_local.controllers.views.workloads import JobView
from cotenant_local.controllers.workloads.job import finished
from cotenant_local.controllers.workloads.pods import owner_reference

KIND, API_VERSION = "CronJob", "batch/v1"
SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_MAX_MISSED = 100
_BACK_S = (3600.0, 86_400.0, 32 * 86_400.0, 367 * 86_400.0, 5 * 367 * 86_400.0)


def reconcile(cron: CronJob, jobs: Iterable[JobView], now_s: float) -> Plan:
    """Create the Job that is due, keep the status and the history. `jobs`: those that it controls."""
    draft = Draft()
    own = sorted(jobs, key=lambda job: (job.metadata.created_s, job.metadata.name))
    active = [job for job in own if finished(job) is None]
    status: Manifest = {}
    _clean(draft, cron, [job for job in own if finished(job) is not None])
    done = [seconds(job.status.completion_time) for job in own if _ended_as(job, "Complete")]
    latest = max((at_s for at_s in done if at_s is not None), default=None)
    if latest is not None and latest > (seconds(cron.status.last_successful_time) or 0.0):
        status["lastSuccessfulTime"] = stamp(latest)
    if not cron.metadata.terminating and not cron.spec.suspend:
        active = _start(draft, cron, own, active, status, now_s)
    listed = [_reference(job.metadata.name, job.metadata.uid, job.metadata.namespace) for job in active]
    if {job.metadata.uid for job in active} != {entry.uid for entry in cron.status.active}:
        status["active"] = listed or None
    if status:
        draft.add(Patch(CRON_JOBS, *cron.metadata.key, {"status": status}, "status"))
    return draft.plan("suspended" if cron.spec.suspend else "nothing is due")


def _start(
    draft: Draft, cron: CronJob, own: Sequence[JobView], active: list[JobView], status: Manifest, now_s: float
) -> list[JobView]:
    """Start what is due; the Jobs that run on."""
    try:
        schedule = parse(cron.spec.schedule)
    except BadSchedule as error:
        _tell(draft, cron, "Warning", "UnparseableSchedule", f"unparseable schedule: {cron.spec.schedule!r} : {error}")
        return active
    zone, deadline_s = cron.spec.time_zone, cron.spec.starting_deadline_seconds
    since_s = seconds(cron.status.last_schedule_time) or cron.metadata.created_s
    if deadline_s is not None:
        since_s = max(since_s, now_s - deadline_s)
    due_s, missed = due(schedule, since_s, now_s, zone)
    draft.requeue_at(schedule.after(now_s, zone))
    if missed > _MAX_MISSED:
        why = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
        _tell(draft, cron, "Warning", "TooManyMissedTimes", why)
    if due_s is None:
        return active
    if deadline_s is not None and due_s + deadline_s < now_s:
        _tell(draft, cron, "Warning", "MissSchedule", f"Missed scheduled time to start a job: {stamp(due_s)}")
        return active
    if cron.spec.concurrency_policy == "Forbid" and active:
        why = "Not starting job because prior execution is running and concurrency policy is Forbid"
        _tell(draft, cron, "Normal", "JobAlreadyActive", why)
        return active
    if cron.spec.concurrency_policy == "Replace":
        for job in active:
            draft.add(Delete(JOBS, *job.metadata.key, job.metadata.uid), f"replaced {job.metadata.name}")
            _tell(draft, cron, "Normal", "SuccessfulDelete", f"Deleted job {job.metadata.name}")
        active = []
    name = f"{cron.metadata.name}-{int(due_s) // 60}"
    if not any(job.metadata.name == name for job in own):
        draft.add(Create(JOBS, cron.metadata.namespace, _job(cron, name, due_s)), f"started {name}")
        _tell(draft, cron, "Normal", "SuccessfulCreate", f"Created job {name}")
    status["lastScheduleTime"] = stamp(due_s)
    return active


def due(schedule: Schedule, since_s: float, now_s: float, zone: str) -> tuple[float | None, int]:
    """The latest time of a schedule after `since_s` and not after `now_s`, and how many there were, at most one more
    than are counted.
    """
    found, missed, at_s = None, 0, since_s
    while missed <= _MAX_MISSED:
        following = schedule.after(at_s, zone)
        if following is None or following > now_s:
            return found, missed
        found, at_s = following, following
        missed += 1
    for back_s in _BACK_S:
        at_s = max(since_s, now_s - back_s)
        latest = None
        while (following := schedule.after(at_s, zone)) is not None and following <= now_s:
            latest = at_s = following
        if latest is not None:
            return latest, missed
    return found, missed


def _clean(draft: Draft, cron: CronJob, ended: Sequence[JobView]) -> None:
    """Delete the oldest of those that have ended, beyond what is kept of each kind."""
    for kind, limit in (
        ("Complete", cron.spec.successful_jobs_history_limit),
        ("Failed", cron.spec.failed_jobs_history_limit),
    ):
        of_kind = [job for job in ended if _ended_as(job, kind) and not job.metadata.terminating]
        for job in of_kind[: max(0, len(of_kind) - limit)]:
            draft.add(Delete(JOBS, *job.metadata.key, job.metadata.uid), f"deleted {job.metadata.name}")
            _tell(draft, cron, "Normal", "SuccessfulDelete", f"Deleted job {job.metadata.name}")


def _ended_as(job: JobView, kind: str) -> bool:
    end = finished(job)
    return end is not None and end.type == kind


def _job(cron: CronJob, name: str, due_s: float) -> Manifest:
    template = cron.spec.job_template
    metadata: Manifest = {
        "name": name,
        "namespace": cron.metadata.namespace,
        "annotations": {**(template.metadata.get("annotations") or {}), SCHEDULED: stamp(due_s)},
        "ownerReferences": [owner_reference(cron.metadata, KIND, API_VERSION)],
    }
    if template.metadata.get("labels"):
        metadata["labels"] = dict(template.metadata["labels"])
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template.spec}


def _reference(name: str, uid: str, namespace: str) -> Manifest:
    return {"apiVersion": "batch/v1", "kind": "Job", "name": name, "namespace": namespace, "uid": uid}


def _tell(draft: Draft, cron: CronJob, kind: str, reason: str, message: str) -> None:
    draft.actions.append(EmitEvent(cron, KIND, API_VERSION, kind, reason, message))
