"""Records taken at each tick: latency windows for the metrics, agents' measurements and node reports, cluster totals,
fragmentation. Compiled.

The metrics judge a window by its true latency distribution; agents and reports have a sample percentile (`signals`),
and never the metrics' judgement.
"""

from __future__ import annotations

from cotenant.model.arrays import Float, ReportColumn
from cotenant.model.compiled import njit
from cotenant.model.results.forms import FrameCell
from cotenant_lab.world.contention import offered, recompute_node
from cotenant_lab.world.guarding import guard
from cotenant_lab.world.latency import TAIL, p99_lookup, tail
from cotenant_lab.world.residents import memory_now, progress
from cotenant_lab.world.signals import LATE, LATENCY_STREAM, ON_TIME, delivery, sampled_p99, standard_normal
from cotenant_lab.world.state import READY, RUNNING, UNREPORTED, Law, WorldState

_CPU_USED, _MEMORY_USED = int(ReportColumn.CPU_USED), int(ReportColumn.MEMORY_USED)
_P99, _VIOLATION = int(ReportColumn.LATENCY_P99_MS), int(ReportColumn.VIOLATION)
_DOMINANT, _FAIRNESS, _AT = int(ReportColumn.DOMINANT_SHARE), int(ReportColumn.FAIRNESS), int(ReportColumn.REPORTED_AT)

_SERVICE_ASKED, _BATCH_ASKED = int(FrameCell.SERVICE_ASKED), int(FrameCell.BATCH_ASKED)
_SERVICE_USED, _BATCH_USED = int(FrameCell.SERVICE_USED), int(FrameCell.BATCH_USED)
_MISSED, _DOWN = int(FrameCell.MISSED), int(FrameCell.DOWN)

# A window is judged by the exact tail where the interpolated p99 (steps of 1 % load) may be wrong.
_EXACT_ABOVE = 0.9  # load / servers
_EXACT_WITHIN = 0.02  # of the objective


@njit
def node_fairness(s: WorldState, node: int) -> float:
    """Jain's index over the tenants on a node, by requested CPU; 1 for an empty node."""
    p = s.nodes[node].first
    while p >= 0:
        s.tenants[s.pods[p].tenant].on_node += s.pods[p].cpu_milli
        p = s.pods[p].next
    total, squares, tenants = 0.0, 0.0, 0
    p = s.nodes[node].first
    while p >= 0:
        held = s.tenants[s.pods[p].tenant].on_node
        if held > 0.0:
            total += held
            squares += held * held
            tenants += 1
            s.tenants[s.pods[p].tenant].on_node = 0.0
        p = s.pods[p].next
    return total * total / (tenants * squares) if tenants > 0 else 1.0


@njit
def write_report(s: WorldState, out: Float, node: int, t: float, worst_ms: float, violated: int, replicas: int) -> None:
    """The node's report at time `t` in `out[node]`: `worst_ms` is the worst p99 of its services' replicas, of which
    `violated` miss their objective.
    """
    out[node, _CPU_USED] = s.nodes[node].used_share
    out[node, _MEMORY_USED] = min(1.0, s.nodes[node].memory_share)
    out[node, _P99] = worst_ms
    out[node, _VIOLATION] = violated / replicas if replicas > 0 else 0.0
    out[node, _DOMINANT] = max(s.nodes[node].used_share, min(1.0, s.nodes[node].memory_share))
    out[node, _FAIRNESS] = node_fairness(s, node)
    out[node, _AT] = t


@njit
def _observe_node(s: WorldState, w: Law, node: int, t: float, row: int) -> None:
    """Judge the replicas' windows by their true latency for the metrics; record what the agent measured and deliver
    it unless it is late or lost.
    """
    fresh = not s.nodes[node].late  # else the last minute's measurements arrive now, in place of this one's
    seed, minute = s.run[0].seed, int(t / w.tick_s)
    worst_ms, replicas, bad, missed = 0.0, 0, 0, 0
    p = s.nodes[node].first
    while p >= 0:
        if fresh:
            s.pods[p].seen_cores = s.pods[p].busy_cores
            s.pods[p].seen_memory = memory_now(s, w, p)
        service = s.pods[p].service
        if service >= 0:
            servers, slow = s.services[service].cores, s.pods[p].slowdown
            place, objective = s.services[service].table_row, s.services[service].objective
            idle = offered(s, p, t, w.tick_s)
            load = idle * slow
            alone = p99_lookup(s.p99_table, place, load / servers)  # per service time as it is now
            violated = alone * slow > objective
            if load > _EXACT_ABOVE * servers or abs(alone * slow - objective) < _EXACT_WITHIN * objective:
                violated = tail(servers, load, objective / slow) > TAIL
            starting = t - s.pods[p].placed_s < w.replica_start_s
            if violated or starting:
                bad += 1
                s.ticks[row].violated_cores += s.pods[p].cpu_milli / 1000.0
            if fresh:
                requests = 0 if starting else int(idle / s.services[service].time_s * w.tick_s)
                s.pods[p].seen_requests = requests
                if requests > 0:
                    z = standard_normal(seed, minute, p, LATENCY_STREAM)
                    decay = p99_lookup(s.decay_table, place, load / servers)
                    sample = slow * sampled_p99(alone, decay, requests, z)
                    s.pods[p].seen_ratio = sample / objective
                    s.pods[p].seen_violated = sample > objective
                    worst_ms = max(worst_ms, sample * s.services[service].time_s * 1000.0)
                    replicas += 1
                    if sample > objective:
                        missed += 1
        p = s.pods[p].next
    s.ticks[row].violated_replicas += bad
    s.ticks[row].violated_nodes += bad > 0
    s.nodes[node].missed = bad
    if fresh:
        s.nodes[node].seen_s = t
        write_report(s, s.outbox, node, t, worst_ms, missed, replicas)
    arrives = delivery(seed, minute, node, w.report_lost, w.report_late) if fresh else ON_TIME
    s.nodes[node].late = arrives == LATE
    s.nodes[node].delivered = arrives == ON_TIME
    if arrives == ON_TIME:
        s.report[node] = s.outbox[node]


@njit
def fragmentation(s: WorldState, w: Law) -> float:
    """Idle requested CPU times the share of sampled pod shapes that do not fit the node, summed over nodes; of the
    cluster's CPU.
    """
    nodes = s.nodes.shape[0]
    stranded = 0.0
    for node in range(nodes):
        idle = int(w.cores) * 1000 - s.nodes[node].requested_milli
        if not s.nodes[node].up or idle <= 0:
            continue
        room = int(w.memory_bytes) - s.nodes[node].requested_bytes
        misfits = 0
        for i in range(s.shapes.shape[0]):
            if s.shapes[i].cpu_milli > idle or s.shapes[i].memory_bytes > room:
                misfits += 1
        stranded += idle * misfits / s.shapes.shape[0]
    return stranded / (nodes * w.cores * 1000.0)


@njit
def _tenants(s: WorldState, w: Law) -> None:
    """Add the tenants' dominant shares, held and requested, to their sums."""
    cpu = s.nodes.shape[0] * w.cores * 1000.0
    memory = s.nodes.shape[0] * w.memory_bytes
    for i in range(s.tenants.shape[0]):
        s.tenants[i].share_sum += max(s.tenants[i].held_milli / cpu, s.tenants[i].held_bytes / memory)
        wanted = (s.tenants[i].held_milli + s.tenants[i].queued_milli) / cpu
        s.tenants[i].wanted_sum += max(wanted, (s.tenants[i].held_bytes + s.tenants[i].queued_bytes) / memory)
    s.run[0].tenant_ticks += 1


@njit
def _record_frame(s: WorldState, w: Law, frame: int) -> None:
    """Write one frame of the machine map: reads the state as the tick left it, changes nothing else."""
    for k in range(s.frame_nodes.shape[0]):
        node = s.frame_nodes[k]
        if not s.nodes[node].up:
            s.frames[frame, k, _DOWN] = 1
            continue
        asked, batch_asked, used, batch_used = 0.0, 0.0, 0.0, 0.0
        p = s.nodes[node].first
        while p >= 0:
            if s.pods[p].service >= 0:
                asked += s.pods[p].cpu_milli
                used += s.pods[p].busy_cores
            else:
                batch_asked += s.pods[p].cpu_milli
                batch_used += s.pods[p].busy_cores
            p = s.pods[p].next
        s.frames[frame, k, _SERVICE_ASKED] = _percent(asked / 1000.0, w.cores)
        s.frames[frame, k, _BATCH_ASKED] = _percent(batch_asked / 1000.0, w.cores)
        s.frames[frame, k, _SERVICE_USED] = _percent(used, w.cores)
        s.frames[frame, k, _BATCH_USED] = _percent(batch_used, w.cores)
        s.frames[frame, k, _MISSED] = min(255, s.nodes[node].missed)


@njit
def _percent(cores: float, whole: float) -> int:
    return min(255, int(100.0 * cores / whole + 0.5))


@njit
def tick(s: WorldState, w: Law, t: float) -> None:
    """Process a tick: the load changes, windows are judged, nodes report."""
    s.run[0].next_tick_s = t + w.tick_s
    row = s.run[0].ticks
    nodes = s.nodes.shape[0]
    for node in range(nodes):
        if s.nodes[node].up:
            progress(s, node, t)
            recompute_node(s, w, node, t)
            if w.node_guard:
                guard(s, w, node, t)
    s.run[0].last_tick_s = t
    if row >= s.ticks.shape[0]:
        return  # beyond the run's limit nothing is recorded
    s.run[0].ticks += 1
    s.ticks[row].time_s = t
    s.ticks[row].violated_cores = 0.0
    s.ticks[row].violated_replicas = 0.0
    s.ticks[row].violated_nodes = 0.0
    used, used_memory, asked, asked_memory = 0.0, 0.0, 0.0, 0.0
    for node in range(nodes):
        if s.nodes[node].up:
            _observe_node(s, w, node, t, row)
            used += s.nodes[node].used_share
            used_memory += min(1.0, s.nodes[node].memory_share)
            asked += s.nodes[node].requested_milli
            asked_memory += s.nodes[node].requested_bytes
    s.ticks[row].used_cpu = used / nodes
    s.ticks[row].used_memory = used_memory / nodes
    s.ticks[row].requested_cpu = asked / (nodes * w.cores * 1000.0)
    s.ticks[row].requested_memory = asked_memory / (nodes * w.memory_bytes)

    cores, unplaced, missing = 0.0, 0.0, 0
    for i in range(s.replica_pods.shape[0]):
        p = s.replica_pods[i]
        cores += s.pods[p].cpu_milli / 1000.0
        if s.pods[p].status != RUNNING:
            unplaced += s.pods[p].cpu_milli / 1000.0
            missing += 1
    s.ticks[row].service_cores = cores
    s.ticks[row].unplaced_cores = unplaced
    s.ticks[row].replicas = s.replica_pods.shape[0]
    s.ticks[row].violated_replicas += missing
    queued, running = 0, 0
    for p in range(s.pods.shape[0]):
        if s.pods[p].status == READY or s.pods[p].status == UNREPORTED:
            queued += 1
        elif s.pods[p].status == RUNNING:
            running += 1
    s.ticks[row].queued_pods = queued
    s.ticks[row].running_pods = running

    if w.averages_from_s <= t <= w.horizon_s:
        _tenants(s, w)
    if t % w.fragmentation_every_s < w.tick_s:
        s.ticks[row].fragmentation = fragmentation(s, w)
    if t >= w.map_at_s and s.run[0].map_taken == 0:
        s.run[0].map_taken = 1
        for p in range(s.pods.shape[0]):
            s.pods[p].map_node = s.pods[p].node
    if row % w.frame_ticks == 0 and row // w.frame_ticks < s.frames.shape[0]:
        _record_frame(s, w, row // w.frame_ticks)
