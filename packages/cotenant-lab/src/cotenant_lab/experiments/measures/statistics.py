"""The statistics of the experiments: correlation, ratios over rounds with bootstrap intervals.

A ratio of tails from a dozen short blocks needs an interval without assuming a distribution. The geometric mean of
per-round ratios, and the percentile bootstrap over rounds, seeded.
Limits: with fewer than three rounds there is no interval.

Source: B. Efron and R. Tibshirani, An Introduction to the Bootstrap (1993), chapter 13 (percentile intervals).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, fsum, log, nan, sqrt
from statistics import median

_RESAMPLES = 2000
_FEWEST = 3


@dataclass(frozen=True, slots=True)
class IntervalEstimate:
    """A value with its 95 % interval; the ends are None where there are too few rounds."""

    value: float
    low: float | None
    high: float | None

    def shown(self, places: int = 2) -> str:
        """As "1.08 (1.02–1.15)"."""
        if self.low is None or self.high is None:
            return f"{self.value:.{places}f}"
        return f"{self.value:.{places}f} ({self.low:.{places}f}–{self.high:.{places}f})"


def correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Pearson's; NaN where a side does not vary or there are fewer than three pairs. Raises ValueError for unequal
    lengths.
    """
    if len(first) != len(second):
        raise ValueError(f"pairs of unequal number: {len(first)} and {len(second)}")
    if len(first) < _FEWEST:
        return nan
    mean_a, mean_b = fsum(first) / len(first), fsum(second) / len(second)
    a, b = [x - mean_a for x in first], [x - mean_b for x in second]
    spread = sqrt(fsum(x * x for x in a)) * sqrt(fsum(x * x for x in b))
    return fsum(x * y for x, y in zip(a, b, strict=True)) / spread if spread > 0 else nan


def ratio(over: Sequence[float], under: Sequence[float], seed: int = 1) -> IntervalEstimate:
    """Geometric mean of the rounds' ratios with its interval. All values above 0. Raises ValueError for unequal
    lengths.
    """
    logs = [log(a / b) for a, b in zip(over, under, strict=True)]
    estimate = bootstrap(logs, lambda values: fsum(values) / len(values), seed)
    low, high = (None if end is None else exp(end) for end in (estimate.low, estimate.high))
    return IntervalEstimate(exp(estimate.value), low, high)


def middle(values: Sequence[float], seed: int = 1) -> IntervalEstimate:
    """Median with its interval."""
    return bootstrap(values, median, seed)


def bootstrap(values: Sequence[float], statistic: Callable[[Sequence[float]], float], seed: int) -> IntervalEstimate:
    """A statistic of the values and the percentile interval over resampled values."""
    if not values:
        return IntervalEstimate(nan, None, None)
    if len(values) < _FEWEST:
        return IntervalEstimate(statistic(values), None, None)
    drawn = random.Random(seed)
    resampled = sorted(statistic(drawn.choices(values, k=len(values))) for _ in range(_RESAMPLES))
    return IntervalEstimate(
        statistic(values), resampled[int(0.025 * _RESAMPLES)], resampled[int(0.975 * _RESAMPLES) - 1]
    )


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value with at least `share` of all at or below it; NaN without any."""
    ordered = sorted(values)
    return (
        ordered[min(len(ordered) - 1, max(0, -(-int(share * 1_000_000) * len(ordered) // 1_000_000) - 1))]
        if ordered
        else nan
    )
