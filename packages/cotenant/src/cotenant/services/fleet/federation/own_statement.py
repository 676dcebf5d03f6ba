"""A cluster as it states itself: lists of its objects, summed by tenant.

A tenant is a quota that holds pods, and pods are mapped to quotas by the scheduler's own rules
(engine/plugins/quotas/objects.py). A list each period instead of watches: a minute old is good enough for weights, and
a joiner holds nothing of the cluster between. Pods count from their binding to their end, with their requests.
Limits: shared GPUs do not count; a quota in whose annotations something cannot be read is stated and not weighed; a
cluster of 100,000 pods is one large answer each period.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import NotFound
from cotenant.drivers.kube.kinds.custom.elastic_quota import (
    ELASTIC_QUOTAS,
    X_ELASTIC_QUOTAS,
    ElasticQuota,
    QuotaAnnotations,
    amounts_of_weight,
    read_quota,
    read_x_quota,
)
from cotenant.drivers.kube.kinds.custom.objective_status import OBJECTIVE_STATUSES, read_objective_status
from cotenant.drivers.kube.kinds.kind import Kind
from cotenant.drivers.kube.kinds.node import NODES, read_node
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.engine.federation.joined import KeptWeight, WeighedQuota
from cotenant.engine.plugins.quotas.objects import Sorted
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.quota import NAME, QuotaObject
from cotenant.model.resources import BATCH_CPU, BATCH_MEMORY, CPU_NAME, MEMORY_NAME, NVIDIA_GPU, Amounts
from cotenant.model.traces.objective import ObjectiveState
from cotenant.policy.federation.noise import clamped
from cotenant.policy.federation.statement import MAX_AMOUNT, NONE, ClusterRoom, TenantSums, Vector
from cotenant.policy.federation.weights import plus
from cotenant.policy.quota.forest import OUTSIDE, Forest

MIB = 1 << 20
_MISSED = (ObjectiveState.BURNING, ObjectiveState.EXHAUSTED)


@dataclass(frozen=True, slots=True)
class ReadCluster:
    """One look. `tenants` are true sums, without noise; each pod counts with at most its clamp where `is_clamped`."""

    room: ClusterRoom
    tenants: tuple[TenantSums, ...]
    quotas: tuple[WeighedQuota, ...]


@dataclass(slots=True)
class _Sums:
    used: Vector = NONE  # by what pods request
    stated: Vector = NONE  # the same with each pod clamped
    waiting: int = 0


@dataclass(slots=True)
class _NodeSums:
    lent: Vector = NONE
    by_node: dict[str, Vector] = field(default_factory=dict)


def vector_of(amounts: Amounts) -> Vector:
    """CPU, memory in whole MiB (rounded up) and whole GPUs. No limit counts as the largest amount."""
    return (
        min(amounts.get(CPU_NAME), MAX_AMOUNT),
        -(-amounts.get(MEMORY_NAME) // MIB),
        amounts.get(NVIDIA_GPU),
    )


def lent_of(amounts: Amounts) -> Vector:
    """The batch resources."""
    return amounts.get(BATCH_CPU), -(-amounts.get(BATCH_MEMORY) // MIB), 0


async def read_cluster(client: Client, price_micro: int, *, is_clamped: bool) -> ReadCluster:
    """List the cluster. Raises `CotenantError`."""
    quota_objects = await _quota_objects(client)
    nodes = []
    for raw in await client.all_of(NODES):
        try:
            nodes.append(read_node(raw))
        except InvalidInput:
            continue  # a node whose size cannot be read has no room
    reader = PodReader()
    pods = [reader.pod(raw) for raw in await client.all_of(PODS)]
    objectives, missed = await _objectives(client)
    return summed(quota_objects, nodes, pods, price_micro, (objectives, missed), is_clamped=is_clamped)


async def read_quotas(client: Client) -> tuple[WeighedQuota, ...]:
    """The quotas alone, to give weights back."""
    return _weighed(await _quota_objects(client))


def summed(
    quota_objects: Sequence[tuple[QuotaObject, ElasticQuota]],
    nodes: Iterable[Node],
    pods: Iterable[ObservedPod],
    price_micro: int,
    objectives: tuple[int, int],
    *,
    is_clamped: bool,
) -> ReadCluster:
    """The sums of what was listed. `objectives`: how many there are, and how many of them are missed."""
    classified = Sorted(read for read, _ in quota_objects)
    forest = Forest(classified.quotas)
    tenants = {name: read for name, read in sorted(classified.used.items()) if not read.quota.is_parent}
    sums = {name: _Sums() for name in tenants if name not in OUTSIDE}
    on_nodes = _NodeSums()
    for pod in pods:
        if pod.phase.is_final or pod.reservation:
            continue
        name = classified.place(forest, pod.pod.namespace, pod.pod.labels.get(NAME) or "").quota
        of_tenant = sums.get(name)
        requests = vector_of(pod.pod.requests)
        if pod.node:
            on_nodes.lent = plus(on_nodes.lent, lent_of(pod.pod.requests))
            on_nodes.by_node[pod.node] = plus(on_nodes.by_node.get(pod.node, NONE), requests)
        if of_tenant is None:
            continue
        if pod.node:
            of_tenant.used = plus(of_tenant.used, requests)
            of_tenant.stated = plus(of_tenant.stated, clamped(requests) if is_clamped else requests)
        else:
            of_tenant.waiting += 1
    stated = []
    for name, of_tenant in sums.items():
        guaranteed = vector_of(tenants[name].quota.minimum)
        owed = any(least > amount for least, amount in zip(guaranteed, of_tenant.used, strict=True))
        violations = int(owed and of_tenant.waiting > 0)  # not how many: one pod may change `owed`, and so all of them
        stated.append(TenantSums(name, of_tenant.stated, guaranteed, tenants[name].standing, violations))
    return ReadCluster(_room(nodes, on_nodes, price_micro, objectives), tuple(stated), _weighed(quota_objects))


def _room(nodes: Iterable[Node], on_nodes: _NodeSums, price_micro: int, objectives: tuple[int, int]) -> ClusterRoom:
    capacity, free, largest, lent = NONE, NONE, NONE, NONE
    for node in nodes:
        size = vector_of(node.allocatable)
        capacity = plus(capacity, size)
        lent = plus(lent, lent_of(node.allocatable))
        if node.unschedulable or not node.ready:
            continue
        left = _left(size, on_nodes.by_node.get(node.name, NONE))
        free = plus(free, left)
        largest = max(largest[0], left[0]), max(largest[1], left[1]), max(largest[2], left[2])
    count, missed = objectives
    return ClusterRoom(capacity, free, largest, _left(lent, on_nodes.lent), price_micro, count, missed)


def _left(size: Vector, used: Vector) -> Vector:
    return max(0, size[0] - used[0]), max(0, size[1] - used[1]), max(0, size[2] - used[2])


async def _objectives(client: Client) -> tuple[int, int]:
    try:
        listed = await client.all_of(OBJECTIVE_STATUSES)
    except NotFound:
        return 0, 0  # the kind is not installed
    states = [read_objective_status(raw).state for raw in listed]
    return len(states), sum(state in _MISSED for state in states)


async def _quota_objects(client: Client) -> list[tuple[QuotaObject, ElasticQuota]]:
    found: list[tuple[QuotaObject, ElasticQuota]] = []
    for kind, read in ((ELASTIC_QUOTAS, read_quota), (X_ELASTIC_QUOTAS, read_x_quota)):
        for raw in await _listed(client, kind):
            try:
                found.append((read(raw), raw))
            except InvalidInput:
                continue  # it has no name
    return found


async def _listed(client: Client, kind: Kind[ElasticQuota]) -> Sequence[ElasticQuota]:
    try:
        return await client.all_of(kind)
    except NotFound:
        return ()


def _weighed(quota_objects: Sequence[tuple[QuotaObject, ElasticQuota]]) -> tuple[WeighedQuota, ...]:
    """Those that hold pods and can be read; whatever has our annotation, too."""
    found = []
    for read, raw in quota_objects:
        notes = raw.metadata.annotations or QuotaAnnotations()
        if (read.wrong or read.quota.is_parent) and notes.federation is None:
            continue
        kept = _kept(notes.federation)
        written = amounts_of_weight(kept.written) if kept is not None else None
        original = None
        if kept is not None:
            original = amounts_of_weight(kept.before) if kept.before else read.quota.maximum
        found.append(
            WeighedQuota(
                read.key,
                read.uid,
                raw.metadata.resource_version or "",
                read.quota.name,
                read.quota.maximum,
                notes.shared_weight,
                read.quota.weight,
                notes.federation,
                written,
                original,
            )
        )
    return tuple(found)


def _kept(text: str | None) -> KeptWeight | None:
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=KeptWeight)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
