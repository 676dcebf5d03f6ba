"""EvictionRequests become Evictions, whose responders act one after another; the last one evicts the pod.

A responder is active until it completes, the pod is gone, every requester withdraws, or it has not reported for twenty
minutes. The default responder, last of all, calls pods/eviction and repeats it while a budget forbids it. Left out: the
order of requesters beyond a hundred.
Source: KEP-4563 and kube-controller-manager's evictionrequest-controller (1.37): states, deadlines and reasons.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.controllers.runtime.actions import (
    EVICTION_REQUESTS,
    EVICTIONS,
    Create,
    Draft,
    EvictWithinBudgets,
    Patch,
    Plan,
)
from cotenant_local.controllers.views.core import ConditionView, seconds, stamp
from cotenant_local.controllers.views.evictions import EvictionRequestView, EvictionView
from cotenant_local.controllers.views.pods import PodObjectView

GROUP, VERSION = "lifecycle.k8s.io", "v1alpha1"
API = f"{GROUP}/{VERSION}"
DEFAULT_RESPONDER, DEFAULT_PRIORITY = "imperative-eviction.k8s.io/evictor", 100
HEARTBEAT_S = 20 * 60.0
REPORTS_WITHIN_S = 5.0  # of its completion, once the pod is gone
_BEAT_S = 60.0
_RETRY_S = 10.0
Pairs = tuple[tuple[str, str, str, str], ...]  # type, status, reason and message of each condition


@dataclass(frozen=True, slots=True)
class _Turn:
    """A responder with its state and what it reported."""

    name: str
    priority: int
    state: str
    start_s: float | None = None
    beat_s: float | None = None
    complete_s: float | None = None


def reconcile_request(
    request: EvictionRequestView, evictions: Sequence[EvictionView], pod: PodObjectView | None, now_s: float
) -> Plan:
    """One EvictionRequest. `evictions`: those of its target; `pod`: of that name now."""
    draft, meta, conditions = Draft(), request.metadata, request.status.conditions
    failed = next((found for found in conditions if found.type == "Failed" and found.status == "True"), None)
    if any(found.type == "TargetEvicted" and found.status == "True" for found in conditions) or (
        failed is not None and failed.reason == "EvictionInvalid"
    ):
        return draft.plan("it has ended")
    invalid = _invalid(request, evictions, pod)
    pairs: Pairs
    if invalid:
        pairs = (("Failed", "True", "EvictionInvalid", invalid), ("TargetEvicted", "False", "EvictionFailed", ""))
        _write_request(draft, request, pairs, now_s)
        return draft.plan()
    latest = max(evictions, key=lambda one: (not one.has_ended, one.metadata.created_s), default=None)
    is_new = request.status.observed_generation < meta.generation
    if request.wants_eviction and (latest is None or (latest.has_ended and is_new)):
        draft.add(Create(EVICTIONS, meta.namespace, _eviction_of(request, len(evictions))), "an Eviction begins")
    pairs = tuple(
        (type_, found.status, found.reason, found.message)
        if latest is not None and (found := latest.condition(type_)) is not None
        else (type_, "False", "AwaitingEviction", "")
        for type_ in ("Failed", "TargetEvicted")
    )
    _write_request(draft, request, pairs, now_s)
    return draft.plan()


def _invalid(request: EvictionRequestView, evictions: Sequence[EvictionView], pod: PodObjectView | None) -> str:
    target = request.spec.target.pod
    if pod is not None and pod.metadata.uid == target.uid:
        if pod.spec.scheduling_group is not None:
            return "Target pod references a SchedulingGroup. Eviction is currently not supported."
        return ""
    if evictions:
        return ""
    if pod is None:
        return "Target pod not found."
    return f"Target pod UID mismatch: expected {target.uid}, got {pod.metadata.uid}."


def _eviction_of(request: EvictionRequestView, number: int) -> Manifest:
    target = request.spec.target.pod
    reference = {"apiVersion": API, "kind": "EvictionRequest", "name": request.metadata.name}
    return {
        "apiVersion": API,
        "kind": "Eviction",
        "metadata": {
            "name": f"{target.name[:200]}-{target.uid}-{number}"[:253],
            "namespace": request.metadata.namespace,
            "labels": {request.spec.requester: "requester"},
            "ownerReferences": [{**reference, "uid": request.metadata.uid}],
        },
        "spec": {"target": {"pod": {"name": target.name, "uid": target.uid}}},
    }


def _write_request(draft: Draft, request: EvictionRequestView, pairs: Pairs, now_s: float) -> None:
    conditions = _conditions(request.status.conditions, pairs, request.metadata.generation, now_s)
    if conditions is None and request.status.observed_generation == request.metadata.generation:
        return
    status: Manifest = {"observedGeneration": request.metadata.generation}
    if conditions is not None:
        status["conditions"] = conditions
    meta = request.metadata
    draft.add(
        Patch(EVICTION_REQUESTS, meta.namespace, meta.name, {"status": status}, "status", meta.resource_version),
        "status",
    )


def reconcile_eviction(
    eviction: EvictionView, requests: Sequence[EvictionRequestView], pod: PodObjectView | None, now_s: float
) -> Plan:
    """One Eviction. `requests`: those of its target; `pod`: of that name now."""
    draft, target = Draft(), eviction.spec.target.pod
    if eviction.has_ended:
        return draft.plan("it has ended")
    pod = pod if pod is not None and pod.metadata.uid == target.uid else None
    is_gone = pod is None or pod.finished
    wanted = any(request.wants_eviction for request in requests)
    turns = _turns(eviction, pod)
    at = next((index for index, turn in enumerate(turns) if turn.state == "Active"), -1)
    waits_s = 0.0
    if is_gone and at >= 0:
        if turns[at].complete_s is not None:
            turns[at] = replace(turns[at], state="Completed")
        else:
            waits_s = _left_to_report_s(pod, eviction, now_s)
            turns[at] = turns[at] if waits_s > 0 else replace(turns[at], state="Interrupted")
    elif not is_gone and not wanted:
        if at >= 0:
            turns[at] = replace(turns[at], state="Canceled")
    elif not is_gone:
        _advance(turns, at, now_s, draft)
    done = bool(turns) and turns[-1].state in ("Completed", "Interrupted", "Canceled")
    pairs: Pairs
    if is_gone and waits_s <= 0:
        why = ("PodDeleted", "Target pod has been deleted") if pod is None else ("PodTerminal", "Pod is terminal")
        pairs = (("Failed", "False", "Succeeded", ""), ("TargetEvicted", "True", *why))
    elif not is_gone and not wanted:
        why = ("CanceledDueToNoRequesters", "No active requesters with eviction intent")
        pairs = (("Failed", "True", *why), ("TargetEvicted", "False", "EvictionFailed", ""))
    elif not is_gone and done:
        why = ("NoFurtherResponder", "All responders have completed without evicting the target")
        pairs = (("Failed", "True", *why), ("TargetEvicted", "False", "EvictionFailed", ""))
    else:
        pairs = tuple((type_, "False", "AwaitingEviction", "") for type_ in ("Failed", "TargetEvicted"))
    if waits_s > 0:
        draft.requeue_at(now_s + waits_s)
    _write_eviction(draft, eviction, requests, turns, pairs, now_s)
    active = next((turn for turn in turns if turn.state == "Active"), None)
    if pod is not None and active is not None and active.name == DEFAULT_RESPONDER and not pod.metadata.terminating:
        draft.requeue_at(now_s + _RETRY_S)
        draft.add(EvictWithinBudgets(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid), "the pod is evicted")
    return draft.plan()


def _left_to_report_s(pod: PodObjectView | None, eviction: EvictionView, now_s: float) -> float:
    """How long the active responder may still report its completion; the end of a pod that is gone is seen when the
    last change of the Eviction is.
    """
    if pod is not None:
        return 0.0
    beats = [seconds(one.heartbeat_time) or seconds(one.start_time) or 0.0 for one in eviction.status.responders]
    return max(0.0, max(beats, default=0.0) + REPORTS_WITHIN_S - now_s)


def _turns(eviction: EvictionView, pod: PodObjectView | None) -> list[_Turn]:
    """The responders in order, as they stand."""
    known = eviction.status.target_responders
    if known:
        turns = [_Turn(one.name, one.priority, one.state) for one in known]
    elif pod is not None:
        turns = [_Turn(one.name, one.priority, "Inactive") for one in pod.spec.eviction_responders]
        turns.append(_Turn(DEFAULT_RESPONDER, DEFAULT_PRIORITY, "Inactive"))
    else:
        turns = []
    said = {one.name: one for one in eviction.status.responders}
    turns.sort(key=lambda turn: (-turn.priority, _by_domain(turn.name)))
    return [
        replace(
            turn,
            start_s=seconds(said[turn.name].start_time),
            beat_s=seconds(said[turn.name].heartbeat_time),
            complete_s=seconds(said[turn.name].completion_time),
        )
        if turn.name in said
        else turn
        for turn in turns
    ]


def _by_domain(name: str) -> tuple[list[str], str]:
    """Top labels of the domain first, then the key."""
    domain, _, key = name.partition("/")
    return domain.split(".")[::-1], key


def _advance(turns: list[_Turn], at: int, now_s: float, draft: Draft) -> None:
    """End the turn of a responder that completed or is silent, and begin the next one's."""
    if at < 0:
        at = next((index for index, turn in enumerate(turns) if turn.state == "Inactive"), -1)
        if at < 0:
            return
        turns[at] = replace(turns[at], state="Active", start_s=turns[at].start_s or now_s)
        draft.requeue_at(now_s + HEARTBEAT_S)
        return
    turn = turns[at]
    last_s = turn.beat_s or turn.start_s or now_s
    if turn.complete_s is not None:
        turns[at] = replace(turn, state="Completed")
    elif now_s - last_s >= HEARTBEAT_S:
        turns[at] = replace(turn, state="Interrupted")
    else:
        if turn.name == DEFAULT_RESPONDER and now_s - last_s >= _BEAT_S:
            turns[at] = replace(turn, beat_s=now_s)
        draft.requeue_at(last_s + HEARTBEAT_S)
        return
    if at + 1 < len(turns):
        turns[at + 1] = replace(turns[at + 1], state="Active", start_s=now_s)
        draft.requeue_at(now_s + HEARTBEAT_S)


def _write_eviction(
    draft: Draft,
    eviction: EvictionView,
    requests: Sequence[EvictionRequestView],
    turns: Sequence[_Turn],
    pairs: Pairs,
    now_s: float,
) -> None:
    before, meta = eviction.status, eviction.metadata
    intents = {one.name: "Withdrawn" for one in before.requesters}
    for request in requests:
        is_wanted = request.wants_eviction or intents.get(request.spec.requester) == "Eviction"
        intents[request.spec.requester] = "Eviction" if is_wanted else "Withdrawn"
    status: Manifest = {}
    if intents != {one.name: one.intent for one in before.requesters}:
        status["requesters"] = [{"name": name, "intent": intent} for name, intent in intents.items()]
    if [(turn.name, turn.state) for turn in turns] != [(one.name, one.state) for one in before.target_responders]:
        status["targetResponders"] = [
            {"name": turn.name, "priority": turn.priority, "state": turn.state} for turn in turns
        ]
    said = {one.name: one for one in before.responders}
    reports = [
        _report(turn, said[turn.name].expected_completion_time, said[turn.name].message)
        if turn.name in said
        else _report(turn, None, "")
        for turn in turns
    ]
    if reports != [
        _report(
            _Turn(one.name, 0, "", *map(seconds, (one.start_time, one.heartbeat_time, one.completion_time))),
            one.expected_completion_time,
            one.message,
        )
        for one in before.responders
    ]:
        status["responders"] = reports
    conditions = _conditions(before.conditions, pairs, meta.generation, now_s)
    if conditions is not None:
        status["conditions"] = conditions
    if status:
        status["observedGeneration"] = max(1, meta.generation)
        draft.add(Patch(EVICTIONS, meta.namespace, meta.name, {"status": status}, "status", meta.resource_version))


def _report(turn: _Turn, expected: datetime | None, message: str) -> Manifest:
    times = {"startTime": turn.start_s, "heartbeatTime": turn.beat_s, "completionTime": turn.complete_s}
    found: Manifest = {"name": turn.name, **{key: stamp(at_s) for key, at_s in times.items() if at_s is not None}}
    expected_s = seconds(expected)
    if expected_s is not None:
        found["expectedCompletionTime"] = stamp(expected_s)
    return {**found, "message": message} if message else found


def _conditions(
    before: tuple[ConditionView, ...], pairs: Pairs, generation: int, now_s: float
) -> list[Manifest] | None:
    """The conditions with these; None where nothing changes."""
    known = {found.type: found for found in before}
    made: list[Manifest] = []
    is_new = False
    for type_, status, reason, message in pairs:
        old = known.get(type_)
        is_new |= old is None or (old.status, old.reason, old.message) != (status, reason, message)
        since = old.last_transition_time if old is not None and old.status == status else None
        since_s = seconds(since)
        made.append(
            {
                "type": type_,
                "status": status,
                "reason": reason,
                "message": message,
                "lastTransitionTime": stamp(now_s if since_s is None else since_s),
                "observedGeneration": generation,
            }
        )
    return made if is_new else None
