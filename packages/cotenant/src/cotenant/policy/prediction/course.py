"""The usual course of a week, by series: a level, a day's shape, and what is left to each hour of the week.

    course(t) = level + day(hour of the day) + week(hour of the week)

The level is the mean of the last 24 hours, so both shapes are about it. A day's shape is the decayed mean of what hours
were above the level, shrunk toward that of the series of the same kind; an hour of the week has one visit in seven
days, so it is shrunk toward the day. Both are believed as far as they have told the hours that came: by the slope of
what hours were above the level over what the shapes had said, of the series' own and its kind's. A level that jumps is
noticed: where `shift_hours` hours in a row are far off the course to the same side, the 24 hours behind it are moved by
what they are off, and nothing is taught to the shapes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cotenant.model.arrays import Float, Int
from cotenant.model.errors import InvalidInput

DAY, WEEK = 24, 168
_LEAST_MISS = 0.005  # of a series' size
_MISS_STEP = 0.03


@dataclass(frozen=True, slots=True)
class CourseSettings:
    """Weights of the past; counts are of visits of an hour."""

    day_keep: float = 0.9  # of a day's visits at the next one
    week_keep: float = 0.8
    day_prior: float = 3.0  # visits that the kind's shape of a day counts as
    week_prior: float = 2.0  # visits that "like every day" counts as
    trust_keep: float = 0.5 ** (1 / 336)  # of an older hour in how far shapes are believed
    trust_prior: float = 48.0  # hours of the kind in that of a series
    shift_hours: int = 3
    shift_spreads: float = 4.0  # of the usual miss, in every one of these hours

    def __post_init__(self) -> None:
        if not (0 < self.day_keep <= 1 and 0 < self.week_keep <= 1):
            raise InvalidInput("course settings", f"{self.day_keep}, {self.week_keep}", "above 0, at most 1")
        if self.shift_hours < 1 or min(self.day_prior, self.week_prior) <= 0:
            raise InvalidInput("course settings", self.shift_hours, "hours of at least 1, and priors above 0")


@dataclass(frozen=True, slots=True)
class Course:
    """What is learned of S series of K kinds. Arrays are not changed after construction."""

    kinds: Int  # [S]
    trail: Float  # [S, 24]; the last hours, the newest last; NaN = not measured
    day: Float  # [S, 24, 2]: decayed sum above the level, and visits
    week: Float  # [S, 168, 2]: the same, above level + day
    kind_day: Float  # [K, 24, 2]
    kind_week: Float  # [K, 168, 2]
    kind_prior_day: Float  # [K, 24, 2]: what other clusters learned of the kind, as visits; 0 = nothing
    kind_prior_week: Float  # [K, 168, 2]
    kind_prior_told: Float  # [K, 3]
    told: Float  # [S, 2]: decayed sums of said x came and said x said, above the level
    kind_told: Float  # [K, 3]: the same of all its series, and their hours
    miss: Float  # [S]: decayed mean of how far an hour was off its course; NaN = none was predicted
    run: Int  # [S]: hours in a row that were far above (positive) or below the course
    run_sum: Float  # [S]: what they were off
    shifts: Int  # [S]: how often the level was moved


def new_course(kinds: Int) -> Course:
    """Nothing learned."""
    series, groups = len(kinds), int(kinds.max(initial=-1)) + 1
    return Course(
        kinds,
        np.full((series, DAY), np.nan),
        np.zeros((series, DAY, 2)),
        np.zeros((series, WEEK, 2)),
        np.zeros((groups, DAY, 2)),
        np.zeros((groups, WEEK, 2)),
        np.zeros((groups, DAY, 2)),
        np.zeros((groups, WEEK, 2)),
        np.zeros((groups, 3)),
        np.zeros((series, 2)),
        np.zeros((groups, 3)),
        np.full(series, np.nan),
        np.zeros(series, np.int64),
        np.zeros(series),
        np.zeros(series, np.int64),
    )


def level(course: Course, hour: int, settings: CourseSettings) -> Float:
    """`[S]`: mean of the 24 hours before this one; NaN where none is known. Where some are not known, as of a series
    that has just begun, the others are taken for as high as they stand in the shape of a day: a night is below a mean.
    """
    known = ~np.isnan(course.trail)
    count = known.sum(axis=1)
    total = np.where(known, course.trail, 0.0).sum(axis=1)
    found = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    some = np.flatnonzero((count > 0) & (count < DAY))
    if len(some):
        day = trust(course, settings)[some, None] * _by_day(course, some, settings)
        day = day[:, (hour + np.arange(DAY)) % DAY]  # as the trail has the hours
        standing = np.where(known[some], day, 0.0).sum(axis=1) / count[some]
        found[some] -= standing - day.mean(axis=1)
    return found


def shape(course: Course, hour: int, settings: CourseSettings) -> Float:
    """`[S]`: what this hour (since 1970) is expected to be above the level."""
    return trust(course, settings) * _said(course, hour, settings)


def trust(course: Course, settings: CourseSettings) -> Float:
    """`[S]`: how far the shapes are believed, 0 to 1."""
    of_kind = (course.kind_told + course.kind_prior_told)[course.kinds]
    prior = settings.trust_prior / np.maximum(of_kind[:, 2], 1e-9)
    along = course.told[:, 0] + prior * of_kind[:, 0]
    across = course.told[:, 1] + prior * of_kind[:, 1]
    return np.where(across > 1e-12, np.clip(along / np.maximum(across, 1e-12), 0.0, 1.0), 1.0)


def _said(course: Course, hour: int, settings: CourseSettings) -> Float:
    """What the shapes say of this hour, believed in full."""
    day, week = hour % DAY, hour % WEEK
    by_day = _by_day(course, slice(None), settings, slice(day, day + 1))[:, 0]
    rest = course.week[:, week]
    rest_of_kind = _with_prior(course.kind_week[:, week], course.kind_prior_week[:, week], settings.week_keep)
    # a kind has many series: half of its hour of the week is believed for each
    kind_rest = (rest_of_kind[:, 0] / (rest_of_kind[:, 1] + settings.week_prior))[course.kinds]
    return by_day + (rest[:, 0] + settings.week_prior * kind_rest) / (rest[:, 1] + 2 * settings.week_prior)


def _alone(course: Course) -> Course:
    """Without what others learned, so that what is taught is of here."""
    return replace(
        course,
        kind_prior_day=np.zeros_like(course.kind_prior_day),
        kind_prior_told=np.zeros_like(course.kind_prior_told),
    )


def _by_day(course: Course, rows: Int | slice, settings: CourseSettings, hours: slice = slice(None)) -> Float:
    """`[rows, hours]`: the shape of a day, of the series' own and its kind's."""
    of_kind = _with_prior(course.kind_day[:, hours], course.kind_prior_day[:, hours], settings.day_keep)
    kinds = course.kinds[rows]
    kind_mean = (of_kind[..., 0] / np.maximum(of_kind[..., 1], 1e-9))[kinds]
    prior = np.where(of_kind[..., 1][kinds] > 0, settings.day_prior, 0.0)
    own = course.day[rows, hours]
    found: Float = (own[..., 0] + prior * kind_mean) / np.maximum(own[..., 1] + prior, 1e-9)
    return found


def _with_prior(cells: Float, prior: Float, keep: float) -> Float:
    """A kind's own visits of an hour with those of others, which fade as if they had been the first ones."""
    faded: Float = cells + np.clip(1.0 - (1.0 - keep) * cells[..., 1:], 0.0, 1.0) * prior
    return faded


def seen(course: Course, hour: int, use: Float, settings: CourseSettings) -> Course:
    """After one more hour; NaN = not measured."""
    day, week = hour % DAY, hour % WEEK
    mean, said = level(course, hour, settings), _said(course, hour, settings)
    usual = trust(course, settings) * said
    known = ~np.isnan(use)
    judged = known & ~np.isnan(mean)
    off = np.where(judged, use - mean - usual, 0.0)
    miss = np.where(judged, np.where(np.isnan(course.miss), np.abs(off), course.miss), course.miss)
    usual_miss = np.maximum(np.where(np.isnan(miss), 0.0, miss), _LEAST_MISS)
    far = judged & (np.abs(off) > settings.shift_spreads * usual_miss) & ~np.isnan(course.miss)
    side = np.where(off > 0, 1, -1)
    goes_on = far & (np.sign(course.run) == side)
    run = np.where(far, np.where(goes_on, course.run + side, side), np.where(judged, 0, course.run))
    run_sum = np.where(far, np.where(goes_on, course.run_sum + off, off), np.where(judged, 0.0, course.run_sum))
    shifted = np.abs(run) >= settings.shift_hours
    trail = np.concatenate([course.trail[:, 1:], use[:, None]], axis=1)
    moved = np.where(shifted, run_sum / np.maximum(np.abs(run), 1), 0.0)
    trail[:, : DAY - settings.shift_hours] += moved[:, None]
    # what is far off counts in part: a series that has become restless must not look shifted for ever
    counted = np.minimum(np.abs(off), settings.shift_spreads * usual_miss)
    miss = np.where(judged, (1 - _MISS_STEP) * miss + _MISS_STEP * counted, miss)
    taught = judged & ~far
    came = np.where(taught & ~np.isnan(mean), use - mean, 0.0)
    said = np.where(taught & ~np.isnan(mean), said, 0.0)
    told = np.stack([said * came, said * said], axis=1)
    kind_told = settings.trust_keep * course.kind_told
    np.add.at(kind_told, course.kinds, np.column_stack([told, taught]))
    after = replace(
        course,
        told=settings.trust_keep * course.told + told,
        kind_told=kind_told,
        trail=trail,
        miss=miss,
        run=np.where(shifted, 0, run),
        run_sum=np.where(shifted, 0.0, run_sum),
        shifts=course.shifts + shifted,
    )
    own = mean if not course.kind_prior_day.any() else level(_alone(course), hour, settings)
    return _taught(after, day, week, np.where(taught, use - own, np.nan), settings)


def _taught(course: Course, day: int, week: int, above: Float, settings: CourseSettings) -> Course:
    known = ~np.isnan(above)
    by_day, by_week = course.day.copy(), course.week.copy()
    usual = np.where(by_day[:, day, 1] > 0, by_day[:, day, 0] / np.maximum(by_day[:, day, 1], 1e-9), above)
    rest = np.where(known, above - usual, 0.0)
    _add(by_day[:, day], known, np.where(known, above, 0.0), settings.day_keep)
    _add(by_week[:, week], known, rest, settings.week_keep)
    kind_day, kind_week = course.kind_day.copy(), course.kind_week.copy()
    groups = len(kind_day)
    count = np.bincount(course.kinds, known.astype(float), groups)
    has = count > 0
    for table, at, values, keep in (
        (kind_day, day, np.where(known, above, 0.0), settings.day_keep),
        (kind_week, week, rest, settings.week_keep),
    ):
        mean = np.bincount(course.kinds, values, groups) / np.maximum(count, 1)
        _add(table[:, at], has, mean, keep)
    return replace(course, day=by_day, week=by_week, kind_day=kind_day, kind_week=kind_week)


def _add(cells: Float, known: np.ndarray, values: Float, keep: float) -> None:
    """Into a view of cells: decayed sums and visits."""
    cells[known] = keep * cells[known]
    cells[known, 0] += values[known]
    cells[known, 1] += 1.0
