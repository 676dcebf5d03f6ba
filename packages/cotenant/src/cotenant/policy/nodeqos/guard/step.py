"""One step of the guard: from the severity of the services' signals to the best-effort ceiling. Integers only, compiled
by the lab.

As in `cpu/allowance.py`, agent and lab must compute identical steps. Leaf functions over integers; modes and severities
are integers that `policy.py` names. Best-effort work is cut at once to half of its use, and grows in steps after a calm
period.

Source: Lo et al., Heracles, ISCA'15, section 4 (growth above 10 % slack, cut below 5 %, disabled with a cool-down on a
violation); cutting by half is ours, since Heracles' two cores are too much on a small node.
"""

from __future__ import annotations

OFF, GROW, HOLD, CUT, DISABLED = 0, 1, 2, 3, 4  # modes
CALM, CLOSE, PRESSED, MISSED = 0, 1, 2, 3  # severities, of the worst-off service
PPM = 1_000_000


def slack_ppm(objective_us: int, p99_us: int) -> int:
    """Distance below the objective, in millionths of the objective; negative where it is missed."""
    return (objective_us - p99_us) * PPM // objective_us


def severity_of_slack(slack: int, grow_from_ppm: int, cut_below_ppm: int) -> int:
    """MISSED below 0, PRESSED below the cut threshold, CLOSE below the growth threshold, else CALM."""
    if slack < 0:
        return MISSED
    if slack < cut_below_ppm:
        return PRESSED
    return CLOSE if slack < grow_from_ppm else CALM


def next_mode(
    mode: int, severity: int, missed_us: int, miss_limit_us: int, calm_for_us: int, calm_us: int, cooling_us: int
) -> int:
    """The next mode.

    `missed_us`: for how long objectives have been missed without a break; `calm_for_us`: time since the last severity
    above CALM;
    `cooling_us`: the remaining cool-down.
    """
    if severity == MISSED and missed_us >= miss_limit_us:
        return DISABLED
    if mode == DISABLED and cooling_us > 0:
        return DISABLED
    if severity >= PRESSED:
        return CUT
    if severity == CLOSE or calm_for_us < calm_us:
        return HOLD
    return GROW


def next_ceiling_m(
    mode: int, ceiling_m: int, used_m: int, capacity_m: int, min_m: int, disabled_m: int, cut_ppm: int, growth_m: int
) -> int:
    """The next ceiling of best-effort CPU, milli-CPU.

    `growth_m` is the step that is due, 0 where none is. A cut goes to `cut_ppm` of the smaller of ceiling and use, not
    below `min_m`, and never raises the ceiling.
    """
    if mode == OFF:
        return capacity_m
    if mode == DISABLED:
        return min(ceiling_m, disabled_m)
    if mode == CUT:
        return min(ceiling_m, max(min_m, min(ceiling_m, used_m) * cut_ppm // PPM))
    if mode == GROW:
        return min(capacity_m, ceiling_m + growth_m)
    return min(capacity_m, ceiling_m)


def bound_m(request_m: int, used_m: int, waited_ppm: int, bound_ppm: int) -> int:
    """The most CPU that a pod without an objective may cost best-effort work, milli-CPU.

    `waited_ppm`: time that its tasks waited for a CPU, per elapsed time. What it ran and what it waited is what it
    would have used alone; twice that (`bound_ppm`) leaves the CPU that is freed for it half idle.
    """
    return max(request_m, used_m + waited_ppm // 1000) * bound_ppm // PPM
