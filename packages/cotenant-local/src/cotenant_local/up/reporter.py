"""Sends the simulated nodes' reports to the scheduler and the extender, as real agents would: one POST for each node.

Limits: a report that cannot be delivered is counted and dropped; the next one is newer. The first refusal is logged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

from cotenant.model.cluster.report import NodeReport
from cotenant.model.errors import Permanent, Transient
from cotenant.services.reporting import payload
from cotenant.services.reporting.sender import ReportSender

CONCURRENT = 8
_log = logging.getLogger(__name__)


class HttpReporter:
    """Reports to loopback ports. `close` it."""

    def __init__(self, ports: Sequence[int], token_file: Path | None = None) -> None:
        """`token_file`: the bearer token that the receivers require."""
        self._urls = [f"http://127.0.0.1:{port}/metrics/report" for port in ports]
        self._sender = ReportSender(token_file)
        self.lost = 0
        self._refused = False

    async def report(self, reports: Sequence[NodeReport]) -> None:
        """Deliver them all, a few at a time."""
        queue = iter([(url, payload.write(report)) for report in reports for url in self._urls])
        await asyncio.gather(*(self._deliver(queue) for _ in range(CONCURRENT)))

    async def close(self) -> None:
        """Close the connections."""
        await self._sender.close()

    async def _deliver(self, queue: Iterator[tuple[str, bytes]]) -> None:
        for url, body in queue:
            try:
                await self._sender.post(url, body)
            except Transient:
                self.lost += 1
            except Permanent as error:
                self.lost += 1
                if not self._refused:
                    self._refused = True
                    _log.warning("a report is refused: %s", error)
