"""Ceilings, windows over midnight and clocks that are set, blackouts, freezes."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from cotenant.model.autonomy.autonomy import FREE, Action, ActionWindow, Autonomy, AutonomyRung, Blackout, Freeze
from cotenant.policy.autonomy.permission import is_open, permission

BERLIN = ZoneInfo("Europe/Berlin")
NIGHT = ActionWindow(frozenset({4}), 22 * 60, 6 * 60, BERLIN)  # from Friday evening to Saturday morning


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def test_without_objects_everything_is_allowed() -> None:
    assert permission((), Action.SIZES, "shop", 0.0) == FREE
    assert FREE.may_act


def test_the_lowest_ceiling_counts_where_it_is_about_that() -> None:
    objects = [
        Autonomy("all", ceiling=AutonomyRung.APPROVE),
        Autonomy(
            "shop", namespaces=frozenset({"shop"}), actions=frozenset({Action.SIZES}), ceiling=AutonomyRung.SUGGEST
        ),
    ]
    assert permission(objects, Action.SIZES, "shop", 0.0).rung is AutonomyRung.SUGGEST
    assert permission(objects, Action.MOVES, "shop", 0.0).rung is AutonomyRung.APPROVE
    assert permission(objects, Action.SIZES, "other", 0.0).rung is AutonomyRung.APPROVE
    assert not permission(objects, Action.LENDING, "", 0.0).may_act


def test_a_freeze_says_who_and_why() -> None:
    found = permission([Autonomy("freeze", freeze=Freeze("outage", "ada"))], Action.MOVES, "shop", 0.0)
    assert found.is_frozen
    assert found.why == "frozen by ada: outage"
    elsewhere = Autonomy("freeze", namespaces=frozenset({"shop"}), freeze=Freeze("outage"))
    assert not permission([elsewhere], Action.MOVES, "other", 0.0).is_frozen


def test_an_object_that_cannot_be_read_allows_to_suggest_and_its_freeze_counts() -> None:
    found = permission([Autonomy("a", wrong=("spec.windows: no",), freeze=Freeze("x"))], Action.SIZES, "s", 0.0)
    assert (found.rung, found.is_frozen) == (AutonomyRung.SUGGEST, True)


@pytest.mark.parametrize(
    ("when", "is_in"),
    [
        ("2026-11-27T21:59:00+01:00", False),
        ("2026-11-27T22:00:00+01:00", True),
        ("2026-11-28T05:59:00+01:00", True),
        ("2026-11-28T06:00:00+01:00", False),
        ("2026-11-28T23:00:00+01:00", False),  # Saturday evening
        ("2026-11-27T03:00:00+01:00", False),  # Friday morning belongs to Thursday
        ("2026-07-03T20:30:00+00:00", True),  # 22:30 in summer
        ("2026-07-03T19:30:00+00:00", False),
    ],
)
def test_a_window_over_midnight_is_of_the_day_on_which_it_begins(when: str, is_in: bool) -> None:
    assert is_open(NIGHT, at(when)) is is_in


def test_the_hour_that_is_set_back_lasts_twice() -> None:
    early = ActionWindow(frozenset(range(7)), 2 * 60, 3 * 60, BERLIN)
    begin = at("2026-10-25T00:00:00+00:00")  # 02:00 in summer time; at 01:00 UTC it is 02:00 again
    assert [is_open(early, begin + 1800 * half) for half in range(5)] == [True] * 4 + [False]


def test_a_night_whose_clock_is_set_forward_is_an_hour_shorter() -> None:
    saturday = ActionWindow(frozenset({5}), 22 * 60, 6 * 60, BERLIN)
    begin = at("2026-03-28T22:00:00+01:00")
    assert [is_open(saturday, begin + 3600 * hour) for hour in range(-1, 9)] == [False, *[True] * 7, False, False]


def test_windows_of_two_objects_must_both_be_open() -> None:
    noon = ActionWindow(frozenset(range(7)), 720, 780, UTC)
    one = ActionWindow(frozenset(range(7)), 750, 840, UTC)
    objects = [Autonomy("a", windows=(noon,)), Autonomy("b", windows=(one,))]
    begin = at("2026-11-28T12:00:00+00:00")
    assert [permission(objects, Action.SIZES, "s", begin + 60 * minute).may_begin for minute in (10, 40, 70)] == [
        False,
        True,
        False,
    ]


def test_in_a_blackout_nothing_is_begun() -> None:
    objects = [Autonomy("a", blackouts=(Blackout(100.0, 200.0, "holidays"),))]
    assert [permission(objects, Action.SIZES, "s", now_s).may_begin for now_s in (99.0, 100.0, 199.0, 200.0)] == [
        True,
        False,
        False,
        True,
    ]
    assert "holidays" in permission(objects, Action.SIZES, "s", 150.0).why
