from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cotenant.policy.assess.back_test import BackTestOutcome
from cotenant.policy.assess.lent_range import LentRange, lent_range
from cotenant.policy.assess.predictor import DAY_S


def day(at: float, lent: float, in_hindsight: float) -> BackTestOutcome:
    return BackTestOutcome(at * DAY_S, DAY_S, 1, 288, 3, lent, 0.0, in_hindsight, 100.0, 0.0)


def test_a_range_by_hand() -> None:
    found = lent_range([day(0, 40, 42), day(1, 40, 46)], 30.0, 100.0)
    assert found is not None
    reach = 3.078 * np.std([0.02, 0.06], ddof=1) * 1.5**0.5 * 100
    assert (found.low, found.high) == (pytest.approx(34 - reach), pytest.approx(34 + reach))
    assert found.days == 2


def test_a_range_stays_within_what_there_is() -> None:
    found = lent_range([day(0, 90, 0), day(1, 10, 100)], 50.0, 100.0)
    assert found is not None
    assert (found.low, found.high) == (0.0, 100.0)


def test_origins_of_one_day_are_one_day() -> None:
    few = [day(at / 4, 40, 42) for at in range(4)]
    assert lent_range(few, 30.0, 100.0) is None  # less than two days together
    assert lent_range([*few, day(1.0, 40, 42)], 30.0, 100.0) is not None
    assert lent_range([], 30.0, 100.0) is None
    assert lent_range([replace(day(at, 40, 42), steps=0) for at in range(9)], 30.0, 100.0) is None
    assert lent_range([day(0, 1, 1), day(1, 1, 1)], 30.0, 0.0) is None


@pytest.mark.parametrize(
    ("low", "high", "amount", "is_carried"),
    [(5, 20, 10, True), (4.9, 20, 10, False), (5, 20.1, 10, False), (0, 0, 0, True), (0, 1, 0, False)],
)
def test_half_to_twice_the_amount_is_carried(low: float, high: float, amount: float, is_carried: bool) -> None:
    assert LentRange(low, high, 3.0).is_carried(amount) == is_carried


def test_ranges_cover_as_often_as_they_say() -> None:
    """Four in five, over histories of three to ten days that err by normal amounts around a bias."""
    rng = np.random.default_rng(1)
    inside = 0
    for trial in range(4000):
        days = 3 + trial % 8
        missed = rng.normal(4.0, 3.0, days + 1)
        found = lent_range([day(at, 40, 40 + missed[at]) for at in range(days)], 40.0, 100.0)
        assert found is not None
        inside += found.low <= 40 + missed[days] <= found.high
    assert inside / 4000 == pytest.approx(0.8, abs=0.02)
