"""How long a child of `up` may take to become ready."""

from __future__ import annotations

import os

from cotenant_local.up.children import ReadyTime, cpu_delay_s


def test_waits_for_a_cpu_do_not_count() -> None:
    time = ReadyTime(120.0, 1000.0)
    assert not time.is_over(1119.0, 7, 100.0)
    assert not time.is_over(1219.0, 7, 100.0)
    assert time.is_over(1220.0, 7, 100.0)


def test_a_restarted_child_waits_anew() -> None:
    time = ReadyTime(10.0, 0.0)
    assert not time.is_over(14.0, 7, 5.0)
    assert not time.is_over(16.0, 8, 2.0)
    assert time.is_over(17.0, 8, 2.0)


def test_one_that_idles_or_is_gone_has_the_time_that_was_said() -> None:
    time = ReadyTime(10.0, 0.0)
    assert not time.is_over(9.9, 7, 0.0)
    assert time.is_over(10.0, 7, 0.0)


def test_the_kernel_says_how_long_a_process_waited() -> None:
    before_s = cpu_delay_s(os.getpid())
    assert 0.0 <= before_s <= cpu_delay_s(os.getpid())
    assert cpu_delay_s(0) == 0.0
