"""Numbers of values: bounded, given back after an hour, with a part that only proven holders have."""

from __future__ import annotations

from collections.abc import Set

from cotenant.engine.traces.bounded_table import IDLE_S, SWEEP_S, BoundedTable
from cotenant.engine.traces.skew import ClockSkews

HOUR = IDLE_S + 1


def test_pods_that_come_and_go_for_weeks_find_room() -> None:
    freed: list[Set[int]] = []
    table = BoundedTable("", 40, freed.append)
    for hour in range(500):
        numbers = [table.number(f"{hour}-{pod}", "shop", hour * HOUR) for pod in range(15)]
        assert all(numbers)
        assert [table[number] for number in numbers] == [f"{hour}-{pod}" for pod in range(15)]
    assert len(table._values) <= 41
    assert freed


def test_what_is_used_keeps_its_number() -> None:
    table = BoundedTable("", 8)
    kept = table.number("kept", "a", 0.0)
    for minute in range(1000):
        assert table.number("kept", "a", minute * 60.0) == kept
        table.number(f"other-{minute}", "b", minute * 60.0)


def test_who_invents_holders_leaves_the_reserve() -> None:
    table = BoundedTable("", 40)
    assert sum(table.number(f"v{n}", f"holder-{n}", is_proven=False) > 0 for n in range(100)) == 30
    assert [table.number(f"own{n}", "shop") > 0 for n in range(5)] == [True] * 5


def test_a_full_table_is_looked_through_once_a_minute() -> None:
    table = BoundedTable("", 4)
    for n in range(10):
        table.number(f"v{n}", f"h{n}", 0.0)
    table._held["v0"].used_s = -1e9
    assert table.number("new", "h", SWEEP_S - 1) == 0
    assert table.number("new", "h", SWEEP_S) == 1


def test_the_skew_of_a_number_goes_with_it() -> None:
    skews = ClockSkews()
    skews._learn((1, 2), [5])
    skews._learn((3, 4), [7])
    skews.forget({2})
    assert (skews.estimate_ns(1, 2), skews.estimate_ns(3, 4)) == (0, 7)
