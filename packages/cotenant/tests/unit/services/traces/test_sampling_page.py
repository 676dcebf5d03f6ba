"""What remote samplers are answered over HTTP."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.fakes.servers.spans import Given, request_of
from tests.fakes.servers.trace_process import Running
from tests.fakes.waiting import eventually

from cotenant.model.traces.spans import SpanKind
from cotenant.services.traces import process
from cotenant.services.traces.arguments import TraceSettings


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
    monkeypatch.setattr(process, "TICK_S", 0.01)
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
