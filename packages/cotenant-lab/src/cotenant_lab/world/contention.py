"""Contention between the residents of a node: CPU time, hardware threads, memory subsystem, memory capacity. Compiled.

Slowdowns must be asymmetric and mostly small with a long tail, as in measured pairs of co-located programs. Choice, per
node:

    services want  D_s = sum of busy workers;  batch wants D_b
    QoS on :  batch runs at phi = min(1, budget / D_b), budget as computed by policy/nodeqos; services get what they
    want QoS off:  all run at phi = min(1, C / (D_s + D_b)), and a request waits for a CPU as the node fills u = (D_s +
    D_b, as granted) / C;  threads share cores once u > 1/2:  smt = 1 / (1 - loss (2u - 1) / u) B = sum of b x cores in
    use / K (batch x cache partition);  K = half a node, the measured pair slowdown of i = (1 + X a_i f(B - own part))
    smt;  batch speed = phi / (slowdown x memory squeeze)

f(B) = g(scale B): g is linear, or flat up to a knee (Mars et al., Bubble-Up, MICRO'11), or grows like a queue for
bandwidth, each with g(1) = 1. The scale makes the laws comparable (laws.py); it is 1 under the linear law, so there one
measured pair is 1 + a b. Limits: one scalar of pressure; constant between recomputations (every arrival, departure and
minute).
"""

from __future__ import annotations

from math import inf

from cotenant.model.compiled import njit
from cotenant_lab.world.node_qos import batch_budget_m
from cotenant_lab.world.residents import cpu_wanted, expel, memory_now, set_completion
from cotenant_lab.world.state import MEMORY, Law, WorldState


@njit
def smt_slowdown(u: float, loss: float) -> float:
    """Slowdown by busy sibling threads at utilisation `u`: idle cores are filled first, so 1 up to u = 0.5."""
    if u <= 0.5:
        return 1.0
    u = min(u, 1.0)
    return 1.0 / (1.0 - loss * (2.0 * u - 1.0) / u)


@njit
def response(pressure: float, w: Law) -> float:
    """f(B): how slowdown grows with the others' pressure, by the configured law; f(0) = 0 and f(1 / scale) = 1."""
    pressure *= w.pressure_scale
    if w.pressure_law == 1:
        return max(0.0, pressure - w.knee) / (1.0 - w.knee)
    if w.pressure_law == 2:
        share = min(0.5 * pressure, w.queueing_ceiling)  # a full node of pressure 1 takes all bandwidth
        scale = 0.5 / (0.5 - w.queueing_start)
        return scale * max(0.0, share - w.queueing_start) / (1.0 - share)
    return pressure


@njit
def offered(s: WorldState, p: int, t: float, tick_s: float) -> float:
    """A replica's load in erlangs without any slowdown: replicas that are not placed leave theirs to the others."""
    service = s.pods[p].service
    tick = min(int(t / tick_s), s.load.shape[1] - 1)
    return s.load[service, tick] * s.pods[p].imbalance * s.services[service].replicas / max(1, s.services[service].live)


@njit
def _relieve_memory(s: WorldState, w: Law, node: int, t: float) -> float:
    """Evict batch, least progress first, while memory is over the limit; returns the share of memory then in use."""
    used = 0.0
    p = s.nodes[node].first
    while p >= 0:
        used += memory_now(s, w, p)
        p = s.pods[p].next
    while used > w.evict_above * w.memory_bytes:
        victim, most = -1, -1.0
        p = s.nodes[node].first
        while p >= 0:
            if s.pods[p].service < 0:
                left = s.pods[p].remaining_s / s.pods[p].duration_s
                if left > most or (left == most and p < victim):
                    victim, most = p, left
            p = s.pods[p].next
        if victim < 0:
            break
        used -= memory_now(s, w, victim)
        expel(s, w, victim, t, MEMORY)
    return used / w.memory_bytes


@njit
def recompute_node(s: WorldState, w: Law, node: int, t: float) -> None:
    """Recompute a node whose residents have progressed to `t`: evictions, slowdowns, speeds, its next completion."""
    memory = _relieve_memory(s, w, node, t)
    services, batch, services_pressure, batch_pressure = 0.0, 0.0, 0.0, 0.0
    p = s.nodes[node].first
    while p >= 0:
        if s.pods[p].service >= 0:
            busy = min(float(s.services[s.pods[p].service].cores), offered(s, p, t, w.tick_s) * s.pods[p].slowdown)
            services += busy
            services_pressure += s.pods[p].pressure * busy
        else:
            busy = cpu_wanted(s, w, p)
            batch += busy
            batch_pressure += s.pods[p].pressure * busy
        s.pods[p].busy_cores = busy
        p = s.pods[p].next

    batch_speed, service_speed = 1.0, 1.0
    if w.node_qos:
        budget = batch_budget_m(s, w, node, int(services * 1000.0)) / 1000.0
        if batch > budget:
            batch_speed = budget / batch
    elif services + batch > w.cores:
        batch_speed = w.cores / (services + batch)
        service_speed = batch_speed
    u = min(1.0, (services * service_speed + batch * batch_speed) / w.cores)
    total = (services_pressure + w.cache_partition * batch_pressure * batch_speed) / w.pair_cores
    smt = smt_slowdown(u, w.smt_loss)
    squeeze = 1.0
    if memory > w.squeeze_from:
        squeeze = 1.0 + (memory - w.squeeze_from) / w.squeeze_span
    wait = 0.0 if w.node_qos else w.wakeup_delay_s * u**w.wakeup_power

    next_completion = inf
    p = s.nodes[node].first
    while p >= 0:
        if s.pods[p].service >= 0:
            own = s.pods[p].pressure * s.pods[p].busy_cores / w.pair_cores
            slow = (1.0 + s.pods[p].sensitivity * response(max(0.0, total - own), w)) * smt / service_speed
            s.pods[p].slowdown = slow + wait / s.services[s.pods[p].service].time_s
            s.pods[p].busy_cores *= service_speed
        else:
            s.pods[p].busy_cores *= batch_speed
            own = w.cache_partition * s.pods[p].pressure * s.pods[p].busy_cores / w.pair_cores
            slow = (1.0 + s.pods[p].sensitivity * response(max(0.0, total - own), w)) * smt * squeeze
            s.pods[p].slowdown = slow
            s.pods[p].speed = batch_speed / slow
            next_completion = min(next_completion, t + max(0.0, s.pods[p].remaining_s) / s.pods[p].speed)
        p = s.pods[p].next
    s.nodes[node].used_share = u
    s.nodes[node].memory_share = memory
    set_completion(s, node, next_completion)
