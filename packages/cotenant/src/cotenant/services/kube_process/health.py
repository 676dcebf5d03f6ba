"""What `/healthz` and `/readyz` answer: named checks that say what is wrong.

A loop that hangs must restart the process, and a replica that has not listed everything must not get traffic yet; both
are a sentence to a person. A check is a function that returns what is wrong, or "" where nothing is.
Limits: checks run in the event loop, so a loop blocked for good does not answer at all, which a probe counts as a
failure too.
"""

from __future__ import annotations

from collections.abc import Callable

Check = Callable[[], str]

STUCK_S = 60.0  # a loop that has not turned for so long hangs


class ProcessHealth:
    """The checks of one process."""

    def __init__(self) -> None:
        self._live: list[Check] = []
        self._ready: list[Check] = []

    def must_live(self, check: Check) -> None:
        """Add a check of liveness: the process should be restarted while it fails."""
        self._live.append(check)

    def must_be_ready(self, check: Check) -> None:
        """Add a check of readiness: the process should get no traffic while it fails."""
        self._ready.append(check)

    def unhealthy(self) -> str:
        """What is wrong with the process; "" where nothing is."""
        return _failing(self._live)

    def unready(self) -> str:
        """What is missing before the process can serve; "" where nothing is."""
        return _failing(self._ready)


def _failing(checks: list[Check]) -> str:
    return "; ".join(wrong for check in checks if (wrong := check()))
