"""The server's metrics of itself."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from cotenant.drivers.http.traffic import UNANSWERED, ServerTraffic


def page(traffic: ServerTraffic) -> str:
    registry = CollectorRegistry()
    registry.register(traffic)
    return generate_latest(registry).decode()


def count(traffic: ServerTraffic, status: int, path: str = "/", took_s: float = 0.002) -> None:
    traffic.in_flight += 1
    traffic.ended(status, {"type": "http", "path": path}, took_s)


def test_requests_are_counted_by_status_and_timed() -> None:
    traffic = ServerTraffic("extender")
    count(traffic, 404)
    count(traffic, 404, took_s=99.0)
    text = page(traffic)
    assert 'cotenant_http_requests_total{code="404",server="extender"} 2.0' in text
    assert 'cotenant_http_requests_in_flight{server="extender"} 0.0' in text
    assert 'cotenant_http_request_duration_seconds_count{server="extender"} 2.0' in text
    assert 'cotenant_http_request_duration_seconds_bucket{le="0.001",server="extender"} 0.0' in text
    assert 'cotenant_http_request_duration_seconds_bucket{le="0.0025",server="extender"} 1.0' in text
    assert 'cotenant_http_request_duration_seconds_bucket{le="+Inf",server="extender"} 2.0' in text


def test_a_request_without_an_answer_has_no_status() -> None:
    traffic = ServerTraffic("agent")
    count(traffic, UNANSWERED)
    assert 'cotenant_http_requests_total{code="none",server="agent"} 1.0' in page(traffic)


def test_what_is_meant_to_last_is_counted_and_not_timed() -> None:
    traffic = ServerTraffic("apiserver", lambda scope: scope["path"] == "/watch")
    count(traffic, 200, "/watch")
    count(traffic, 200, "/list")
    text = page(traffic)
    assert 'cotenant_http_requests_total{code="200",server="apiserver"} 2.0' in text
    assert 'cotenant_http_request_duration_seconds_count{server="apiserver"} 1.0' in text


def test_refusals_are_counted_by_reason() -> None:
    traffic = ServerTraffic("scheduler")
    traffic.refused("head size")
    assert 'cotenant_http_refusals_total{reason="head size",server="scheduler"} 1.0' in page(traffic)
