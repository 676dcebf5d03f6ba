"""The figures of a node's reports, each with one definition.

A report that mixes definitions cannot be compared between nodes, and Jain's index over what tenants use measures their
demand, not how they are treated: two tenants that get all they want and want 1 and 9 score 0.61. The index is taken
over what each tenant gets of its entitlement, which is capped by its demand.
Limits: memory has no queue, so a tenant's use of it is its demand; the latency is computed from services' windows, not
from requests.

    dominant share   max(CPU used / allocatable, memory used / allocatable) of the node (founding document,
                     "sidecar-agent")
    violation rate   requests over their objective / requests (founding document)
    p99 latency      the latency that at most 1 % of requests belong to windows with a higher p99 of; hence at least
                     98 % of all requests were no slower. With one window, its p99
    fairness         Jain (sum x)^2 / (n sum x^2) over tenants of x = dominant share got / dominant share entitled to,
                     at most 1. Demand of CPU = used + waiting for a CPU. Entitlement: DRF's progressive filling, every
                     tenant's dominant share grows equally until its demand is met or a resource is full

Source: Ghodsi et al., NSDI 2011, section 4 (DRF); Jain et al., DEC-TR-301, 1984.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cotenant.engine.node.series import SeriesSummary
from cotenant.model.machine.node_metric import NO_SIGNALS, PodSignals
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.node_state import ServiceHealth


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Use over one window; None where it is not known."""

    window_us: int
    cpu_m: SeriesSummary | None
    memory_bytes: SeriesSummary | None  # without reclaimable page cache


@dataclass(frozen=True, slots=True)
class PodAverage:
    """One pod's or host application's average."""

    pod: NodePod
    cpu_m: int | None
    memory_bytes: int | None
    signals: PodSignals = NO_SIGNALS


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """The contents of a NodeMetric. System = node - pods - host applications."""

    at_us: int
    cpu_m: int | None  # averages over the first window
    memory_bytes: int | None
    system_cpu_m: int | None
    system_memory_bytes: int | None
    node: tuple[Aggregate, ...]  # one a window
    system: tuple[Aggregate, ...]
    pods: tuple[PodAverage, ...]
    applications: tuple[PodAverage, ...]


@dataclass(frozen=True, slots=True)
class TenantUse:
    """Use and wait of one tenant's pods over a window."""

    cpu_m: int
    waiting_m: int  # time that its tasks waited for a CPU per elapsed time, in thousandths
    memory_bytes: int


def dominant_share(cpu_m: int, cpu_room_m: int, memory_bytes: int, memory_room_bytes: int) -> float:
    """The node's dominant share; above 1 where it uses more than is allocatable."""
    return max(cpu_m / cpu_room_m, memory_bytes / memory_room_bytes)


def latency_p99_us(windows: Sequence[ServiceHealth]) -> int | None:
    """The p99 latency over windows, as defined above; None without requests."""
    slowest_first = sorted(
        ((health.p99_us, health.requests) for health in windows if health.requests > 0), reverse=True
    )
    if not slowest_first:
        return None
    left = sum(requests for _, requests in slowest_first) // 100
    for p99_us, requests in slowest_first:
        left -= requests
        if left < 0:
            return p99_us
    return slowest_first[-1][0]


def demand_capped_fairness(tenants: Sequence[TenantUse], cpu_room_m: int, memory_room_bytes: int) -> float:
    """Jain's index; 1 where no tenant demands anything."""
    wanting = [tenant for tenant in tenants if tenant.cpu_m + tenant.waiting_m + tenant.memory_bytes > 0]
    if not wanting:
        return 1.0
    demands = [
        max((tenant.cpu_m + tenant.waiting_m) / cpu_room_m, tenant.memory_bytes / memory_room_bytes)
        for tenant in wanting
    ]
    level = _level(wanting, demands, cpu_room_m)
    got = [
        min(1.0, max(tenant.cpu_m / cpu_room_m, tenant.memory_bytes / memory_room_bytes) / min(demand, level))
        for tenant, demand in zip(wanting, demands, strict=True)
    ]
    squares = sum(share * share for share in got)
    return sum(got) ** 2 / (len(got) * squares) if squares > 0 else 1.0


def _level(tenants: Sequence[TenantUse], demands: Sequence[float], cpu_room_m: int) -> float:
    """The dominant share at which the CPU is full; the largest demand where all of them fit. Memory always fits: it
    is in use.
    """
    ordered = sorted(
        (demand, (tenant.cpu_m + tenant.waiting_m) / cpu_room_m)
        for tenant, demand in zip(tenants, demands, strict=True)
    )
    met = 0.0  # CPU of tenants whose demand is met below the level
    slope = sum(cpu / demand for demand, cpu in ordered)  # CPU that the others take per unit of the level
    for demand, cpu in ordered:
        if slope > 0 and met + slope * demand > 1:
            return (1 - met) / slope
        met += cpu
        slope -= cpu / demand
    return ordered[-1][0]
