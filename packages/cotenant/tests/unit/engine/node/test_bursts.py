"""Looks ask for a sample where best-effort use changed, in either direction, and not for more than they may."""

from __future__ import annotations

import pytest

from cotenant.engine.node.bursts import Bursts, BurstSettings
from cotenant.model.errors import InvalidInput

LOOK_US = 200_000


class Looking:
    """Groups that use what a case says, looked at every 0.2 s."""

    def __init__(self, cpus: int = 2) -> None:
        self.bursts = Bursts(BurstSettings(), cpus)
        self.at_us = 0
        self.cpu_us: dict[str, int] = {}

    def look(self, **use_m: int) -> bool:
        self.at_us += LOOK_US
        self.cpu_us = {group: self.cpu_us.get(group, 0) + milli * LOOK_US // 1000 for group, milli in use_m.items()}
        return self.bursts.looked(self.at_us, self.cpu_us)

    def looks(self, count: int, **use_m: int) -> int:
        """How many of them asked."""
        return sum(self.look(**use_m) for _ in range(count))


def test_a_steady_use_asks_for_nothing() -> None:
    assert Looking().looks(100, batch=700) == 0


@pytest.mark.parametrize(("before_m", "after_m"), [(0, 250), (0, 2000), (900, 600)])
def test_the_first_look_after_a_change_asks(before_m: int, after_m: int) -> None:
    looking = Looking()
    looking.looks(10, batch=before_m)

    assert looking.look(batch=after_m)


def test_a_small_change_is_none_and_on_a_large_machine_it_is_measured_by_the_machine() -> None:
    small, large = Looking(), Looking(cpus=64)
    small.looks(10, batch=500)
    large.looks(10, batch=500)

    assert not small.look(batch=600)
    assert not large.look(batch=1500)
    assert large.look(batch=2500)


def test_what_one_group_gives_to_another_is_no_change() -> None:
    looking = Looking()
    looking.looks(10, one=900, other=100)

    assert not looking.look(one=100, other=900)


def test_a_group_that_was_not_there_counts_from_its_second_look() -> None:
    looking = Looking()
    looking.looks(10, batch=0)
    looking.cpu_us = {"new": 5_000_000, "batch": 0}

    assert not looking.look(batch=0, new=0)
    assert looking.look(batch=0, new=1000)


def test_after_a_change_it_asks_a_few_times_and_then_that_use_is_the_usual_one() -> None:
    looking = Looking()
    looking.looks(10, batch=0)

    assert looking.looks(20, batch=1000) == 4


def test_use_that_always_changes_asks_for_one_sample_in_two_seconds() -> None:
    looking = Looking()
    asked = sum(looking.look(batch=1000 * (number % 2)) for number in range(500))

    assert 50 <= asked <= 54


@pytest.mark.parametrize(("sample_us", "most"), [(5_000, 54), (28_000, 24), (100_000, 12)])
def test_samples_that_take_long_are_asked_for_more_rarely(sample_us: int, most: int) -> None:
    """Of 100 s in which use always changes, half a second of a core may be spent, and the first few samples."""
    looking = Looking()
    asked = 0
    for number in range(500):
        if looking.look(batch=1000 * (number % 2)):
            asked += 1
            looking.bursts.sampled(sample_us)

    assert asked <= most
    assert asked >= 5


def test_after_a_limit_the_use_before_is_no_measure() -> None:
    looking = Looking()
    looking.looks(10, batch=0)
    assert looking.look(batch=1500)
    looking.bursts.acted()

    assert looking.looks(10, batch=300) == 0


def test_a_clock_that_went_back_is_survived() -> None:
    looking = Looking()
    looking.looks(10, batch=0)
    looking.at_us = 0

    assert not looking.look(batch=0)
    assert not looking.look(batch=0)
    assert looking.look(batch=1000)


@pytest.mark.parametrize("field", ["change_m", "change_ppm", "in_a_row", "regain_us", "max_cost_ppm"])
def test_settings_that_make_no_sense_are_refused(field: str) -> None:
    with pytest.raises(InvalidInput, match=field):
        BurstSettings(**{field: 0})
    with pytest.raises(InvalidInput, match="look_us"):
        BurstSettings(look_us=5)
