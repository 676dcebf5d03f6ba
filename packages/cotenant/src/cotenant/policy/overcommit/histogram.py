"""Histograms whose weights decay with age: quantiles and moments of recent use in a few hundred bytes.

What may be lent depends on the recent distribution of use, of every pod, and keeping samples costs megabytes a pod.
Exponential buckets, weights that halve every `half_life_s`; a histogram is a value, adding returns a new one. A
quantile is the upper edge of its bucket, so it never understates.
Limits: resolution is one bucket, by default 10 percent of the value; what is beyond the last bucket counts as in it.
Source: the Vertical Pod Autoscaler's recommender (decaying exponential histograms).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log

import numpy as np

from cotenant.model.arrays import Float

GROWTH = 1.1
BUCKETS = 112  # of 10 % each: five orders of magnitude


def _empty() -> Float:
    return np.zeros(BUCKETS)


@dataclass(frozen=True, slots=True)
class DecayedHistogram:
    """Decayed counts; bucket 0 holds values up to `least`, bucket i those up to `least` x growth^i. Arrays are not
    changed after construction.
    """

    least: float  # upper edge of the first bucket, in the unit of the values
    half_life_s: float
    at_s: float = 0.0  # the time that the weights refer to
    counts: Float = field(default_factory=_empty, compare=False)
    weight: float = 0.0
    total: float = 0.0  # sum of values
    squares: float = 0.0
    growth: float = GROWTH  # of the upper edges; there are as many buckets as counts

    def added(self, value: float, now_s: float, count: float = 1.0) -> DecayedHistogram:
        """With one more value. Time that goes backwards does not decay."""
        factor = self._decay(now_s)
        counts = self.counts * factor
        counts[self._bucket(value)] += count
        return DecayedHistogram(
            self.least,
            self.half_life_s,
            max(now_s, self.at_s),
            counts,
            self.weight * factor + count,
            self.total * factor + value * count,
            self.squares * factor + value * value * count,
            self.growth,
        )

    def quantile(self, share: float, prior: DecayedHistogram | None = None, prior_weight: float = 0.0) -> float:
        """The value below which this share of the weight lies; 0 where there is none. A prior adds `prior_weight`
        in its own shape.
        """
        counts = self.counts
        if prior is not None and prior.weight > 0:
            counts = counts + prior.counts * (prior_weight / prior.weight)
        cumulated = np.cumsum(counts)
        if cumulated[-1] <= 0:
            return 0.0
        bucket = int(np.searchsorted(cumulated, share * cumulated[-1] * (1 - 1e-12)))
        return self.edge(min(bucket, len(counts) - 1))

    def edge(self, bucket: int) -> float:
        """The upper edge of a bucket; that of the first is 0 for values that are nothing."""
        return 0.0 if bucket == 0 else float(self.least * self.growth**bucket)

    @property
    def mean(self) -> float:
        """Mean of the values, 0 where there are none."""
        return self.total / self.weight if self.weight > 0 else 0.0

    @property
    def variance(self) -> float:
        """Variance of the values."""
        return max(0.0, self.squares / self.weight - self.mean**2) if self.weight > 0 else 0.0

    def _decay(self, now_s: float) -> float:
        return float(0.5 ** (max(0.0, now_s - self.at_s) / self.half_life_s)) if self.weight else 1.0

    def _bucket(self, value: float) -> int:
        if value <= self.least:
            return 0
        return min(len(self.counts) - 1, int(log(value / self.least) / log(self.growth)) + 1)
