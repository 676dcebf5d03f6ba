"""Gauges and sums as an OTLP/HTTP request, in the protocol's JSON encoding.

Source: opentelemetry-proto, opentelemetry/proto/metrics/v1/metrics.proto.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from cotenant.model.json_object import JsonObject

EXPORT_PATH = "/v1/metrics"
_CUMULATIVE = 2  # AggregationTemporality


@dataclass(frozen=True, slots=True)
class MetricPoint:
    """One value now. `since_s` (Unix time): it is a sum since then; None: a level."""

    name: str
    unit: str
    value: float
    since_s: float | None = None


@dataclass(frozen=True, slots=True)
class ResourceMetrics:
    """Values of one thing, and the attributes that name it."""

    attributes: Mapping[str, str]
    points: Sequence[MetricPoint]


def encode_metrics(resources: Iterable[ResourceMetrics], scope: str, at_s: float) -> bytes:
    """An ExportMetricsServiceRequest."""
    return msgspec.json.encode(
        {
            "resourceMetrics": [
                {
                    "resource": {
                        "attributes": [
                            {"key": key, "value": {"stringValue": value}} for key, value in found.attributes.items()
                        ]
                    },
                    "scopeMetrics": [
                        {"scope": {"name": scope}, "metrics": [_metric(point, at_s) for point in found.points]}
                    ],
                }
                for found in resources
            ]
        }
    )


def _metric(point: MetricPoint, at_s: float) -> dict[str, object]:
    sample: JsonObject = {"timeUnixNano": str(round(at_s * 1e9)), "asDouble": float(point.value)}
    made: JsonObject = {"name": point.name, "unit": point.unit}
    if point.since_s is None:
        return {**made, "gauge": {"dataPoints": [sample]}}
    sample["startTimeUnixNano"] = str(round(point.since_s * 1e9))
    return {
        **made,
        "sum": {"dataPoints": [sample], "aggregationTemporality": _CUMULATIVE, "isMonotonic": True},
    }
