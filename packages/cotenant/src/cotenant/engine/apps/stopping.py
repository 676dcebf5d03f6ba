"""Stop: no pod of an application runs, and what each object was is kept on it. Start: each is as it was.

The former value is an annotation of the same object, written by the same patch: a stop that is killed half way is
finished by the next, which leaves alone what is stopped already, and no file or record can be lost. A Deployment,
ReplicaSet or StatefulSet goes to 0 replicas (an autoscaler leaves such an object alone), a CronJob or Job is suspended,
a DaemonSet gets a node selector that no node has. The patch names the version that was read, so that it never
overwrites what another has written meanwhile.
Limits: a Pod without a controller, and a custom object, cannot be stopped; the caller says so.
Source: Kubernetes documentation, Horizontal Pod Autoscaling ("implicit maintenance-mode deactivation").
"""

from __future__ import annotations

import json
from enum import Enum

from cotenant.model.json_object import JsonMapping, JsonObject

FORMER = "cotenant.io/stopped-from"  # annotation: JSON of the one field's former value, null where there was none
NOWHERE = "cotenant.io/stopped"  # label that no node has

_SCALED = frozenset({"Deployment", "ReplicaSet", "StatefulSet"})
_SUSPENDED = frozenset({"CronJob", "Job"})


class Stop(Enum):
    """What can be done about an object."""

    STOPPED = "stopped already"
    CHANGES = "a patch"
    NOTHING_RUNS = "it runs no pod"
    CANNOT = "it cannot be stopped"


def is_stopped(live: JsonMapping) -> bool:
    """Whether we have stopped it."""
    return FORMER in _annotations(live)


def how_to_stop(live: JsonMapping) -> tuple[Stop, JsonObject]:
    """What a stop does to an object, and the merge patch."""
    kind, spec = str(live.get("kind")), live.get("spec") or {}
    if is_stopped(live):
        return Stop.STOPPED, {}
    if kind == "Pod":
        return Stop.CANNOT, {}
    if kind == "Job" and _has_ended(live):
        return Stop.NOTHING_RUNS, {}
    if kind in _SCALED:
        return Stop.CHANGES, _patch(live, spec.get("replicas", 1), {"replicas": 0})
    if kind in _SUSPENDED:
        return Stop.CHANGES, _patch(live, bool(spec.get("suspend")), {"suspend": True})
    if kind == "DaemonSet":
        nowhere: JsonObject = {"template": {"spec": {"nodeSelector": {NOWHERE: "true"}}}}
        return Stop.CHANGES, _patch(live, None, nowhere)
    return Stop.NOTHING_RUNS, {}


def how_to_start(live: JsonMapping) -> JsonObject | None:
    """The merge patch that undoes a stop; None where it is not stopped. What cannot be read starts as its kind's
    default: one replica, not suspended.
    """
    written = _annotations(live).get(FORMER)
    if written is None:
        return None
    try:
        former = json.loads(written)
    except (ValueError, RecursionError, TypeError):
        former = None
    kind = str(live.get("kind"))
    spec: JsonObject = {}
    if kind in _SCALED:
        spec = {"replicas": former if isinstance(former, int) and not isinstance(former, bool) and former >= 0 else 1}
    elif kind in _SUSPENDED:
        spec = {"suspend": former is True}
    elif kind == "DaemonSet":
        spec = {"template": {"spec": {"nodeSelector": {NOWHERE: None}}}}
    return {"metadata": {"annotations": {FORMER: None}, "resourceVersion": _version(live)}, "spec": spec}


def _patch(live: JsonMapping, former: object, spec: JsonObject) -> JsonObject:
    return {
        "metadata": {"annotations": {FORMER: json.dumps(former)}, "resourceVersion": _version(live)},
        "spec": spec,
    }


def _annotations(live: JsonMapping) -> JsonMapping:
    found: JsonMapping = (live.get("metadata") or {}).get("annotations") or {}
    return found


def _version(live: JsonMapping) -> str:
    return str(live["metadata"].get("resourceVersion") or "")


def _has_ended(live: JsonMapping) -> bool:
    conditions = (live.get("status") or {}).get("conditions") or ()
    return any(one.get("type") in ("Complete", "Failed") and one.get("status") == "True" for one in conditions)
