"""Unix time that never jumps.

When the machine's clock is set, every back-off would last for hours or end at once. The Unix time of the start,
advanced by the monotonic clock.
Limits: after a jump this clock differs from the machine's by the jump until a restart; `ours` translates times that
others wrote a moment ago.
"""

from __future__ import annotations

import time
from collections.abc import Callable


class SteadyClock:
    """Seconds since 1970 by the monotonic clock."""

    def __init__(self, unix: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._unix = unix
        self._monotonic = monotonic
        self._offset = unix() - monotonic()

    def __call__(self) -> float:
        """Now."""
        return self._monotonic() + self._offset

    def ours(self, unix_s: float) -> float:
        """A time that was read from the machine's clock at most some seconds ago, on this clock."""
        return unix_s - self._unix() + self()
