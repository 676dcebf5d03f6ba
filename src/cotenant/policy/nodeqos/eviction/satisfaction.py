"""How far best effort gets the CPU that it asked for, and how much of its requests must leave so that the rest gets enough.

Problem: suppression may leave best effort so little CPU that nothing there ends any more; then fewer should run. Choice: Koordinator's rule.
Satisfaction is the CPU that best effort may really use over what it requested. Where it is at or below a lower bound while best effort uses
nearly all that it may, on the average of a window and right now, so many requests must go that satisfaction reaches the upper bound; of the two
answers the smaller one counts. Limits: requests are what pods declare; best effort without requests is never satisfied or not.

Source: Koordinator, pkg/koordlet/qosmanager/plugins/cpuevict (behaviour and defaults).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.errors import InvalidInput
from cotenant.policy.nodeqos.percentages import check_percent

LOWER_PERCENT_MAX = 60
SMALL_LIMIT_CPU_M = 1000  # below one CPU, use is too coarse to be judged and counts as high
TRUSTED_PART = 3  # a window counts once its samples cover a third of it


class SatisfactionOf(StrEnum):
    """What satisfaction is measured against. The values are NodeSLO's."""

    REAL_LIMIT = "evictByRealLimit"  # what quota and cpuset leave best effort now
    ALLOCATABLE = "evictByAllocatable"  # what the node posts as batch-cpu


@dataclass(frozen=True, slots=True)
class SatisfactionTrigger:
    """When best effort is so far from what it asked for that some of it should leave. Percentages.

    `lower_percent` in 1..60, `upper_percent` from it to 99; `InvalidInput` otherwise.
    """

    lower_percent: int
    upper_percent: int
    used_percent: int = 90  # of what it may use: below this, CPU is not what it lacks
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
    limit_cpu_m: int  # what it may use: the real limit, or the node's allocatable


@dataclass(frozen=True, slots=True)
class SatisfactionRelease:
    """How many requested milli-CPU must leave, and why so many or none."""

    cpu_m: int
    text: str


def trusted(samples: int, window_us: int, period_us: int) -> bool:
    """Whether so many samples, one a period, stand for the window."""
    return samples * period_us >= window_us // TRUSTED_PART


def release(trigger: SatisfactionTrigger, average: Satisfaction, latest: Satisfaction | None) -> SatisfactionRelease:
    """Requested milli-CPU that must leave; 0 with the sentence that says why nothing must.

    `average` is over a window that is `trusted`; `latest` None = nothing was measured lately.
    """
    by_average = _shortfall(trigger, average, "on average")
    if by_average.cpu_m <= 0:
        return by_average
    if latest is None:
        return SatisfactionRelease(0, "best effort was not measured lately")
    by_latest = _shortfall(trigger, latest, "now")
    return by_latest if by_latest.cpu_m < by_average.cpu_m else by_average


def _shortfall(trigger: SatisfactionTrigger, seen: Satisfaction, when: str) -> SatisfactionRelease:
    used, asked, limit = seen.used_cpu_m, seen.request_cpu_m, seen.limit_cpu_m
    if limit <= 0:
        return SatisfactionRelease(0, f"what best effort may use is not known {when}")
    if limit >= SMALL_LIMIT_CPU_M and used * 100 < trigger.used_percent * limit:
        return SatisfactionRelease(
            0, f"best effort uses {used} of {limit} mCPU {when}, below {trigger.used_percent} %: it lacks no CPU"
        )
    if asked <= 0:
        return SatisfactionRelease(0, f"best effort requests no CPU {when}")
    if limit * 100 > trigger.lower_percent * asked:
        return SatisfactionRelease(
            0, f"best effort may use {limit} of {asked} mCPU requested {when}, above {trigger.lower_percent} %"
        )
    cpu_m = (asked * trigger.upper_percent - limit * 100) // 100
    text = f"best effort may use {limit} of {asked} mCPU requested {when}, at most {trigger.lower_percent} %; goal {trigger.upper_percent} %"
    return SatisfactionRelease(cpu_m, text)
