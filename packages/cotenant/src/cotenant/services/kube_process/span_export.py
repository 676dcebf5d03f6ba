"""Sends a process's own spans to an OTLP/HTTP receiver.

A receiver that is slow or away must cost the process neither time nor memory. Finished spans wait in a bounded queue; a
background task sends them in batches about once a second. What cannot be delivered now is sent again with a back-off;
what a full queue cannot take, and what the receiver refuses, is dropped and counted.
Limits: one receiver; what waits when the process ends gets one attempt of `LAST_S`.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence

from cotenant.drivers.metrics.registry import Sample
from cotenant.drivers.otlp.encoding import OwnSpan, encode
from cotenant.engine.framework.backoff import Backoff
from cotenant.model.errors import CotenantError, Transient
from cotenant.services.kube_process.kube_process import KubeProcess
from cotenant.services.kube_process.span_target import SpanTarget
from cotenant.services.reporting.sender import ReportSender

MAX_WAITING = 16_384
BATCH = 2_048
EVERY_S = 1.0
LAST_S = 1.0

_log = logging.getLogger(__name__)


def exporter(kube: KubeProcess, service: str, target: SpanTarget | None) -> SpanExporter | None:
    """The sender of a process's spans, as a background task of it; None where there is no target."""
    if target is None:
        return None
    found = SpanExporter(target, service, kube.identity)
    kube.background("spans", found.run)
    return found


class SpanExporter:
    """The queue and its sender. `run` as a background task."""

    def __init__(
        self,
        target: SpanTarget,
        service: str,
        instance: str,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`service` and `instance` are the resource's `service.name` and `service.instance.id`."""
        self.counts = {"exported": 0, "refused": 0, "dropped": 0}
        self._target = target
        self._scope = service
        self._resource = {
            "service.name": service,
            "service.instance.id": instance,
            "host.name": socket.gethostname(),
        }
        self._sleep = sleep
        self._waiting: deque[OwnSpan] = deque()
        self._some = asyncio.Event()

    def samples(self) -> Iterator[Sample]:
        """Spans by outcome, for a metric."""
        return (((outcome,), float(count)) for outcome, count in self.counts.items())

    def add(self, spans: Sequence[OwnSpan]) -> None:
        """Send these soon: all of them, or none where the queue is full."""
        if len(self._waiting) + len(spans) > MAX_WAITING:
            self.counts["dropped"] += len(spans)
            return
        self._waiting.extend(spans)
        self._some.set()

    async def run(self) -> None:
        """Send until cancelled."""
        sender = ReportSender(self._target.token_file, ca_file=self._target.ca)
        backoff, failures = Backoff(EVERY_S, 30.0), 0
        try:
            while True:
                await self._some.wait()
                await self._sleep(EVERY_S if failures == 0 else backoff.rest_s(failures))
                while self._waiting:
                    try:
                        await self._send(sender)
                    except Transient as error:
                        failures += 1
                        if failures == 1:
                            _log.warning("spans wait: %s", error)
                        break
                    if failures:
                        _log.info("spans are delivered again")
                    failures = 0
                else:
                    self._some.clear()
        finally:
            await self._last(sender)

    async def _send(self, sender: ReportSender) -> None:
        """Send the first batch. Raises `Transient`, with the spans still queued."""
        batch = [self._waiting[at] for at in range(min(BATCH, len(self._waiting)))]
        outcome = "exported"
        try:
            await sender.post(self._target.url, encode(self._resource, self._scope, batch))
        except Transient:
            raise
        except CotenantError as error:
            outcome = "refused"
            _log.warning("%d spans are refused: %s", len(batch), error)
        for _ in batch:
            self._waiting.popleft()
        self.counts[outcome] += len(batch)

    async def _last(self, sender: ReportSender) -> None:
        try:
            async with asyncio.timeout(LAST_S):
                while self._waiting:
                    await self._send(sender)
        except (Transient, TimeoutError):
            self.counts["dropped"] += len(self._waiting)
        finally:
            await sender.close()
