"""Metrics of model servers by OTLP: both protocols, the senders' tokens, and OpenTelemetry's own SDK."""

from __future__ import annotations

import base64
import gzip
import json
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from tests.fakes.servers.trace_process import PROTOBUF, Clock, Running
from tests.fakes.waiting import patience

from cotenant.services.traces.metric_exports import METHOD, METRICS
from cotenant.services.traces.traces_arguments import TraceSettings

RECORDED = Path(__file__).parents[2] / "engine" / "traces" / "recorded_genai_metrics.json"
BODIES = [base64.b64decode(body) for body in json.loads(RECORDED.read_text())["exponential"]]
OBJECTIVE = """
apiVersion: slo.cotenant.io/v1alpha1
kind: ServiceObjective
metadata: {name: first-token, namespace: shop}
spec:
  service: {name: llm, namespace: shop}
  indicator: {modelServer: {timeToFirstToken: 500ms}}
  target: "90"
  window: 1d
"""


def sent_ns() -> tuple[int, int]:
    of = ExportMetricsServiceRequest.FromString(BODIES[-1]).resource_metrics[0].scope_metrics[0].metrics
    (point,) = next(metric for metric in of if metric.name.startswith("gen_ai")).exponential_histogram.data_points
    return point.start_time_unix_nano, point.time_unix_nano


@pytest.fixture
def objectives(tmp_path: Path) -> Path:
    path = tmp_path / "objectives.yaml"
    path.write_text(OBJECTIVE)
    return path


@pytest.fixture
def running(objectives: Path) -> Iterator[Running]:
    start_ns, _ = sent_ns()
    settings = TraceSettings(http="127.0.0.1:0", grpc="127.0.0.1:0", objectives=objectives)
    with Running(settings, Clock(start_ns / 1e9 - 1)) as one:
        one.clock.now_s += 2
        yield one


def post(one: Running, body: bytes, kind: str = PROTOBUF, **headers: str) -> tuple[int, bytes]:
    return one.ask("POST", METRICS, body, {"Content-Type": kind, **headers})[:2]


def counted(one: Running, **headers: str) -> tuple[int, int]:
    found = json.loads(one.ask("GET", "/api/v1/objectives/shop/first-token", headers=headers)[1])
    return found["requests"], found["bad"]


def test_http_takes_protobuf_json_and_gzip(running: Running) -> None:
    assert post(running, BODIES[0]) == (200, b"")
    assert post(running, gzip.compress(BODIES[1]), **{"Content-Encoding": "gzip"}) == (200, b"")
    assert post(running, b'{"resourceMetrics":[]}', "application/json") == (200, b"{}")
    assert counted(running) == (10, 3)
    assert post(running, BODIES[1]) == (200, b"")
    assert counted(running) == (10, 3), "sent again"
    assert "cotenant_traces_metric_points_repeated_total 1.0" in running.ask("GET", "/metrics")[1].decode()


def test_http_answers_say_whether_to_send_again(running: Running) -> None:
    assert post(running, b"\x0a\xff")[0] == 400
    assert post(running, b"", "text/plain")[0] == 415
    assert post(running, b"", **{"Content-Encoding": "br"})[0] == 415
    assert post(running, gzip.compress(bytes(5 << 20)), **{"Content-Encoding": "gzip"})[0] == 413
    assert running.ask("GET", METRICS)[0] == 405
    request = ExportMetricsServiceRequest.FromString(BODIES[0])
    for metric in request.resource_metrics[0].scope_metrics[0].metrics:
        metric.unit = "furlongs"
    status, body = post(running, request.SerializeToString())
    partial = ExportMetricsServiceResponse.FromString(body).partial_success
    assert (status, partial.rejected_data_points) == (200, 1)
    assert "unit: furlongs: expected s, ms or us" in partial.error_message


def test_grpc_takes_metrics_and_answers_with_its_own_codes(running: Running) -> None:
    with grpc.insecure_channel(running.grpc_address) as channel:
        export = channel.unary_unary(METHOD)
        for body in BODIES:
            assert export(body, timeout=patience(20)) == b""
        assert counted(running) == (12, 3)
        with pytest.raises(grpc.RpcError) as raised:
            export(b"\x0a\xff", timeout=patience(20))
        assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_the_tokens_of_senders_count_as_for_spans(tmp_path: Path, objectives: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.mkdir()
    for namespace in ("shop", "bank"):
        (tokens / namespace).write_text(f"token-of-{namespace}-123456")
    asking = tmp_path / "asking"
    asking.write_text("0123456789abcdef")
    bearer = {"Authorization": "Bearer 0123456789abcdef"}
    start_ns, _ = sent_ns()
    settings = TraceSettings(
        http="127.0.0.1:0", grpc="127.0.0.1:0", objectives=objectives, sender_tokens=tokens, token_file=asking
    )
    with Running(settings, Clock(start_ns / 1e9 - 1)) as one:
        one.clock.now_s += 2
        assert post(one, BODIES[0], Authorization="Bearer wrong-token-123456")[0] == 401
        assert post(one, BODIES[0], Authorization="Bearer token-of-bank-123456")[0] == 200
        assert post(one, BODIES[0], Authorization="Bearer token-of-shop-123456")[0] == 200
        assert counted(one, **bearer)[0] == 5
        assert post(one, BODIES[1], Authorization="Bearer token-of-bank-123456")[0] == 200
        assert counted(one, **bearer)[0] == 5, "another namespace's counts nothing beside who has proven it"
        with grpc.insecure_channel(one.grpc_address) as channel, pytest.raises(grpc.RpcError) as raised:
            channel.unary_unary(METHOD)(BODIES[0], timeout=patience(20))
        assert raised.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_a_service_whose_metrics_are_read_is_refused(tmp_path: Path, objectives: Path) -> None:
    servers = tmp_path / "servers.yaml"
    servers.write_text("servers: [{service: shop/llm, url: 'http://127.0.0.1:9/metrics'}]")
    with Running(TraceSettings(http="127.0.0.1:0", grpc="", objectives=objectives, model_servers=servers)) as one:
        body = post(one, BODIES[0])[1]
        partial = ExportMetricsServiceResponse.FromString(body).partial_success
        assert partial.rejected_data_points == 1
        assert partial.error_message == "shop/llm is read by --model-servers: its requests would count twice"


@pytest.mark.parametrize("aggregation", ["explicit", "exponential"])
@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_opentelemetrys_own_sdk(objectives: Path, aggregation: str, transport: str) -> None:
    metrics = pytest.importorskip("opentelemetry.sdk.metrics", reason="opentelemetry-sdk is not installed")
    exporters = pytest.importorskip(f"opentelemetry.exporter.otlp.proto.{transport}.metric_exporter")
    from opentelemetry.sdk.metrics import export, view
    from opentelemetry.sdk.resources import Resource

    shapes = {
        "explicit": view.ExplicitBucketHistogramAggregation([0.1, 0.25, 0.5, 1.0]),
        "exponential": view.ExponentialBucketHistogramAggregation(),
    }
    settings = TraceSettings(http="127.0.0.1:0", grpc="127.0.0.1:0", objectives=objectives)
    with Running(settings, Clock(time.time())) as one:
        at = f"{one.url}{METRICS}" if transport == "http" else one.grpc_address
        more = {} if transport == "http" else {"insecure": True}
        reader = export.PeriodicExportingMetricReader(
            exporters.OTLPMetricExporter(endpoint=at, **more), export_interval_millis=float("inf")
        )
        provider = metrics.MeterProvider(
            [reader],
            resource=Resource({"service.name": "llm", "service.namespace": "shop"}),
            views=[view.View(instrument_name="gen_ai.*", aggregation=shapes[aggregation])],
        )
        histogram = provider.get_meter("test").create_histogram("gen_ai.server.time_to_first_token", unit="s")
        for batch in ((0.1, 0.5, 0.51), (0.2, 7.0)):
            for value in batch:
                histogram.record(value, {"gen_ai.request.model": "llama"})
            assert provider.force_flush(round(1000 * patience(20)))
        assert counted(one) == (5, 2)
        provider.shutdown()
