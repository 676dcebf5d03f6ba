"""Run-queue latency of groups and the groups that ran meanwhile: the run-queue probe's counters as values.

The probe, a recording and a simulated node must define a wait alike, and a percentile must not require every wait to be
kept. Monotonic counters, waits in buckets of doubling width; two readings are subtracted from one another.
Limits: a percentile is exact within its bucket, so at worst off by a factor of two; throttling by the group's own quota
is counted separately, not in the buckets.

Source of interpolation in a bucket: as Prometheus' histogram_quantile does.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from cotenant.model.errors import InvalidInput

BLAME = "blame of run-queue waits"  # of a gap, where nobody counts who ran
BUCKETS = 28  # [0, 2) us, [2, 4) us, [4, 8) us ...; the last is unbounded


class NoCulprit(Enum):
    """Time that cannot be attributed to a group."""

    IDLE = "idle"  # the CPU was idle: the wait was the delay from wake-up to switch
    UNKNOWN = "unknown"  # before the recorded history, or in a group that no longer exists


@dataclass(frozen=True, slots=True)
class WaitHistogram:
    """Waits of a group's tasks: number, sum, and number per bucket."""

    count: int = 0
    sum_us: int = 0
    buckets: tuple[int, ...] = (0,) * BUCKETS

    def since(self, earlier: WaitHistogram) -> WaitHistogram:
        """The difference from an earlier reading; the full value where the counters were reset in between."""
        if self.count < earlier.count or self.sum_us < earlier.sum_us:
            return self
        return WaitHistogram(
            self.count - earlier.count,
            self.sum_us - earlier.sum_us,
            tuple(now - then for now, then in zip(self.buckets, earlier.buckets, strict=True)),
        )

    def percentile_us(self, percent: float) -> int | None:
        """The wait that `percent` of all waits do not exceed, interpolated within its bucket; None without waits."""
        if not 0 <= percent <= 100:
            raise InvalidInput("percentile", percent, "0 to 100")
        total = sum(self.buckets)
        if not total:
            return None
        rank = total * percent / 100
        below = 0
        for slot, inside in enumerate(self.buckets):
            if inside and below + inside >= rank:
                low = 0 if slot == 0 else 1 << slot
                return round(low + ((2 << slot) - low) * (rank - below) / inside)
            below += inside
        raise AssertionError("a rank above the total")


@dataclass(frozen=True, slots=True)
class GroupWaits:
    """One group with its descendants, since it was first watched."""

    group: str
    waits: WaitHistogram  # for other tasks: throttled time is subtracted
    throttled_us: int = 0  # withheld by its own quota while a task was runnable
    late: int = 0  # waits above the group's threshold


@dataclass(frozen=True, slots=True)
class Blame:
    """How long `culprit` ran on a CPU that a task of `victim` waited for. A group may be its own culprit."""

    victim: str
    culprit: str | NoCulprit
    ran_us: int


@dataclass(frozen=True, slots=True)
class LateWait:
    """One wait above the threshold, reported when it ended."""

    at_us: int  # monotonic
    victim: str
    culprit: str | NoCulprit  # the group that ran longest meanwhile
    wait_us: int
    culprit_us: int
    cpu: int
    pid: int


@dataclass(frozen=True, slots=True)
class RunQueueReading:
    """All counters at one instant. Sums over culprits equal the victims' waits, up to rounding."""

    at_us: int  # monotonic
    groups: tuple[GroupWaits, ...] = ()
    blame: tuple[Blame, ...] = ()
    unattributed_us: int = 0  # waited, but not attributed to a culprit because the table was full
    dropped: int = 0  # late waits lost because the ring buffer was full

    def waits_of(self, group: str) -> GroupWaits | None:
        """The counters of one group; None where it is not watched."""
        return next((entry for entry in self.groups if entry.group == group), None)
