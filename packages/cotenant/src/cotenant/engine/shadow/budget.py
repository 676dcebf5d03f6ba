"""How much CPU time judging may take: a share of one core, with a bounded reserve.

Ten thousand pods may appear at once while the process must keep up with the watch, and beside whoever shares its core.
Time that is not used is kept, up to `RESERVE_S`. What was begun is finished, so the account may go below zero; nothing
is begun before it is above again.
"""

from __future__ import annotations

RESERVE_S = 1.0


class CpuShare:
    """An account of CPU seconds, filled by the clock."""

    def __init__(self, share: float, now_s: float) -> None:
        self.share = share
        self.spent_s = 0.0
        self._left_s = RESERVE_S
        self._at_s = now_s

    def has(self, now_s: float, reserve: float = 0.0) -> bool:
        """Whether something may be begun. `reserve`: the part of the reserve that is left to others, 0 to 1."""
        self._fill(now_s)
        return self._left_s > reserve * RESERVE_S

    def spend(self, cpu_s: float) -> None:
        """Something took this long."""
        self.spent_s += cpu_s
        self._left_s -= cpu_s

    def has_again_s(self, now_s: float, reserve: float = 0.0) -> float:
        """When `has` will be true."""
        self._fill(now_s)
        lacks_s = reserve * RESERVE_S - self._left_s
        return now_s if lacks_s < 0 else now_s + lacks_s / self.share + 1e-3

    def _fill(self, now_s: float) -> None:
        passed_s = max(0.0, now_s - self._at_s)  # a clock that goes back fills nothing
        self._left_s = min(RESERVE_S, self._left_s + self.share * passed_s)
        self._at_s = max(self._at_s, now_s)
