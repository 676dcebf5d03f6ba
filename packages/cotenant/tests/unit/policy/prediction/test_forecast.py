"""Bounds of the next hours: how often they hold, what a jump does, and what a new series is told by its kind."""

from __future__ import annotations

import numpy as np
import pytest

from cotenant.model.arrays import Float
from cotenant.model.errors import InvalidInput
from cotenant.policy.prediction.course import CourseSettings, level, new_course, seen, shape, trust
from cotenant.policy.prediction.forecast import ForecastSettings, UseForecast, bounds, hour_seen, new_forecast, tables
from cotenant.policy.prediction.rows import only, with_rows

SETTINGS = ForecastSettings(horizons_h=(1, 4), risks=(0.01, 0.05))


def _use(series: int, hours: int, seed: int, *, noise: float = 0.05) -> Float:
    """Days with a peak in the afternoon, calm weekends, and jitter with a heavy tail."""
    rng = np.random.default_rng(seed)
    at = np.arange(hours)
    day = 0.15 * np.sin(2 * np.pi * (at - 8) / 24) * np.where(at % 168 >= 120, 0.2, 1.0)
    jitter = noise * rng.gamma(1.0, 1.0, (series, hours))
    return 0.4 + day + rng.normal(0, 0.05, (series, 1)) + jitter


def _run(use: Float, forecast: UseForecast | None = None) -> UseForecast:
    found = forecast or new_forecast(np.zeros(len(use), np.int64), SETTINGS)
    for hour in range(use.shape[1]):
        found = hour_seen(found, use[:, hour], use[:, hour])
    return found


def _exceeded(use: Float, horizon: int, first: int) -> Float:
    """Share of hours from `first` on in which the horizon's highest use was above the bound, by risk."""
    at = SETTINGS.horizons_h.index(horizon)
    forecast, over = new_forecast(np.zeros(len(use), np.int64), SETTINGS), []
    for hour in range(use.shape[1] - horizon):
        forecast = hour_seen(forecast, use[:, hour], use[:, hour])
        if hour >= first:
            said = bounds(tables(forecast, at), 0.0, use[:, hour])
            over.append(use[:, hour + 1 : hour + 1 + horizon].max(axis=1)[:, None] > said)
    return np.asarray(np.array(over).mean(axis=(0, 1)))


@pytest.mark.slow
@pytest.mark.parametrize(("horizon", "points"), [(1, 0.01), (4, 0.02)])
def test_stated_risks_are_kept_on_hours_that_were_not_seen(horizon: int, points: float) -> None:
    assert _exceeded(_use(20, 21 * 24, 3), horizon, 7 * 24) == pytest.approx([0.01, 0.05], abs=points)


def test_a_bound_follows_the_time_of_day_and_of_the_week() -> None:
    forecast = _run(_use(10, 28 * 24 + 13, 5, noise=0.01))
    high = bounds(tables(forecast, 0), 0.0, np.full(10, 0.55))[:, 0]
    night = bounds(tables(_run(_use(10, 28 * 24 + 1, 5, noise=0.01)), 0), 0.0, np.full(10, 0.3))[:, 0]
    weekend = bounds(tables(_run(_use(10, 26 * 24 + 13, 5, noise=0.01)), 0), 0.0, np.full(10, 0.43))[:, 0]
    assert night.mean() < weekend.mean() < high.mean()


def test_the_bound_is_never_below_present_use_and_grows_with_it() -> None:
    ready = tables(_run(_use(3, 10 * 24, 1)), 0)
    low, high = bounds(ready, 0.5, np.full(3, 0.3)), bounds(ready, 0.5, np.full(3, 0.95))
    assert (high >= 0.95).all()
    assert (high >= low).all()


def test_nothing_is_said_before_the_kind_was_judged() -> None:
    assert np.isnan(bounds(tables(_run(_use(1, 12, 1)), 0), 0.0, np.array([0.4]))).all()


def test_hours_without_a_measurement_teach_nothing_and_end_nothing() -> None:
    use = _use(4, 14 * 24, 2)
    use[:, 100:130] = np.nan
    found = bounds(tables(_run(use), 0), 0.0, use[:, -1])
    assert np.isfinite(found).all()
    assert (found < 1.2).all()


def test_a_jump_of_the_level_is_noticed_within_hours() -> None:
    use = _use(1, 15 * 24, 4, noise=0.005)
    use[:, 14 * 24 :] += 0.3
    settings, course = CourseSettings(), new_course(np.zeros(1, np.int64))
    off = []
    for hour in range(use.shape[1]):
        off.append(abs(float((use[:, hour] - level(course, hour, settings) - shape(course, hour, settings))[0])))
        course = seen(course, hour, use[:, hour], settings)
    jump = 14 * 24
    assert 1 <= int(course.shifts[0]) <= 2
    assert min(off[jump : jump + settings.shift_hours]) > 0.2
    assert max(off[jump + settings.shift_hours + 1 : jump + 12]) < 0.1


def test_a_restless_series_is_not_shifted_for_ever() -> None:
    rng = np.random.default_rng(0)
    use = np.concatenate([np.zeros(100), rng.choice([0.1, 0.9], 500)])[None, :]
    settings, course = CourseSettings(), new_course(np.zeros(1, np.int64))
    for hour in range(600):
        course = seen(course, hour, use[:, hour], settings)
    assert int(course.shifts[0]) < 20


def test_shapes_that_tell_nothing_are_not_believed() -> None:
    settings, rng = CourseSettings(), np.random.default_rng(1)
    noise, days = new_course(np.zeros(5, np.int64)), new_course(np.zeros(5, np.int64))
    use, random = _use(5, 21 * 24, 1, noise=0.01), rng.random((5, 21 * 24))
    for hour in range(21 * 24):
        noise, days = seen(noise, hour, random[:, hour], settings), seen(days, hour, use[:, hour], settings)
    assert trust(noise, settings).max() < 0.3
    assert trust(days, settings).min() > 0.8


def test_a_new_series_is_told_by_its_kind_at_once() -> None:
    use = _use(8, 21 * 24, 6)
    grown = with_rows(_run(use[:7]), np.zeros(1, np.int64))
    more = np.concatenate([use[:7, :2], use[7:, :2]])
    for hour in range(2):
        grown = hour_seen(grown, more[:, hour], more[:, hour])
    alone = _run(use[7:, :2])
    assert np.isfinite(bounds(tables(grown, 0), 0.0, more[:, 1])[7]).all()
    assert np.isnan(bounds(tables(alone, 0), 0.0, more[7:, 1])).all()


def test_series_that_leave_change_nothing_for_the_others() -> None:
    use = _use(6, 8 * 24, 9)
    whole, kept = _run(use), np.array([4, 1])
    some = only(whole, kept)
    for at in range(2):
        before = bounds(tables(whole, at), 0.25, use[:, -1])[kept]
        assert bounds(tables(some, at), 0.25, use[kept, -1]) == pytest.approx(before)


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(InvalidInput):
        new_forecast((0,), ForecastSettings(risks=(1.5,)))
    with pytest.raises(InvalidInput):
        CourseSettings(day_keep=0.0)
