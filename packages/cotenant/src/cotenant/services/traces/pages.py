"""The pages of the trace process, as JSON.

    GET /api/v1/services                              operations of every service: rate, errors, latency in the window
    GET /api/v1/traces?service=&operation=&min_ms=&tag=KEY=VALUE&failed=1&slowest=1&limit=
    GET /api/v1/traces/ID                             one trace with its spans; ID may be shortened
    GET /api/v1/graph                                 who calls whom, since the start
    GET /api/v1/critical?service=&slowest=SHARE       where a service's requests spend their time
    GET /api/v1/sketch?service=                       a service's requests by half minute of the last hour, with their
                                                      latencies on a logarithmic scale
    GET /api/v1/objectives                            every ServiceObjective: state, budget, burn rates, alerts
    GET /api/v1/objectives/NAMESPACE/NAME             one, with its replicas
    GET /api/v1/stories?service=                      incidents of services by node, as their agents sent them, the
                                                      newest first

The command line and a console ask the same questions. One function a page, from the engine's state to frozen values.
Limits: answers are computed in the process's event loop; searching by tag reads the attributes of every kept span.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import nlargest
from itertools import islice
from math import isnan
from urllib.parse import parse_qsl

import msgspec
import numpy as np

from cotenant.drivers.http.messages import TEXT, HttpAnswer
from cotenant.engine.traces.kept import KeptTrace
from cotenant.engine.traces.operations import SpanOperation
from cotenant.engine.traces.search import TraceQuery, critical_of, search
from cotenant.engine.traces.trace_engine import TraceEngine
from cotenant.model.errors import InvalidInput
from cotenant.model.traces.spans import REQUESTS
from cotenant.policy.objective.latency_buckets import BUCKETS, GROWTH, edge_ns, quantile_ns
from cotenant.services.traces.objective_board import ObjectiveBoard
from cotenant.services.traces.page_forms import (
    CriticalPage,
    EdgeRow,
    OperationRow,
    PathRow,
    ServicesPage,
    SilentRow,
    SketchPage,
    SketchSlot,
    SpanRow,
    TracePage,
    TraceRow,
    TracesPage,
)
from cotenant.services.traces.story_board import StoryBoard

PREFIX = "/api/v1/"
LIMITS, MIN_MS, SHARES = (1, 1000), (0, 1e9), (1e-6, 1)  # bounds of what can be asked for
MAX_SILENT = 50
_MS = 1e6
BAND = 12  # buckets that are shown as one: 27 % wide


@dataclass(frozen=True, slots=True)
class TracePages:
    """The pages over an engine. `clock` gives Unix seconds."""

    engine: TraceEngine
    clock: Callable[[], float]
    board: ObjectiveBoard
    stories: StoryBoard

    def answer(self, path: str, query: str) -> HttpAnswer:
        """The answer to a GET below `PREFIX`."""
        parts = path.removeprefix(PREFIX).split("/")
        asked = parse_qsl(query, keep_blank_values=True)
        try:
            match parts:
                case ["services"]:
                    page: object = self.services()
                case ["traces"]:
                    page = self.traces(asked)
                case ["traces", trace_id]:
                    page = self.trace(trace_id)
                case ["graph"]:
                    page = self.graph()
                case ["critical"]:
                    page = self.critical(asked)
                case ["sketch"]:
                    page = self.sketch(asked)
                    if page is None:
                        return HttpAnswer(404, b'{"error":"the service has sent no request yet"}')
                case ["objectives"]:
                    page = self.board.views()
                case ["objectives", namespace, name]:
                    tracked = self.engine.objectives.get(f"{namespace}/{name}")
                    if tracked is None:
                        return HttpAnswer(404, msgspec.json.encode({"error": f"no objective {namespace}/{name}"}))
                    page = self.board.view(tracked, with_replicas=True)
                case ["stories"]:
                    page = self.stories.rows(dict(asked).get("service", ""))
                case _:
                    return HttpAnswer(404, b'{"error":"no such page"}')
        except InvalidInput as error:
            return HttpAnswer(400, msgspec.json.encode({"error": str(error)}))
        if page is None:
            return HttpAnswer(404, msgspec.json.encode({"error": f"no trace {parts[-1]}, or more than one begins so"}))
        return HttpAnswer(200, msgspec.json.encode(page))

    def services(self) -> ServicesPage:
        """Operations that served requests in the window, the busiest first."""
        now_s, rows, window_s = self.clock(), [], 0.0
        for number, operation in enumerate(self.engine.operations.known):
            if operation.kind not in REQUESTS:
                continue
            found = self.engine.latency.window(number, now_s)
            window_s = max(window_s, found.window_s)
            quantiles = [_milliseconds(quantile_ns(found.buckets, share)) for share in (0.5, 0.95, 0.99)]
            rows.append(
                OperationRow(
                    operation.qualified_service,
                    operation.name,
                    operation.kind.name.lower(),
                    found.requests,
                    found.requests / found.window_s,
                    found.errors,
                    *quantiles,
                )
            )
        rows.sort(key=lambda row: (-row.requests, row.service, row.operation))
        return ServicesPage(window_s, rows, self._silent(), self.engine.counts.old)

    def _silent(self) -> list[SilentRow]:
        spans: dict[str, dict[str, int]] = {}
        serving = set()
        for number, operation in enumerate(self.engine.operations.known):
            if operation.kind in REQUESTS:
                serving.add(operation.qualified_service)
            elif number < self.engine.latency.requests.size:
                of = spans.setdefault(operation.qualified_service, {})
                kind = operation.kind.name.lower()
                of[kind] = of.get(kind, 0) + int(self.engine.latency.requests[number])
        return [SilentRow(name, of) for name, of in sorted(spans.items()) if name not in serving][:MAX_SILENT]

    def sketch(self, asked: Iterable[tuple[str, str]]) -> SketchPage | None:
        """A service's latency over the last hour; None where it has sent no span. Raises `InvalidInput`."""
        service = dict(asked).get("service", "")
        if not service:
            raise InvalidInput("service", service, "the name of a service, NAME or NAMESPACE/NAME")
        numbers = [
            number
            for number, operation in enumerate(self.engine.operations.known)
            if operation.kind in REQUESTS and operation.qualified_service == service
        ]
        if not numbers:
            return None
        now_s, slots = self.clock(), []
        for slot in self.engine.latency.slots(numbers, now_s):
            padded = np.zeros(-(-BUCKETS // BAND) * BAND, np.int64)
            padded[:BUCKETS] = slot.buckets
            bands = padded.reshape(-1, BAND).sum(axis=1)
            p50, p95, p99 = (quantile_ns(slot.buckets, share) / _MS for share in (0.5, 0.95, 0.99))
            slots.append(
                SketchSlot(
                    now_s - slot.begun_s,
                    slot.ended_s - slot.begun_s,
                    slot.requests,
                    slot.errors,
                    p50,
                    p95,
                    p99,
                    [(int(band), int(bands[band])) for band in np.flatnonzero(bands)],
                )
            )
        return SketchPage(service, edge_ns(0) / _MS, GROWTH**BAND, slots)

    def traces(self, asked: Iterable[tuple[str, str]]) -> TracesPage:
        """The newest that match, or with `slowest` those that took longest. Raises `InvalidInput`."""
        fields = {"service": "", "operation": "", "min_ms": "0", "limit": "20", "slowest": "", "failed": ""}
        tags: dict[str, str] = {}
        for key, value in asked:
            if key == "tag":
                name, _, wanted = value.partition("=")
                tags[name] = wanted
            elif key in fields:
                fields[key] = value
            else:
                raise InvalidInput(key, value, f"one of {', '.join(fields)}, tag")
        limit = int(_number("limit", fields["limit"], LIMITS))
        min_ns = int(_number("min_ms", fields["min_ms"], MIN_MS) * _MS)
        wanted_traces = TraceQuery(fields["service"], fields["operation"], min_ns, tags, bool(fields["failed"]))
        found = search(self.engine.kept, wanted_traces, self.engine.message_tags)
        if fields["slowest"]:
            chosen = nlargest(limit, found, key=lambda trace: trace.duration_ns)
        else:
            chosen = list(islice(found, limit))
        beginnings = self.engine.kept.beginnings(chosen)
        return TracesPage(len(self.engine.kept), list(map(_trace_row, chosen, beginnings)))

    def trace(self, trace_id: str) -> TracePage | None:
        """One trace; None where it is not kept."""
        trace = self.engine.kept.get(trace_id.lower())
        if trace is None:
            return None
        root = trace.spans[trace.root]
        rows = [
            SpanRow(
                f"{span.span_id:016x}",
                span.parent,
                span.operation.qualified_service,
                span.operation.name,
                span.operation.kind.name.lower(),
                span.source.pod,
                span.source.host,
                (span.start_ns - root.start_ns) / _MS,
                (span.end_ns - span.start_ns) / _MS,
                span.self_ns / _MS,
                span.shift_ns / _MS,
                span.failed,
                span.orphan,
                dict(self.engine.message_tags(span.message)),
            )
            for span in trace.spans
        ]
        return TracePage(trace.short_id, root.start_ns, trace.duration_ns / _MS, trace.partial, trace.size, rows)

    def graph(self) -> list[EdgeRow]:
        """The edges, the busiest first."""
        rows = []
        for edge, figures in self.engine.graph.edges.items():
            means = [
                side.total_s * 1e3 / int(side.counts.sum()) if side.counts.any() else None
                for side in (figures.client, figures.server)
            ]
            rows.append(EdgeRow(edge.client, edge.server, edge.connection.value, figures.calls, figures.failed, *means))
        return sorted(rows, key=lambda row: (-row.calls, row.client, row.server))

    def critical(self, asked: Iterable[tuple[str, str]]) -> CriticalPage:
        """Where a service's requests spend their time. Raises `InvalidInput`."""
        fields = dict(asked)
        service, share = fields.get("service", ""), fields.get("slowest", "1")
        if not service:
            raise InvalidInput("service", service, "the name of a service, NAME or NAMESPACE/NAME")
        found = critical_of(self.engine.kept, service, _number("slowest", share, SHARES))
        requests = max(1.0, found.represented)
        rows = [
            PathRow(
                *_names(path_share.operation),
                path_share.share,
                path_share.self_ns / requests / _MS,
                path_share.requests,
            )
            for path_share in found.shares
        ]
        return CriticalPage(service, found.requests, found.total_ns / requests / _MS, rows, found.represented)


def checked_number(field: str, number: float, bounds: tuple[float, float]) -> float:
    """The number. Raises `InvalidInput` where it is outside the bounds, or NaN."""
    if not bounds[0] <= number <= bounds[1]:
        raise InvalidInput(field, number, f"a number from {bounds[0]:g} to {bounds[1]:g}")
    return number


def not_get() -> HttpAnswer:
    """The answer to another method."""
    return HttpAnswer(405, b"only GET\n", TEXT, ((b"allow", b"GET"),))


def _trace_row(trace: KeptTrace, beginning: str) -> TraceRow:
    root = trace.spans[trace.root]
    service, operation, _ = _names(root.operation)
    return TraceRow(
        trace.short_id,
        service,
        operation,
        root.start_ns,
        trace.duration_ns / _MS,
        trace.size,
        len({span.operation.qualified_service for span in trace.spans}),
        any(span.failed for span in trace.spans),
        trace.partial,
        trace.kept_for,
        trace.probability,
        beginning,
    )


def _names(operation: SpanOperation) -> tuple[str, str, str]:
    return operation.qualified_service, operation.name, operation.kind.name.lower()


def _milliseconds(duration_ns: float) -> float | None:
    return None if isnan(duration_ns) else duration_ns / _MS


def _number(field: str, text: str, bounds: tuple[float, float]) -> float:
    try:
        number = float(text)
    except ValueError:
        raise InvalidInput(field, text, "a number") from None
    return checked_number(field, number, bounds)
