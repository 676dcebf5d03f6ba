"""CPU satisfaction of best effort, and how much of its requests must be evicted so that the remainder gets enough.

Suppression may leave best effort so little CPU that no work there completes; then fewer pods should run. Koordinator's
rule. Satisfaction is the CPU that best effort may use over what it requested. If it is at or below a lower bound while
best effort uses nearly all that it may, both averaged over a window and currently, enough requests are evicted that
satisfaction reaches the upper bound; of the two amounts the smaller counts.
Limits: requests are as declared; best effort without requests has no satisfaction.

Source: Koordinator, pkg/koordlet/qosmanager/plugins/cpuevict (behaviour and defaults).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.errors import InvalidInput
from cotenant.policy.nodeqos.percentages import check_percent

LOWER_PERCENT_MAX = 60
SMALL_LIMIT_CPU_M = 1000  # below one CPU the measured use is too coarse, and counts as high
TRUSTED_PART = 3  # samples must cover a third of the window


class SatisfactionOf(StrEnum):
    """What satisfaction is measured against. The values are NodeSLO's."""

    REAL_LIMIT = "evictByRealLimit"  # what quota and cpuset allow best effort
    ALLOCATABLE = "evictByAllocatable"  # the node's allocatable batch-cpu


@dataclass(frozen=True, slots=True)
class SatisfactionTrigger:
    """Bounds of satisfaction that trigger evictions. Percentages.

    `lower_percent` in 1..60, `upper_percent` from it to 99; `InvalidInput` otherwise.
    """

    lower_percent: int
    upper_percent: int
    used_percent: int = 90  # of what it may use: below this, best effort does not lack CPU
    measured_against: SatisfactionOf = SatisfactionOf.REAL_LIMIT

    def __post_init__(self) -> None:
        check_percent("satisfaction lower", self.lower_percent, 1, LOWER_PERCENT_MAX)
        check_percent("satisfaction upper", self.upper_percent, 1, 99)
        check_percent("best effort's used", self.used_percent, 0, 100)
        if self.upper_percent < self.lower_percent:
            raise InvalidInput(
                "satisfaction upper", self.upper_percent, f"at least the lower bound, {self.lower_percent} %"
            )


@dataclass(frozen=True, slots=True)
class Satisfaction:
    """Best effort's CPU at one time or averaged over a window, milli-CPU."""

    used_cpu_m: int
    request_cpu_m: int
    limit_cpu_m: int  # what it may use: the actual limit, or the node's allocatable; below 0 = not known


@dataclass(frozen=True, slots=True)
class SatisfactionRelease:
    """Requested milli-CPU to evict, with the reason for the amount or for none."""

    cpu_m: int
    text: str


def trusted(samples: int, window_us: int, period_us: int) -> bool:
    """Whether this many samples, one per period, cover enough of the window."""
    return samples * period_us >= window_us // TRUSTED_PART


def release(trigger: SatisfactionTrigger, average: Satisfaction, latest: Satisfaction | None) -> SatisfactionRelease:
    """Requested milli-CPU to evict; 0 with the reason why none.

    `average` is over a window that is `trusted`; `latest` None = there is no recent measurement.
    """
    by_average = _shortfall(trigger, average, "on average")
    if by_average.cpu_m <= 0:
        return by_average
    if latest is None:
        return SatisfactionRelease(0, "there is no recent measurement of best effort")
    by_latest = _shortfall(trigger, latest, "now")
    return by_latest if by_latest.cpu_m < by_average.cpu_m else by_average


def _shortfall(trigger: SatisfactionTrigger, seen: Satisfaction, when: str) -> SatisfactionRelease:
    used, asked, limit = seen.used_cpu_m, seen.request_cpu_m, seen.limit_cpu_m
    if limit == 0 and trigger.measured_against is SatisfactionOf.ALLOCATABLE:
        limit = 1  # services use everything: satisfaction stays defined, and is about 0
    if limit <= 0:
        return SatisfactionRelease(0, f"best effort's limit is not known {when}")
    if limit >= SMALL_LIMIT_CPU_M and used * 100 < trigger.used_percent * limit:
        return SatisfactionRelease(
            0, f"best effort uses {used} of {limit} mCPU {when}, below {trigger.used_percent} %: it does not lack CPU"
        )
    if asked <= 0:
        return SatisfactionRelease(0, f"best effort requests no CPU {when}")
    if limit * 100 > trigger.lower_percent * asked:
        return SatisfactionRelease(
            0, f"best effort may use {limit} of {asked} mCPU requested {when}, above {trigger.lower_percent} %"
        )
    cpu_m = (asked * trigger.upper_percent - limit * 100) // 100
    text = (
        f"best effort may use {limit} of {asked} mCPU requested {when}, at most {trigger.lower_percent} %; goal "
        f"{trigger.upper_percent} %"
    )
    return SatisfactionRelease(cpu_m, text)
