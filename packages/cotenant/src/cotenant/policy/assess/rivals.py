"""Rules that people use or have published, as predictors: they get what ours gets.

Each has one knob, which a comparison may tune as ours is tuned. `requests`: what was asked for is what will be used,
as a scheduler by requests assumes. `last-day peak`: tomorrow is like today. `N-sigma`: mean and N standard deviations
of the window. `Borg's peak predictor`: the larger of N-sigma and a percentile. `VPA's histogram`: a percentile of
values whose weight halves every day, and a margin.
Limits: Borg's percentile is of each task, here of the series that is given (a node's total, where nodes are judged).
Sources: Bashir et al., "Take it to the limit", EuroSys 2021,
section 4; Kubernetes' vertical pod autoscaler, its recommender's defaults.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cotenant.model.arrays import Float
from cotenant.model.assess.history import Float32
from cotenant.policy.assess.predictor import DAY_S, OneByOne, Past, Predictor, flat
from cotenant.policy.assess.rows import blocks, deviations, means, quantiles


@dataclass(frozen=True, slots=True)
class Requests(OneByOne):
    """A share of the requests."""

    share: float = 1.0
    name: str = "requests"

    def below(self, past: Past, horizon: int, risk: float) -> Float32:
        """See `Predictor`."""
        return flat(self.share * past.requested, horizon)


@dataclass(frozen=True, slots=True)
class LastDayPeak(OneByOne):
    """The highest value of the last day, times a factor."""

    factor: float = 1.0
    name: str = "last-day peak"

    def below(self, past: Past, horizon: int, risk: float) -> Float32:
        """See `Predictor`."""
        return flat(self.factor * quantiles(_window(past, DAY_S), 1.0), horizon)


@dataclass(frozen=True, slots=True)
class NSigma(OneByOne):
    """Mean and so many standard deviations of the last `window_s`."""

    sigmas: float = 5.0
    window_s: float = DAY_S
    name: str = "N-sigma"

    def below(self, past: Past, horizon: int, risk: float) -> Float32:
        """See `Predictor`."""
        return flat(_n_sigma(past, self.sigmas, self.window_s), horizon)


@dataclass(frozen=True, slots=True)
class BorgPeak(OneByOne):
    """The larger of N-sigma and a percentile of the last `window_s`."""

    sigmas: float = 5.0
    share: float = 0.99
    window_s: float = DAY_S
    name: str = "Borg's peak predictor"

    def below(self, past: Past, horizon: int, risk: float) -> Float32:
        """See `Predictor`."""
        by_sigma = _n_sigma(past, self.sigmas, self.window_s)
        return flat(np.fmax(by_sigma, quantiles(_window(past, self.window_s), self.share)), horizon)


@dataclass(frozen=True, slots=True)
class VpaHistogram(OneByOne):
    """A percentile of decaying values, and a margin on it."""

    share: float = 0.90
    margin: float = 0.15
    half_life_s: float = DAY_S
    name: str = "VPA's histogram"

    def below(self, past: Past, horizon: int, risk: float) -> Float32:
        """See `Predictor`."""
        age_s = (past.use.shape[1] - 1 - np.arange(past.use.shape[1])) * past.step_s
        weights = 0.5 ** (age_s / self.half_life_s)
        return flat((1.0 + self.margin) * _decayed_percentile(past.use, weights, self.share), horizon)


_LEAST, _GROWTH, _BUCKETS = 10.0, 1.05, 420  # of VPA's buckets, in milli-CPU or MiB

RIVALS: tuple[Predictor, ...] = (Requests(), LastDayPeak(), NSigma(), BorgPeak(), VpaHistogram())


def _window(past: Past, window_s: float) -> Float32:
    return past.use[:, -max(1, round(window_s / past.step_s)) :]


def _n_sigma(past: Past, sigmas: float, window_s: float) -> Float:
    seen = _window(past, window_s)
    return means(seen) + sigmas * deviations(seen)


def _decayed_percentile(use: Float32, weights: Float, share: float) -> Float:
    """The upper edge of the bucket in which this share of each row's weight is reached; NaN where nothing is known."""
    found = np.full(len(use), np.nan)
    for block in blocks(*use.shape):
        values = use[block]
        known = ~np.isnan(values)
        over = np.log(np.where(known, np.maximum(values, _LEAST), _LEAST) / _LEAST) / np.log(_GROWTH)
        bucket = np.minimum(np.ceil(over).astype(np.int64), _BUCKETS - 1)
        at = np.arange(len(values))[:, None] * _BUCKETS + bucket
        weight = np.where(known, weights, 0.0)
        counts = np.bincount(at.ravel(), weight.ravel(), len(values) * _BUCKETS).reshape(-1, _BUCKETS)
        cumulated = np.cumsum(counts, axis=1)
        whole = cumulated[:, -1:]
        reached = np.minimum((cumulated < share * whole * (1 - 1e-12)).sum(axis=1), _BUCKETS - 1)
        found[block] = np.where(whole[:, 0] > 0, _LEAST * _GROWTH**reached, np.nan)
    return found
