"""The CPU allowance of best-effort work, and the steps by which a limit follows it: integers only, compiled by the lab.

The node's agent and the simulated nodes must use exactly the same arithmetic. Leaf functions over integers that call
only min and max, so that the agent runs them directly and the lab compiles them.

    allowed = capacity x threshold - services' use - max(system's use, reserved), at least `least`

A limit shrinks at once and grows in steps, because growing by mistake costs a service its latency, while shrinking by
mistake costs one second.
Limits: the threshold counts CPU time, not contention between sibling threads.

Source: Koordinator, koordlet's CPU suppression (figures in milli-CPU and microseconds).
"""

from __future__ import annotations

UNLIMITED_US = -1  # a quota that is not set
PPM = 1_000_000


def allowance_m(capacity_m: int, threshold_percent: int, services_m: int, system_m: int, reserved_m: int) -> int:
    """Milli-CPU left for best-effort work below the threshold; negative where other use is above it."""
    return capacity_m * threshold_percent // 100 - services_m - max(system_m, reserved_m)


def system_m(node_m: int, pods_m: int) -> int:
    """Use of the node beyond its pods and host applications; never negative, although counters are read at
    different instants.
    """
    return max(0, node_m - pods_m)


def next_quota_us(
    current_us: int, allowed_m: int, capacity_m: int, period_us: int, min_us: int, dead_band_ppm: int, growth_ppm: int
) -> int:
    """The CFS quota to set, microseconds per period. From `UNLIMITED_US` it goes to the wanted quota in one step.

    A change of less than `dead_band_ppm` of the node is skipped, unless it reaches the minimum; growth is at most
    `growth_ppm` of the node.
    """
    wanted_us = max(allowed_m * period_us // 1000, min_us)
    node_us = capacity_m * period_us // 1000
    change_us = wanted_us - current_us
    small = max(change_us, -change_us) * PPM < dead_band_ppm * node_us
    if current_us == UNLIMITED_US:
        next_us = wanted_us
    elif small and wanted_us != min_us:
        next_us = current_us
    else:
        next_us = min(wanted_us, current_us + growth_ppm * node_us // PPM)
    return next_us


def next_cpu_count(current: int, allowed_m: int, cpus: int, least: int, growth_ppm: int) -> int:
    """Size of the best-effort cpuset: the allowance rounded up, at least `least`, growing by at most a share of the
    node.
    """
    wanted = max(-(-allowed_m // 1000), least)
    max_growth = -(-cpus * growth_ppm // PPM)
    return min(wanted, current + max_growth)
