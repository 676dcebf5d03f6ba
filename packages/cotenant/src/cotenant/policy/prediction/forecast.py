"""Hours in, bounds of the next hours' use out: the course and a reserve for each horizon.

All amounts are shares of each series' size (a node's capacity, a workload's request), so series of a kind can learn
from one another. A bound holds for the highest use of the whole horizon, not for each moment of it.
Limits: hours are of UTC, so a local clock that is changed is a surprise of a day; horizons are those that are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from cotenant.model.arrays import Float, Int
from cotenant.policy.prediction.course import Course, CourseSettings, level, new_course, seen, shape
from cotenant.policy.prediction.reserve import (
    PredictedReserve,
    ReserveSettings,
    above,
    carry,
    judge,
    new_reserve,
    promised,
)

_MAX_UNKNOWN = 0.25  # share of a horizon's hours: with more, what came is not known


@dataclass(frozen=True, slots=True)
class ForecastSettings:
    """What is asked, and how it is learned."""

    horizons_h: tuple[int, ...] = (1, 4, 24)
    risks: tuple[float, ...] = (0.005, 0.01, 0.02, 0.05, 0.1)
    course: CourseSettings = field(default_factory=CourseSettings)
    reserve: ReserveSettings = field(default_factory=ReserveSettings)


@dataclass(frozen=True, slots=True)
class UseForecast:
    """What is learned up to the end of `hour` (hours since 1970)."""

    hour: int
    course: Course
    reserves: tuple[PredictedReserve, ...]  # one a horizon
    peaks: Float  # [S, longest horizon]: highest use by the hour, the newest last
    settings: ForecastSettings

    def at(self, hour: int) -> UseForecast:
        """The same, as if learned up to this hour: for a gap in which nothing was measured."""
        return replace(self, hour=hour)


def new_forecast(kinds: Sequence[int] | Int, settings: ForecastSettings, hour: int = -1) -> UseForecast:
    """Nothing learned. `kinds`: a number from 0 for each series."""
    own = np.asarray(kinds, np.int64)
    longest = max(settings.horizons_h)
    reserves = tuple(new_reserve(horizon, settings.risks, own) for horizon in settings.horizons_h)
    return UseForecast(hour, new_course(own), reserves, np.full((len(own), longest), np.nan), settings)


def hour_seen(forecast: UseForecast, peak: Float, last: Float) -> UseForecast:
    """After the next hour: `[S]` its highest and its last measured use; NaN = not measured."""
    hour, settings = forecast.hour + 1, forecast.settings
    peaks = np.concatenate([forecast.peaks[:, 1:], peak[:, None]], axis=1)
    course = seen(forecast.course, hour, peak, settings.course)
    after = replace(forecast, hour=hour, course=course, peaks=peaks)
    reserves = []
    for reserve in forecast.reserves:
        within = peaks[:, -reserve.horizon :]
        highest = np.where(np.isnan(within).mean(axis=1) > _MAX_UNKNOWN, np.nan, _highest(within))
        reserves.append(judge(reserve, highest, settings.reserve))
    after = replace(after, reserves=tuple(reserves))
    made = []
    for at, reserve in enumerate(after.reserves):
        ready = tables(after, at)
        made.append(promised(reserve, hour, ready.highest[:, 0], last - ready.here[:, 0], bounds(ready, 0.0, last)))
    return replace(after, reserves=tuple(made))


@dataclass(frozen=True, slots=True)
class Tables:
    """One horizon, ready to be asked in the hour after `UseForecast.hour`: at its beginning and at its end."""

    highest: Float  # [S, 2] course of the horizon
    here: Float  # [S, 2] course of the hour that has just gone
    carry: Float  # [S]
    stands: Float  # [S, 2, R]


def tables(forecast: UseForecast, at: int) -> Tables:
    """Of the horizon with this place in the settings."""
    course, settings, reserve = forecast.course, forecast.settings, forecast.reserves[at]
    first, mean = forecast.hour, level(course, forecast.hour + 1, settings.course)
    hours = [shape(course, first + ahead, settings.course) for ahead in range(reserve.horizon + 2)]
    return Tables(
        mean[:, None] + np.stack([np.max(hours[1:-1], axis=0), np.max(hours[2:], axis=0)], axis=1),
        mean[:, None] + np.stack(hours[:2], axis=1),
        carry(reserve, settings.reserve),
        np.stack([above(reserve, first + later, settings.reserve) for later in (0, 1)], axis=1),
    )


def bounds(ready: Tables, since_hour: float, use: Float, rows: Int | None = None) -> Float:
    """`[S, R]`: below which share use stays for the horizon, but for each stated risk; at least the present use.
    `since_hour`: share of the present hour that has gone; `use`: now, of these rows (default: all). NaN = too little is
    known.
    """
    of: Int | slice = slice(None) if rows is None else rows
    excess = use - _between(ready.here[of], since_hour)
    expected = _between(ready.highest[of], since_hour) + ready.carry[of] * excess
    bound = expected[:, None] + _between(ready.stands[of], since_hour)
    return np.maximum(bound, np.maximum(use, 0.0)[:, None])


def _highest(values: Float) -> Float:
    found = np.max(np.where(np.isnan(values), -np.inf, values), axis=1)
    return np.where(np.isinf(found), np.nan, found)


def _between(both: Float, share: float) -> Float:
    """`[S, ...]` of `[S, 2, ...]`."""
    return both[:, 0] if share <= 0 else (1.0 - share) * both[:, 0] + share * both[:, 1]
