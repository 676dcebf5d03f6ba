"""Load averages of groups: their weights, groups that come and go, and readings out of order."""

from __future__ import annotations

from math import exp

import pytest

from cotenant.engine.node.loads import MINUTES, LoadAverages, Loads

SECOND = 1_000_000


@pytest.mark.parametrize("steps", [1, 2, 6])
def test_an_average_follows_from_the_time_and_not_from_the_number_of_readings(steps: int) -> None:
    averages = LoadAverages()
    averages.seen(0, {"g": (4, 2)})
    for step in range(1, steps + 1):
        found = averages.seen(step * 60 * SECOND // steps, {"g": (4, 2)})
    wanted = [1 - exp(-1 / minutes) for minutes in MINUTES]
    assert found["g"].runnable == pytest.approx([4 * share for share in wanted])
    assert found["g"].uninterruptible == pytest.approx([2 * share for share in wanted])


def test_the_first_reading_only_begins_the_time() -> None:
    assert LoadAverages().seen(10**15, {"g": (9, 9)}) == {"g": Loads()}


def test_a_reading_of_before_counts_no_time_and_is_no_new_beginning() -> None:
    averages, straight = LoadAverages(), LoadAverages()
    for at_s in (0, 60, 30, 90):
        found = averages.seen(at_s * SECOND, {"g": (1, 0)})
    for at_s in (0, 60, 90):
        wanted = straight.seen(at_s * SECOND, {"g": (1, 0)})
    assert found["g"].runnable == pytest.approx(wanted["g"].runnable)


@pytest.mark.parametrize(("counts", "kept_s"), [((1, 0), 4000), ((0, 1), 4000)])
def test_a_group_without_tasks_decays_and_is_forgotten_below_a_hundredth(counts: tuple[int, int], kept_s: int) -> None:
    averages = LoadAverages()
    averages.seen(0, {"g": counts, "other": (0, 0)})
    averages.seen(1800 * SECOND, {"g": counts, "other": (0, 0)})
    assert averages.seen((1800 + kept_s - 200) * SECOND, {}).keys() == {"g"}
    assert averages.seen((1800 + kept_s + 200) * SECOND, {}) == {}
    assert averages.seen((1800 + kept_s + 201) * SECOND, {"g": (0, 0)}) == {"g": Loads()}
