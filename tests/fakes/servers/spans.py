"""Span batches and requests for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from cotenant.drivers.otlp import protobuf
from cotenant.model.traces.spans import SpanBatch, SpanKind

SECOND_NS = 10**9
EPOCH_S = 1_800_000_000
MS = 10**6


@dataclass(frozen=True)
class Given:
    """One span. Times are milliseconds since `EPOCH_S`; `parent` 0 = none."""

    span: int
    parent: int = 0
    name: str = "work"
    kind: SpanKind = SpanKind.INTERNAL
    start_ms: float = 0.0
    end_ms: float = 1.0
    service: str = "web"
    namespace: str = ""
    host: str = ""
    trace: int = 1
    failed: bool = False
    tags: dict[str, str | int] = field(default_factory=dict)
    pod: str = ""
    instance: str = ""
    tracestate: str = ""


def request_of(spans: Sequence[Given]) -> bytes:
    """An ExportTraceServiceRequest, a resource for each span."""
    request = ExportTraceServiceRequest()
    for given in spans:
        of_resource = request.resource_spans.add()
        described = {"service.name": given.service, "service.namespace": given.namespace, "host.name": given.host}
        described |= {"k8s.pod.name": given.pod, "service.instance.id": given.instance}
        for key, value in described.items():
            if value:
                of_resource.resource.attributes.add(key=key).value.string_value = value
        span = of_resource.scope_spans.add().spans.add(name=given.name, kind=int(given.kind))
        span.trace_id = given.trace.to_bytes(16, "big")
        span.span_id = given.span.to_bytes(8, "big")
        span.parent_span_id = given.parent.to_bytes(8, "big") if given.parent else b""
        span.start_time_unix_nano = EPOCH_S * SECOND_NS + round(given.start_ms * MS)
        span.end_time_unix_nano = EPOCH_S * SECOND_NS + round(given.end_ms * MS)
        span.trace_state = given.tracestate
        span.status.code = 2 if given.failed else 0
        for key, tag in given.tags.items():
            attribute = span.attributes.add(key=key)
            if isinstance(tag, str):
                attribute.value.string_value = tag
            else:
                attribute.value.int_value = tag
    body: bytes = request.SerializeToString()
    return body


def batch_of(*spans: Given) -> SpanBatch:
    """The batch of one request."""
    return protobuf.decode(request_of(spans))
