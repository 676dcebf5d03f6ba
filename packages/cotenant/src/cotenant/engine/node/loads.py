"""Load averages of groups, as the kernel keeps them for the machine alone.

Tasks that run or wait for a CPU (R) and those in uninterruptible sleep (D) apart, averaged over 1, 5 and 15 minutes: a
high D is a disk or a lock, a high R a lack of CPUs, and the machine's one number hides which. Readings may come at any
interval, the weight of each follows from it.

Source of the average: Linux, kernel/sched/loadavg.c (exponentially damped, sampled every five seconds).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp

MINUTES = (1, 5, 15)
MOST_FADING = 2048  # groups without tasks whose averages are kept


@dataclass(frozen=True, slots=True)
class Loads:
    """Averages over 1, 5 and 15 minutes."""

    runnable: tuple[float, float, float] = (0.0, 0.0, 0.0)
    uninterruptible: tuple[float, float, float] = (0.0, 0.0, 0.0)


_IDLE = Loads()


class LoadAverages:
    """`seen`: with each reading; a group that has no tasks decays and is forgotten below a hundredth, the least ones
    also where there are very many, as where containers come and go.
    """

    def __init__(self) -> None:
        self._loads: dict[str, Loads] = {}
        self._at_us: int | None = None

    def seen(self, at_us: int, counts: Mapping[str, tuple[int, int]]) -> dict[str, Loads]:
        """The averages of all groups after a reading of runnable and uninterruptible tasks. The first one only begins
        the time: averages start at 0, as a machine's do.
        """
        passed_s = 0.0 if self._at_us is None else max(0, at_us - self._at_us) / 1e6
        self._at_us = at_us if self._at_us is None else max(at_us, self._at_us)
        kept = [exp(-passed_s / (60 * minutes)) for minutes in MINUTES]
        found = {}
        for group in self._loads.keys() | counts.keys():
            before, (runnable, blocked) = self._loads.get(group, _IDLE), counts.get(group, (0, 0))
            if before is _IDLE and not (runnable or blocked):
                if group in counts:
                    found[group] = _IDLE
                continue
            after = Loads(_averaged(before.runnable, runnable, kept), _averaged(before.uninterruptible, blocked, kept))
            if group in counts or max(*after.runnable, *after.uninterruptible) >= 0.01:
                found[group] = after
        fading = [group for group in found if group not in counts]
        if len(fading) > MOST_FADING:
            fading.sort(key=lambda group: max(*found[group].runnable, *found[group].uninterruptible))
            for group in fading[:-MOST_FADING]:
                del found[group]
        self._loads = found
        return dict(found)


def _averaged(before: tuple[float, float, float], now: int, kept: list[float]) -> tuple[float, float, float]:
    one, five, fifteen = (load * keep + now * (1 - keep) for load, keep in zip(before, kept, strict=True))
    return one, five, fifteen
