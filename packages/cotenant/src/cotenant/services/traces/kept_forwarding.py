"""Kept traces to a collector that stores them, as soon as they are finished and chosen.

What the budget chose goes on; the slowest ones that are kept apart from it do not, since nobody could say how many they
stand for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from cotenant.drivers.otlp.kept_encoding import SpanToSend, requests_of
from cotenant.engine.fleet.backlog import Export
from cotenant.engine.traces.trace_engine import TraceEngine
from cotenant.services.export_sending import ExportSender

PATH = "/v1/traces"
_PROTOBUF = "application/x-protobuf"
_EVERY_S = 60.0  # between two lines about the same fault
_log = logging.getLogger(__name__)


class KeptForwarder(Collector):
    """Takes what `engine` kept after each tick, and sends it."""

    def __init__(self, engine: TraceEngine, sender: ExportSender) -> None:
        self._engine, self.sender = engine, sender
        self._incomplete = 0  # spans whose bytes were dropped, or beyond those of a kept trace
        engine.collects_kept = True

    def take(self) -> None:
        """What was kept since the last time."""
        arrived = 0
        spans = []
        for trace in self._engine.take_kept():
            arrived += trace.size
            spans += [SpanToSend(span.source, span.message, trace.threshold) for span in trace.spans]
        encoded = 0
        for body, count in requests_of(spans):
            encoded += count
            self.sender.put(Export(PATH, body, _PROTOBUF, "", count))
        self._incomplete += arrived - encoded

    async def report(self) -> None:
        """Say what is wrong, now and then."""
        said = ""
        while True:
            fault = self.sender.fault
            if fault != said:
                said = fault
                _log.warning("kept spans: %s", fault) if fault else _log.info("kept spans are taken again")
            await asyncio.sleep(_EVERY_S if fault else 1.0)

    def collect(self) -> Iterator[Metric]:
        """Spans by what became of them."""
        found = CounterMetricFamily("cotenant_traces_forwarded", "Kept spans, by what became of them.", labels=("to",))
        counts = {
            "sent": self.sender.sent,
            "dropped": self.sender.dropped,
            "refused": self.sender.refused,
            "incomplete": self._incomplete + self._engine.counts.cut,
        }
        for outcome, count in counts.items():
            found.add_metric((outcome,), count)
        yield found
        waiting = self.sender.backlog.size_bytes
        yield GaugeMetricFamily("cotenant_traces_forwarding_bytes", "Kept spans that wait.", value=waiting)
