"""What is written down at each tick: node reports, latency windows, cluster totals, fragmentation. Compiled."""

from __future__ import annotations

from cotenant.lab.world.contention import offered, settle
from cotenant.lab.world.latency import TAIL, p99_lookup, tail
from cotenant.lab.world.residents import memory_now, progress
from cotenant.lab.world.state import (
    LAST_TICK,
    MAP_TAKEN,
    NEXT_TICK,
    READY,
    RUNNING,
    T_BAD_REPLICAS,
    T_CORES,
    T_FRAGMENTATION,
    T_QUEUED,
    T_REPLICAS,
    T_REQUESTED_CPU,
    T_REQUESTED_MEMORY,
    T_RUNNING,
    T_TIME,
    T_UNPLACED,
    T_USED_CPU,
    T_USED_MEMORY,
    T_VIOLATED,
    TENANT_TICKS,
    TICKS,
    UNTOLD,
    Law,
    State,
)
from cotenant.model.arrays import Report
from cotenant.model.compiled import njit

_CPU_USED, _MEMORY_USED = int(Report.CPU_USED), int(Report.MEMORY_USED)
_P99, _VIOLATION = int(Report.LATENCY_P99_MS), int(Report.VIOLATION)
_DOMINANT, _FAIRNESS, _AT = int(Report.DOMINANT_SHARE), int(Report.FAIRNESS), int(Report.REPORTED_AT)


@njit
def _node_fairness(s: State, node: int) -> float:
    """Jain's index over the tenants on a node, by requested CPU; 1 for an empty node."""
    p = s.first[node]
    while p >= 0:
        s.on_node[s.tenant[p]] += s.cpu_milli[p]
        p = s.next[p]
    total, squares, tenants = 0.0, 0.0, 0
    p = s.first[node]
    while p >= 0:
        held = s.on_node[s.tenant[p]]
        if held > 0.0:
            total += held
            squares += held * held
            tenants += 1
            s.on_node[s.tenant[p]] = 0.0
        p = s.next[p]
    return total * total / (tenants * squares) if tenants > 0 else 1.0


@njit
def _observe_node(s: State, w: Law, node: int, t: float, row: int) -> None:
    """Judge the replicas' windows, keep what an agent sees, and write the node's report."""
    worst_ms, replicas, bad = 0.0, 0, 0
    p = s.first[node]
    while p >= 0:
        s.seen_cores[p] = s.busy_cores[p]
        s.seen_memory[p] = memory_now(s, w, p)
        service = s.service[p]
        if service >= 0:
            servers, slow = s.service_cores[service], s.slowdown[p]
            load = offered(s, p, t, w.tick_s) * slow
            objective = s.service_objective[service]
            violated = tail(servers, load, objective / slow) > TAIL
            high = p99_lookup(s.p99_table, s.service_row[service], load / servers) * slow
            s.seen_ratio[p] = high / objective
            s.seen_violated[p] = violated
            worst_ms = max(worst_ms, high * s.service_time_s[service] * 1000.0)
            replicas += 1
            if violated:
                bad += 1
                s.ticks[row, T_VIOLATED] += s.cpu_milli[p] / 1000.0
        p = s.next[p]
    s.ticks[row, T_BAD_REPLICAS] += bad
    s.report[node, _CPU_USED] = s.used_share[node]
    s.report[node, _MEMORY_USED] = min(1.0, s.memory_share[node])
    s.report[node, _P99] = worst_ms
    s.report[node, _VIOLATION] = bad / replicas if replicas > 0 else 0.0
    s.report[node, _DOMINANT] = max(s.used_share[node], min(1.0, s.memory_share[node]))
    s.report[node, _FAIRNESS] = _node_fairness(s, node)
    s.report[node, _AT] = t


@njit
def fragmentation(s: State, w: Law) -> float:
    """Idle requested CPU times the share of sampled pod shapes that do not fit there, over nodes; of the cluster's CPU."""
    nodes = s.up.shape[0]
    stranded = 0.0
    for node in range(nodes):
        idle = int(w.cores) * 1000 - s.requested_milli[node]
        if not s.up[node] or idle <= 0:
            continue
        room = int(w.memory_bytes) - s.requested_bytes[node]
        misfits = 0
        for i in range(s.shapes_milli.shape[0]):
            if s.shapes_milli[i] > idle or s.shapes_bytes[i] > room:
                misfits += 1
        stranded += idle * misfits / s.shapes_milli.shape[0]
    return stranded / (nodes * w.cores * 1000.0)


@njit
def _tenants(s: State, w: Law) -> None:
    """Add the tenants' dominant shares, held and wanted, to their sums."""
    cpu = s.up.shape[0] * w.cores * 1000.0
    memory = s.up.shape[0] * w.memory_bytes
    for i in range(s.held_milli.shape[0]):
        s.share_sum[i] += max(s.held_milli[i] / cpu, s.held_bytes[i] / memory)
        wanted = (s.held_milli[i] + s.queued_milli[i]) / cpu
        s.wanted_sum[i] += max(wanted, (s.held_bytes[i] + s.queued_bytes[i]) / memory)
    s.counts[TENANT_TICKS] += 1


@njit
def tick(s: State, w: Law, t: float) -> None:
    """A minute has passed: the load changes, windows are judged, nodes report."""
    s.clock[NEXT_TICK] = t + w.tick_s
    row = s.counts[TICKS]
    nodes = s.up.shape[0]
    for node in range(nodes):
        if s.up[node]:
            progress(s, node, t)
            settle(s, w, node, t)
    s.clock[LAST_TICK] = t
    if row >= s.ticks.shape[0]:
        return  # beyond the run's limit nothing is recorded
    s.counts[TICKS] += 1
    s.ticks[row, T_TIME] = t
    s.ticks[row, T_VIOLATED] = 0.0
    s.ticks[row, T_BAD_REPLICAS] = 0.0
    used, used_memory, asked, asked_memory = 0.0, 0.0, 0.0, 0.0
    for node in range(nodes):
        if s.up[node]:
            _observe_node(s, w, node, t, row)
            used += s.used_share[node]
            used_memory += min(1.0, s.memory_share[node])
            asked += s.requested_milli[node]
            asked_memory += s.requested_bytes[node]
    s.ticks[row, T_USED_CPU] = used / nodes
    s.ticks[row, T_USED_MEMORY] = used_memory / nodes
    s.ticks[row, T_REQUESTED_CPU] = asked / (nodes * w.cores * 1000.0)
    s.ticks[row, T_REQUESTED_MEMORY] = asked_memory / (nodes * w.memory_bytes)

    cores, unplaced, missing = 0.0, 0.0, 0
    for i in range(s.replica_pods.shape[0]):
        p = s.replica_pods[i]
        cores += s.cpu_milli[p] / 1000.0
        if s.status[p] != RUNNING:
            unplaced += s.cpu_milli[p] / 1000.0
            missing += 1
    s.ticks[row, T_CORES] = cores
    s.ticks[row, T_UNPLACED] = unplaced
    s.ticks[row, T_REPLICAS] = s.replica_pods.shape[0]
    s.ticks[row, T_BAD_REPLICAS] += missing
    queued, running = 0, 0
    for p in range(s.status.shape[0]):
        if s.status[p] == READY or s.status[p] == UNTOLD:
            queued += 1
        elif s.status[p] == RUNNING:
            running += 1
    s.ticks[row, T_QUEUED] = queued
    s.ticks[row, T_RUNNING] = running

    if w.averages_from_s <= t <= w.horizon_s:
        _tenants(s, w)
    if t % w.fragmentation_every_s == 0.0:
        s.ticks[row, T_FRAGMENTATION] = fragmentation(s, w)
    if t >= w.map_at_s and s.counts[MAP_TAKEN] == 0:
        s.counts[MAP_TAKEN] = 1
        for p in range(s.node.shape[0]):
            s.map_node[p] = s.node[p]
