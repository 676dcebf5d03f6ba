"""How much CPU best-effort work may use, and the steps by which a limit follows that: integers only, compiled by the lab.

Problem: the node's agent and the simulated nodes must do the very same arithmetic. Choice: leaf functions over integers that call nothing
but min and max, so that the agent runs them as they are and the lab compiles them.

    allowed = capacity x threshold - services' use - max(system's use, reserved), at least `least`

A limit shrinks at once and grows by steps, because a wrong growth costs a service its latency and a wrong shrink costs a second. Limits: the
threshold counts CPU time, not what sibling threads take from one another.

Source: Koordinator, koordlet's CPU suppression (figures in milli-CPU and microseconds).
"""

from __future__ import annotations

UNLIMITED_US = -1  # a quota that is not set
PPM = 1_000_000


def allowance_m(capacity_m: int, threshold_pct: int, services_m: int, system_m: int, reserved_m: int) -> int:
    """CPU in milli-CPU that is left for best-effort work below the threshold; negative where the others are above it."""
    return capacity_m * threshold_pct // 100 - services_m - max(system_m, reserved_m)


def system_m(node_m: int, pods_m: int) -> int:
    """What the node uses beyond its pods and host applications; counters read at different instants never make it negative."""
    return max(0, node_m - pods_m)


def next_quota_us(
    current_us: int, allowed_m: int, capacity_m: int, period_us: int, least_us: int, dead_band_ppm: int, growth_ppm: int
) -> int:
    """The CFS quota to set, microseconds a period. `UNLIMITED_US` as the current one is left in one step.

    A change of less than `dead_band_ppm` of the node is not made, unless to the least; growth is at most `growth_ppm` of the node.
    """
    wanted_us = max(allowed_m * period_us // 1000, least_us)
    node_us = capacity_m * period_us // 1000
    change_us = wanted_us - current_us
    small = max(change_us, -change_us) * PPM < dead_band_ppm * node_us
    if current_us == UNLIMITED_US:
        next_us = wanted_us
    elif small and wanted_us != least_us:
        next_us = current_us
    else:
        next_us = min(wanted_us, current_us + growth_ppm * node_us // PPM)
    return next_us


def next_cpu_count(current: int, allowed_m: int, cpus: int, least: int, growth_ppm: int) -> int:
    """How many logical CPUs a best-effort cpuset should have: the allowance rounded up, at least `least`, growing by at most a share of the node."""
    wanted = max(-(-allowed_m // 1000), least)
    most_growth = -(-cpus * growth_ppm // PPM)
    return min(wanted, current + most_growth)
