"""The columns of the kinds of resource.k8s.io. Source: the Tables that a server of 1.36 returns."""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.apiserver.columns.formatting import AGE, NAME, at, field, mapping, sequence, since, text


def _state(obj: Manifest, now: float) -> str:
    is_deleted = bool(at(obj, "metadata", "deletionTimestamp"))
    states = ["deleted"] if is_deleted else []
    if mapping(obj, "status", "allocation"):
        states += ["allocated", *(["reserved"] if sequence(obj, "status", "reservedFor") else [])]
    elif not is_deleted:
        states.append("pending")
    return ",".join(states)


def _added(obj: Manifest, now: float) -> str:
    added = at(obj, "spec", "taint", "timeAdded")
    return since(added, now) if added else ""


CLAIM = (NAME, text("State", _state), AGE)
NAMED = (NAME, AGE)
SLICE = (
    NAME,
    field("Node", "spec", "nodeName"),
    field("Driver", "spec", "driver"),
    field("Pool", "spec", "pool", "name"),
    AGE,
)
TAINT_RULE = (
    NAME,
    field("Key", "spec", "taint", "key"),
    field("Value", "spec", "taint", "value"),
    field("Effect", "spec", "taint", "effect"),
    text("TimeAdded", _added),
    AGE,
)
