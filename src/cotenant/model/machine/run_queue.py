"""How long groups waited for a CPU, and who ran meanwhile: what the run-queue probe counts, as values.

Problem: the probe, a recording and a simulated node must mean the same by a wait, and a percentile must not need every wait kept. Choice:
counters that only grow, waits in buckets that double; two readings are taken from one another. Limits: a percentile is right within its
bucket, so at worst by a factor of two; what the group's own quota withheld is in no bucket, but beside them.

Source of interpolation in a bucket: as Prometheus' histogram_quantile does.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from cotenant.model.errors import InvalidInput

BUCKETS = 28  # [0, 2) us, [2, 4) us, [4, 8) us ...; the last has no end


class Nobody(Enum):
    """Time for which no group can be blamed."""

    IDLE = "idle"  # the CPU did nothing: the wait was the way from wake-up to switch
    UNKNOWN = "unknown"  # longer ago than is remembered, or in a group that is gone


@dataclass(frozen=True, slots=True)
class WaitHistogram:
    """Waits of a group's tasks: how many, their sum, and how many in each bucket."""

    count: int = 0
    sum_us: int = 0
    buckets: tuple[int, ...] = (0,) * BUCKETS

    def since(self, earlier: WaitHistogram) -> WaitHistogram:
        """What was added; all of it where the counters began anew meanwhile."""
        if self.count < earlier.count or self.sum_us < earlier.sum_us:
            return self
        return WaitHistogram(
            self.count - earlier.count,
            self.sum_us - earlier.sum_us,
            tuple(now - then for now, then in zip(self.buckets, earlier.buckets, strict=True)),
        )

    def percentile_us(self, percent: float) -> int | None:
        """The wait that `percent` of all waits do not exceed, interpolated in its bucket; None without waits."""
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
    """One group with all below it, since it was first watched."""

    group: str
    waits: WaitHistogram  # for others: time withheld by its own quota is taken off
    throttled_us: int = 0  # withheld by its own quota while a task was ready
    late: int = 0  # waits above the threshold it is watched with


@dataclass(frozen=True, slots=True)
class Blame:
    """How long `culprit` ran on a CPU that a task of `victim` waited for. A group may be its own culprit."""

    victim: str
    culprit: str | Nobody
    ran_us: int


@dataclass(frozen=True, slots=True)
class LateWait:
    """One wait above the threshold, told when it ended."""

    at_us: int  # monotonic
    victim: str
    culprit: str | Nobody  # who ran longest meanwhile
    wait_us: int
    culprit_us: int
    cpu: int
    pid: int


@dataclass(frozen=True, slots=True)
class RunQueueReading:
    """All counters at one instant. Sums over culprits equal what the victims waited, rounding aside."""

    at_us: int  # monotonic
    groups: tuple[GroupWaits, ...] = ()
    blame: tuple[Blame, ...] = ()
    unshared_us: int = 0  # waited, and charged to nobody for want of room
    untold: int = 0  # late waits that found the ring full

    def waits_of(self, group: str) -> GroupWaits | None:
        """The counters of one group; None where it is not watched."""
        return next((entry for entry in self.groups if entry.group == group), None)
