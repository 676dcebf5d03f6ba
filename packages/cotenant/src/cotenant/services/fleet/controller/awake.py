"""Whether this process was stopped a moment ago.

A controller that is stopped (SIGSTOP, a suspended machine) keeps its connection, and what operators ask meanwhile waits
in it: given up by who asked, done by another controller, perhaps undone since. So for a moment after it wakes it
refuses what it is asked: all after a long sleep, after a short one what was due meanwhile. Who still waits asks again.
Limits: a virtual machine whose clock stands still while it is stopped does not notice.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from cotenant.model.errors import Transient

PULSE_S = 0.5
SLOW_S = 1.0  # without a pulse: so much a busy machine may take
ASLEEP_S = 3.0  # nothing from before it is done any more
REFUSES_S = 2.0  # after it woke: what waited has been read by then


def boottime_s() -> float:
    """Goes on while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Awake:
    """`now`: any clock that goes on while the process is stopped."""

    def __init__(self, now: Callable[[], float] = boottime_s) -> None:
        self._now = now
        self._alive_s = now()
        self._woke_s, self._slept_s = float("-inf"), 0.0

    def beat(self) -> None:
        """The process runs."""
        now_s = self._now()
        if now_s - self._alive_s > SLOW_S:
            self._woke_s, self._slept_s = now_s, now_s - self._alive_s
        self._alive_s = now_s

    def check(self, deadline_s: float) -> None:
        """For a request that has so much time. Raises `Transient` where it may be one from before a sleep."""
        self.beat()
        if self._alive_s - self._woke_s < REFUSES_S and self._slept_s > min(deadline_s, ASLEEP_S):
            raise Transient("this controller was stopped until a moment ago; ask again", REFUSES_S)

    async def pulse(self) -> None:
        """For ever."""
        while True:
            self.beat()
            await asyncio.sleep(PULSE_S)
