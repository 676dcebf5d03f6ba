"""Our predictor of use over the next hours: the day's usual course, the recent level, and the errors that such
forecasts had before.

    course(h) = mean + season x (profile at h - mean) + recent x (mean of the last day - mean)
    below(h)  = course(h) + factor x z x spread x shape(h)

The profile is the mean of past days at that time of day, smoothed. `z` is a quantile of the errors of the same forecast
made at earlier times of the history (every `every_s`, each for as long as the horizon), in units of the series' own
spread; it mixes the series' own quantile with that of all series, because one series has too few errors for a quantile
at 1 %. The shape lets errors be larger at times of day at which they were larger. Errors within the history that a
spread was measured by are smaller than those that follow: so the reserve itself is tried at earlier times, and widened
by one factor for all series where it would not have kept the risk. The stated risk is kept by what was measured, not by
a law of distribution (split conformal prediction over time).
Limits: no weekday, so the first Saturday is a surprise; less than a day of history has no course. Source: Stankeviciute
et al., "Conformal time-series forecasting", NeurIPS 2021, for intervals by earlier errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cotenant.model.arrays import Float
from cotenant.model.assess.history import Float32
from cotenant.model.errors import InvalidInput
from cotenant.policy.assess.predictor import Past
from cotenant.policy.assess.rows import blocks, deviations, means, quantiles

_LEAST_SPREAD = 1e-3  # of a series' mean: a constant series is not certain
_SHAPE_SMOOTHING_S = 3 * 3600.0
_BINS, _MAX_Z = 8192, 40.0  # of the pooled errors, from -_MAX_Z to _MAX_Z spreads


@dataclass(frozen=True, slots=True)
class DayProfileSettings:
    """Weights, all 0 to 1."""

    season: float = 0.8
    recent: float = 0.75
    pooled: float = 0.5  # of all series' quantile against the series' own
    shape: float = 0.5  # exponent of the errors' size by time of day
    smoothing_s: float = 7500.0
    every_s: float = 6 * 3600.0
    max_days: int = 14
    max_tries: int = 8  # of reserves at earlier times
    doubt_days: float = 3.0  # days of such trials at which they count half

    def __post_init__(self) -> None:
        for name in ("season", "recent", "pooled", "shape"):
            if not 0 <= getattr(self, name) <= 1:
                raise InvalidInput(f"day profile {name}", getattr(self, name), "0 to 1")
        if self.every_s <= 0 or self.max_days < 1:
            raise InvalidInput("day profile every_s", self.every_s, "a time above 0, and at least a day")


@dataclass(frozen=True, slots=True)
class DayProfile:
    """See above."""

    settings: DayProfileSettings = field(default_factory=DayProfileSettings)
    name: str = "day profile (ours)"

    def below(self, past: Past, horizon: int, risk: float) -> Float32:
        """See `Predictor`."""
        return next(iter(self.below_each(past, (past.use.shape[1],), horizon, risk)))

    def below_each(self, past: Past, origins: Sequence[int], horizon: int, risk: float) -> Iterator[Float32]:
        """See `Predictor`. An earlier forecast's errors are the same whenever they are looked at, so courses are kept
        from one origin to the next.
        """
        courses: dict[int, Float32] = {}
        reserves: dict[int, Float32] = {}
        for origin in origins:
            starts = self._starts(origin, past, horizon)
            if not starts or not len(past.use):
                yield np.full((len(past.use), horizon), np.nan, np.float32)
                continue
            tried = self._tried(starts, horizon)
            for at in (*tried, origin):
                for start in (*self._starts(at, past, horizon), at):
                    if start not in courses:
                        courses[start] = self.course(past.until(start), horizon)
                if at not in reserves:
                    reserves[at] = self._reserve(past.until(at), courses, horizon, risk)
            factor = self._factor(past.until(origin), tried, courses, reserves, risk)
            yield np.maximum(courses[origin] + np.float32(factor) * reserves[origin], np.float32(0.0))

    def _tried(self, starts: Sequence[int], horizon: int) -> list[int]:
        """Earlier columns at which the reserve is tried too: those that had errors of half a horizon by then."""
        ripe = [start for start in starts if start - starts[0] >= horizon // 2]
        return ripe[::-2][: self.settings.max_tries]

    def _factor(
        self,
        past: Past,
        tried: Sequence[int],
        courses: Mapping[int, Float32],
        reserves: Mapping[int, Float32],
        risk: float,
    ) -> float:
        """What the reserves would have had to be multiplied by to keep the risk, had they been in force before. Errors
        that a spread was measured by are smaller than those that come after.
        """
        pooled = np.zeros(_BINS)
        days: set[int] = set()
        for at in tried:
            real = past.use[:, at : at + courses[at].shape[1]]
            width = real.shape[1]
            days |= set(range(at // past.steps_a_day, (at + width) // past.steps_a_day + 1))
            with np.errstate(divide="ignore", invalid="ignore"):
                pooled += _histogram((real - courses[at][:, :width]) / reserves[at][:, :width])
        if not pooled.sum():
            return 1.0
        weight = len(days) / (len(days) + self.settings.doubt_days)
        return float(np.clip(1.0 + weight * (_quantile(pooled, 1.0 - risk) - 1.0), 1.0, 3.0))

    def course(self, past: Past, horizon: int) -> Float32:
        """What use is expected to be, without any reserve."""
        found = np.empty((len(past.use), horizon), np.float32)
        for block in blocks(*past.use.shape):
            found[block] = self._course(past.use[block], horizon, past.steps_a_day, past.step_s)
        return found

    def _starts(self, steps: int, past: Past, horizon: int) -> list[int]:
        """Columns at which earlier forecasts are made: after two days of history where there are four, else after
        half of it; the last has a quarter of the horizon still ahead.
        """
        every = max(1, round(self.settings.every_s / past.step_s))
        half = steps // 2
        first = max(1, min(2 * past.steps_a_day, half // every * every or half))
        last = steps - max(1, min(horizon, steps - first) // 4)
        return list(range(first, last + 1, every))

    def _reserve(self, past: Past, courses: Mapping[int, Float32], horizon: int, risk: float) -> Float32:
        """What stands above the course, by the errors of earlier courses."""
        series, steps = past.use.shape
        day = past.steps_a_day
        own_z, spread = np.empty(series), np.empty(series)
        shapes = np.ones((series, day), np.float32)
        pooled = np.zeros(_BINS)
        widths = {start: min(horizon, steps - start) for start in self._starts(steps, past, horizon)}
        phase = np.concatenate([(start + np.arange(width)) % day for start, width in widths.items()])
        for block in blocks(series, len(phase)):
            errors = np.concatenate(
                [
                    past.use[block, start : start + width] - courses[start][block, :width]
                    for start, width in widths.items()
                ],
                axis=1,
            )
            spread[block] = np.fmax(deviations(errors), _LEAST_SPREAD * means(past.use[block]))
            if self.settings.shape:
                shapes[block] = self._shapes(errors, widths, day, past.step_s)
            errors /= shapes[block][:, phase]
            moving = np.where(spread[block] > 0, spread[block], np.nan)  # what was always 0 teaches the others nothing
            errors /= moving[:, None].astype(np.float32)
            own_z[block] = quantiles(errors, 1.0 - risk)
            pooled += _histogram(errors)
        z_of_all = _quantile(pooled, 1.0 - risk)
        weight = self.settings.pooled
        z_used = np.where(np.isnan(own_z), z_of_all, weight * z_of_all + (1 - weight) * own_z)
        at = (steps + np.arange(horizon)) % day
        return (z_used * spread).astype(np.float32)[:, None] * shapes[:, at]

    def _course(self, use: Float32, horizon: int, day: int, step_s: float) -> Float32:
        steps = use.shape[1]
        centre = means(use)
        recent = means(use[:, -day:])
        level = np.where(np.isnan(recent), centre, centre + self.settings.recent * (recent - centre))
        if steps < day:
            return np.repeat(level.astype(np.float32)[:, None], horizon, axis=1)
        days = min(self.settings.max_days, steps // day)
        profile = _by_time_of_day(use[:, steps - days * day :], days, day)  # column 0 = the time of the next step
        profile = np.where(np.isnan(profile), centre[:, None].astype(np.float32), profile)
        profile = _smoothed(profile, round(self.settings.smoothing_s / step_s))
        profile -= profile.mean(axis=1, keepdims=True)
        course = level[:, None] + self.settings.season * profile[:, np.arange(horizon) % day]
        return course.astype(np.float32)

    def _shapes(self, errors: Float32, widths: Mapping[int, int], day: int, step_s: float) -> Float32:
        """Relative size of errors by time of day, with mean about 1."""
        size = np.abs(errors)
        known = ~np.isnan(size)
        size[~known] = 0.0
        total, count = np.zeros((len(errors), day), np.float32), np.zeros((len(errors), day), np.float32)
        column = 0
        for start, width in widths.items():
            for begin, part in _parts_of_days(start, width, day):
                into, of = slice(begin, begin + part), slice(column, column + part)
                total[:, into] += size[:, of]
                count[:, into] += known[:, of]
                column += part
        by_time = np.where(count > 0, total / np.maximum(count, 1), np.float32(np.nan))
        centre = means(by_time)
        centre = np.where(np.isnan(centre) | (centre <= 0), 1.0, centre).astype(np.float32)
        by_time = _smoothed(np.where(np.isnan(by_time), centre[:, None], by_time), round(_SHAPE_SMOOTHING_S / step_s))
        return np.maximum(by_time / centre[:, None], np.float32(0.05)) ** np.float32(self.settings.shape)


def _parts_of_days(start: int, width: int, day: int) -> Iterator[tuple[int, int]]:
    """Beginning within the day and width of the consecutive parts of these columns."""
    while width > 0:
        begin = start % day
        part = min(width, day - begin)
        yield begin, part
        start, width = start + part, width - part


def _by_time_of_day(use: Float32, days: int, day: int) -> Float32:
    folded = use.reshape(len(use), days, day)
    known = ~np.isnan(folded)
    count = known.sum(axis=1)
    total = np.where(known, folded, np.float32(0.0)).sum(axis=1, dtype=np.float32)
    return np.where(count > 0, total / np.maximum(count, 1), np.float32(np.nan)).astype(np.float32)


def _smoothed(values: Float32, width: int) -> Float32:
    """Circular moving mean over an odd number of columns."""
    reach = min(width // 2, (values.shape[1] - 1) // 2)
    if not reach:
        return values.astype(np.float32)
    around = np.concatenate([values[:, -reach:], values, values[:, :reach]], axis=1).astype(np.float64)
    sums = np.cumsum(np.concatenate([np.zeros((len(values), 1)), around], axis=1), axis=1)
    width = 2 * reach + 1
    return ((sums[:, width:] - sums[:, :-width]) / width).astype(np.float32)


def _histogram(z: Float32) -> Float:
    known = np.clip(z[~np.isnan(z)], -_MAX_Z, _MAX_Z)  # a reserve of nothing is missed by infinitely many of it
    bins = np.minimum(((known + _MAX_Z) * (_BINS / (2 * _MAX_Z))).astype(np.int64), _BINS - 1)
    return np.bincount(bins, minlength=_BINS).astype(np.float64)


def _quantile(counts: Float, share: float) -> float:
    cumulated = np.cumsum(counts)
    if cumulated[-1] <= 0:
        return 0.0
    at = int(np.searchsorted(cumulated, share * cumulated[-1]))
    return (at + 1) * (2 * _MAX_Z / _BINS) - _MAX_Z
