"""Pods starting, running and stopping on a live cluster's nodes: the lab's compiled laws, applied pod by pod.

The lab's world knows its whole workload before it starts; here pods come and go as the API says. So only the event loop
is separate: how residents affect one another (`recompute_node`), their progress, memory, latency and fairness are the
lab's functions on the lab's records. Compiled.
"""

from __future__ import annotations

from math import inf

from cotenant.model.compiled import njit
from cotenant_lab.world.contention import offered, recompute_node
from cotenant_lab.world.latency import TAIL, p99_lookup, tail
from cotenant_lab.world.observe import write_report
from cotenant_lab.world.residents import earliest, enter, leave, memory_now, progress, set_completion
from cotenant_lab.world.state import FINISHED, FUTURE, Law, WorldState

NO_OBJECTIVE = 1e8  # in service times: a service at or above this has no objective


@njit
def start(s: WorldState, w: Law, p: int, node: int, t: float, done_s: float) -> None:
    """Start a pod on a node, with `done_s` of its work already done."""
    progress(s, node, t)
    enter(s, p, node, t)
    s.pods[p].remaining_s = max(0.0, s.pods[p].duration_s - done_s)
    recompute_node(s, w, node, t)


@njit
def stop(s: WorldState, w: Law, p: int, t: float) -> None:
    """Remove a pod from its node."""
    node = s.pods[p].node
    progress(s, node, t)
    leave(s, p)
    s.pods[p].status = FUTURE
    recompute_node(s, w, node, t)


@njit
def slow_down(s: WorldState, w: Law, p: int, factor: float, t: float) -> None:
    """Let a batch pod use `factor` times the CPU that it uses now; what is left of its work takes as much longer."""
    node = s.pods[p].node
    progress(s, node, t)
    s.pods[p].use_cores *= factor
    s.pods[p].remaining_s /= factor
    s.pods[p].duration_s /= factor
    recompute_node(s, w, node, t)


@njit
def power_off(s: WorldState, node: int, t: float) -> None:
    """Stop a node and all pods on it."""
    progress(s, node, t)
    while s.nodes[node].first >= 0:
        p = s.nodes[node].first
        leave(s, p)
        s.pods[p].status = FUTURE
    s.nodes[node].up = False
    s.nodes[node].used_share = 0.0
    s.nodes[node].memory_share = 0.0
    set_completion(s, node, inf)


@njit
def run_until(s: WorldState, w: Law, until_s: float) -> None:
    """Complete all work that ends by `until_s`, in order of time; the pods are appended to `s.finished`."""
    while s.tree[1] <= until_s:
        t = s.tree[1]
        node = earliest(s)
        progress(s, node, t)
        p = s.nodes[node].first
        while p >= 0:
            after = s.pods[p].next
            if s.pods[p].service < 0 and s.pods[p].remaining_s <= 1e-6 * s.pods[p].duration_s:
                leave(s, p)
                s.pods[p].status = FINISHED
                s.pods[p].finished_s = t
                s.finished[s.run[0].finished] = p
                s.run[0].finished += 1
            p = after
        recompute_node(s, w, node, t)
    s.run[0].now_s = max(s.run[0].now_s, until_s)


@njit
def _observe(s: WorldState, w: Law, node: int, t: float) -> None:
    """Evaluate the services' objectives for this window, record what an agent would measure, write the node's
    report.
    """
    worst_ms, replicas, bad = 0.0, 0, 0
    p = s.nodes[node].first
    while p >= 0:
        s.pods[p].seen_cores = s.pods[p].busy_cores
        s.pods[p].seen_memory = memory_now(s, w, p)
        service = s.pods[p].service
        if service >= 0 and s.services[service].objective < NO_OBJECTIVE:
            servers, slow = s.services[service].cores, s.pods[p].slowdown
            load = offered(s, p, t, w.tick_s) * slow
            objective = s.services[service].objective
            high = p99_lookup(s.p99_table, s.services[service].table_row, load / servers) * slow
            violated = tail(servers, load, objective / slow) > TAIL
            violated = violated or t - s.pods[p].placed_s < w.replica_start_s  # still starting
            s.pods[p].seen_ratio = high / objective
            s.pods[p].seen_violated = violated
            worst_ms = max(worst_ms, high * s.services[service].time_s * 1000.0)
            replicas += 1
            bad += int(violated)
        p = s.pods[p].next
    write_report(s, s.report, node, t, worst_ms, bad, replicas)


@njit
def tick(s: WorldState, w: Law, t: float) -> None:
    """The load has changed: advance and observe every node."""
    for node in range(s.nodes.shape[0]):
        if s.nodes[node].up:
            if s.nodes[node].first >= 0:
                progress(s, node, t)
                recompute_node(s, w, node, t)
            else:
                s.nodes[node].updated_s = t
            _observe(s, w, node, t)
    s.run[0].last_tick_s = t
