"""Ticks are due at whole periods from the start, whatever each one took."""

from cotenant.services.agent.loop.pace import Pace


def test_no_drift() -> None:
    pace, now_s = Pace(1.0, 100.0), 100.0
    for took_s in (0.3, 0.9, 0.01, 0.5):
        now_s += took_s
        now_s += pace.wait_s(now_s)
    assert now_s == 104.0
    assert pace.missed == 0


def test_what_was_missed_is_skipped_and_counted() -> None:
    pace = Pace(1.0, 100.0)
    assert pace.wait_s(103.5) == 0.5  # 101, 102 and 103 have passed
    assert pace.missed == 3
    assert pace.wait_s(104.25) == 0.75
    assert pace.missed == 3


def test_a_tick_that_ends_exactly_when_the_next_is_due_misses_it() -> None:
    pace = Pace(1.0, 100.0)
    assert pace.wait_s(101.0) == 1.0
    assert pace.missed == 1


def test_a_clock_that_goes_back_does_not_stop_the_loop() -> None:
    pace = Pace(1.0, 100.0)
    assert pace.wait_s(40.0) == 1.0
    assert pace.wait_s(41.25) == 0.75
    assert pace.missed == 0
