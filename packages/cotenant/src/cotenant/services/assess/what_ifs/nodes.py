"""New nodes that are like those that are there."""

from __future__ import annotations

from collections.abc import Mapping

from cotenant.drivers.kube.snapshot.fields import Json
from cotenant.model.quantities import format_milli
from cotenant.services.assess.what_ifs.objects import (
    INSTANCE_TYPE,
    Obj,
    labels_of,
    shape_matches,
    size_of,
    zone_of,
)

_HOSTNAME = "kubernetes.io/hostname"
_PLAIN = ("cpu", "memory", "pods", "ephemeral-storage")


def templates(nodes: Mapping[str, Obj], shape: str) -> list[tuple[str, bool]]:
    """Nodes to copy, one of each zone, and whether they have the shape; others serve for a size that no node has.
    Nodes that take no pods serve only where no other does.
    """
    alike = [name for name, node in nodes.items() if shape_matches(node, shape)]
    if not alike and size_of(shape) is None:
        return []
    by_zone: dict[str, str] = {}
    ready = sorted(alike or nodes, key=lambda name: (bool(_unschedulable(nodes[name])), name))
    for name in ready:
        if not _unschedulable(nodes[name]) or not by_zone:
            by_zone.setdefault(zone_of(nodes[name]), name)
    return [(by_zone[zone], bool(alike)) for zone in sorted(by_zone)]


def made_like(model: Obj, name: str, size: str | None) -> Obj:
    """A node of this name; of another size without what only its model has: devices and an instance type."""
    meta = model.get("metadata")
    metadata: Obj = dict(meta) if isinstance(meta, dict) else {}
    labels: Obj = dict(labels_of(model))
    labels[_HOSTNAME] = name
    metadata |= {"name": name, "uid": f"what-if-{name}", "labels": labels}
    spec = model.get("spec")
    new: Obj = {**model, "metadata": metadata, "spec": dict(spec) if isinstance(spec, dict) else {}}
    wanted = size_of(size) if size is not None else None
    if wanted is not None:
        labels.pop(INSTANCE_TYPE, None)
        metadata.pop("annotations", None)
        status = dict(_status(model))
        for part in ("allocatable", "capacity"):
            before = status.get(part)
            amounts: dict[str, Json] = {
                resource: amount
                for resource, amount in (before.items() if isinstance(before, dict) else ())
                if resource in _PLAIN
            }
            status[part] = {**amounts, "cpu": format_milli(wanted[0]), "memory": str(wanted[1])}
        new["status"] = status
    return new


def _status(node: Obj) -> Obj:
    status = node.get("status")
    return status if isinstance(status, dict) else {}


def _unschedulable(node: Obj) -> bool:
    spec = node.get("spec")
    return isinstance(spec, dict) and bool(spec.get("unschedulable") or spec.get("taints"))
