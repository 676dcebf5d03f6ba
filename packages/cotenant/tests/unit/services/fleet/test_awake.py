"""A controller notices that it was stopped, and refuses for a moment."""

from __future__ import annotations

import pytest

from cotenant.model.errors import Transient
from cotenant.services.fleet.controller.awake import ASLEEP_S, REFUSES_S, SLOW_S, Awake


def test_after_a_sleep_it_refuses_until_what_waited_has_been_read() -> None:
    now = [100.0]
    awake = Awake(lambda: now[0])
    for _ in range(5):
        now[0] += SLOW_S
        awake.check(0.1)  # late, and not asleep
    now[0] += ASLEEP_S + 0.1
    with pytest.raises(Transient, match="stopped until a moment ago"):
        awake.check(600.0)
    now[0] += REFUSES_S / 2
    awake.beat()
    now[0] += REFUSES_S / 2 - 0.1
    with pytest.raises(Transient):
        awake.check(600.0)
    now[0] += 0.2
    awake.check(600.0)


def test_after_a_short_stop_it_refuses_only_what_was_due_meanwhile() -> None:
    now = [100.0]
    awake = Awake(lambda: now[0])
    now[0] += 2.0
    awake.check(5.0)
    with pytest.raises(Transient):
        awake.check(1.5)


def test_a_pulse_that_comes_before_the_first_request_hides_no_sleep() -> None:
    now = [100.0]
    awake = Awake(lambda: now[0])
    now[0] += 60.0
    awake.beat()
    with pytest.raises(Transient):
        awake.check(600.0)
