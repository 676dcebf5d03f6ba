"""Delivers the founding payload to the scheduler and the extender, every 30 s, to each of several receivers.

A receiver that is unavailable, hangs or refuses must cost neither memory nor the other receivers their reports, and
when it is back it must get the node's current state. A task and a queue of one per receiver: the newest report replaces
one that still waits (a receiver keeps one report per node and drops older ones, so a longer queue would only deliver
discarded reports). After a failure it backs off, longer each time, up to the report's own time to live.
Limits: a report that the receiver refuses as invalid is dropped and counted, since a retry would fail again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from cotenant.engine.framework.backoff import Backoff
from cotenant.model.cluster.report import REPORT_TTL_S, NodeReport
from cotenant.model.errors import CotenantError, Transient
from cotenant.services.reporting import payload

Post = Callable[[str, bytes], Awaitable[None]]
_log = logging.getLogger(__name__)


class ReportOutbox:
    """The outbox of one receiver. The counts are for metrics."""

    def __init__(
        self,
        url: str,
        post: Post,
        monotonic: Callable[[], float],
        *,
        backoff: Backoff | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.url = url
        self.delivered = 0
        self.refused = 0
        self.failed = 0
        self.replaced = 0
        self.delivered_s: float | None = None
        self._post = post
        self._monotonic = monotonic
        self._backoff = backoff or Backoff(1.0, REPORT_TTL_S / 2)
        self._sleep = sleep
        self.waiting: NodeReport | None = None  # the report to deliver next
        self._event = asyncio.Event()
        self._failures = 0  # in a row
        self._last_failure = ""  # the last kind of failure

    def put(self, report: NodeReport) -> None:
        """Deliver this report next."""
        if self.waiting is not None:
            self.replaced += 1
        self.waiting = report
        self._event.set()

    async def run(self) -> None:
        """Deliver, until cancelled."""
        while True:
            await self._event.wait()
            await self.deliver()
            if self._failures:
                await self._sleep(self._backoff.rest_s(self._failures))

    async def deliver(self) -> None:
        """One attempt; after a transient failure the report stays queued, unless there is a newer one."""
        report, self.waiting = self.waiting, None
        self._event.clear()
        if report is None:
            return
        try:
            await self._post(self.url, payload.write(report))
        except Transient as error:
            self.failed += 1
            self._failures += 1
            self._log_failure("is not delivered", error)
            if self.waiting is None:
                self.waiting = report
                self._event.set()
            else:
                self.replaced += 1
        except CotenantError as error:
            self.refused += 1
            self._failures = 0
            self._log_failure("is refused", error)
        else:
            if self._last_failure:
                _log.info("%s accepts reports again", self.url)
            self._failures, self._last_failure = 0, ""
            self.delivered += 1
            self.delivered_s = self._monotonic()

    def _log_failure(self, what: str, error: Exception) -> None:
        if what != self._last_failure:  # log changes only
            _log.warning("a report %s: %s", what, error)
        self._last_failure = what
