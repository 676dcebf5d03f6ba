"""The clock that does not jump."""

from __future__ import annotations

from cotenant.services.kube_process.clock import SteadyClock


def test_the_clock_does_not_jump() -> None:
    unix, monotonic = [1000.0], [5.0]
    clock = SteadyClock(lambda: unix[0], lambda: monotonic[0])
    unix[0] -= 3600.0  # the machine's clock was set back
    monotonic[0] += 2.0
    assert clock() == 1002.0
    assert clock.ours(unix[0] - 1.0) == 1001.0  # written a second ago by the clock as it is now
