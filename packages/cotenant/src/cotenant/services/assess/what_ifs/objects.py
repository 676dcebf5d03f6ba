"""Reading and changing single objects of a copy, which may have any form: what cannot be read is left as it is."""

from __future__ import annotations

import re
from typing import TypeAlias

from cotenant.drivers.kube.snapshot.fields import Json
from cotenant.model.cluster.annotations import EXPECTED_ROOM
from cotenant.model.cluster.labels import ZONE
from cotenant.model.cluster.seal import BY_SCHEDULER
from cotenant.model.errors import InvalidInput
from cotenant.model.quantities import milli, whole

Obj: TypeAlias = dict[str, Json]
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
_OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
MIRROR = "kubernetes.io/config.mirror"
_HELD = frozenset((*BY_SCHEDULER, EXPECTED_ROOM))  # annotations that say what a pod was given with its node
_TOLERANCE = 0.10  # a node of 64 GiB has a little less
_SIZE = re.compile(r"([0-9.]+m?)x([0-9.]+[A-Za-z]*)")


def name_of(obj: Obj) -> str:
    """metadata.name."""
    name = _part(obj, "metadata").get("name")
    return name if isinstance(name, str) else ""


def uid_of(obj: Obj) -> str:
    """metadata.uid."""
    uid = _part(obj, "metadata").get("uid")
    return uid if isinstance(uid, str) else ""


def key_of(obj: Obj) -> str:
    """namespace/name."""
    namespace = _part(obj, "metadata").get("namespace")
    return f"{namespace if isinstance(namespace, str) and namespace else 'default'}/{name_of(obj)}"


def labels_of(obj: Obj) -> dict[str, str]:
    """Labels that are texts."""
    labels = _part(_part(obj, "metadata"), "labels")
    return {name: value for name, value in labels.items() if isinstance(value, str)}


def zone_of(node: Obj) -> str:
    """Its zone; "" = none."""
    labels = labels_of(node)
    return labels.get(ZONE) or labels.get(_OLD_ZONE, "")


def node_of(pod: Obj) -> str:
    """spec.nodeName."""
    node = _part(pod, "spec").get("nodeName")
    return node if isinstance(node, str) else ""


def owner_of(obj: Obj) -> tuple[str, str, str] | None:
    """Kind, name and UID of its controller."""
    owners = _part(obj, "metadata").get("ownerReferences")
    for owner in owners if isinstance(owners, list) else ():
        if isinstance(owner, dict) and owner.get("controller"):
            return str(owner.get("kind")), str(owner.get("name")), str(owner.get("uid"))
    return None


def is_daemon(pod: Obj) -> bool:
    """Of a DaemonSet: one a node, and never elsewhere."""
    owner = owner_of(pod)
    return owner is not None and owner[0] == "DaemonSet"


def is_static(pod: Obj) -> bool:
    """A kubelet's own."""
    owner = owner_of(pod)
    return MIRROR in _part(_part(pod, "metadata"), "annotations") or (owner is not None and owner[0] == "Node")


def is_final(pod: Obj) -> bool:
    """Whether it has ended."""
    return _part(pod, "status").get("phase") in ("Succeeded", "Failed")


def amounts_of(pod: Obj) -> set[str]:
    """Resources that its containers request."""
    found: set[str] = set()
    for container in _containers(pod):
        found |= set(_part(_part(container, "resources"), "requests"))
    return found


def unplaced(pod: Obj, keeps_claims: bool = True) -> Obj:
    """As its controller would create it again. Without claims: those of a new pod are provisioned with it."""
    meta, spec, status = (dict(_part(pod, name)) for name in ("metadata", "spec", "status"))
    notes = _part(meta, "annotations")
    if notes:
        meta["annotations"] = {name: value for name, value in notes.items() if name not in _HELD}
    meta.pop("deletionTimestamp", None)
    spec.pop("nodeName", None)
    volumes = spec.get("volumes")
    if not keeps_claims and isinstance(volumes, list):
        spec["volumes"] = [
            volume for volume in volumes if not (isinstance(volume, dict) and "persistentVolumeClaim" in volume)
        ]
    new: Obj = {"phase": "Pending"}
    for name in ("qosClass", *(("resourceClaimStatuses",) if keeps_claims else ())):
        if name in status:
            new[name] = status[name]
    return {**pod, "metadata": meta, "spec": spec, "status": new}


def resized(pod: Obj, cpu_m: int | None, memory_bytes: int | None) -> Obj:
    """With so much requested by all its containers together, in proportion to what they request; the first has all
    of it where none requests any.
    """
    containers = [dict(container) for container in _containers(pod)]
    if not containers:
        return pod
    for resource, total in (("cpu", cpu_m), ("memory", memory_bytes)):
        if total is None:
            continue
        before = [_amount(container, resource) for container in containers]
        whole_before = sum(before)
        if whole_before == total:
            continue
        given = 0
        for at, container in enumerate(containers):
            share = total * before[at] // whole_before if whole_before else (total if not at else 0)
            if at == len(containers) - 1 and whole_before:
                share = total - given
            given += share
            if share or before[at]:
                containers[at] = _requesting(container, resource, share)
    spec = {**_part(pod, "spec"), "containers": list[Json](containers)}
    own = _part(spec, "resources")
    if own:  # of the whole pod: they would hide its containers'
        spec = {name: value for name, value in spec.items() if name != "resources"}
    changed: Obj = {**pod, "spec": spec}
    return changed if spec["containers"] != _part(pod, "spec").get("containers") else pod


def unlent(node: Obj) -> Obj:
    """Without batch and mid resources."""
    status = dict(_part(node, "status"))
    for name in ("allocatable", "capacity"):
        amounts = _part(status, name)
        if any("/batch-" in resource or "/mid-" in resource for resource in amounts):
            status[name] = {
                resource: amount
                for resource, amount in amounts.items()
                if "/batch-" not in resource and "/mid-" not in resource
            }
    return {**node, "status": status} if status != _part(node, "status") else node


def size_of(shape: str) -> tuple[int, int] | None:
    """Milli-CPU and bytes of CPUxMEMORY; None where it is something else. Raises `InvalidInput` for a bad amount."""
    match = _SIZE.fullmatch(shape)
    if match is None:
        return None
    try:
        cpu_m, memory = milli(match[1]), whole(match[2])
    except InvalidInput:
        return None
    return (cpu_m, memory) if cpu_m > 0 and memory > 0 else None


def shape_matches(node: Obj, shape: str) -> bool:
    """Whether the node has this name, this instance type, or about this size."""
    if shape in (name_of(node), labels_of(node).get(INSTANCE_TYPE)):
        return True
    size = size_of(shape)
    if size is None:
        return False
    amounts = _part(_part(node, "status"), "capacity") or _part(_part(node, "status"), "allocatable")
    own = (_quantity(amounts.get("cpu"), milli), _quantity(amounts.get("memory"), whole))
    return all(abs(has - wanted) <= _TOLERANCE * wanted for has, wanted in zip(own, size, strict=True))


def _requesting(container: Obj, resource: str, amount: int) -> Obj:
    text = f"{amount}m" if resource == "cpu" else str(amount)
    resources = dict(_part(container, "resources"))
    limits = dict(_part(resources, "limits"))
    if resource in limits:
        limit = _quantity(limits[resource], milli if resource == "cpu" else whole)
        if limit < amount or limit == _amount(container, resource):
            limits[resource] = text  # a limit that was the request stays so, and none is below it
    resources["requests"] = {**_part(resources, "requests"), resource: text}
    if limits:
        resources["limits"] = limits
    return {**container, "resources": resources}


def _amount(container: Obj, resource: str) -> int:
    resources = _part(container, "resources")
    written = _part(resources, "requests").get(resource, _part(resources, "limits").get(resource))
    return _quantity(written, milli if resource == "cpu" else whole)


def _quantity(written: Json, read: object) -> int:
    if not isinstance(written, str | int | float):
        return 0
    try:
        return milli(written) if read is milli else whole(written)
    except InvalidInput:
        return 0


def _containers(pod: Obj) -> list[Obj]:
    containers = _part(pod, "spec").get("containers")
    return [one for one in containers if isinstance(one, dict)] if isinstance(containers, list) else []


def _part(obj: Obj, name: str) -> Obj:
    part = obj.get(name)
    return part if isinstance(part, dict) else {}
