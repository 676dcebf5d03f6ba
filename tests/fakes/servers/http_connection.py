"""A connection of a server, for applications that are called without one."""

from __future__ import annotations

from cotenant.drivers.http.limits import ServerLimits


class FakeConnection:
    """Its body never counts as arrived; an abort is an error of the test."""

    has_whole_body = False

    def __init__(self, limits: ServerLimits) -> None:
        self.limits = limits

    def abort(self) -> None:
        raise AssertionError("an answer was cut")
