"""The schedule of ticks.

A loop that sleeps for a period after its work drifts, and one that makes up for missed ticks never catches up. Ticks
are due at whole periods from the start; those that passed during a long tick are skipped and counted.
Limits: none.
"""

from __future__ import annotations


class Pace:
    """Deadlines of one loop, in seconds of a monotonic clock."""

    def __init__(self, period_s: float, start_s: float) -> None:
        self.period_s = period_s
        self.missed = 0  # due ticks that were skipped
        self._due_s = start_s

    def wait_s(self, now_s: float) -> float:
        """Seconds from now to the next tick; call it once after each tick."""
        self._due_s += self.period_s
        if self._due_s > now_s + self.period_s:  # the clock went back
            self._due_s = now_s + self.period_s
        elif self._due_s <= now_s:
            behind = int((now_s - self._due_s) // self.period_s) + 1
            self.missed += behind
            self._due_s += behind * self.period_s
        return self._due_s - now_s
