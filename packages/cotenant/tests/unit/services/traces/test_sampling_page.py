"""What remote samplers are answered over HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from tests.fakes.servers.spans import Given, request_of
from tests.fakes.servers.trace_process import Running
from tests.fakes.waiting import eventually

from cotenant.model.traces.spans import SpanKind
from cotenant.services.traces import traces_process
from cotenant.services.traces.traces_arguments import TraceSettings


def requests(count: int, name: str, first: int, tracestates: Sequence[str] = ("",)) -> bytes:
    spans = [
        Given(first + n, 0, name, SpanKind.SERVER, trace=first + n, namespace="shop", tracestate=tracestates[0])
        for n in range(count)
    ]
    return request_of(spans)


def test_without_a_budget_nobody_is_told_anything() -> None:
    with Running(TraceSettings(http="127.0.0.1:0", grpc="")) as one:
        assert one.ask("GET", "/sampling?service=web")[0] == 404
        assert one.ask("GET", "/sampling")[0] == 400
        assert one.ask("POST", "/sampling?service=web", b"")[0] == 405


def test_rates_follow_the_budget_in_the_form_of_jaegers_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces_process, "TICK_S", 0.01)
    with Running(TraceSettings(http="127.0.0.1:0", grpc="", head_spans_per_s=10)) as one:
        one.post(requests(900, "GET /", 1))
        one.post(requests(100, "GET /half", 1001, ("ot=th:8",)))
        one.post(requests(1, "GET /rare", 2001))
        one.clock.now_s += 20
        eventually("the traces", lambda: json.loads(one.ask("GET", "/api/v1/traces")[1])["kept"] >= 1000)
        found = json.loads(one.ask("GET", "/sampling?service=web")[1])
        assert found["strategyType"] == "PROBABILISTIC"
        by_name = {
            row["operation"]: row["probabilisticSampling"]["samplingRate"]
            for row in found["operationSampling"]["perOperationStrategies"]
        }
        assert by_name["GET /rare"] == 1.0
        assert by_name["GET /half"] == pytest.approx(by_name["GET /"] * 900 / 200)  # 100 that stand for 200
        of_others = found["operationSampling"]["defaultSamplingProbability"]
        assert 0.0 < of_others == found["probabilisticSampling"]["samplingRate"] < 1.0
        assert found["operationSampling"]["defaultLowerBoundTracesPerSecond"] == 0.0
        for same in ("/api/sampling?service=web", "/sampling?service=shop/web"):
            assert json.loads(one.ask("GET", same)[1])["strategyType"] == "PROBABILISTIC"
        metrics = one.ask("GET", "/metrics")[1].decode()
        total = "cotenant_service_requests_represented_total"
        lines = [line for line in metrics.splitlines() if line.startswith(total)]
        assert [line.rpartition(" ")[2] for line in lines] == ["200.0"]


def test_a_senders_token_is_enough_and_none_is_not(tmp_path: Path) -> None:
    asking, sending = tmp_path / "asking", tmp_path / "sending"
    asking.write_text("0123456789abcdef")
    sending.write_text("fedcba9876543210")
    settings = TraceSettings(
        http="127.0.0.1:0", grpc="", token_file=asking, send_token_file=sending, head_spans_per_s=10
    )
    with Running(settings) as one:
        assert one.ask("GET", "/sampling?service=web")[0] == 401
        assert one.ask("GET", "/sampling?service=web", None, {"Authorization": "Bearer fedcba9876543210"})[0] == 200


# jaeger-idl's proto/api_v2/sampling.proto as protoc describes it, so that a client reads what we write by hand.
PROTO = """
name: "model/proto/sampling.proto" package: "jaeger.api_v2" syntax: "proto3"
enum_type { name: "SamplingStrategyType" value { name: "PROBABILISTIC" number: 0 }
  value { name: "RATE_LIMITING" number: 1 } }
message_type { name: "ProbabilisticSamplingStrategy" field { name: "samplingRate" number: 1 type: TYPE_DOUBLE } }
message_type { name: "RateLimitingSamplingStrategy" field { name: "maxTracesPerSecond" number: 1 type: TYPE_INT32 } }
message_type { name: "OperationSamplingStrategy" field { name: "operation" number: 1 type: TYPE_STRING }
  field { name: "probabilisticSampling" number: 2 type: TYPE_MESSAGE
    type_name: ".jaeger.api_v2.ProbabilisticSamplingStrategy" } }
message_type { name: "PerOperationSamplingStrategies"
  field { name: "defaultSamplingProbability" number: 1 type: TYPE_DOUBLE }
  field { name: "defaultLowerBoundTracesPerSecond" number: 2 type: TYPE_DOUBLE }
  field { name: "perOperationStrategies" number: 3 type: TYPE_MESSAGE label: LABEL_REPEATED
    type_name: ".jaeger.api_v2.OperationSamplingStrategy" }
  field { name: "defaultUpperBoundTracesPerSecond" number: 4 type: TYPE_DOUBLE } }
message_type { name: "SamplingStrategyParameters" field { name: "serviceName" number: 1 type: TYPE_STRING } }
message_type { name: "SamplingStrategyResponse"
  field { name: "strategyType" number: 1 type: TYPE_ENUM type_name: ".jaeger.api_v2.SamplingStrategyType" }
  field { name: "probabilisticSampling" number: 2 type: TYPE_MESSAGE
    type_name: ".jaeger.api_v2.ProbabilisticSamplingStrategy" }
  field { name: "rateLimitingSampling" number: 3 type: TYPE_MESSAGE
    type_name: ".jaeger.api_v2.RateLimitingSamplingStrategy" }
  field { name: "operationSampling" number: 4 type: TYPE_MESSAGE
    type_name: ".jaeger.api_v2.PerOperationSamplingStrategies" } }
"""


def asking(one: Running, token: str = "") -> Callable[[str], Any]:
    grpc = pytest.importorskip("grpc", reason="grpcio is not installed")
    file = descriptor_pb2.FileDescriptorProto()
    text_format.Parse(PROTO, file)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    parameters, response = (
        message_factory.GetMessageClass(pool.FindMessageTypeByName(f"jaeger.api_v2.SamplingStrategy{name}"))
        for name in ("Parameters", "Response")
    )
    channel = grpc.insecure_channel(one.grpc_address)
    method = channel.unary_unary(
        "/jaeger.api_v2.SamplingManager/GetSamplingStrategy", parameters.SerializeToString, response.FromString
    )
    metadata = [("authorization", f"Bearer {token}")] if token else []

    def ask(service: str) -> Any:
        try:
            return method(parameters(serviceName=service), timeout=60, metadata=metadata)
        except grpc.RpcError as error:
            return error.code().name

    return ask


def test_the_same_rates_over_grpc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces_process, "TICK_S", 0.01)
    with Running(TraceSettings(http="127.0.0.1:0", grpc="127.0.0.1:0", head_spans_per_s=10)) as one:
        one.post(requests(900, "GET /", 1))
        one.post(requests(1, "GET /rare", 2001))
        one.clock.now_s += 20
        eventually("the traces", lambda: json.loads(one.ask("GET", "/api/v1/traces")[1])["kept"] >= 901)
        ask = asking(one)
        found, same = ask("web"), json.loads(one.ask("GET", "/sampling?service=web")[1])
        assert found.strategyType == 0
        assert found.probabilisticSampling.samplingRate == same["probabilisticSampling"]["samplingRate"] < 1.0
        by_name = {
            row.operation: row.probabilisticSampling.samplingRate
            for row in found.operationSampling.perOperationStrategies
        }
        assert by_name == {
            row["operation"]: row["probabilisticSampling"]["samplingRate"]
            for row in same["operationSampling"]["perOperationStrategies"]
        }
        assert by_name["GET /rare"] == 1.0 > by_name["GET /"] > 0.0
        default = found.operationSampling.defaultSamplingProbability
        assert default == found.probabilisticSampling.samplingRate
        assert ask("") == "INVALID_ARGUMENT"


def test_over_grpc_too_nobody_is_told_without_a_budget_or_a_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret" * 4)
    settings = TraceSettings(http="127.0.0.1:0", grpc="127.0.0.1:0", token_file=tmp_path / "token")
    with Running(settings) as one:
        assert asking(one)("web") == "UNAUTHENTICATED"
        assert asking(one, "secret" * 4)("web") == "NOT_FOUND"
