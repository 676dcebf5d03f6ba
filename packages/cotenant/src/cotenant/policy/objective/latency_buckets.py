"""Logarithmic latency buckets: quantiles within 1 % from counts that can be added.

A p99 of many replicas over many windows needs a summary that merges, costs nanoseconds to update and has a known error.
Bucket i covers (LOWEST g^(i-1), LOWEST g^i] with g = (1 + a) / (1 - a) and a = 1 %; a quantile is answered with 2 g^i /
(g + 1) times LOWEST, which is at most a away from any value of its bucket (Masson et al., DDSketch, VLDB 2019, section
2.1). From 1 us to 4,000 s that is 1,107 buckets; merging is addition.
Limits: below 1 us and above 4,000 s values are counted in the first and the last bucket; the minimum and the maximum
are not kept.
"""

from __future__ import annotations

from math import log

import numpy as np
from numpy.typing import NDArray

from cotenant.model.compiled import njit

ACCURACY = 0.01
LOWEST_NS = 1e3
HIGHEST_NS = 4e12
GROWTH = (1.0 + ACCURACY) / (1.0 - ACCURACY)
_PER_LOG = 1.0 / log(GROWTH)
BUCKETS = int(log(HIGHEST_NS / LOWEST_NS) * _PER_LOG) + 2


@njit
def bucket_of(duration_ns: int) -> int:
    """The bucket that counts a duration."""
    ratio = duration_ns / LOWEST_NS
    if ratio <= 1.0:
        return 0
    found = int(np.ceil(np.log(ratio) * _PER_LOG))
    return min(found, BUCKETS - 1)


def edge_ns(bucket: int) -> float:
    """The lower edge of a bucket."""
    return LOWEST_NS * GROWTH ** (bucket - 1)


def quantile_ns(counts: NDArray[np.integer], share: float) -> float:
    """The duration below which this share of the counted requests lies; NaN where nothing was counted. `share`: 0
    to 1.
    """
    summed = np.cumsum(counts)
    if not summed[-1]:
        return float("nan")
    found = int(np.searchsorted(summed, max(1.0, np.ceil(share * summed[-1]))))
    return float(2.0 * GROWTH**found / (GROWTH + 1.0) * LOWEST_NS)


def share_above(counts: NDArray[np.integer], duration_ns: int) -> float:
    """The share of requests that took longer, within the width of one bucket; NaN where nothing was counted."""
    total = int(counts.sum())
    return float(counts[bucket_of(duration_ns) + 1 :].sum() / total) if total else float("nan")
