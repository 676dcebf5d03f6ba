"""The agent's own time, which never goes back, whatever the clock of its samples does.

Leases, back-offs and limits are spans of time, and a clock that goes back an hour would freeze them for an hour. The
agent's time follows the given one; where that goes back by more than events may be out of order, the agent's time
continues from where it was.
Limits: a jump ahead is accepted; everything held then counts as expired and is requested again, which is safe.
"""

from __future__ import annotations

_OUT_OF_ORDER_US = 1_000_000


class NodeClock:
    """Times in microseconds."""

    def __init__(self) -> None:
        self.now_us = 0
        self.went_back = 0  # how often
        self._offset_us = 0
        self._started = False

    def at(self, given_us: int) -> int:
        """The agent's time for a given time."""
        own = given_us + self._offset_us
        if not self._started:
            self._started, self.now_us = True, own
        elif own >= self.now_us:
            self.now_us = own
        elif self.now_us - own > _OUT_OF_ORDER_US:
            self._offset_us += self.now_us - own
            self.went_back += 1
        return self.now_us
