"""The allowance of moves: earned by the hour, kept for a day, and spent once for each move."""

from __future__ import annotations

import pytest

from cotenant.policy.rebalance.allowance import MoveAllowance

HOUR_S = 3600.0


def test_pods_that_are_found_have_earned_a_day_and_new_ones_nothing() -> None:
    assert MoveAllowance(0.002).left([0.0] * 1000, (), 7200.0) == 48
    assert MoveAllowance(0.002).left([7200.0] * 1000, (), 7200.0) == 0


def test_it_is_earned_by_the_hour_and_kept_for_at_most_a_day() -> None:
    allowance, pods = MoveAllowance(0.002), [0.0] * 1000
    allowance.left(pods, (), 0.0)
    assert [allowance.left(pods, (), hour * HOUR_S) for hour in (0.4, 0.5, 1.0, 6.0)] == [0, 1, 2, 12]
    assert allowance.left(pods, (), 100 * HOUR_S) == 48


def test_a_move_counts_once_for_as_long_as_it_is_remembered() -> None:
    allowance, pods = MoveAllowance(0.002), [0.0] * 1000
    assert allowance.left(pods, {"a", "b"}, HOUR_S) == 46
    assert allowance.left(pods, {"a", "b"}, HOUR_S) == 46
    assert allowance.left(pods, {"b", "c"}, HOUR_S) == 45, "a was forgotten, which gives nothing back"


def test_debts_are_worked_off_before_anything_moves() -> None:
    allowance, pods = MoveAllowance(0.002), [0.0] * 1000
    allowance.left(pods, (), 0.0)
    moves = [str(number) for number in range(4)]
    assert allowance.left(pods, moves, 1.0) == 0
    assert allowance.left(pods, moves, 2 * HOUR_S) == 0
    assert allowance.left(pods, moves, 2.6 * HOUR_S) == pytest.approx(1)
