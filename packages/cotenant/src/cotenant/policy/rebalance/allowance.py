"""How many pods may be moved for their objectives in the long run: a share of them an hour, which may be saved for a
day.

The peak of the day needs most moves, so a limit of every single hour is missed at the peak and wasted beside it; and a
cluster that was packed badly needs many moves once. Each pod with an objective earns `share` of a move an hour, kept
for up to a day; the pods that it finds when it begins have earned a day's. Over days no more than `share` an hour are
moved.
Limits: what was moved before it began counts only as far as it is told so; a move that fails before its pod is evicted
counts too.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import isnan, nan

_DAY_H = 24.0
_HOUR_S = 3600.0


class MoveAllowance:
    """Moves left, in whole and broken ones."""

    def __init__(self, share: float) -> None:
        """`share` of the pods an hour."""
        self.share = share
        self._left = 0.0
        self._at_s = nan
        self._counted: frozenset[str] = frozenset()

    def left(self, created_s: Sequence[float], moves: Collection[str], now_s: float) -> int:
        """How many more may be moved now. `created_s`: of every pod with an objective; `moves`: names of those that
        began, as long as they are remembered: each counts once.
        """
        pods = len(created_s)
        most = self.share * _DAY_H * pods
        if isnan(self._at_s):
            earned = self.share * _DAY_H * sum(value < now_s for value in created_s)
        else:
            earned = self.share * pods * max(0.0, now_s - self._at_s) / _HOUR_S
        spent = len(set(moves) - self._counted)
        self._left = min(most, self._left + earned) - spent
        self._at_s, self._counted = now_s, frozenset(moves)
        return max(0, int(self._left + 1e-9))
