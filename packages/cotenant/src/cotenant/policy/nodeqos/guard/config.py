"""The guard's settings.

The required slack and the reaction times must be readable and validated in one place. One frozen value; figures from
papers are the defaults.
Limits: the thresholds for run delay and pressure, and the bound of pods without an objective, are our own.

The lab's compiled guard takes its figures from here.

Source: Lo et al., Heracles, ISCA'15 (slack 10 % and 5 %, growth every 2 s, 5 min of cool-down after a violation); SRE
workbook (14.4 x, 6 x).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from cotenant.model.errors import InvalidInput

SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True)
class GuardConfig:
    """Raises `InvalidInput`. Times in microseconds, shares in millionths."""

    enabled: bool = True
    grow_from_ppm: int = 100_000  # slack from which best-effort work may grow
    cut_below_ppm: int = 50_000  # slack below which it is cut
    budget_ppm: int = 10_000  # error budget: requests that may miss the objective, which is for the 99th percentile
    burn_cut_milli: int = 14_400  # burn rate, in thousandths, now and over a minute: cut
    burn_hold_milli: int = 6_000  # over 30 s and 6 min: no growth
    burn_calm_milli: int = 1_000  # over a minute: no growth before it is below
    min_requests: int = 20  # per window; with fewer, latency is evaluated only where most of them were late
    health_age_us: int = 15 * SECOND_US  # an older report is stale
    delay_hold_ppm: int = 50_000  # time waited for a CPU per CPU time used: no growth
    delay_cut_ppm: int = 200_000  # ... cut
    min_use_m: int = 50  # lower bound of a pod's use in the run-delay ratio
    wait_hold_ppm: int = 20_000  # of elapsed time: a pod without an objective that waits less is no victim
    wait_cut_ppm: int = 50_000  # ... and one that waits less causes no cut
    bound_ppm: int = (
        2_000_000  # of its request, or of what it ran and waited: the most CPU that a pod without an objective costs
    )
    stall_hold_ppm: int = 100_000  # PSI cpu "some" of the pod: no growth
    stall_cut_ppm: int = 300_000  # ... cut
    throttled_ppm: int = 100_000  # of its own CFS periods: above it, waiting is attributed to its own limit
    stolen_ppm: int = 10_000  # of the machine's CPU time, stolen by the hypervisor: late requests may be due to it
    stolen_for_us: int = 3 * SECOND_US  # ... and for this long afterwards, since reports lag behind
    innocent_ppm: int = 10_000  # of the node: best-effort work that uses less is not the cause
    cut_ppm: int = 500_000  # share of best-effort use that a cut leaves
    growth_ppm: int = 100_000  # of the node, a step
    grow_every_us: int = 2 * SECOND_US
    calm_us: int = 10 * SECOND_US  # required time without any sign of trouble before growth
    miss_limit_us: int = 10 * SECOND_US  # an objective missed for this long disables best-effort work
    cool_down_us: int = 300 * SECOND_US  # ... for at least this long
    min_ppm: int = 100_000  # of the node: no cut goes below the smaller of this ...
    min_cpu_m: int = 2000  # ... and this
    disabled_cpu_m: int = 20  # left to disabled work, so that it can release locks and finish

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name != "enabled" and value < 0:
                raise InvalidInput(f"guard.{field.name}", value, "0 or more")
        for name in ("budget_ppm", "min_requests", "min_use_m", "min_cpu_m", "min_ppm", "disabled_cpu_m"):
            if getattr(self, name) == 0:
                raise InvalidInput(f"guard.{name}", 0, "more than 0")
        for lower, upper in (
            ("cut_below_ppm", "grow_from_ppm"),
            ("delay_hold_ppm", "delay_cut_ppm"),
            ("wait_hold_ppm", "wait_cut_ppm"),
            ("stall_hold_ppm", "stall_cut_ppm"),
        ):
            if getattr(self, lower) > getattr(self, upper):
                expected = f"at most {upper} ({getattr(self, upper)})"
                raise InvalidInput(f"guard.{lower}", getattr(self, lower), expected)
        for name in ("grow_from_ppm", "budget_ppm", "cut_ppm", "growth_ppm", "min_ppm"):
            if getattr(self, name) > 1_000_000:
                raise InvalidInput(f"guard.{name}", getattr(self, name), "at most 1000000 millionths")
