"""Every compiled path of the trace engine, run once before spans are accepted.

A kernel that compiles on the first span stops the event loop for seconds, and exporters time out. One small trace
through decoding and an engine of its own.
Limits: with an empty cache it takes half a minute.
"""

from __future__ import annotations

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from cotenant.drivers.otlp.decoding import WALK_FROM_BYTES, decode_protobuf
from cotenant.drivers.otlp.resources import span_tags
from cotenant.engine.traces.trace_engine import TraceEngine
from cotenant.model.traces.objective import ServiceObjective
from cotenant.model.traces.spans import SpanKind


def warm(now_s: float) -> None:
    """Compile, or load, everything that a span meets."""
    engine = TraceEngine(now_s, span_tags)
    engine.objectives.set(ServiceObjective("warm/b", "", "b", threshold_us=1), now_s)
    engine.add(decode_protobuf(_request(int(now_s * 1e9))), now_s)
    engine.finish_all(now_s)


def _request(now_ns: int) -> bytes:
    request = ExportTraceServiceRequest()
    for host, kind in (("a", SpanKind.CLIENT), ("b", SpanKind.SERVER)):
        of_resource = request.resource_spans.add()
        for key in ("host.name", "service.name", "k8s.pod.name"):
            of_resource.resource.attributes.add(key=key).value.string_value = host
        span = of_resource.scope_spans.add().spans.add(name="x" * WALK_FROM_BYTES, kind=int(kind))
        span.trace_id, span.span_id = b"t" * 16, host.encode() * 8
        span.parent_span_id = b"" if host == "a" else b"a" * 8
        span.start_time_unix_nano, span.end_time_unix_nano = now_ns, now_ns + 1000
        span.attributes.add(key="peer.service").value.string_value = "b"
    return request.SerializeToString()
