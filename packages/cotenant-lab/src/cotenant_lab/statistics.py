"""Statistics for comparing policies.

A difference between two policies on a few random workloads may be chance. Student-t intervals over seeds, and paired
differences (the same seed gives both policies the same workload, so the variation between workloads cancels).
Limits: t intervals assume roughly normal figures, which shares near 0 or 1 are not; with many comparisons at once some
of the 95 % intervals miss by chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan, nan, sqrt
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

CONFIDENCE = 0.95

Bound = Literal["exact", "below", "above"]


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with the half width of its interval (NaN for fewer than two values) and the number of values."""

    mean: float
    half_width: float
    count: int

    @property
    def low(self) -> float:
        """Lower end."""
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        """Upper end."""
        return self.mean + self.half_width

    @property
    def excludes_zero(self) -> bool:
        """Whether the whole interval lies on one side of zero; never with fewer than two values."""
        return not isnan(self.half_width) and abs(self.mean) > self.half_width


def student_t(degrees: float, confidence: float = CONFIDENCE) -> float:
    """The two-sided quantile of Student's t: P(|T| <= t) = confidence."""
    from scipy.special import stdtrit  # imported here: it costs a fifth of a second

    return float(stdtrit(degrees, 0.5 + confidence / 2))


def interval(values: ArrayLike, confidence: float = CONFIDENCE) -> Interval:
    """Mean and Student-t interval. NaN values are ignored; with no values left the mean is NaN."""
    x = np.asarray(values, dtype=np.float64)
    x = x[~np.isnan(x)]
    if x.size == 0:
        return Interval(nan, nan, 0)
    if x.size == 1 or np.isinf(x).any():  # an unfinished pod's slowdown is infinite, and so is a mean with it
        return Interval(float(x.mean()), nan, int(x.size))
    half = student_t(x.size - 1, confidence) * float(x.std(ddof=1)) / sqrt(x.size)
    return Interval(float(x.mean()), half, int(x.size))


def paired_difference(first: ArrayLike, second: ArrayLike, confidence: float = CONFIDENCE) -> Interval:
    """Interval of first - second, value by value. Equal lengths; a pair with a NaN, or infinite on both sides, is
    left out.
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.shape != b.shape:
        raise ValueError(f"pairs of unequal number: {a.shape} and {b.shape}")
    both = ~(np.isinf(a) & np.isinf(b))  # infinite on both sides: nothing to subtract
    return interval(a[both] - b[both], confidence)


def jain(values: ArrayLike) -> float:
    """Jain's index (sum x)^2 / (n sum x^2) (Jain, Chiu and Hawe, 1984): 1/n..1. 1 where all are zero, NaN for none."""
    x = np.asarray(values, dtype=np.float64)
    if x.size == 0:
        return nan
    squares = float((x * x).sum())
    return 1.0 if squares == 0.0 else float(x.sum()) ** 2 / (x.size * squares)


def cumulative(sample: NDArray[np.float64], points: int = 200) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The empirical distribution thinned to at most `points` quantiles: finite values and the share at or below each.

    Infinite values (work that never ended) count in the share, so that the curve ends below 1.
    """
    x = np.sort(np.asarray(sample, dtype=np.float64))
    if x.size == 0:
        return np.empty(0), np.empty(0)
    share = np.arange(1, x.size + 1) / x.size
    if x.size <= points:
        return x[np.isfinite(x)], share[np.isfinite(x)]
    # Denser towards the tail, where policies differ: half of the points lie above the 90th percentile.
    head, tail = np.linspace(0.0, 0.9, points // 2, endpoint=False), np.linspace(0.9, 1.0, points - points // 2)
    rows = np.unique(np.minimum((np.concatenate((head, tail)) * x.size).astype(np.int64), x.size - 1))
    rows = rows[np.isfinite(x[rows])]
    return x[rows], share[rows]


@dataclass(frozen=True, slots=True)
class Sustained:
    """The largest load that holds every limit. `bound`: exact, below (not even the lowest swept load), above (the
    highest holds).

    `load` is the lowest or highest swept load where it is a bound. `gaps`: swept loads below it that do not hold.
    """

    load: float
    bound: Bound
    gaps: int = 0


def at_load(loads: Sequence[float], figure: Sequence[float], load: float) -> float:
    """A figure at a load, linear between the swept ones (`loads` ascending), the end's value beyond them."""
    return float(np.interp(load, loads, figure))


def paired_ratio(first: ArrayLike, second: ArrayLike, confidence: float = CONFIDENCE) -> Interval:
    """Interval of first / second, value by value; a pair with a NaN or a divisor of 0 is left out. Raises
    ValueError for unequal lengths.
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.shape != b.shape:
        raise ValueError(f"pairs of unequal number: {a.shape} and {b.shape}")
    defined = b != 0.0
    return interval(a[defined] / b[defined], confidence)


def independent_ratio(
    first: Sequence[float], second: Sequence[float], confidence: float = CONFIDENCE
) -> tuple[float, float, float]:
    """Ratio of the geometric means of two samples of positive figures that are not paired, and the ends of its
    interval: Welch's on the logarithms, as B. L. Welch, "The generalization of 'Student's' problem", Biometrika 34
    (1947). NaN ends for fewer than two values a side.
    """
    logs = [np.log(np.asarray(sample, dtype=np.float64)) for sample in (first, second)]
    middle = float(logs[0].mean() - logs[1].mean())
    if min(map(len, logs)) < 2:
        return float(np.exp(middle)), nan, nan
    parts = [float(sample.var(ddof=1)) / sample.size for sample in logs]
    total = sum(parts)
    if total == 0.0:
        return (float(np.exp(middle)),) * 3
    degrees = total**2 / sum(part**2 / (sample.size - 1) for part, sample in zip(parts, logs, strict=True))
    half = student_t(degrees, confidence) * sqrt(total)
    return float(np.exp(middle)), float(np.exp(middle - half)), float(np.exp(middle + half))


def sustained_load(loads: Sequence[float], figures: Sequence[Sequence[float]], limit: float = 0.01) -> Sustained:
    """The largest load where every figure is <= limit, each figure linear between the swept loads.

    `loads` ascending, length m; `figures` one sequence of length m a figure, e.g. (V_LS, V_BE). Raises ValueError where
    they do not match or a figure is NaN.
    """
    x = np.asarray(loads, dtype=np.float64)
    y = np.asarray(figures, dtype=np.float64)
    if x.size == 0 or y.ndim != 2 or y.shape[1] != x.size or np.isnan(y).any() or (np.diff(x) <= 0).any():
        raise ValueError("sustained load needs ascending loads and a figure for each")
    holds: NDArray[np.bool_] = np.max(y, axis=0) <= limit
    if holds[-1]:
        return Sustained(float(x[-1]), "above", int((~holds).sum()))
    for i in range(x.size - 2, -1, -1):  # the topmost segment that holds anywhere, at its largest such point
        low, high = 0.0, 1.0
        for left, right in zip(y[:, i], y[:, i + 1], strict=True):
            if left <= limit < right:
                high = min(high, (limit - left) / (right - left))
            elif right <= limit < left:
                low = max(low, (left - limit) / (left - right))
            elif left > limit:
                low, high = 1.0, 0.0
        if low <= high:
            return Sustained(float(x[i] + high * (x[i + 1] - x[i])), "exact", int((~holds[: i + 1]).sum()))
    return Sustained(float(x[0]), "below", int((~holds).sum()))
