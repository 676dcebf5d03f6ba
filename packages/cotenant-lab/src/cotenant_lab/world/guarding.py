"""The guard of each node over one minute. Compiled.

The guard reacts within seconds, but the world evaluates latency once a minute. At each tick the guard takes the steps
of one minute, one every two seconds of its own time: the p99 of the worst replica gives a severity, the severity a mode
and a ceiling, the node is settled again, until nothing changes. The windows of the minute are then judged in the final
state.
Limits: a violation that lasts only until the guard has acted is not visible; p99 is exact, not a noisy percentile of a
window; burn rates of objectives are not kept.

The settings are the defaults of `policy/nodeqos/guard/config.py`.
"""

from __future__ import annotations

from cotenant.model.compiled import njit
from cotenant.policy.nodeqos.guard.config import GuardConfig
from cotenant.policy.nodeqos.guard.step import CALM, CLOSE, DISABLED, GROW, MISSED, OFF, PPM
from cotenant_lab.world.contention import offered, recompute_node
from cotenant_lab.world.latency import p99_lookup
from cotenant_lab.world.node_qos import next_ceiling_m, next_mode, severity_of_slack, slack_ppm
from cotenant_lab.world.state import Law, WorldState

_CONFIG = GuardConfig()
_GROW_FROM, _CUT_BELOW, _CUT = _CONFIG.grow_from_ppm, _CONFIG.cut_below_ppm, _CONFIG.cut_ppm
_STEP_US, _CALM_US, _MISS_LIMIT_US = _CONFIG.grow_every_us, _CONFIG.calm_us, _CONFIG.miss_limit_us
_COOL_DOWN_US, _GROWTH, _INNOCENT = _CONFIG.cool_down_us, _CONFIG.growth_ppm, _CONFIG.innocent_ppm
_MIN_PPM, _MIN_M, _DISABLED_M = _CONFIG.min_ppm, _CONFIG.min_cpu_m, _CONFIG.disabled_cpu_m


@njit
def worst_ratio(s: WorldState, w: Law, node: int, t: float) -> tuple[float, float]:
    """The largest p99 / objective of a node's replicas, 0 if it has none; and the cores that batch uses."""
    worst, batch = 0.0, 0.0
    p = s.nodes[node].first
    while p >= 0:
        service = s.pods[p].service
        if service < 0:
            batch += s.pods[p].busy_cores
        elif t - s.pods[p].placed_s >= w.replica_start_s:
            slow = s.pods[p].slowdown
            load = offered(s, p, t, w.tick_s) * slow
            high = p99_lookup(s.p99_table, s.services[service].table_row, load / s.services[service].cores) * slow
            worst = max(worst, high / s.services[service].objective)
        p = s.pods[p].next
    return worst, batch


@njit
def guard(s: WorldState, w: Law, node: int, t: float) -> None:
    """Run the guard's steps of one minute on a settled node."""
    now_us = int(t * 1e6)
    end_us = now_us + int(w.tick_s * 1e6)
    min_m = min(_MIN_M, w.capacity_m * _MIN_PPM // PPM)
    while now_us < end_us:
        worst, batch = worst_ratio(s, w, node, t)
        if worst <= 0.0:
            s.nodes[node].guard_mode = OFF
            s.nodes[node].ceiling_m = w.capacity_m
            return
        severity = severity_of_slack(slack_ppm(PPM, int(worst * PPM)), _GROW_FROM, _CUT_BELOW)
        if severity > CLOSE and batch * 1000.0 * PPM < _INNOCENT * w.capacity_m:
            severity = CLOSE
        if severity > CALM:
            s.nodes[node].last_close_us = now_us
        if severity < MISSED:
            s.nodes[node].missed_us = -1
        elif s.nodes[node].missed_us < 0:
            s.nodes[node].missed_us = now_us
        missed_us = now_us - s.nodes[node].missed_us if s.nodes[node].missed_us >= 0 else 0
        calm_for_us = now_us - s.nodes[node].last_close_us if s.nodes[node].last_close_us >= 0 else _CALM_US
        before, before_m = s.nodes[node].guard_mode, s.nodes[node].ceiling_m
        cooling_us = s.nodes[node].cool_until_us - now_us
        mode = next_mode(before, severity, missed_us, _MISS_LIMIT_US, calm_for_us, _CALM_US, cooling_us)
        growth_m = w.capacity_m * _GROWTH // PPM if mode == GROW else 0
        used_m = int(batch * 1000.0)
        ceiling_m = next_ceiling_m(mode, before_m, used_m, w.capacity_m, min_m, _DISABLED_M, _CUT, growth_m)
        if mode == DISABLED and (before != DISABLED or severity == MISSED):
            s.nodes[node].cool_until_us = now_us + _COOL_DOWN_US
        s.nodes[node].guard_mode = mode
        s.nodes[node].ceiling_m = ceiling_m
        if ceiling_m != before_m:
            recompute_node(s, w, node, t)
        elif mode == GROW:
            return  # at the node's capacity: nothing changes until the next tick
        now_us += _STEP_US
