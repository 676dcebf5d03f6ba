"""Node as the manager of lent resources reads it.

Annotations are written by people and by other components, and a bad one must not hide the node. What cannot be read is
listed and takes no part; a node whose capacity cannot be read, or is not reported yet, is refused.
Limits: CPU and memory.
Source: Koordinator, apis/extension/{node,node_reservation,resource,third_party}.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from cotenant.drivers.kube.kinds.node import NodeObject, NodeStatus
from cotenant.model.cluster.annotations import LENT_TERMS, RAW_ALLOCATABLE
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.managed import (
    NORMALIZATION_ANNOTATION,
    RESERVATION_ANNOTATION,
    THIRD_PARTY_ANNOTATION,
    ManagedNode,
)
from cotenant.model.cpus.cpulist import parse_cpus
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import json_object
from cotenant.model.machine.node_metric import NO_USE, Use
from cotenant.model.resources import BATCH_CPU, BATCH_MEMORY, CPU_NAME, MEMORY_NAME, MID_CPU, MID_MEMORY, parse_amount

T = TypeVar("T")

SHORT = {"batch-cpu": BATCH_CPU, "batch-memory": BATCH_MEMORY, "mid-cpu": MID_CPU, "mid-memory": MID_MEMORY}
_BATCH = ("koord-batch", "batch")
# Annotations on which a strategy or a NodeSLO depends.
_READ = ("node.koordinator.sh/colocation-strategy", "node.koordinator.sh/network-bandwidth")


def read_managed_node(obj: NodeObject) -> ManagedNode:
    """A node. Raises `InvalidInput` where its capacity or allocatable amounts cannot be read."""
    meta, status = obj.metadata, obj.status or NodeStatus()
    name = meta.name or ""
    annotations = meta.annotations or {}
    ignored: list[str] = []

    def read(key: str, form: Callable[[str], T], otherwise: T) -> T:
        if key not in annotations:
            return otherwise
        try:
            return form(annotations[key])
        except InvalidInput as error:
            ignored.append(str(error))
            return otherwise

    written = status.allocatable or {}
    allocatable = _use(written, f"node {name}: allocatable")
    capacity = _use({**written, **(status.capacity or {})}, f"node {name}: capacity")
    if min(capacity) <= 0:
        raise InvalidInput(f"node {name}: capacity", str(tuple(capacity)), "CPU and memory above 0")
    lent = {}
    for short, long in SHORT.items():
        if long in written:
            try:
                lent[short] = parse_amount(long, written[long], f"node {name}: allocatable.{long}")
            except InvalidInput as error:
                ignored.append(str(error))
    return ManagedNode(
        name=name,
        capacity=capacity,
        allocatable=read(RAW_ALLOCATABLE, lambda text: read_raw_allocatable(text, allocatable), allocatable),
        uid=meta.uid or "",
        labels=Labels.of(meta.labels or {}),
        annotations={key: annotations[key] for key in _READ if key in annotations},
        lent=lent,
        written=annotations.get(LENT_TERMS, ""),
        reservation=read(RESERVATION_ANNOTATION, _reservation, NO_USE),
        normalization=annotations.get(NORMALIZATION_ANNOTATION, ""),
        third_party=read(THIRD_PARTY_ANNOTATION, _third_party, {}),
        ignored=tuple(ignored),
    )


def _use(amounts: Mapping[str, str | int | float], where: str) -> Use:
    return Use(*(parse_amount(name, amounts.get(name, 0), f"{where}.{name}") for name in (CPU_NAME, MEMORY_NAME)))


def read_raw_allocatable(text: str, allocatable: Use) -> Use:
    """Raw amounts from the annotation `RAW_ALLOCATABLE`; one that the annotation lacks is not amplified. Raises
    `InvalidInput`.
    """
    given = json_object(RAW_ALLOCATABLE, text)
    found = _use({name: given[name] for name in (CPU_NAME, MEMORY_NAME) if name in given}, RAW_ALLOCATABLE)
    return Use(
        found.cpu_m if CPU_NAME in given else allocatable.cpu_m,
        found.memory_bytes if MEMORY_NAME in given else allocatable.memory_bytes,
    )


def _reservation(text: str) -> Use:
    """{"resources": {"cpu": "1"}, "reservedCPUs": "0-3"}: a set of CPUs replaces the amount of CPU."""
    given = json_object(RESERVATION_ANNOTATION, text)
    resources = given.get("resources") or {}
    if not isinstance(resources, Mapping):
        raise InvalidInput(f"{RESERVATION_ANNOTATION}: resources", resources, "resource names with quantities")
    found = _use(resources, RESERVATION_ANNOTATION)
    cpus = given.get("reservedCPUs") or ""
    if not isinstance(cpus, str):
        raise InvalidInput(f"{RESERVATION_ANNOTATION}: reservedCPUs", cpus, "a list of CPUs such as 0-3,8")
    return (
        Use(len(parse_cpus(cpus, f"{RESERVATION_ANNOTATION}: reservedCPUs")) * 1000, found.memory_bytes)
        if cpus
        else found
    )


def _third_party(text: str) -> dict[str, int]:
    """{"allocations": [{"priority": "koord-batch", "resources": {...}}]}: sums of what others hold of batch
    resources.
    """
    total: dict[str, int] = {}
    allocations = json_object(THIRD_PARTY_ANNOTATION, text).get("allocations") or []
    if not isinstance(allocations, list):
        raise InvalidInput(f"{THIRD_PARTY_ANNOTATION}: allocations", allocations, "a list")
    for i, allocation in enumerate(allocations):
        where = f"{THIRD_PARTY_ANNOTATION}: allocations[{i}]"
        if not isinstance(allocation, Mapping) or not isinstance(allocation.get("resources") or {}, Mapping):
            raise InvalidInput(where, allocation, "an object with priority and resources")
        if allocation.get("priority") not in _BATCH:
            continue
        resources = allocation.get("resources") or {}
        for short in ("batch-cpu", "batch-memory"):
            long = SHORT[short]
            if long in resources:
                total[short] = total.get(short, 0) + parse_amount(long, resources[long], f"{where}.{long}")
    return total
