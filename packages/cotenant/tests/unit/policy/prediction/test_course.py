"""The usual course of a week, by figures worked out by hand: level, shapes of day and week, how far they are believed,
and a level that jumps.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cotenant.model.errors import InvalidInput
from cotenant.policy.prediction.course import Course, CourseSettings, level, new_course, seen, shape, trust

SETTINGS = CourseSettings(day_keep=0.5, week_keep=0.25, day_prior=3.0, week_prior=2.0, trust_keep=0.5, trust_prior=20.0)
HOUR = 3 * 168 + 29  # the hour 5 of the second day of a week
DAY, WEEK = 5, 29


def course(*kinds: int) -> Course:
    return new_course(np.array(kinds or (0,), np.int64))


def steady(height: float, miss: float, series: int = 1) -> Course:
    """Series that had this level for a day, and missed their course by this much."""
    return replace(course(*[0] * series), trail=np.full((series, 24), height), miss=np.full(series, miss))


def test_a_level_is_the_mean_of_the_hours_that_were_measured() -> None:
    trail = np.full((4, 24), np.nan)
    trail[0, 20:] = (1.0, 2.0, np.nan, 6.0)
    trail[1:3, 0] = 4.0
    known = replace(course(0, 0, 1, 0), trail=trail)
    known.day[2, DAY] = (6.0, 3.0)
    found = level(known, HOUR, SETTINGS)
    assert (found[:2].tolist(), bool(np.isnan(found[3]))) == ([3.0, 4.0], True)
    assert found[2] == pytest.approx(4 - (2 - 2 / 24))  # all that is known is an hour that stands 2 above the others


def test_a_day_that_is_known_whole_is_its_mean_whatever_its_shape() -> None:
    known = steady(0.5, 0.1)
    known.day[0, DAY] = (6.0, 3.0)
    assert level(known, HOUR, SETTINGS).tolist() == [0.5]


def test_a_shape_is_of_the_day_and_what_the_week_adds() -> None:
    found = course(1, 1, 0)
    found.day[0, DAY], found.day[1, DAY + 1] = (6.0, 3.0), (99.0, 1.0)
    found.kind_day[1, DAY] = (8.0, 2.0)
    # own mean 2 of three visits and the kind's 4 of as many; a series without visits has its kind's
    assert shape(found, HOUR, SETTINGS) == pytest.approx([3.0, 4.0, 0.0])
    found.week[0, WEEK], found.kind_week[1, WEEK] = (2.0, 4.0), (3.0, 1.0)
    # the kind's rest 3 / (1 + 2); with it (2 + 2 x 1) / (4 + 2 x 2), and (0 + 2 x 1) / (0 + 2 x 2)
    assert shape(found, HOUR, SETTINGS) == pytest.approx([3.5, 4.5, 0.0])
    assert shape(found, HOUR + 168, SETTINGS) == pytest.approx([3.5, 4.5, 0.0])
    assert shape(found, HOUR + 24, SETTINGS) == pytest.approx([3.0, 4.0, 0.0])
    alone = course()
    alone.day[0, DAY] = (6.0, 3.0)
    assert shape(alone, HOUR, SETTINGS) == pytest.approx([2.0])  # a kind without visits shrinks nothing


def test_shapes_are_believed_as_far_as_they_have_told_what_came() -> None:
    found = course(0, 0, 0, 1)
    found.told[:3] = (3.0, 4.0), (0.0, 0.0), (-99.0, 4.0)
    found.kind_told[0] = (5.0, 10.0, 20.0)
    assert trust(found, SETTINGS) == pytest.approx([8 / 14, 0.5, 0.0, 1.0])
    assert trust(found, replace(SETTINGS, trust_prior=40.0)) == pytest.approx([13 / 24, 0.5, 0.0, 1.0])
    found.told[0] = (99.0, 4.0)
    assert trust(found, SETTINGS)[0] == 1.0
    found.day[1, DAY] = (6.0, 3.0)
    assert shape(found, HOUR, SETTINGS)[1] == pytest.approx(0.5 * 2.0)


def test_the_first_hour_is_a_level_and_the_second_begins_the_shapes() -> None:
    first = seen(course(0, 0), HOUR - 1, np.array([0.4, np.nan]), SETTINGS)
    assert (first.trail[0, -1], level(first, HOUR, SETTINGS)[0]) == (0.4, 0.4)
    assert np.isnan(first.miss).all()
    assert not first.day.any()
    assert not first.kind_told.any()
    second = seen(first, HOUR, np.array([0.6, 0.5]), SETTINGS)
    assert second.trail[0, -2:].tolist() == [0.4, 0.6]
    assert (second.miss[0], bool(np.isnan(second.miss[1]))) == (pytest.approx(0.2), True)
    assert second.day[0, DAY] == pytest.approx([0.2, 1.0])
    assert second.week[0, WEEK] == pytest.approx([0.0, 1.0])  # nothing beyond the day is known
    assert second.kind_day[0, DAY] == pytest.approx([0.2, 1.0])
    assert second.kind_told[0] == pytest.approx([0.0, 0.0, 1.0])
    assert not second.day[1].any()  # it had no level to be above
    assert second.run.tolist() == [0, 0]


def test_what_an_hour_was_above_the_level_is_taught_to_day_week_and_kind() -> None:
    found = replace(steady(0.4, 0.5, 3), kinds=np.array([0, 0, 0]))
    found.day[:, DAY], found.week[:, WEEK] = (0.3, 1.0), (0.1, 2.0)
    found.kind_day[0, DAY], found.kind_week[0, WEEK] = (0.2, 1.0), (0.4, 2.0)
    after = seen(found, HOUR, np.array([0.8, 0.6, np.nan]), SETTINGS)
    assert after.day[:, DAY].tolist() == pytest.approx(np.array([[0.15 + 0.4, 1.5], [0.15 + 0.2, 1.5], [0.3, 1.0]]))
    # beyond the day's usual 0.3: 0.1 and -0.1
    assert after.week[:, WEEK].tolist() == pytest.approx(np.array([[0.025 + 0.1, 1.5], [0.025 - 0.1, 1.5], [0.1, 2.0]]))
    assert after.kind_day[0, DAY] == pytest.approx([0.1 + 0.3, 1.5])  # the mean of both
    assert after.kind_week[0, WEEK] == pytest.approx([0.1 + 0.0, 1.5])
    said = shape(found, HOUR, SETTINGS)[0]
    assert after.told[0] == pytest.approx([said * 0.4, said * said])
    assert after.kind_told[0] == pytest.approx([said * (0.4 + 0.2), 2 * said * said, 2.0])
    later = seen(after, HOUR + 1, np.full(3, np.nan), SETTINGS)
    assert later.told[0] == pytest.approx(after.told[0] / 2)
    assert later.kind_told[0] == pytest.approx(after.kind_told[0] / 2)


def test_a_miss_is_a_slow_mean_in_which_far_ones_count_in_part() -> None:
    after = seen(steady(0.4, 0.1, 2), HOUR, np.array([0.6, 9.4]), SETTINGS)
    assert after.miss == pytest.approx([0.97 * 0.1 + 0.03 * 0.2, 0.97 * 0.1 + 0.03 * 0.4])
    # a series that never missed is not certain
    assert seen(steady(0.4, 0.0), HOUR, np.array([9.4]), SETTINGS).miss == pytest.approx([0.03 * 4 * 0.005])


def test_a_level_that_jumped_is_moved_after_three_hours_and_teaches_the_shapes_nothing() -> None:
    found = steady(0.4, 0.01)
    for hour in range(2):
        found = seen(found, HOUR + hour, np.array([0.5]), SETTINGS)
        assert (found.run.tolist(), found.shifts.tolist()) == ([hour + 1], [0])
    assert found.trail[0, :22].tolist() == [0.4] * 22
    found = seen(found, HOUR + 2, np.array([0.5]), SETTINGS)
    # off by 0.1 at first, then by less, as the level has these hours in it
    off = (0.1 + (0.5 - (23 * 0.4 + 0.5) / 24) + (0.5 - (22 * 0.4 + 1.0) / 24)) / 3
    assert found.trail[0].tolist() == pytest.approx([0.4 + off] * 21 + [0.5] * 3)
    assert (found.run.tolist(), found.run_sum.tolist(), found.shifts.tolist()) == ([0], [0.0], [1])
    assert not found.day.any()
    assert not found.kind_told.any()


@pytest.mark.parametrize(
    ("uses", "run"),
    [
        ((0.5,), 1),
        ((0.3,), -1),
        ((0.5, 0.5), 2),
        ((0.3, 0.3), -2),
        ((0.5, 0.3), -1),  # the other side begins anew
        ((0.3, 0.5), 1),
        ((0.5, 0.41), 0),  # as usual again
        ((0.5, np.nan), 1),  # nothing is known of this hour
        ((0.5, np.nan, 0.5), 2),
        ((0.439,), 0),  # no more than four usual misses
        ((0.441,), 1),
    ],
)
def test_hours_in_a_row_are_counted_on_one_side(uses: tuple[float, ...], run: int) -> None:
    found = steady(0.4, 0.01)
    for at, use in enumerate(uses):
        found = seen(found, HOUR + at, np.array([use]), SETTINGS)
    assert found.run.tolist() == [run]
    assert (found.run_sum[0] > 0, found.run_sum[0] < 0) == (run > 0, run < 0)


def test_a_level_that_fell_is_moved_down() -> None:
    found = steady(0.4, 0.01)
    for at in range(3):
        found = seen(found, HOUR + at, np.array([0.2]), SETTINGS)
    assert found.shifts.tolist() == [1]
    assert (found.trail[0, :21] < 0.25).all()


@pytest.mark.parametrize(
    "wrong",
    [
        {"day_keep": 0.0},
        {"day_keep": 1.1},
        {"week_keep": 0.0},
        {"week_keep": 1.1},
        {"shift_hours": 0},
        {"day_prior": 0.0},
        {"week_prior": 0.0},
    ],
)
def test_weights_that_mean_nothing_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidInput, match="course settings"):
        CourseSettings(**wrong)  # type: ignore[arg-type]
    assert CourseSettings(day_keep=1.0, week_keep=1.0, shift_hours=1).shift_hours == 1


def test_a_new_course_has_a_place_for_each_series_and_kind() -> None:
    found = course(2, 0)
    assert (found.day.shape, found.week.shape, found.trail.shape) == ((2, 24, 2), (2, 168, 2), (2, 24))
    assert (found.kind_day.shape, found.kind_week.shape, found.kind_told.shape) == ((3, 24, 2), (3, 168, 2), (3, 3))
    assert new_course(np.zeros(0, np.int64)).kind_day.shape == (0, 24, 2)
