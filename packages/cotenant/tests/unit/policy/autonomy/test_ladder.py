"""What is earned by changes that hold, and lost by those that do not."""

from __future__ import annotations

import pytest

from cotenant.model.autonomy.autonomy import AutonomyRung
from cotenant.model.errors import InvalidInput
from cotenant.policy.autonomy.ladder import WEEK_S, JudgedChange, LadderSettings, earned, interval

SETTINGS = LadderSettings()
DAY_S = 86_400.0


def held(count: int, from_day: float = 0.0) -> list[JudgedChange]:
    return [JudgedChange((from_day + day) * DAY_S, held=True) for day in range(count)]


def test_the_interval_is_wilson_s() -> None:
    """Figures of the closed form, worked out by hand for 8 of 10: 0.490 to 0.943."""
    assert interval(8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert interval(0, 0) == (0.0, 1.0)
    assert interval(0, 20)[0] == 0.0
    assert interval(20, 20)[1] == pytest.approx(1.0)


def test_it_climbs_when_enough_have_held_and_not_before() -> None:
    rungs = [earned(held(count), SETTINGS).rung for count in range(12)]
    first = rungs.index(AutonomyRung.ACT)
    assert rungs == [AutonomyRung.APPROVE] * first + [AutonomyRung.ACT] * (12 - first)
    assert interval(first, first)[0] >= SETTINGS.target > interval(first - 1, first - 1)[0]


def test_few_that_held_are_not_enough_for_a_high_target() -> None:
    assert earned(held(20), LadderSettings(target=0.9)).rung is AutonomyRung.APPROVE
    assert earned(held(50), LadderSettings(target=0.9)).rung is AutonomyRung.ACT


def test_one_broken_objective_takes_a_rung() -> None:
    outcomes = [*held(12), JudgedChange(20 * DAY_S, held=False, broke_objective=True)]
    found = earned(outcomes, SETTINGS)
    assert (found.rung, found.trials) == (AutonomyRung.APPROVE, 0)
    assert "objective" in found.why


def test_a_bad_week_takes_a_rung_and_two_misses_of_two_months_do_not() -> None:
    misses = [JudgedChange(20 * DAY_S, held=False), JudgedChange(23 * DAY_S, held=False)]
    assert earned([*held(12), *misses], SETTINGS).rung is AutonomyRung.APPROVE
    apart = [JudgedChange(20 * DAY_S, held=False), JudgedChange(20 * DAY_S + WEEK_S, held=False)]
    assert earned([*held(12), *apart], SETTINGS).rung is AutonomyRung.ACT


def test_it_never_falls_below_suggest_and_earns_anew() -> None:
    broken = [JudgedChange(day * DAY_S, held=False, broke_objective=True) for day in range(5)]
    assert earned(broken, SETTINGS).rung is AutonomyRung.SUGGEST
    assert earned([*broken, *held(10, 10)], SETTINGS).rung is AutonomyRung.APPROVE
    assert earned([*broken, *held(20, 10)], SETTINGS).rung is AutonomyRung.ACT


def test_the_order_in_which_outcomes_are_given_does_not_matter() -> None:
    outcomes = [*held(12), JudgedChange(5.5 * DAY_S, held=False)]
    assert earned(outcomes[::-1], SETTINGS) == earned(outcomes, SETTINGS)


@pytest.mark.parametrize("settings", [{"target": 1.0}, {"min_trials": 0}, {"max_misses": 0}])
def test_impossible_settings_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(InvalidInput):
        LadderSettings(**settings)  # type: ignore[arg-type]
