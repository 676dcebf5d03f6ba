"""Load averages of a group of tasks, as the kernel makes them of the whole machine.

Counted are tasks that run or want to, and those that wait without being interruptible.

Source: Linux, kernel/sched/loadavg.c (exponential with 1, 5 and 15 minutes), here at any interval.
"""

from __future__ import annotations

from math import exp

SPANS_S = (60.0, 300.0, 900.0)


class LoadAverage:
    """Of one group; begins at what was first counted."""

    def __init__(self) -> None:
        self._at_s: float | None = None
        self._averages: tuple[float, ...] = ()

    @property
    def averages(self) -> tuple[float, float, float] | None:
        """Over 1, 5 and 15 minutes; None before anything was counted."""
        return (self._averages[0], self._averages[1], self._averages[2]) if self._averages else None

    def count(self, tasks: int, now_s: float) -> None:
        """So many tasks ran or waited, now."""
        if self._at_s is None:
            self._averages = (float(tasks),) * len(SPANS_S)
        else:
            past_s = max(0.0, now_s - self._at_s)
            self._averages = tuple(
                tasks + (average - tasks) * exp(-past_s / span_s)
                for average, span_s in zip(self._averages, SPANS_S, strict=True)
            )
        self._at_s = now_s
