"""Whether an object does what its latest version asks for, by the status that its controller writes.

A controller may not have seen the latest version: its status counts only from the generation on that it names. A Job
is ready when it runs or has ended; other kinds are ready when they are there.
Limits: a custom object is ready when it is there, whatever its conditions say; a claim is not waited for by itself,
since one that binds with its first pod never would be.
Source: Kubernetes documentation (Deployment status, StatefulSet, DaemonSet, Job), `kubectl rollout status`.
"""

from __future__ import annotations

from collections.abc import Callable

from cotenant.model.apps.standing import ObjectStanding
from cotenant.model.counted import counted
from cotenant.model.json_object import JsonMapping

_THERE = ObjectStanding(1, 1, True)


def standing_of(live: JsonMapping | None) -> ObjectStanding:
    """How an object stands; None = it is not there."""
    if live is None:
        return ObjectStanding(0, 1, False, reasons=("it is not there",))
    judge = _BY_KIND.get(str(live.get("kind")))
    if judge is None:
        return _THERE
    generation, observed = live["metadata"].get("generation"), _status(live).get("observedGeneration")
    if judge in _OBSERVED and isinstance(generation, int) and (observed or 0) < generation:
        return ObjectStanding(
            0, _whole(_spec(live).get("replicas"), 1), False, reasons=("its controller has not seen it",)
        )
    return judge(live)


def _deployment(live: JsonMapping) -> ObjectStanding:
    spec, status = _spec(live), _status(live)
    wanted = _whole(spec.get("replicas"), 1)
    updated, available = _whole(status.get("updatedReplicas")), _whole(status.get("availableReplicas"))
    old = _whole(status.get("replicas")) - updated
    progressing = _condition(live, "Progressing")
    failed = ""
    if progressing.get("reason") == "ProgressDeadlineExceeded":
        failed = f"no progress within {spec.get('progressDeadlineSeconds', 600)} s"
    reasons = [f"{counted(old, 'pod')} of its former version"] if old > 0 else []
    failure = _condition(live, "ReplicaFailure")
    if failure.get("status") == "True":
        reasons.append(f"pods cannot be made: {failure.get('message')}")
    ready = updated >= wanted and old <= 0 and available >= wanted
    of_new = min(updated, max(0, available - max(0, old)))  # which of them are ready is not in the status
    return ObjectStanding(of_new, wanted, ready, failed, tuple(reasons))


def _replica_set(live: JsonMapping) -> ObjectStanding:
    wanted, ready = _whole(_spec(live).get("replicas"), 1), _whole(_status(live).get("readyReplicas"))
    failure = _condition(live, "ReplicaFailure")
    reasons = (f"pods cannot be made: {failure.get('message')}",) if failure.get("status") == "True" else ()
    return ObjectStanding(ready, wanted, ready >= wanted, reasons=reasons)


def _stateful_set(live: JsonMapping) -> ObjectStanding:
    spec, status = _spec(live), _status(live)
    wanted, ready = _whole(spec.get("replicas"), 1), _whole(status.get("readyReplicas"))
    strategy = spec.get("updateStrategy") or {}
    partition = _whole((strategy.get("rollingUpdate") or {}).get("partition"))
    to_update = 0 if strategy.get("type") == "OnDelete" else max(0, wanted - partition)
    updated = _whole(status.get("updatedReplicas"))
    is_new = status.get("currentRevision") == status.get("updateRevision")
    lacking = 0 if is_new else max(0, to_update - updated)
    reasons = (f"{counted(lacking, 'pod')} of its former version",) if lacking else ()
    return ObjectStanding(ready, wanted, ready >= wanted and not lacking, reasons=reasons)


def _daemon_set(live: JsonMapping) -> ObjectStanding:
    status = _status(live)
    wanted, ready = _whole(status.get("desiredNumberScheduled")), _whole(status.get("numberAvailable"))
    strategy = (_spec(live).get("updateStrategy") or {}).get("type")
    updated = wanted if strategy == "OnDelete" else _whole(status.get("updatedNumberScheduled"))
    return ObjectStanding(min(ready, updated), wanted, ready >= wanted and updated >= wanted)


def _job(live: JsonMapping) -> ObjectStanding:
    spec, status = _spec(live), _status(live)
    failed = _condition(live, "Failed")
    if failed.get("status") == "True":
        return ObjectStanding(0, 1, False, f"{failed.get('reason')}: {failed.get('message')}")
    done = _condition(live, "Complete").get("status") == "True" or bool(spec.get("suspend"))
    wanted = _whole(spec.get("completions"), 1)
    succeeded, ready = _whole(status.get("succeeded")), _whole(status.get("ready"))
    return ObjectStanding(min(wanted, succeeded + ready), wanted, done or succeeded + ready > 0)


def _pod(live: JsonMapping) -> ObjectStanding:
    status = _status(live)
    if status.get("phase") == "Failed":
        return ObjectStanding(0, 1, False, str(status.get("message") or status.get("reason") or "it failed"))
    ready = status.get("phase") == "Succeeded" or _condition(live, "Ready").get("status") == "True"
    return ObjectStanding(int(ready), 1, ready)


def _definition(live: JsonMapping) -> ObjectStanding:
    refused = _condition(live, "NamesAccepted")
    if refused.get("status") == "False":
        return ObjectStanding(0, 1, False, str(refused.get("message")))
    served = _condition(live, "Established").get("status") == "True"
    return ObjectStanding(int(served), 1, served, reasons=() if served else ("it is not served yet",))


_BY_KIND: dict[str, Callable[[JsonMapping], ObjectStanding]] = {
    "Deployment": _deployment,
    "ReplicaSet": _replica_set,
    "StatefulSet": _stateful_set,
    "DaemonSet": _daemon_set,
    "Job": _job,
    "Pod": _pod,
    "CustomResourceDefinition": _definition,
}
_OBSERVED = frozenset({_deployment, _replica_set, _stateful_set, _daemon_set})


def _spec(live: JsonMapping) -> JsonMapping:
    return live.get("spec") or {}


def _status(live: JsonMapping) -> JsonMapping:
    return live.get("status") or {}


def _condition(live: JsonMapping, kind: str) -> JsonMapping:
    found: JsonMapping = next((one for one in _status(live).get("conditions") or () if one.get("type") == kind), {})
    return found


def _whole(value: object, default: int = 0) -> int:
    return value if isinstance(value, int) else default
