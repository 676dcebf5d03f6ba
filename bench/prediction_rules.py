"""The rules that `bench.prediction` compares: each says at an origin what use will stay below for some hours.

All see steps of 300 s up to the origin. `Quantiles` is ours (`cotenant.policy.prediction`), `LastPeak` the highest use
of a window times a factor, `Sigmas` mean and N standard deviations of a window (with a share above 0 the larger of that
and a percentile, as Borg's predictor in Bashir et al., "Take it to the limit", EuroSys 2021), `HoltWinters` the
additive method on hourly peaks with a day's season, and N of its one-step errors above the highest course, `Vpa` a
percentile of samples whose weight halves every day, and a margin, `Manager` the policy `peak` as the manager runs it,
with its own risk for the time to the next measurement.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from cotenant.model.arrays import Float
from cotenant.model.cluster.qos import PriorityClass
from cotenant.policy.overcommit.batch import BATCH_CPU
from cotenant.policy.overcommit.peak import (
    MeasuredPodUse,
    PeakSettings,
    calibrated,
    new_history,
    new_pool,
    observe,
    peak_amount,
)
from cotenant.policy.prediction.forecast import ForecastSettings, bounds, hour_seen, new_forecast, tables
from cotenant.policy.prediction.reserve import ReserveSettings

STEP_S, STEPS = 300.0, 12  # of an hour
CAPACITY = 1_000_000
_LEAST, _GROWTH, _BINS = 0.01, 1.05, 100  # of VPA's buckets, in shares of the capacity


class Series(NamedTuple):
    """`use`: `[series, steps]` in shares of the capacity, whole hours, NaN = not measured."""

    use: Float

    @property
    def hours(self) -> int:
        """Whole hours."""
        return self.use.shape[1] // STEPS

    def peaks(self) -> Float:
        """`[series, hours]`: the highest of each hour."""
        return highest(self.use[:, : self.hours * STEPS].reshape(len(self.use), -1, STEPS), 2)


class Rule(Protocol):
    """Something to be compared."""

    @property
    def name(self) -> str:
        """As a table shows it."""

    @property
    def setting(self) -> str:
        """What it was set to."""

    def below(self, series: Series, first_hour: int, every: int, horizon_h: int) -> Iterator[tuple[int, Float]]:
        """At every so many steps from this hour on: the step, and `[series]` what the steps of the horizon after it
        stay below; NaN = nothing is known.
        """


def highest(values: Float, axis: int) -> Float:
    """The highest known value, NaN where none is."""
    found = np.max(np.where(np.isnan(values), -np.inf, values), axis=axis)
    return np.where(np.isinf(found), np.nan, found)


def origins(series: Series, first_hour: int, every: int) -> Iterator[int]:
    """The steps after which something is said."""
    yield from range(first_hour * STEPS - 1, series.hours * STEPS, every)


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Ours. `finite_sample`: by the quantile of one error more."""

    risk: float = 0.01
    finite_sample: bool = False

    @property
    def name(self) -> str:
        """Which of the two."""
        return "finite sample (ours)" if self.finite_sample else "hour-of-week quantiles (ours)"

    @property
    def setting(self) -> str:
        """The stated risk."""
        return f"risk {100 * self.risk:g} %"

    def below(self, series: Series, first_hour: int, every: int, horizon_h: int) -> Iterator[tuple[int, Float]]:
        """See `Rule`."""
        reserve = ReserveSettings(finite_sample=self.finite_sample)
        settings = ForecastSettings(horizons_h=(horizon_h,), risks=(self.risk,), reserve=reserve)
        forecast = new_forecast(np.zeros(len(series.use), np.int64), settings)
        peaks, wanted = series.peaks(), iter(origins(series, first_hour, every))
        at = next(wanted, None)
        for hour in range(series.hours):
            forecast = hour_seen(forecast, peaks[:, hour], series.use[:, (hour + 1) * STEPS - 1])
            ready = tables(forecast, 0)
            while at is not None and at < (hour + 2) * STEPS - 1:
                since = (at + 1) / STEPS - (hour + 1)
                yield at, bounds(ready, since, series.use[:, at])[:, 0]
                at = next(wanted, None)


@dataclass(frozen=True, slots=True)
class LastPeak:
    """The highest use of the last hours, times a factor."""

    window_h: int = 24
    factor: float = 1.0
    name: str = "last peak"

    @property
    def setting(self) -> str:
        """Window and factor."""
        return f"{self.window_h} h x {self.factor:g}"

    def below(self, series: Series, first_hour: int, every: int, horizon_h: int) -> Iterator[tuple[int, Float]]:
        """See `Rule`."""
        for at in origins(series, first_hour, every):
            window = series.use[:, max(0, at + 1 - self.window_h * STEPS) : at + 1]
            yield at, self.factor * highest(window, 1)


@dataclass(frozen=True, slots=True)
class Sigmas:
    """Mean and N standard deviations of a window, or a percentile of it where that is larger."""

    sigmas: float = 5.0
    window_h: int = 24
    share: float = 0.0

    @property
    def name(self) -> str:
        """Borg's with a percentile."""
        return "Borg's peak predictor" if self.share else "N-sigma"

    @property
    def setting(self) -> str:
        """Sigmas, window, percentile."""
        percentile = f", p{100 * self.share:g}" if self.share else ""
        return f"{self.sigmas:g} sigma of {self.window_h} h{percentile}"

    def below(self, series: Series, first_hour: int, every: int, horizon_h: int) -> Iterator[tuple[int, Float]]:
        """See `Rule`."""
        for at in origins(series, first_hour, every):
            window = series.use[:, max(0, at + 1 - self.window_h * STEPS) : at + 1]
            known = ~np.isnan(window)
            count = np.maximum(known.sum(axis=1), 1)
            mean = np.where(known, window, 0.0).sum(axis=1) / count
            spread = np.sqrt(np.where(known, np.square(window - mean[:, None]), 0.0).sum(axis=1) / count)
            found = mean + self.sigmas * spread
            if self.share:
                low_first = np.sort(np.where(known, window, -np.inf), axis=1)
                last = window.shape[1] - np.ceil((1 - self.share) * count).astype(np.int64) - 1
                found = np.maximum(found, low_first[np.arange(len(window)), np.maximum(last, 0)])
            yield at, np.where(known.any(axis=1), found, np.nan)


@dataclass(frozen=True, slots=True)
class HoltWinters:
    """Level, trend and a day's season of hourly peaks, by exponential smoothing."""

    sigmas: float = 2.5
    alpha: float = 0.3
    beta: float = 0.0
    gamma: float = 0.2
    name: str = "Holt-Winters"

    @property
    def setting(self) -> str:
        """Sigmas and weights."""
        return f"{self.sigmas:g} sigma, {self.alpha:g}/{self.beta:g}/{self.gamma:g}"

    def below(self, series: Series, first_hour: int, every: int, horizon_h: int) -> Iterator[tuple[int, Float]]:
        """See `Rule`."""
        peaks, wanted = series.peaks(), iter(origins(series, first_hour, every))
        level, trend = np.full(len(peaks), np.nan), np.zeros(len(peaks))
        season, variance = np.zeros((len(peaks), 24)), np.zeros(len(peaks))
        at = next(wanted, None)
        for hour in range(series.hours):
            slot, y = hour % 24, peaks[:, hour]
            begins, known = np.isnan(level), ~np.isnan(y)
            expected = np.where(begins, y, level + trend + season[:, slot])
            off = np.where(known, y - expected, 0.0)
            variance += np.where(known, 0.02 * (off * off - variance), 0.0)
            new = np.where(begins, y, level + trend + self.alpha * off)
            trend = np.where(begins, 0.0, trend + self.alpha * self.beta * off)
            season[:, slot] += self.gamma * (1 - self.alpha) * off
            level = new
            hours = [level + (ahead + 1) * trend + season[:, (hour + 1 + ahead) % 24] for ahead in range(horizon_h + 1)]
            early, late = np.max(hours[:-1], axis=0), np.max(hours, axis=0)
            while at is not None and at < (hour + 2) * STEPS - 1:
                course = early if (at + 1) % STEPS == 0 else late
                yield at, course + self.sigmas * np.sqrt(variance)
                at = next(wanted, None)


@dataclass(frozen=True, slots=True)
class Vpa:
    """A percentile of decaying samples, and a margin."""

    share: float = 0.90
    margin: float = 0.15
    half_life_h: float = 24.0
    name: str = "VPA's histogram"

    @property
    def setting(self) -> str:
        """Percentile and margin."""
        return f"p{100 * self.share:g} + {100 * self.margin:g} %"

    def below(self, series: Series, first_hour: int, every: int, horizon_h: int) -> Iterator[tuple[int, Float]]:
        """See `Rule`."""
        counts, rows = np.zeros((len(series.use), _BINS)), np.arange(len(series.use))
        wanted, keep = set(origins(series, first_hour, every)), 0.5 ** (1 / (STEPS * self.half_life_h))
        edges = _LEAST * _GROWTH ** np.arange(_BINS)
        for at in range(series.hours * STEPS):
            now = series.use[:, at]
            known = ~np.isnan(now)
            counts *= keep
            into = np.minimum(np.searchsorted(edges, np.where(known, now, 0.0)), _BINS - 1)
            counts[rows[known], into[known]] += 1.0
            if at in wanted:
                whole = np.cumsum(counts, axis=1)
                reached = (whole < self.share * whole[:, -1:] * (1 - 1e-12)).sum(axis=1)
                found = (1 + self.margin) * edges[np.minimum(reached, _BINS - 1)]
                yield at, np.where(whole[:, -1] > 0, found, np.nan)


@dataclass(frozen=True, slots=True)
class Manager:
    """What `cpuCalculatePolicy: peak` lends, taken as what it expects use to stay below."""

    risk: float = 0.01
    name: str = "`peak` of the manager"

    @property
    def setting(self) -> str:
        """Its own risk."""
        return f"risk {100 * self.risk:g} %"

    def below(self, series: Series, first_hour: int, every: int, horizon_h: int) -> Iterator[tuple[int, Float]]:
        """See `Rule`."""
        settings = replace(PeakSettings(), risk=self.risk)
        pool = new_pool(settings, float(STEPS))
        histories = [new_history(settings) for _ in series.use]
        wanted = set(origins(series, first_hour, every))
        lent = [0] * len(series.use)
        broken = [False] * len(series.use)
        for at in range(series.hours * STEPS):
            below = np.full(len(series.use), np.nan)
            for row, share in enumerate(series.use[:, at]):
                if np.isnan(share):
                    continue
                use = int(share * CAPACITY)
                broken[row] |= use + lent[row] > CAPACITY
                pods = {"all": MeasuredPodUse(PriorityClass.PROD, CAPACITY, use)}
                histories[row], pool = observe(histories[row], pool, pods, CAPACITY, settings, at * STEP_S)
                lent[row] = peak_amount(BATCH_CPU, histories[row], pool, pods, CAPACITY, 0, settings).value
                below[row] = 1.0 - lent[row] / CAPACITY
            if at % STEPS == STEPS - 1:
                pool = calibrated(pool, sum(broken), len(broken), settings)
                broken = [False] * len(broken)
            if at in wanted:
                yield at, below
