"""How far what can be lent may be from what is said, by how far it was on earlier days of the same history.

At each earlier origin the amount that was said and the one that would have met the risk exactly are known
(`BackTestOutcome.lent`, `BackTestOutcome.in_hindsight`). The range is Student's prediction interval of one more such
difference, as a share of the capacity: it counts days, not origins, because origins that share part of their horizon
miss together. An amount whose range leaves half to twice itself is not to be stated: it would be a guess with a
decimal point.
Limits: two judged days are the least, and their range is wide; a kind of day that the history does not have, such as
its first weekend, is outside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cotenant.policy.assess.back_test import BackTestOutcome

COVERAGE_PERCENT = 80
MIN_TRIED_DAYS = 2.0
MAX_FACTOR = 2.0  # of the amount, up or down, within which its range has to stay
_T = (  # Student's 0.9 quantile, by degrees of freedom
    (1, 3.078), (2, 1.886), (3, 1.638), (4, 1.533), (5, 1.476), (6, 1.440), (8, 1.397), (10, 1.372), (15, 1.341),
    (20, 1.325), (30, 1.310), (120, 1.289),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LentRange:
    """In units of the resource, summed over nodes."""

    low: float
    high: float
    days: float  # that it was tried on

    def is_carried(self, amount: float) -> bool:
        """Whether the history is enough to state the amount."""
        return self.low * MAX_FACTOR >= amount and self.high <= amount * MAX_FACTOR


def lent_range(tried: Sequence[BackTestOutcome], amount: float, capacity: float) -> LentRange | None:
    """Of an amount that is said now; `tried` are outcomes whose horizons have passed. None for fewer than
    `MIN_TRIED_DAYS`.
    """
    judged = sorted((found for found in tried if found.steps and found.capacity > 0), key=lambda found: found.at_s)
    if not judged or capacity <= 0:
        return None
    last = judged[-1]
    days = (last.at_s + last.horizon_s - judged[0].at_s) / last.horizon_s if last.horizon_s > 0 else 0.0
    if days < MIN_TRIED_DAYS or len(judged) < 2:
        return None
    missed = np.array([(found.in_hindsight - found.lent) / found.capacity for found in judged])
    reach = _t(days - 1.0) * float(missed.std(ddof=1)) * (1.0 + 1.0 / days) ** 0.5
    middle = amount + float(missed.mean()) * capacity
    low, high = (min(max(0.0, middle + sign * reach * capacity), capacity) for sign in (-1.0, 1.0))
    return LentRange(low, high, days)


def _t(freedom: float) -> float:
    return float(np.interp(freedom, [at for at, _ in _T], [value for _, value in _T]))
