"""Kept spans as requests to a collector: each in its own bytes, with the resource that it came with.

The tracestate of each gets the threshold that the trace passed (`ot=th:`), so that who counts them downstream knows how
many a kept one stands for. Spans whose bytes were dropped are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Span

from cotenant.model.traces.probability import with_threshold
from cotenant.model.traces.spans import SpanSource

MAX_SPANS, MAX_BYTES = 512, 1 << 20  # of one request


@dataclass(frozen=True, slots=True)
class SpanToSend:
    """`message`: the Span's bytes; `threshold`: with which its trace was kept."""

    source: SpanSource
    message: bytes
    threshold: int


def requests_of(spans: Iterable[SpanToSend]) -> Iterator[tuple[bytes, int]]:
    """Requests, each with its number of spans."""
    request, of_source = ExportTraceServiceRequest(), dict[bytes, ScopeSpans]()
    count = size = 0
    for span in spans:
        made = _span(span)
        if made is None:
            continue
        if count == MAX_SPANS or (size + len(span.message) > MAX_BYTES and count):
            yield request.SerializeToString(), count
            request, of_source = ExportTraceServiceRequest(), {}
            count = size = 0
        resource = _resource(span.source)
        if resource not in of_source:
            added = request.resource_spans.add()
            added.resource.MergeFromString(resource)
            of_source[resource] = added.scope_spans.add()
            size += len(resource)
        of_source[resource].spans.append(made)
        count, size = count + 1, size + len(span.message)
    if count:
        yield request.SerializeToString(), count


def _span(span: SpanToSend) -> Span | None:
    if not span.message:
        return None
    try:
        made = Span.FromString(span.message)
    except DecodeError:
        return None
    made.trace_state = with_threshold(made.trace_state, span.threshold)
    return made


def _resource(source: SpanSource) -> bytes:
    """As it came; where it did not come in OTLP or was too large, what is known of it."""
    if source.resource:
        return source.resource
    known = {
        "service.name": source.service,
        "service.namespace": source.namespace,
        "k8s.pod.name": source.pod,
        "k8s.pod.uid": source.pod_uid,
        "host.name": source.host,
        "k8s.namespace.name": source.pod_namespace,
        "service.instance.id": source.instance,
    }
    resource = Resource()
    for key, value in known.items():
        if value:
            resource.attributes.add(key=key).value.string_value = value
    return resource.SerializeToString()
