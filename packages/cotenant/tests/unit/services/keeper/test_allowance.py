"""How many pressure triggers a keeper opens."""

from __future__ import annotations

from cotenant.services.keeper.server import TriggerAllowance


def test_so_many_at_once_and_one_more_after_a_while() -> None:
    now_s = [100.0]
    allowance = TriggerAllowance(3, 10.0, lambda: now_s[0])
    assert [allowance.take() for _ in range(5)] == [True, True, True, False, False]
    now_s[0] += 9.0
    assert not allowance.take()
    now_s[0] += 1.0
    assert [allowance.take(), allowance.take()] == [True, False]
    now_s[0] += 1000.0
    assert [allowance.take() for _ in range(4)] == [True, True, True, False]
    now_s[0] -= 500.0  # a clock that goes back grants nothing
    assert not allowance.take()
