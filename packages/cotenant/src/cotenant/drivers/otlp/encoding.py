"""Spans of our own processes as an OTLP/HTTP request.

A process that reports a few spans must not need an OpenTelemetry SDK. The protocol's JSON encoding, which every
collector accepts, written from plain values.
Limits: attributes are strings and integers; no events and no links.

Source: opentelemetry-proto, docs/specification.md, "JSON Protobuf Encoding"; opentelemetry/proto/trace/v1/trace.proto.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from cotenant.model.json_object import JsonObject
from cotenant.model.traces.spans import SpanKind

EXPORT_PATH = "/v1/traces"
_ERROR = 2  # Status.StatusCode

Attributes = Mapping[str, str | int]


@dataclass(frozen=True, slots=True)
class OwnSpan:
    """One finished span. Ids are lower-case hexadecimal, `parent_id` empty for a root; times are Unix seconds;
    `error` empty = it succeeded.
    """

    trace_id: str  # 32 digits
    span_id: str  # 16 digits
    parent_id: str
    name: str
    start_s: float
    end_s: float
    kind: SpanKind = SpanKind.INTERNAL
    attributes: Attributes = field(default_factory=dict)
    error: str = ""


def encode(resource: Attributes, scope: str, spans: Iterable[OwnSpan]) -> bytes:
    """An ExportTraceServiceRequest in JSON. `resource` has `service.name`; `scope` names what made the spans."""
    of_scope = {"scope": {"name": scope}, "spans": [_span(span) for span in spans]}
    return msgspec.json.encode(
        {"resourceSpans": [{"resource": {"attributes": _attributes(resource)}, "scopeSpans": [of_scope]}]}
    )


def _span(span: OwnSpan) -> dict[str, object]:
    start_ns = max(1, round(span.start_s * 1e9))
    made: JsonObject = {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "name": span.name,
        "kind": int(span.kind),
        "startTimeUnixNano": str(start_ns),
        "endTimeUnixNano": str(max(start_ns, round(span.end_s * 1e9))),
        "attributes": _attributes(span.attributes),
    }
    if span.parent_id:
        made["parentSpanId"] = span.parent_id
    if span.error:
        made["status"] = {"code": _ERROR, "message": span.error}
    return made


def _attributes(given: Attributes) -> list[dict[str, object]]:
    return [
        {"key": key, "value": {"stringValue": value} if isinstance(value, str) else {"intValue": str(value)}}
        for key, value in given.items()
    ]
