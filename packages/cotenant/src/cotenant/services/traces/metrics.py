"""`/metrics` of the trace process.

Grafana's service map, and dashboards for span metrics, expect names that exist. `traces_service_graph_*` with Tempo's
labels; what the process itself does is under `cotenant_traces_`. Everything is read from the engine when a scrape asks.
Limits: latency by operation is exported as sum and count; its quantiles are on the pages; the page has a bounded size,
beyond it operations and edges are summed up as `_other` (metrics_room.py).

Source: grafana/tempo, modules/generator/processor/servicegraphs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from cotenant.drivers.metrics.registry import MetricsRegistry
from cotenant.engine.traces.operations import OTHER, SpanOperation
from cotenant.engine.traces.service_graph import BOUNDS_S, CallDurations, Edge, EdgeFigures
from cotenant.engine.traces.trace_engine import TraceEngine
from cotenant.model.traces.spans import REQUESTS
from cotenant.services.traces.metrics_room import EDGES_MAX_BYTES, OPERATIONS_MAX_BYTES, PageRoom
from cotenant.services.traces.objective_board import ObjectiveBoard
from cotenant.services.traces.objective_metrics import objective_metrics
from cotenant.services.traces.signal_streams import SignalStreams

if TYPE_CHECKING:
    from cotenant.services.traces.move_requests import MoveRequests

_EDGE = ("client", "server", "connection_type")
_OPERATION = ("service_namespace", "service", "operation", "kind")


class TraceMetrics(Collector):
    """Collects from the engine."""

    def __init__(self, engine: TraceEngine, board: ObjectiveBoard | None = None) -> None:
        self._engine = engine
        self._board = board
        self._answers: dict[tuple[str, str], int] = {}
        self.registry = MetricsRegistry()
        self.registry.register(self)

    def answered(self, transport: str, status: str) -> None:
        """Count an answer to an exporter; `status` is an HTTP status or the name of a gRPC code."""
        self._answers[transport, status] = self._answers.get((transport, status), 0) + 1

    def page(self) -> bytes:
        """The text exposition."""
        return self.registry.page(self._large())

    async def page_beside(self) -> bytes:
        """The same without holding the event loop while its text is made."""
        return await self.registry.page_beside(self._large())

    def collect(self) -> Iterator[Metric]:
        """What the engine counted, but for the series of `_large`."""
        yield from self._own()
        if self._board is not None:
            yield from objective_metrics(self._board)

    def _own(self) -> Iterator[Metric]:
        counts, engine = self._engine.counts, self._engine
        yield _counter("cotenant_traces_requests", "Export requests that were taken.", counts.batches)
        yield _counter(
            "cotenant_traces_requests_refused",
            "Export requests that were refused for want of room.",
            counts.refused_batches,
        )
        yield _counter("cotenant_traces_spans", "Spans that were taken.", counts.spans)
        yield _counter("cotenant_traces_spans_rejected", "Invalid spans.", counts.rejected)
        yield _counter(
            "cotenant_traces_spans_closed", "Spans that were left out at closed channels.", engine.channels.spans
        )
        yield GaugeMetricFamily("cotenant_traces_closed_channels", "Closed channels.", value=len(engine.channels))
        yield _counter(
            "cotenant_traces_spans_late",
            "Spans that arrived after their trace was finished; they are counted, not shown.",
            counts.late,
        )
        yield _counter(
            "cotenant_traces_spans_dropped",
            "Spans left out of their trace: beyond its bound, or with the id of another.",
            counts.dropped,
        )
        yield _counter(
            "cotenant_traces_spans_repeated", "Spans that were sent again; not counted anew.", counts.repeated
        )
        yield _counter(
            "cotenant_traces_spans_old",
            "Spans that ended more than a minute before they arrived; no requests of now.",
            counts.old,
        )
        yield _counter(
            "cotenant_traces_spans_other",
            "Spans counted under _other because there are too many operations.",
            engine.operations.overflowed,
        )
        yield _counter("cotenant_traces_finished", "Finished traces.", counts.finished)
        yield _counter(
            "cotenant_traces_partial", "Finished traces with a missing parent or several roots.", counts.partial
        )
        yield _counter(
            "cotenant_traces_attributes_dropped",
            "Requests whose attributes were dropped before their traces were finished.",
            engine.bodies.dropped,
        )
        yield _counter(
            "cotenant_traces_skew_ignored",
            "Calls whose estimated clock skew is beyond the bound.",
            engine.skews.ignored,
        )
        yield GaugeMetricFamily(
            "cotenant_traces_open_spans", "Spans whose traces are not finished.", value=engine.open_spans
        )
        yield GaugeMetricFamily("cotenant_traces_operations", "Operations seen.", value=len(engine.operations))
        answers = CounterMetricFamily(
            "cotenant_traces_answers", "Answers to exporters.", labels=("transport", "status")
        )
        for (transport, status), count in self._answers.items():
            answers.add_metric((transport, status), count)
        yield answers

    def _large(self) -> Iterator[Metric]:
        """Series of operations and edges as of now; they are made as they are taken, in any thread."""
        latency, engine = self._engine.latency, self._engine
        figures = latency.requests.copy(), latency.errors.copy(), latency.duration_ns.copy()
        known, beyond = tuple(engine.operations.known), engine.represented.beyond.copy()
        return chain(
            _operations(known, *figures),
            _represented(known, figures[0], beyond),
            _graph(tuple(engine.graph.edges.items())),
        )


class StreamMetrics(Collector):
    """The streams of signals to agents."""

    def __init__(self, streams: SignalStreams) -> None:
        self._streams = streams

    def collect(self) -> Iterator[Metric]:
        """What the streams counted."""
        yield GaugeMetricFamily("cotenant_signal_streams", "Agents that receive signals.", value=len(self._streams))
        yield _counter("cotenant_signals_sent", "Signals put into the streams of agents.", self._streams.signals)


class MoveMetrics(Collector):
    """The moves that nodes asked for."""

    def __init__(self, moves: MoveRequests) -> None:
        self._moves = moves

    def collect(self) -> Iterator[Metric]:
        """By outcome."""
        asked = CounterMetricFamily("cotenant_move_requests", "Moves that nodes asked for.", labels=("outcome",))
        for outcome, count in self._moves.counts.items():
            asked.add_metric((outcome,), count)
        yield asked


def _operations(
    known: Sequence[SpanOperation], taken: NDArray[np.int64], failed: NDArray[np.int64], duration_ns: NDArray[np.int64]
) -> Iterator[Metric]:
    requests = CounterMetricFamily("cotenant_service_requests", "Requests by operation.", labels=_OPERATION)
    errors = CounterMetricFamily("cotenant_service_errors", "Failed requests by operation.", labels=_OPERATION)
    seconds = CounterMetricFamily("cotenant_service_seconds", "Sum of durations by operation.", labels=_OPERATION)
    room = PageRoom(OPERATIONS_MAX_BYTES, lines=3)
    rest: list[int] = []
    for number, operation in enumerate(known):
        if operation.kind in REQUESTS and number < taken.size:
            labels = (operation.namespace, operation.service, operation.name, operation.kind.name.lower())
            if not room.takes(operation.namespace, labels):
                rest.append(number)
                continue
            requests.add_metric(labels, int(taken[number]))
            errors.add_metric(labels, int(failed[number]))
            seconds.add_metric(labels, float(duration_ns[number]) / 1e9)
    if rest:
        labels = (OTHER, OTHER, OTHER, "")
        requests.add_metric(labels, int(taken[rest].sum()))
        errors.add_metric(labels, int(failed[rest].sum()))
        seconds.add_metric(labels, float(duration_ns[rest].sum()) / 1e9)
    yield from (requests, errors, seconds)


def _represented(
    known: Sequence[SpanOperation], taken: NDArray[np.int64], beyond: NDArray[np.float64]
) -> Iterator[Metric]:
    requests = CounterMetricFamily(
        "cotenant_service_requests_represented",
        "Requests by operation, each over the probability in its tracestate, of operations that have one.",
        labels=_OPERATION,
    )
    room, rest = PageRoom(OPERATIONS_MAX_BYTES, lines=1), 0.0
    for number in np.flatnonzero(beyond).tolist():
        operation, represented = known[number], float(taken[number]) + float(beyond[number])
        labels = (operation.namespace, operation.service, operation.name, operation.kind.name.lower())
        if room.takes(operation.namespace, labels):
            requests.add_metric(labels, represented)
        else:
            rest += represented
    if rest:
        requests.add_metric((OTHER, OTHER, OTHER, ""), rest)
    yield requests


def _graph(edges: Iterable[tuple[Edge, EdgeFigures]]) -> Iterator[Metric]:
    prefix = "traces_service_graph_request"
    calls = CounterMetricFamily(prefix, "Calls between two services.", labels=_EDGE)
    failed = CounterMetricFamily(f"{prefix}_failed", "Failed calls between two services.", labels=_EDGE)
    client = HistogramMetricFamily(f"{prefix}_client_seconds", "Calls as the client saw them.", labels=_EDGE)
    server = HistogramMetricFamily(f"{prefix}_server_seconds", "Calls as the server saw them.", labels=_EDGE)

    def add(labels: tuple[str, ...], figures: EdgeFigures) -> None:
        calls.add_metric(labels, figures.calls)
        failed.add_metric(labels, figures.failed)
        for family, durations in ((client, figures.client), (server, figures.server)):
            family.add_metric(labels, _buckets(durations), durations.total_s)

    room, rest = PageRoom(EDGES_MAX_BYTES, lines=2 * (len(BOUNDS_S) + 4)), EdgeFigures()
    for edge, figures in edges:
        labels = (edge.client, edge.server, edge.connection.value)
        if room.takes(edge.client.partition("/")[0], labels):
            add(labels, figures)
        else:
            rest.add(figures)
    if rest.calls:
        add((OTHER, OTHER, OTHER), rest)
    yield from (calls, failed, client, server)


def _counter(name: str, text: str, value: int) -> CounterMetricFamily:
    return CounterMetricFamily(name, text, value=value)


def _buckets(durations: CallDurations) -> list[tuple[str, float]]:
    summed = durations.counts.cumsum().tolist()
    return list(zip([*map(str, BOUNDS_S), "+Inf"], summed, strict=True))
