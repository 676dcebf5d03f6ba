"""The requests of one process by their spans, for whoever joins them with something else of that time.

    GET /api/v1/requests?of=NAME&from_ns=&to_ns=      NAME: an instance (guid), a pod or a service

Times are those of the request's own host: the correction of clock skew is taken out again, since what they are joined
with was measured there. Those that are kept apart from the budget are left out: nobody could say what they stand for.
"""

from __future__ import annotations

from urllib.parse import parse_qsl

import msgspec

from cotenant.drivers.http.messages import HttpAnswer
from cotenant.engine.traces.kept import APART, KeptSpan
from cotenant.engine.traces.search import is_of
from cotenant.engine.traces.trace_engine import TraceEngine
from cotenant.model.errors import InvalidInput
from cotenant.model.traces.spans import REQUESTS as REQUEST_KINDS

REQUESTS = "/api/v1/requests"
MAX_REQUESTS = 5_000
_THREAD = "thread.id"


class RequestRow(msgspec.Struct, frozen=True, rename="camel"):
    """A request. `thread`: as its span names it, 0 = not. `weight`: how many it stands for."""

    trace_id: str
    span_id: str
    service: str
    operation: str
    start_ns: int
    end_ns: int
    thread: int
    weight: float


class RequestsPage(msgspec.Struct, frozen=True, rename="camel"):
    """`more`: requests beyond the bound, which are left out."""

    requests: list[RequestRow]
    more: int


def answer(engine: TraceEngine, query: str) -> HttpAnswer:
    """The answer to a GET."""
    try:
        return HttpAnswer(200, msgspec.json.encode(_page(engine, query)))
    except InvalidInput as error:
        return HttpAnswer(400, msgspec.json.encode({"error": str(error)}))


def _page(engine: TraceEngine, query: str) -> RequestsPage:
    asked = dict(parse_qsl(query))
    name = asked.get("of", "")
    if not name:
        raise InvalidInput("of", name, "the name of an instance, a pod or a service")
    from_ns, to_ns = _nanoseconds(asked, "from_ns", 0), _nanoseconds(asked, "to_ns", 1 << 62)
    rows: list[RequestRow] = []
    more = 0
    for trace in engine.kept:
        if trace.kept_for == APART:
            continue
        for span in trace.spans:
            if span.operation.kind not in REQUEST_KINDS or not _is_of(span, name):
                continue
            start_ns, end_ns = span.start_ns - span.shift_ns, span.end_ns - span.shift_ns
            if end_ns < from_ns or start_ns > to_ns:
                continue
            if len(rows) == MAX_REQUESTS:
                more += 1
                continue
            written = engine.message_tags(span.message).get(_THREAD, "")
            rows.append(
                RequestRow(
                    trace.short_id,
                    f"{span.span_id:016x}",
                    span.operation.qualified_service,
                    span.operation.name,
                    start_ns,
                    end_ns,
                    int(written) if written.isascii() and written.isdecimal() else 0,
                    1.0 / trace.probability,
                )
            )
    return RequestsPage(rows, more)


def _is_of(span: KeptSpan, name: str) -> bool:
    return name in (span.source.instance, span.source.pod) or is_of(span.operation, name)


def _nanoseconds(asked: dict[str, str], key: str, default: int) -> int:
    written = asked.get(key, str(default))
    if not (written.isascii() and written.isdecimal() and len(written) < 20):
        raise InvalidInput(key, written[:40], "nanoseconds since 1970")
    return int(written)
