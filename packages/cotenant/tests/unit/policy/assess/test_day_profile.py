from __future__ import annotations

import numpy as np
import pytest

from cotenant.model.assess.history import Float32
from cotenant.model.errors import InvalidInput
from cotenant.policy.assess.day_profile import DayProfile, DayProfileSettings
from cotenant.policy.assess.predictor import HeldMaximum, Past

STEP_S = 1800.0
DAY = 48


def past(use: Float32) -> Past:
    return Past(use.astype(np.float32), STEP_S, np.full(len(use), np.nan), np.full(len(use), 1000.0))


def daily(days: int, series: int = 20, noise: float = 20.0, seed: int = 0) -> Float32:
    rng = np.random.default_rng(seed)
    hours = np.arange(days * DAY) * (2 * np.pi / DAY) + rng.random((series, 1)) * 6
    return np.maximum(0.0, 400.0 + 200.0 * np.sin(hours) + rng.normal(0, noise, hours.shape)).astype(np.float32)


def test_the_course_follows_the_time_of_day() -> None:
    use = daily(8)
    ours = DayProfile(DayProfileSettings(season=1.0, recent=0.0, smoothing_s=0.0))
    course = ours.course(past(use[:, : 7 * DAY]), DAY)
    assert np.abs(course - use[:, 7 * DAY :]).mean() < 25.0
    half_day_early = ours.course(past(use[:, : 7 * DAY - DAY // 2]), DAY)
    np.testing.assert_allclose(half_day_early[:, DAY // 2 :], course[:, : DAY // 2], atol=25.0)


@pytest.mark.parametrize("risk", [0.01, 0.05, 0.2])
def test_the_stated_risk_is_kept_where_days_are_alike(risk: float) -> None:
    use = daily(9, series=120)
    said = DayProfile().below(past(use[:, : 8 * DAY]), DAY, risk)
    realised = float((use[:, 8 * DAY :] > said).mean())
    assert 0.6 * risk < realised < 1.5 * risk


def test_errors_that_are_larger_at_a_time_of_day_widen_the_reserve_there() -> None:
    rng = np.random.default_rng(5)
    use = np.full((30, 8 * DAY), 300.0) + rng.normal(0, 5.0, (30, 8 * DAY))
    restless = (np.arange(8 * DAY) % DAY) >= DAY // 2
    use[:, restless] += rng.normal(0, 60.0, (30, int(restless.sum())))
    said = DayProfile().below(past(use.astype(np.float32)), DAY, 0.01)
    assert said[:, DAY // 2 + 8 : DAY - 8].mean() > said[:, 8 : DAY // 2 - 8].mean() + 30.0


def test_gaps_do_not_spread() -> None:
    use = daily(8)
    whole = DayProfile().below(past(use), DAY, 0.01)
    gaps = use.copy()
    gaps[:, 100:110] = np.nan
    gaps[3] = np.nan
    said = DayProfile().below(past(gaps), DAY, 0.01)
    assert np.isnan(said[3]).all()
    others = np.arange(len(use)) != 3
    assert not np.isnan(said[others]).any()
    np.testing.assert_allclose(said[others], whole[others], rtol=0.1)


@pytest.mark.parametrize("steps", [2, 5, DAY - 1, DAY + 1, 2 * DAY + 7])
def test_short_histories_have_an_answer(steps: int) -> None:
    said = DayProfile().below(past(daily(4)[:, :steps]), DAY, 0.01)
    assert said.shape == (20, DAY)
    assert np.isfinite(said).all()


@pytest.mark.parametrize("steps", [0, 1])
def test_no_history_has_none(steps: int) -> None:
    assert np.isnan(DayProfile().below(past(daily(4)[:, :steps]), 4, 0.01)).all()


def test_what_is_asked_together_is_what_was_known_at_each_origin() -> None:
    use = daily(6)
    origins = (2 * DAY, 2 * DAY + 12, 4 * DAY)
    together = DayProfile().below_each(past(use), origins, DAY, 0.01)
    for origin, said in zip(origins, together, strict=True):
        changed = use.copy()
        changed[:, origin:] = 1e6
        np.testing.assert_array_equal(said, DayProfile().below(past(changed).until(origin), DAY, 0.01))


def test_what_is_held_is_the_highest_of_the_horizon() -> None:
    use = daily(6)
    held = HeldMaximum(DayProfile())
    said = DayProfile().below(past(use), DAY, 0.01)
    np.testing.assert_array_equal(held.below(past(use), DAY, 0.01), np.repeat(said.max(axis=1)[:, None], DAY, axis=1))
    for origin, found in zip(
        (3 * DAY, 4 * DAY), held.below_each(past(use), (3 * DAY, 4 * DAY), DAY, 0.01), strict=True
    ):
        np.testing.assert_array_equal(found, held.below(past(use).until(origin), DAY, 0.01))
    assert held.name == "day profile (ours), held"


def test_a_setting_outside_its_range_is_refused() -> None:
    with pytest.raises(InvalidInput, match="day profile season"):
        DayProfileSettings(season=1.5)
    with pytest.raises(InvalidInput, match="day profile every_s"):
        DayProfileSettings(every_s=0.0)
