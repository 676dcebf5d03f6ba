"""What is earned by changes that hold, and lost by those that do not."""

from __future__ import annotations

from dataclasses import replace

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


@pytest.mark.parametrize(
    ("hits", "trials", "low"),
    [  # by hand: n of n is n / (n + 3.8415); the others by the closed form, written out
        (8, 8, 0.6756),
        (9, 9, 0.7009),
        (13, 14, 0.6853),
        (14, 15, 0.7018),
        (18, 20, 0.6990),
        (19, 21, 0.7109),
    ],
)
def test_what_promotes_is_the_lower_end_worked_out_by_hand(hits: int, trials: int, low: float) -> None:
    assert interval(hits, trials)[0] == pytest.approx(low, abs=1e-4)
    misses = [JudgedChange(-30.0 * DAY_S * (n + 1), held=False) for n in range(trials - hits)]  # weeks apart
    found = earned([*misses, *held(hits)], SETTINGS)
    assert found.rung is (AutonomyRung.ACT if low >= 0.7 else AutonomyRung.APPROVE)
    assert found.trials == (0 if low >= 0.7 else trials)


@pytest.mark.parametrize(
    ("apart_s", "rung"), [(0.0, "APPROVE"), (WEEK_S - 1, "APPROVE"), (WEEK_S, "ACT"), (WEEK_S + 1, "ACT")]
)
def test_two_misses_are_a_bad_week_up_to_its_last_second(apart_s: float, rung: str) -> None:
    misses = [JudgedChange(20 * DAY_S + by_s, held=False) for by_s in (0.0, apart_s)]
    assert earned([*held(9), *misses], SETTINGS).rung is AutonomyRung[rung]


def test_a_fall_takes_one_rung_and_the_misses_of_before_do_not_count_again() -> None:
    miss = [JudgedChange((20 + day) * DAY_S, held=False) for day in range(3)]
    assert earned([*held(9), *miss[:2]], SETTINGS).rung is AutonomyRung.APPROVE
    assert earned([*held(9), *miss], SETTINGS).rung is AutonomyRung.APPROVE  # the third begins a new count
    assert earned([*held(9), *miss, replace(miss[2], at_s=23 * DAY_S)], SETTINGS).rung is AutonomyRung.SUGGEST


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
