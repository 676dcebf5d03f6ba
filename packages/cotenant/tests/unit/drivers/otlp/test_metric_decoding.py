"""Which data points of an export are taken, and what is said of the others."""

from __future__ import annotations

import gzip
from collections.abc import Callable

import pytest
from google.protobuf.json_format import MessageToJson
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

from cotenant.drivers.otlp import metric_decoding
from cotenant.drivers.otlp.metric_decoding import decode_metrics
from cotenant.drivers.otlp.wire_fields import TooLarge
from cotenant.model.errors import InvalidInput
from cotenant.model.traces.model_server import ModelMeasure
from cotenant.model.traces.pushed_histogram import ExplicitBuckets, ExponentialBuckets

NAME = "gen_ai.server.time_to_first_token"


def request(change: Callable[[Metric], object] = lambda metric: None, name: str = NAME) -> ExportMetricsServiceRequest:
    made = ExportMetricsServiceRequest()
    of_resource = made.resource_metrics.add()
    of_resource.resource.attributes.add(key="service.name").value.string_value = "llm"
    metric = of_resource.scope_metrics.add().metrics.add(name=name, unit="s")
    metric.histogram.aggregation_temporality = 2
    point = metric.histogram.data_points.add(start_time_unix_nano=1, time_unix_nano=2, count=3)
    point.explicit_bounds[:] = [0.0, 0.25, 1.0]
    point.bucket_counts[:] = [0, 1, 2, 0]
    point.attributes.add(key="gen_ai.request.model").value.string_value = "llama"
    change(metric)
    return made


def exponential(change: Callable[[Metric], object] = lambda metric: None) -> ExportMetricsServiceRequest:
    def swap(metric: Metric) -> None:
        metric.exponential_histogram.aggregation_temporality = 1
        point = metric.exponential_histogram.data_points.add(
            start_time_unix_nano=1, time_unix_nano=2, count=4, scale=3, zero_count=1
        )
        point.positive.offset = -8
        point.positive.bucket_counts[:] = [1, 2]
        change(metric)

    return request(swap)


def test_an_explicit_histogram_is_read_without_its_edge_at_zero() -> None:
    ((source, (point,)),) = decode_metrics(request().SerializeToString()).sources
    assert (source.service, point.measure, point.model) == ("llm", ModelMeasure.TIME_TO_FIRST_TOKEN, "llama")
    assert point.buckets == ExplicitBuckets((250_000, 1_000_000), (1, 2, 0))
    assert not point.is_delta


def test_an_exponential_histogram_is_read() -> None:
    ((_, (point,)),) = decode_metrics(exponential().SerializeToString()).sources
    assert point.buckets == ExponentialBuckets(3, ((-8, 1), (-7, 2)), 1)
    assert point.is_delta


def test_json_and_gzip_are_the_same() -> None:
    plain = decode_metrics(request().SerializeToString())
    assert decode_metrics(gzip.compress(request().SerializeToString()), is_packed=True) == plain
    assert decode_metrics(MessageToJson(request()).encode(), is_json=True) == plain


def test_other_metrics_are_no_business_of_ours() -> None:
    assert decode_metrics(request(name="http.server.request.duration").SerializeToString()).sources == ()


def bounds(*edges: float) -> Callable[[Metric], object]:
    def change(metric: Metric) -> None:
        metric.histogram.data_points[0].explicit_bounds[:] = edges

    return change


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (request(lambda metric: setattr(metric, "unit", "{token}")), "unit: {token}: expected s, ms or us"),
        (request(lambda metric: setattr(metric.histogram, "aggregation_temporality", 0)), "delta or cumulative"),
        (request(lambda metric: setattr(metric.histogram.data_points[0], "start_time_unix_nano", 0)), "start_time"),
        (request(lambda metric: setattr(metric.histogram.data_points[0], "count", 4)), "their sum to be the count, 4"),
        (request(bounds(0.5, 0.25, 1.0)), "finite edges that ascend"),
        (request(bounds(0.5, float("nan"), 1.0)), "finite edges that ascend"),
        (request(bounds(0.5)), "1 edges, 4 buckets"),
        (request(lambda metric: metric.sum.data_points.add()), "expected a histogram, not sum"),
        (exponential(lambda metric: setattr(metric, "unit", "ms")), "no edge in round figures"),
        (
            exponential(lambda metric: setattr(metric.exponential_histogram.data_points[0], "scale", 21)),
            "-10 to 20",
        ),
        (
            exponential(lambda metric: metric.exponential_histogram.data_points[0].negative.bucket_counts.append(1)),
            "observations below 0",
        ),
    ],
)
def test_a_data_point_that_cannot_be_used_is_refused_by_itself(made: ExportMetricsServiceRequest, why: str) -> None:
    found = decode_metrics(made.SerializeToString())
    assert (found.sources, found.rejected) == ((), 1)
    assert found.problem.startswith(f"1 data points: {NAME}: ")
    assert why in found.problem


@pytest.mark.parametrize("is_json", [False, True])
def test_what_is_no_request_is_refused(is_json: bool) -> None:
    with pytest.raises(InvalidInput, match="ExportMetricsServiceRequest"):
        decode_metrics(b"\x0a\xff[", is_json=is_json)


def test_a_large_body_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_decoding, "MAX_BYTES", 100)
    with pytest.raises(TooLarge):
        decode_metrics(gzip.compress(bytes(101)), is_packed=True)
