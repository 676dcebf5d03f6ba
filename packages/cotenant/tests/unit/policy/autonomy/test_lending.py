"""What lending has earned by its days."""

from __future__ import annotations

import pytest

from cotenant.model.autonomy.autonomy import AutonomyRung
from cotenant.model.autonomy.pool_lending import LendingDay, LendingOutcome, LendingReceipt, LendMode
from cotenant.policy.autonomy.lending import id_of, judged, rung_of, standing, taken_back

SUGGEST, APPROVE, ACT = AutonomyRung.SUGGEST, AutonomyRung.APPROVE, AutonomyRung.ACT


def days(outcomes: str, first: int = 20_000) -> list[LendingReceipt]:
    """One letter a day: h = held, x = exceeded, o = an objective, u = undone."""
    of = {"h": "held", "x": "exceeded", "o": "objective", "u": "undone"}
    return [
        LendingReceipt(id_of(first + n), LendingOutcome(of[letter]), LendingDay(first + n), "suggest", "", "")
        for n, letter in enumerate(outcomes)
    ][::-1]


@pytest.mark.parametrize(
    ("outcomes", "rung"),
    [
        ("", SUGGEST),
        ("h" * 8, SUGGEST),  # the interval of eight reaches down to 68 %
        ("h" * 9, APPROVE),
        ("h" * 18, ACT),
        ("h" * 8 + "x" + "h" * 8, APPROVE),  # 16 of 17
        ("h" * 18 + "x", ACT),  # one day in a week is no bad week
        ("h" * 18 + "xhx", APPROVE),
        ("h" * 18 + "xhhhhhhhx", ACT),  # more than a week apart
        ("h" * 18 + "o", APPROVE),
        ("h" * 18 + "oo", SUGGEST),
        ("h" * 18 + "uu", APPROVE),
        ("h" * 18 + "o" + "h" * 9, ACT),
    ],
)
def test_a_rung_is_earned_by_days_and_lost_by_a_bad_week_or_an_objective(outcomes: str, rung: AutonomyRung) -> None:
    assert standing(days(outcomes)).rung is rung
    assert rung_of(LendMode.EARNED, days(outcomes))[0] is rung


def test_only_the_newest_outcome_is_a_fall() -> None:
    assert standing(days("h" * 9 + "o")).fell
    assert not standing(days("h" * 9 + "oh")).fell
    assert not standing(days("h" * 9)).fell


@pytest.mark.parametrize("mode", [mode for mode in LendMode if mode is not LendMode.EARNED])
def test_a_fixed_mode_is_what_it_says(mode: LendMode) -> None:
    assert rung_of(mode, days("o" * 5))[0].name.lower() == mode.value


def _day(hours: int, exceeded: int = 0, lent: int = 0, objective: str = "") -> LendingDay:
    return LendingDay(20_000, hours, exceeded, lent, objective=objective)


@pytest.mark.parametrize(
    ("hours", "exceeded", "outcome"),
    [
        (24, 0, "held"),
        (24, 1, "held"),  # one of 24 may be chance at one percent
        (24, 2, "exceeded"),
        (2400, 24, "held"),
        (2400, 33, "held"),
        (2400, 36, "exceeded"),
    ],
)
def test_a_day_holds_unless_more_was_exceeded_than_chance_explains(hours: int, exceeded: int, outcome: str) -> None:
    found = judged(_day(hours, exceeded), 0.01, SUGGEST, "")
    assert found is not None
    assert found.outcome.value == outcome
    assert found.id == "2024-10-04"


def test_a_day_of_which_little_is_known_tells_nothing() -> None:
    assert judged(_day(11), 0.01, SUGGEST, "") is None
    assert judged(_day(24, lent=11), 0.01, APPROVE, "") is None, "it was not lent for half of its hours"
    assert judged(_day(24, lent=12), 0.01, APPROVE, "ada") is not None


def test_an_objective_counts_however_short_the_day_was() -> None:
    found = judged(_day(1, lent=0, objective="ServiceObjective shop/web"), 0.01, ACT, "ada")
    assert found is not None
    assert found.outcome is LendingOutcome.OBJECTIVE
    assert "shop/web" in found.why


def test_what_a_person_takes_back_is_said_with_its_hours() -> None:
    found = taken_back(_day(24, 1, 24), 0.01, ACT, "ada")
    assert (found.outcome, found.allowed_by) == (LendingOutcome.UNDONE, "ada")
    assert found.why == "taken back by a person; 1 of 24 node-hours exceeded at 1 % risk"
