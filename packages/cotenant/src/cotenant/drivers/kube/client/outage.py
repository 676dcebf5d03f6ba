"""Whether the API server answers, and the log lines about it.

When the server is away, a dozen watches and the Lease fail at once, each with a line of its own at every attempt. The
client records here whether requests get an answer, whatever its status. The first failure is one warning, a reminder
follows every `REMIND_S`, and the first answer ends the outage with a line; whoever retries logs at `level`.
Limits: a server that refuses everything with 5xx does answer.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

REMIND_S = 60.0

_log = logging.getLogger(__name__)


class Outage:
    """The present outage of one server, if there is one."""

    def __init__(self, server: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._server = server
        self._monotonic = monotonic
        self._since_s: float | None = None
        self._logged_s = 0.0

    @property
    def level(self) -> int:
        """The logging level of one failed attempt: a warning, unless the outage has been reported."""
        return logging.WARNING if self._since_s is None else logging.DEBUG

    @property
    def lasts_s(self) -> float:
        """How long the server has not answered; 0 while it does."""
        return 0.0 if self._since_s is None else self._monotonic() - self._since_s

    def failed(self, error: Exception) -> None:
        """A request got no answer."""
        now_s = self._monotonic()
        why = str(error).partition(": ")[2] or str(error)  # without the request
        if self._since_s is None:
            self._since_s = self._logged_s = now_s
            _log.warning("the API server %s does not answer, trying again: %s", self._server, why)
        elif now_s - self._logged_s >= REMIND_S:
            self._logged_s = now_s
            _log.warning("the API server %s has not answered for %.0f s: %s", self._server, now_s - self._since_s, why)

    def answered(self) -> None:
        """A request got an answer."""
        if self._since_s is not None:
            _log.info("the API server %s answers again after %.1f s", self._server, self._monotonic() - self._since_s)
            self._since_s = None
