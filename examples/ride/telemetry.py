"""Tracing of a service by the OpenTelemetry SDK: OTEL_EXPORTER_OTLP_ENDPOINT says where spans go (default:
http://127.0.0.1:4318).
"""

from __future__ import annotations

import os

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

EXPORT_MS = 500  # how long a span waits for others; the SDK's default is 5,000


def tracer(service: str) -> trace.Tracer:
    """The tracer of one service. `POD_NAME` and `POD_NAMESPACE` are what Kubernetes' downward API would set."""
    attributes = {
        "service.name": service,
        "service.namespace": "ride",
        "k8s.pod.name": os.environ.get("POD_NAME", f"{service}-0"),
        "k8s.namespace.name": os.environ.get("POD_NAMESPACE", "ride"),
    }
    provider = TracerProvider(resource=Resource.create(attributes))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(), schedule_delay_millis=EXPORT_MS))
    trace.set_tracer_provider(provider)
    return trace.get_tracer("ride")
