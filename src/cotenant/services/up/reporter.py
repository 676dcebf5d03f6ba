"""Sends the simulated nodes' reports to the scheduler and the extender, as real agents would: one POST a node.

Limits: a report that cannot be delivered is counted and dropped; the next one is newer. The first refusal is in the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence

import aiohttp
import msgspec

from cotenant.model.report import NodeReport
from cotenant.services.reporting.payload import Payload

ABREAST = 8
_JSON = {"Content-Type": "application/json"}
_log = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode


class HttpReporter:
    """Reports to some loopback ports. `close` it."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._urls = [f"http://127.0.0.1:{port}/metrics/report" for port in ports]
        self._session: aiohttp.ClientSession | None = None
        self.lost = 0
        self._refused = False

    async def report(self, reports: Sequence[NodeReport]) -> None:
        """Deliver them all, a few at a time."""
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5.0), headers=_JSON)
        queue = iter([(url, report) for report in reports for url in self._urls])
        await asyncio.gather(*(self._deliver(self._session, queue) for _ in range(ABREAST)))

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def _deliver(self, session: aiohttp.ClientSession, queue: Iterator[tuple[str, NodeReport]]) -> None:
        for url, report in queue:
            try:
                async with session.post(url, data=_body(report)) as answer:
                    if answer.status >= 300:
                        self.lost += 1
                        if not self._refused:
                            self._refused = True
                            _log.warning("%s refuses a report: %d %s", url, answer.status, await answer.text())
            except (aiohttp.ClientError, TimeoutError):
                self.lost += 1


def _body(report: NodeReport) -> bytes:
    return _encode(
        Payload(
            node_name=report.node,
            cpu_allocatable=report.cpu_allocatable,
            cpu_used=report.cpu_used,
            memory_allocatable=report.memory_allocatable,
            memory_used=report.memory_used,
            timestamp=report.at_s,
            tail_latency_p99=report.latency_p99_ms,
            slo_violation_rate=report.violation,
            dominant_share=report.dominant_share,
            per_task_fairness=report.fairness,
        )
    )
