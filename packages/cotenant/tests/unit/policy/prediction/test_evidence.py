"""A kind begins with what other clusters learned of it, never states that as its own, and grows out of it."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from cotenant.model.arrays import Float
from cotenant.model.prediction.shared_use import UseEvidence, check_evidence
from cotenant.policy.prediction.course import shape
from cotenant.policy.prediction.evidence import LEAST_HOURS, LEAST_SERIES, evidence, with_others
from cotenant.policy.prediction.forecast import ForecastSettings, UseForecast, bounds, hour_seen, new_forecast, tables
from cotenant.policy.prediction.rows import with_rows

SETTINGS = ForecastSettings(horizons_h=(1, 4), risks=(0.01, 0.05))
WEEK = 7 * 24


def _use(series: int, hours: int, seed: int) -> Float:
    """Days with a peak in the afternoon, calm weekends, and jitter with a tail."""
    rng, at = np.random.default_rng(seed), np.arange(hours)
    day = 0.15 * np.sin(2 * np.pi * (at - 8) / 24) * np.where(at % WEEK >= 120, 0.2, 1.0)
    return 0.4 + day + rng.normal(0, 0.05, (series, 1)) + 0.03 * rng.gamma(1.0, 1.0, (series, hours))


def _run(use: Float, forecast: UseForecast) -> UseForecast:
    for hour in range(use.shape[1]):
        forecast = hour_seen(forecast, use[:, hour], use[:, hour])
    return forecast


def _new(series: int = 3) -> UseForecast:
    return new_forecast(np.zeros(series, np.int64), SETTINGS)


@pytest.fixture(scope="module")
def learned() -> UseForecast:
    return _run(_use(10, 3 * WEEK, 1), _new(10))


@pytest.fixture(scope="module")
def told(learned: UseForecast) -> UseEvidence:
    found = evidence(learned, 0, "web")
    assert found is not None
    return found


def _opposite(told: UseEvidence) -> UseEvidence:
    return msgspec.structs.replace(told, day_ppm=tuple(-one for one in told.day_ppm))


def test_what_is_stated_is_possible_and_says_how_much_is_behind_it(told: UseEvidence) -> None:
    check_evidence("web", told)
    assert [one.hours for one in told.horizons] == [1, 4]
    assert 1000 < told.hours < 10 * 3 * WEEK
    assert max(told.day_ppm) > 80_000 > 0 > min(told.day_ppm)


def test_few_series_and_few_hours_are_not_stated(learned: UseForecast) -> None:
    few = _run(_use(LEAST_SERIES - 1, 2 * WEEK, 1), _new(LEAST_SERIES - 1))
    assert evidence(few, 0, "web") is None
    assert evidence(_run(_use(LEAST_SERIES, LEAST_HOURS - 2, 1), _new(LEAST_SERIES)), 0, "web") is None
    assert evidence(learned, 0, "web") is not None


def test_a_new_kind_has_bounds_after_its_first_hour_and_they_hold(told: UseEvidence) -> None:
    use = _use(20, 48, 7)
    forecast, over, said = with_others(_new(20), {0: told}), [], []
    for hour in range(47):
        forecast = hour_seen(forecast, use[:, hour], use[:, hour])
        bound = bounds(tables(forecast, 0), 0.0, use[:, hour])
        over.append(use[:, hour + 1, None] > bound)
        said.append(bound[:, 0])
    assert np.isfinite(np.array(said)).all()
    assert np.array(over).mean(axis=(0, 1))[1] < 0.10  # stated: 5 %
    assert np.array(said).mean() < 0.8


def test_without_others_nothing_is_said_in_the_first_hours() -> None:
    forecast = _run(_use(3, 4, 7), _new())
    assert np.isnan(bounds(tables(forecast, 0), 0.0, np.full(3, 0.4))).all()


def test_others_are_not_stated_as_own_and_go_when_they_are_taken_away(told: UseEvidence) -> None:
    use, wrong = _use(LEAST_SERIES, 2 * LEAST_HOURS, 3), _opposite(told)
    alone, begun = _run(use, _new(LEAST_SERIES)), _run(use, with_others(_new(LEAST_SERIES), {0: wrong}))
    own, after = evidence(alone, 0, "web"), evidence(begun, 0, "web")
    assert own is not None
    assert after is not None
    # Of here alone, but for which hours were so far off what was said that they taught nothing.
    assert np.corrcoef(after.day_ppm, own.day_ppm)[0, 1] > 0.95
    assert np.corrcoef(after.day_ppm, wrong.day_ppm)[0, 1] < -0.8
    gone = with_others(_run(_use(3, 4, 7), with_others(_new(), {0: told})), {})
    assert np.isnan(bounds(tables(gone, 0), 0.0, np.full(3, 0.4))).all()


def test_a_wrong_beginning_is_outgrown(told: UseEvidence) -> None:
    """Others' days have the opposite course."""
    use = _use(5, 2 * WEEK, 9)
    wrong = _opposite(told)
    alone, begun = _run(use, _new(5)), _run(use, with_others(_new(5), {0: wrong}))
    hour = 2 * WEEK + 14
    apart = np.abs(shape(begun.course, hour, SETTINGS.course) - shape(alone.course, hour, SETTINGS.course))
    first = shape(with_others(_new(5), {0: wrong}).course, hour, SETTINGS.course)
    assert (first < -0.05).all()
    assert (apart < 0.05).all()
    assert np.median(apart) < 0.02


def test_a_series_that_has_just_begun_errs_like_its_kind(learned: UseForecast) -> None:
    """It had no size of errors of its own, and a bound that stood at its course."""
    more, use = with_rows(learned, np.zeros(20, np.int64)), _use(30, 26, 5)
    over = []
    for hour in range(25):
        more = hour_seen(more, use[:, hour], use[:, hour])
        over.append((use[:, hour + 1, None] > bounds(tables(more, 0), 0.0, use[:, hour]))[10:])
    assert np.array(over)[:6].mean(axis=(0, 1))[1] < 0.12  # stated: 5 %


def test_kinds_that_others_know_nothing_of_stay_as_they_are(told: UseEvidence) -> None:
    both = new_forecast(np.array([0, 1]), SETTINGS)
    found = _run(_use(2, 3, 1), with_others(both, {1: told}))
    said = bounds(tables(found, 0), 0.0, np.full(2, 0.4))
    assert np.isnan(said[0]).all()
    assert np.isfinite(said[1]).all()
