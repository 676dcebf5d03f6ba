"""The metrics page is bounded whatever names come, and a series that is shown stays."""

from __future__ import annotations

import pytest
from tests.fakes.servers.spans import EPOCH_S, Given, batch_of

from cotenant.drivers.otlp.resources import span_tags
from cotenant.engine.traces.trace_engine import TraceEngine
from cotenant.model.traces.spans import SpanKind
from cotenant.services.traces import metrics
from cotenant.services.traces.metrics import TraceMetrics

NOW_S = float(EPOCH_S + 10)
SERVER, CLIENT = SpanKind.SERVER, SpanKind.CLIENT


def shown(page: str) -> dict[str, float]:
    lines = [line for line in page.splitlines() if line.startswith("cotenant_service_requests_total")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def test_the_page_has_a_bound_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "OPERATIONS_MAX_BYTES", 40_000)
    monkeypatch.setattr(metrics, "EDGES_MAX_BYTES", 40_000)
    engine = TraceEngine(NOW_S, span_tags)
    before: dict[str, float] = {}
    for trace in range(1, 5):
        spans = [
            Given(number + 1, 0, f"{trace} {number}" + '"\\\n' * 40, SERVER, service=f"s{number}" * 50, trace=trace)
            for number in range(40)
        ]
        calls = [
            Given(number + 100, 0, "call", CLIENT, trace=trace, tags={"peer.service": f"{number}" * 90})
            for number in range(60)
        ]
        engine.add(batch_of(*spans, *calls), NOW_S)
        engine.finish_all(NOW_S)
        page = TraceMetrics(engine).page()
        assert len(page) < 130_000
        found = shown(page.decode())
        assert sum(found.values()) == 40 * trace
        assert all(found[series] >= count for series, count in before.items())
        before = found
    assert any('service="_other"' in series for series in before)


def test_no_namespace_takes_all_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "OPERATIONS_MAX_BYTES", 20_000)
    engine = TraceEngine(NOW_S, span_tags)
    loud = [Given(number + 1, 0, f"op {number}", SERVER, service="loud", namespace="a") for number in range(200)]
    engine.add(batch_of(*loud), NOW_S)
    engine.add(batch_of(Given(999, 0, "GET", SERVER, service="quiet", namespace="b")), NOW_S)
    assert any('service="quiet"' in series for series in shown(TraceMetrics(engine).page().decode()))
