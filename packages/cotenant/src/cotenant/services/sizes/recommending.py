"""Joins a cluster with its use over time: one recommendation for each container of each workload.

Replicas of a workload share one template, so one size is found for all of them, by the worst replica at each step; pods
that are gone count with their use. Limits: a LimitRange of whole pods is applied to pods of one container and named for
others; a history of whole pods says nothing of a container among several, sidecars among them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import nan

import numpy as np

from cotenant.drivers.kube.kinds.namespace_limits import AutoscalerObject, LimitRangeItem, scaled_by
from cotenant.model.arrays import Float
from cotenant.model.assess.history import AssessedHistory, Float32, PodHistory
from cotenant.model.assess.prices import NodePrice, PriceTable
from cotenant.model.errors import InvalidInput
from cotenant.model.quantities import milli, parse_quantity, whole
from cotenant.model.resources import CPU_NAME, MEMORY_NAME
from cotenant.model.sizes.container import ContainerSize, SizedContainer, SizedPod
from cotenant.model.sizes.recommendation import Recommendation, SizeBasis
from cotenant.policy.assess.container_sizes import (
    ContainerBounds,
    HeldResources,
    container_size,
    held_by_autoscaler,
    past_week,
)
from cotenant.policy.assess.heap_floor import MIB, heap_floor, highest_floor, lack_floor
from cotenant.policy.assess.predictor import Past
from cotenant.policy.assess.replica_sizes import replica_sizes, worst_replica
from cotenant.services.sizes.size_facts import SizedCluster

HOURS_A_WEEK = 168.0


@dataclass(frozen=True, slots=True)
class SizeQuery:
    """What is asked for. `only`: NAMESPACE/NAME of one workload, "" = all."""

    only: str = ""
    risk: float = 0.01
    min_history_s: float = 86_400.0


@dataclass(frozen=True, slots=True)
class Advice:
    """All recommendations, the one that frees most CPU first, and what a reader must know."""

    recommendations: tuple[Recommendation, ...]
    source: str
    risk: float
    currency: str  # "" = no prices
    faults: tuple[str, ...]


@dataclass(slots=True)
class _Group:
    """One container of one workload."""

    workload: str
    container: str
    pods: list[SizedPod]
    sizes: Counter[ContainerSize]
    containers: list[SizedContainer]  # of each pod
    is_alone: bool  # the only container of its pods

    @property
    def size(self) -> ContainerSize:
        """The most frequent one: pods may have been resized."""
        return self.sizes.most_common(1)[0][0]


def advise(
    cluster: SizedCluster,
    history: PodHistory,
    faults: Sequence[str],
    wanted: SizeQuery,
    prices: PriceTable | None = None,
) -> Advice:
    """Recommend. Raises `InvalidInput` where the workload that is asked for has no pods."""
    groups = _groups(cluster, wanted.only)
    if wanted.only and not groups:
        raise InvalidInput("NAMESPACE/NAME", wanted.only, "a workload with running pods")
    use = history.use
    rows = _rows(groups, cluster, history)
    cpu = worst_replica(use.cpu_m, rows, len(groups))
    memory = worst_replica(use.memory_mib, rows, len(groups))
    capacity = _capacity(groups, cluster)
    both = [
        replica_sizes(Past(values, use.step_s, np.full(len(groups), nan), has), use.start_s, wanted.risk)
        for values, has in ((cpu, capacity[0]), (memory, capacity[1]))
    ]
    of_rows: dict[int, list[int]] = defaultdict(list)
    for row, number in enumerate(rows):
        of_rows[number].append(row)
    found = []
    for at, group in enumerate(groups):
        known_s = _known_s(cpu[at], use.step_s)
        own = of_rows[at]
        found.append(
            _one(group, cluster, both[0][at], both[1][at], use, own, (capacity[0][at], capacity[1][at]), prices)
            if known_s >= wanted.min_history_s
            else _without(group, _too_short(known_s, group, wanted))
        )
    found = _within_quotas(found, cluster)
    found.sort(key=lambda one: (-_freed(one), one.workload, one.container))
    said = (*cluster.faults, *faults)
    return Advice(tuple(found), use.source, wanted.risk, prices.currency if prices else "", said)


def _groups(cluster: SizedCluster, only: str) -> list[_Group]:
    found: dict[tuple[str, str], _Group] = {}
    for pod in cluster.pods:
        workload = cluster.workload_of(pod)
        namespace, _, name = workload.split("/", 2)
        if not pod.is_running or (only and only not in (f"{namespace}/{name}", workload)):
            continue
        for container in pod.containers:
            group = found.get((workload, container.name))
            if group is None:
                group = _Group(workload, container.name, [], Counter(), [], is_alone=True)
                found[workload, container.name] = group
            group.pods.append(pod)
            group.containers.append(container)
            group.is_alone &= pod.is_of_one_container
            group.sizes[container.size] += 1
    return [found[key] for key in sorted(found)]


def _rows(groups: Sequence[_Group], cluster: SizedCluster, history: PodHistory) -> list[int]:
    """The group of each series; -1 = of none."""
    at = {(group.workload, group.container): number for number, group in enumerate(groups)}
    alone = {group.workload: number for number, group in enumerate(groups) if group.is_alone}
    workload = {pod.key: cluster.workload_of(pod) for pod in cluster.pods}
    found = []
    for name, said in zip(history.use.names, history.workload, strict=True):
        namespace, pod, container = (*name.split("/", 2), "", "")[:3]
        of = workload.get(f"{namespace}/{pod}") or said
        found.append(at.get((of, container), -1) if container else alone.get(of, -1))
    return found


def _capacity(groups: Sequence[_Group], cluster: SizedCluster) -> tuple[Float, Float]:
    """Of the largest node that a replica is on; of the largest of all where none is known."""
    cpu, memory = [], []
    for group in groups:
        own = [cluster.nodes[pod.node] for pod in group.pods if pod.node in cluster.nodes]
        nodes = own or [*cluster.nodes.values()]
        cpu.append(max((node.cpu_m for node in nodes if node.cpu_m), default=nan))
        memory.append(max((node.memory_mib for node in nodes if node.memory_mib), default=nan))
    return np.array(cpu, np.float64), np.array(memory, np.float64)


def _known_s(values: Float32, step_s: float) -> float:
    """Of steps with a value: two hours of use a day apart are two hours."""
    return float((~np.isnan(values)).sum()) * step_s


def _possible(use: Float32, capacity: float) -> Float32:
    """Without what no node of the workload has: a counter jumped, and nobody was squeezed by that."""
    with np.errstate(invalid="ignore"):
        return np.where((use > capacity) | (use < 0), np.float32(np.nan), use)


def _too_short(known_s: float, group: _Group, wanted: SizeQuery) -> str:
    if known_s <= 0:
        why = "" if group.is_alone else ": a history of whole pods does not say which of its containers used what"
        return f"nothing is known of its use{why}"
    return f"{known_s / 3600:.3g} h of its use are known, a size needs {wanted.min_history_s / 3600:.3g} h"


def _one(
    group: _Group,
    cluster: SizedCluster,
    cpu: SizeBasis | None,
    memory: SizeBasis | None,
    use: AssessedHistory,
    rows: Sequence[int],
    capacity: tuple[float, float],
    prices: PriceTable | None,
) -> Recommendation:
    before = group.size
    if any(pod.has_pod_resources for pod in group.pods):
        return _without(group, "its pods set amounts of the whole pod (spec.resources), and a container's are within")
    if cpu is None or memory is None:
        return _without(group, f"nothing is known of its use of {'CPU' if cpu is None else 'memory'}")
    why: tuple[str, ...]
    floor = highest_floor([*(heap_floor(one.program) for one in group.containers), lack_floor(group.containers)])
    after, why = container_size(before, cpu, memory, floor, _held(group, cluster.autoscalers), _bounds(group, cluster))
    why = (*why, *_of_whole_pods(group, cluster))
    if len(group.sizes) > 1:
        why = (*why, f"its pods have {len(group.sizes)} different sizes: compared with the most frequent")
    own = list(rows)
    possible = [_possible(row[own], has) for row, has in zip((use.cpu_m, use.memory_mib), capacity, strict=True)]
    week = past_week(possible[0], possible[1], use.step_s, after)
    money = _money(group, cluster, before, after, prices)
    return Recommendation(
        group.workload, group.container, len(group.pods), before, after, why, cpu, memory, week, money
    )


def _without(group: _Group, why: str) -> Recommendation:
    return Recommendation(group.workload, group.container, len(group.pods), group.size, None, (why,))


def _held(group: _Group, autoscalers: Sequence[AutoscalerObject]) -> HeldResources:
    namespace, kind, name = group.workload.split("/", 2)
    cpu, memory = "", ""
    for scaler in autoscalers:
        target = scaler.spec.scale_target_ref
        if (scaler.metadata.namespace, target.kind, target.name) == (namespace, kind, name):
            by = [resource for resource, container in scaled_by(scaler) if container in ("", group.container)]
            held = held_by_autoscaler(scaler.metadata.name or "", by)
            cpu, memory = cpu or held.cpu, memory or held.memory
    return HeldResources(cpu, memory)


def _bounds(group: _Group, cluster: SizedCluster) -> Iterable[ContainerBounds]:
    namespace = group.workload.partition("/")[0]
    for limit_range in cluster.limit_ranges:
        if limit_range.metadata.namespace != namespace:
            continue
        for item in limit_range.spec.limits or ():
            if item.type == "Container" or (item.type == "Pod" and group.is_alone):
                yield _bounds_of(f"LimitRange {limit_range.metadata.name}", item)


def _of_whole_pods(group: _Group, cluster: SizedCluster) -> Iterator[str]:
    """What bounds the pods of several containers, of which no container's share is known."""
    namespace = group.workload.partition("/")[0]
    for limit_range in () if group.is_alone else cluster.limit_ranges:
        if limit_range.metadata.namespace == namespace and any(
            item.type == "Pod" for item in limit_range.spec.limits or ()
        ):
            yield f"LimitRange {limit_range.metadata.name} bounds whole pods: not considered for one of its containers"


def _bounds_of(name: str, item: LimitRangeItem) -> ContainerBounds:
    def amount(of: Mapping[str, str | int | float] | None, resource: str) -> int | None:
        read: Callable[[str | int | float, str], int] = milli if resource == CPU_NAME else whole
        return read((of or {})[resource], name) if resource in (of or {}) else None

    def ratio(resource: str) -> float | None:
        of = item.max_limit_request_ratio or {}
        return parse_quantity(of[resource], name).nano / 1e9 if resource in of else None

    return ContainerBounds(
        name,
        amount(item.min, CPU_NAME),
        amount(item.max, CPU_NAME),
        amount(item.min, MEMORY_NAME),
        amount(item.max, MEMORY_NAME),
        ratio(CPU_NAME),
        ratio(MEMORY_NAME),
    )


_QUOTA_FIELDS = (
    ("requests.cpu", "cpu_request_m", "cpu"),
    ("limits.cpu", "cpu_limit_m", ""),
    ("requests.memory", "memory_request_bytes", "memory"),
    ("limits.memory", "memory_limit_bytes", ""),
)


def _within_quotas(found: Sequence[Recommendation], cluster: SizedCluster) -> list[Recommendation]:
    """With a sentence where a namespace's quota does not leave what is recommended, all its workloads together."""
    why: dict[str, list[str]] = defaultdict(list)
    for quota in cluster.quotas:
        namespace = quota.metadata.namespace or "default"
        hard, used = (quota.status.hard or {}, quota.status.used or {}) if quota.status is not None else ({}, {})
        for name, field, short in _QUOTA_FIELDS:
            key = name if name in hard else short
            if key not in hard:
                continue
            read = milli if name.endswith("cpu") else whole
            left = read(hard[key], key) - read(used.get(key, 0), key)
            more = sum(
                ((getattr(one.after, field) or 0) - (getattr(one.before, field) or 0)) * one.replicas
                for one in found
                if one.after is not None and one.workload.startswith(f"{namespace}/")
            )
            if more > max(0, left):
                scale, unit = (1000, "cores") if name.endswith("cpu") else (MIB, "MiB")
                why[namespace].append(
                    f"ResourceQuota {quota.metadata.name} leaves {max(0, left) / scale:g} {unit} of {key}, the sizes "
                    f"of this namespace together need {more / scale:g} more"
                )
    return [
        replace(one, why=(*one.why, *said))
        if one.differs and (said := why.get(one.workload.partition("/")[0]))
        else one
        for one in found
    ]


def _money(
    group: _Group, cluster: SizedCluster, before: ContainerSize, after: ContainerSize, prices: PriceTable | None
) -> float | None:
    """What a week of all replicas costs less."""
    if prices is None:
        return None
    cores = ((before.cpu_request_m or 0) - (after.cpu_request_m or 0)) / 1000
    gib = ((before.memory_request_bytes or 0) - (after.memory_request_bytes or 0)) / 2**30
    saved = 0.0
    for pod in group.pods:
        node = cluster.nodes.get(pod.node)
        price: NodePrice | None = prices.of(node) if node is not None else None
        if price is not None:
            saved += cores * price.core_per_hour + gib * price.gib_per_hour
    return saved * HOURS_A_WEEK


def _freed(one: Recommendation) -> float:
    """Milli-CPU of requests that all replicas give back."""
    if one.after is None:
        return float("-inf")
    return ((one.before.cpu_request_m or 0) - (one.after.cpu_request_m or 0)) * one.replicas
