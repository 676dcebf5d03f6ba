"""Tells the scheduler and the extender what this node does: the founding payload, every 30 s, to each of several receivers.

Problem: a receiver that is away, hangs or refuses must cost neither memory nor the other receivers their reports, and when it is back it must
hear how the node is, not how it was. Choice: a task and a queue of one a receiver: the newest report replaces one that still waits (a receiver
keeps one report a node and drops older ones, so a longer queue would only deliver what nobody takes). After a failure it rests, longer each
time, up to the report's own time to live. Limits: a report that the receiver refuses as wrong is dropped and counted, since it will not
become right.
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


class Outbox:
    """One receiver. The counts are for metrics."""

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
        self.waiting: NodeReport | None = None  # what is to be delivered next
        self._news = asyncio.Event()
        self._failures = 0  # in a row
        self._said = ""  # what went wrong last

    def put(self, report: NodeReport) -> None:
        """Have it delivered next."""
        if self.waiting is not None:
            self.replaced += 1
        self.waiting = report
        self._news.set()

    async def run(self) -> None:
        """Deliver, until cancelled."""
        while True:
            await self._news.wait()
            await self.deliver()
            if self._failures:
                await self._sleep(self._backoff.rest_s(self._failures))

    async def deliver(self) -> None:
        """One attempt for what waits; after a failure that may pass it waits on, unless there is a newer one."""
        report, self.waiting = self.waiting, None
        self._news.clear()
        if report is None:
            return
        try:
            await self._post(self.url, payload.write(report))
        except Transient as error:
            self.failed += 1
            self._failures += 1
            self._tell("is not delivered", error)
            if self.waiting is None:
                self.waiting = report
                self._news.set()
            else:
                self.replaced += 1
        except CotenantError as error:
            self.refused += 1
            self._failures = 0
            self._tell("is refused", error)
        else:
            if self._said:
                _log.info("%s takes reports again", self.url)
            self._failures, self._said = 0, ""
            self.delivered += 1
            self.delivered_s = self._monotonic()

    def _tell(self, what: str, error: Exception) -> None:
        if what != self._said:  # once, not every time
            _log.warning("a report %s: %s", what, error)
        self._said = what
