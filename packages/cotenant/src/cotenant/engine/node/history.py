"""The recent history of the node, and the reports made from it: the founding report and a NodeMetric's aggregates.

The cluster asks every half minute for figures over minutes, from a process that must not grow. Rings (`series.py`) of
the node's, the system's and each pod's CPU and memory, and of how long each pod waited for a CPU; services' reports in
one bounded queue.
Limits: what was before the agent's start is not known; a pod's rings are dropped with it.

System = node - pods - host applications, per tick, never below 0; unknown use of a pod counts to the system.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from cotenant.engine.node.evictions import tenant_of
from cotenant.engine.node.idle_cards import NO_GPUS, IdleCards
from cotenant.engine.node.report import (
    Aggregate,
    NodeUsage,
    PodAverage,
    TenantUse,
    demand_capped_fairness,
    dominant_share,
    latency_p99_us,
)
from cotenant.engine.node.series import Key, SeriesStore
from cotenant.engine.node.settings import AgentSettings
from cotenant.model.cluster.report import NodeReport
from cotenant.model.errors import Permanent
from cotenant.model.machine.counters import GpuCounters
from cotenant.model.machine.node_metric import PodSignals
from cotenant.model.machine.node_state import PPM, GroupUse, HostUse, NodeState, PodUse, ServiceHealth

_NODE, _SYSTEM = "", "/"  # no group has these paths
_CPU, _MEMORY, _WAIT = "cpu", "memory", "wait"
_MEMORY_STALL, _DISK_STALL, _DISK_USE, _DISK_BPS = "memory stall", "disk stall", "disk use", "disk bytes"
_GPU_SM, _GPU_BANDWIDTH = "gpu sm", "gpu bandwidth"
_GROUP_SHARE = 6  # a group's ring is this many times shorter than the node's
_MAX_REPORTS = 4096


class NodeHistory:
    """Time series and service reports of one node."""

    def __init__(self, settings: AgentSettings, node: str) -> None:
        self._settings = settings
        self._node = node
        self._series = SeriesStore(settings.series_points, settings.max_series)
        self._reports: deque[tuple[int, ServiceHealth]] = deque(maxlen=_MAX_REPORTS)
        self._state: NodeState | None = None
        self.idle = IdleCards()

    @property
    def series(self) -> SeriesStore:
        """The rings."""
        return self._series

    def health_reported(self, health: ServiceHealth, now_us: int) -> None:
        """Store a service's report for a known pod."""
        self._reports.append((now_us - max(0, health.age_us), health))

    def record(self, state: NodeState) -> None:
        """Record a tick."""
        self._state = state
        if state.gpus or self.idle.now is not NO_GPUS:
            self.idle.seen(state)
        series, points = self._series, self._settings.series_points
        short = max(1, points // _GROUP_SHARE)
        series.tick(state.at_us)
        groups = {entry.pod.uid: entry.use.group for entry in state.pods} if state.gpus else {}
        pods_cpu = pods_memory = 0
        for entry in state.pods:
            use = entry.use
            memory = _memory(use)
            if use.cpu_m is not None:
                series.write((use.group, _CPU), use.cpu_m, short)
                pods_cpu += use.cpu_m
            if memory is not None:
                series.write((use.group, _MEMORY), memory, short)
                pods_memory += memory
            if use.run_delay_ppm is not None:
                series.write((use.group, _WAIT), use.run_delay_ppm // 1000, short)
            for name, value in (
                (_MEMORY_STALL, use.memory_stall_ppm),
                (_DISK_STALL, use.io_stall_ppm),
                (_DISK_BPS, disk_bps(use)),
                (_DISK_USE, disk_use_ppm(use, state.host)),
            ):
                if value is not None:
                    series.write((use.group, name), value, short)
        for uid, (sm, bandwidth) in of_cards(state.gpus).items() if state.gpus else ():
            if (group := groups.get(uid)) is not None:
                series.write((group, _GPU_SM), sm, short)
                series.write((group, _GPU_BANDWIDTH), bandwidth, short)
        host = state.host
        if host.cpu_m is not None:
            series.write((_NODE, _CPU), host.cpu_m, points)
            series.write((_SYSTEM, _CPU), max(0, host.cpu_m - pods_cpu), points)
        series.write((_NODE, _MEMORY), host.memory_used_bytes, points)
        series.write((_SYSTEM, _MEMORY), max(0, host.memory_used_bytes - pods_memory), points)

    def keep(self, groups: Sequence[str]) -> None:
        """Drop the series of all other groups."""
        self._series.keep((*groups, _NODE, _SYSTEM))

    def report(self, at_s: float) -> NodeReport | None:
        """The founding report over the last `report_window_us`; None where CPU use is not known yet."""
        state = self._state
        if state is None:
            return None
        since = state.at_us - self._settings.report_window_us
        cpu_m = self._series.average((_NODE, _CPU), since)
        memory = self._series.average((_NODE, _MEMORY), since)
        cpu_room_m = state.host.capacity_cpu_m - self._settings.reserved_cpu_m
        memory_room = state.host.memory_total_bytes - self._settings.reserved_memory_bytes
        if cpu_m is None or memory is None or cpu_room_m <= 0 or memory_room <= 0:
            return None
        windows = [health for at, health in self._reports if at > since]
        requests = sum(health.requests for health in windows)
        missed = sum(min(health.over_objective, health.requests) for health in windows)
        return NodeReport(
            node=self._node,
            cpu_allocatable=cpu_room_m / 1000,
            cpu_used=cpu_m / 1000,
            memory_allocatable=float(memory_room),
            memory_used=float(memory),
            latency_p99_ms=(latency_p99_us(windows) or 0) / 1000,
            violation=missed / requests if requests else 0.0,
            dominant_share=dominant_share(cpu_m, cpu_room_m, memory, memory_room),
            fairness=demand_capped_fairness(self._tenants(state, since), cpu_room_m, memory_room),
            at_s=at_s,
        )

    def _tenants(self, state: NodeState, since_us: int) -> list[TenantUse]:
        found: dict[str, TenantUse] = {}
        for entry in state.pods:
            group, tenant = entry.pod.group, tenant_of(entry.pod)
            cpu = self._series.average((group, _CPU), since_us) or 0
            wait = self._series.average((group, _WAIT), since_us) or 0
            memory = self._series.average((group, _MEMORY), since_us) or 0
            before = found.get(tenant, TenantUse(0, 0, 0))
            found[tenant] = TenantUse(before.cpu_m + cpu, before.waiting_m + wait, before.memory_bytes + memory)
        return [found[tenant] for tenant in sorted(found)]

    def usage(self, windows_us: Sequence[int]) -> NodeUsage | None:
        """A NodeMetric's figures; averages are over the first window."""
        state = self._state
        if state is None or not windows_us:
            return None
        since = state.at_us - windows_us[0]
        pods = [
            PodAverage(
                entry.pod,
                self._series.average((entry.pod.group, _CPU), since),
                self._series.average((entry.pod.group, _MEMORY), since),
                self._signals(entry, since),
            )
            for entry in state.pods
        ]
        return NodeUsage(
            at_us=state.at_us,
            cpu_m=self._series.average((_NODE, _CPU), since),
            memory_bytes=self._series.average((_NODE, _MEMORY), since),
            system_cpu_m=self._series.average((_SYSTEM, _CPU), since),
            system_memory_bytes=self._series.average((_SYSTEM, _MEMORY), since),
            node=self._aggregates(_NODE, windows_us, state.at_us),
            system=self._aggregates(_SYSTEM, windows_us, state.at_us),
            pods=tuple(usage for usage in pods if not usage.pod.host_application),
            applications=tuple(usage for usage in pods if usage.pod.host_application),
        )

    def _signals(self, entry: PodUse, since_us: int) -> PodSignals:
        """What the pod suffers from its neighbours: the last report of its service, and averages."""
        cpu = self._series.average((entry.pod.group, _CPU), since_us)
        wait = self._series.average((entry.pod.group, _WAIT), since_us)
        health, cpi = entry.health, entry.use.cpi_milli
        return PodSignals(
            health.p99_us / 1000 if health is not None and health.requests > 0 and health.p99_us > 0 else None,
            cpi / 1000 if cpi else None,
            round(wait / cpu, 4) if wait is not None and cpu else None,
            memory_stall=self._fraction(entry.pod.group, _MEMORY_STALL, since_us),
            disk_stall=self._fraction(entry.pod.group, _DISK_STALL, since_us),
            disk_use=self._fraction(entry.pod.group, _DISK_USE, since_us),
            disk_bps=self._series.average((entry.pod.group, _DISK_BPS), since_us),
            gpu_sm=self._fraction(entry.pod.group, _GPU_SM, since_us),
            gpu_bandwidth=self._fraction(entry.pod.group, _GPU_BANDWIDTH, since_us),
        )

    def _fraction(self, group: str, name: str, since_us: int) -> float | None:
        found = self._series.average((group, name), since_us)
        return None if found is None else round(found / PPM, 4)

    def _aggregates(self, group: str, windows_us: Sequence[int], now_us: int) -> tuple[Aggregate, ...]:
        return tuple(
            Aggregate(
                window,
                self._series.summary(_key(group, _CPU), now_us - window),
                self._series.summary(_key(group, _MEMORY), now_us - window),
            )
            for window in windows_us
        )

    def validate(self) -> None:
        """Check the bounds. Raises `Permanent`."""
        if len(self._series) > self._settings.max_series:
            raise Permanent(f"{len(self._series)} series, at most {self._settings.max_series} are allowed")


def _key(group: str, metric: str) -> Key:
    return group, metric


def of_cards(gpus: Sequence[GpuCounters]) -> dict[str, tuple[int, int]]:
    """By pod, what it takes of multiprocessors and of bandwidth, millionths of a card: means over the cards on which it
    has processes. Pods on a card whose driver does not tell processes apart are left out.
    """
    found: dict[str, list[tuple[int, int]]] = {}
    untold: set[str] = set()
    for use in (use for gpu in gpus for use in gpu.pods):
        if use.sm_percent is None or use.bandwidth_percent is None:
            untold.add(use.uid)
        elif use.uid:
            found.setdefault(use.uid, []).append((use.sm_percent, use.bandwidth_percent))
    means = {uid: [sum(parts) * (PPM // 100) // len(uses) for parts in zip(*uses)] for uid, uses in found.items()}
    return {uid: (sm, bandwidth) for uid, (sm, bandwidth) in means.items() if uid not in untold}


def disk_bps(use: GroupUse) -> int | None:
    """Bytes that a group read and wrote a second; None where neither is known."""
    known = [value for value in (use.io_read_bps, use.io_written_bps) if value is not None]
    return sum(known) if known else None


def disk_use_ppm(use: GroupUse, host: HostUse) -> int | None:
    """The group's part of the time in which the node's disks are busy: by its bytes, since a disk does not say whom it
    serves.
    """
    moved = disk_bps(use)
    if moved is None or host.disk_busy_ppm is None or host.disk_bps is None:
        return None
    return host.disk_busy_ppm * min(moved, host.disk_bps) // host.disk_bps if host.disk_bps else 0


def _memory(use: GroupUse) -> int | None:
    """Without reclaimable page cache, where that is known."""
    return use.working_set_bytes if use.working_set_bytes is not None else use.memory_bytes
