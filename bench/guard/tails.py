"""Tails over rounds, compared in pairs: quantiles of all rounds' requests together, resampled by rounds.

p99.9 of a block rests on a handful of requests, so a ratio within one round says little. The quantile of all rounds'
requests together, and the ratio of two arms with an interval by the bootstrap over rounds: both arms are resampled by
the same rounds, so what was common to a round stays common.
Limits: fewer than three rounds have no interval.

Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 13; resampling of whole rounds, since
requests of a block depend on one another.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

import numpy as np

from cotenant.model.arrays import Float, Int
from cotenant_lab.experiments.measures.histogram import Histogram, highest_of
from cotenant_lab.experiments.measures.statistics import IntervalEstimate

_RESAMPLES = 2000
_FEWEST = 3


def pooled_ratio(
    over: Sequence[Histogram], under: Sequence[Histogram], share: float, seed: int = 1
) -> IntervalEstimate:
    """The ratio of a quantile (`share`, 0..1) of all rounds' requests, with its interval; one histogram a round on
    either side. NaN without requests.
    """
    buckets = sorted({bucket for histogram in (*over, *under) for bucket in histogram.counts})
    if not buckets:
        return IntervalEstimate(nan, None, None)
    values = np.array([highest_of(bucket) for bucket in buckets], dtype=np.float64)
    above, below = _counts(over, buckets), _counts(under, buckets)
    once = np.ones((1, len(over)), dtype=np.int64)
    value = float(_ratios(above, below, once, values, share)[0])
    if len(over) < _FEWEST:
        return IntervalEstimate(value, None, None)
    drawn = np.random.default_rng(seed).multinomial(len(over), [1 / len(over)] * len(over), size=_RESAMPLES)
    resampled = np.sort(_ratios(above, below, drawn, values, share))
    return IntervalEstimate(
        value, float(resampled[int(0.025 * _RESAMPLES)]), float(resampled[int(0.975 * _RESAMPLES) - 1])
    )


def _counts(rounds: Sequence[Histogram], buckets: Sequence[int]) -> Int:
    return np.array([[histogram.counts.get(bucket, 0) for bucket in buckets] for histogram in rounds], dtype=np.int64)


def _ratios(above: Int, below: Int, times: Int, values: Float, share: float) -> Float:
    found: Float = _quantiles(above, times, values, share) / _quantiles(below, times, values, share)
    return found


def _quantiles(counts: Int, times: Int, values: Float, share: float) -> Float:
    """The quantile for each row of `times`, which says how often each round was drawn; NaN where nothing was."""
    seen = np.cumsum(times @ counts, axis=1)
    wanted = np.maximum(1, np.ceil(share * seen[:, -1]))
    found = values[np.minimum((seen < wanted[:, None]).sum(axis=1), len(values) - 1)]
    return np.where(seen[:, -1] > 0, found, nan)
