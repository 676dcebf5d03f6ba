"""What an agent is told, whatever it sends."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cotenant.drivers.http.tokens import BearerToken
from cotenant.engine.state.reports import NodeReports
from cotenant.services.reporting.endpoint import ReportEndpoint, ReportOutcome

NOW = 1_760_000_000.0
SECRET = "0123456789abcdef-agents"
JSON = {"Content-Type": "application/json"}

GOOD: dict[str, Any] = {
    "node_name": "node-1",
    "cpu_allocatable": 8,
    "cpu_used": 3.5,
    "memory_allocatable": 32 * 2**30,
    "memory_used": 8 * 2**30,
    "tail_latency_p99": 41.5,
    "slo_violation_rate": 0.02,
    "dominant_share": 0.4375,
    "per_task_fairness": 0.97,
    "timestamp": NOW - 3,
}


def endpoint(max_nodes: int = 10, token: BearerToken | None = None) -> tuple[ReportEndpoint, NodeReports]:
    reports = NodeReports(max_nodes)
    return ReportEndpoint(reports, lambda: NOW, token), reports


def changed(**fields: Any) -> bytes:
    return json.dumps({**GOOD, **fields}).encode()


def without(name: str) -> bytes:
    return json.dumps({key: value for key, value in GOOD.items() if key != name}).encode()


def test_a_report_is_taken_and_believed(ask: Callable[..., Any]) -> None:
    told = []
    reports = NodeReports()
    app = ReportEndpoint(reports, lambda: NOW, taken=told.append)
    answered = ask(app, "/metrics/report", changed(), headers=JSON)
    assert (answered.status, answered.body) == (204, b"")
    assert b"content-length" not in answered.headers  # RFC 9110: none with 204
    report = reports.fresh("node-1", NOW)
    assert report is not None
    assert (report.cpu_used, report.latency_p99_ms, report.at_s) == (3.5, 41.5, NOW - 3)
    assert told == [report]


@pytest.mark.parametrize("stamp", ["2025-10-09T08:53:17.123456789Z", "2025-10-09T10:53:17+02:00"])
def test_time_as_agents_write_it(stamp: str, ask: Callable[..., Any]) -> None:
    app, _ = endpoint()
    assert ask(app, "/", changed(timestamp=stamp), headers=JSON).status == 204


def test_an_older_report_changes_nothing(ask: Callable[..., Any]) -> None:
    app, reports = endpoint()
    ask(app, "/", changed(), headers=JSON)
    answered = ask(app, "/", changed(timestamp=NOW - 30, cpu_used=0), headers=JSON)
    assert answered.status == 200
    assert "newer" in json.loads(answered.body)["error"]
    report = reports.fresh("node-1", NOW)
    assert report is not None
    assert report.cpu_used == 3.5


@pytest.mark.parametrize(
    ("body", "field", "says"),
    [
        (without("node_name"), "node_name", "missing"),
        (without("cpu_allocatable"), "cpu_allocatable", "missing"),
        (without("timestamp"), "timestamp", "missing"),
        (changed(node_name=""), "node_name", "name"),
        (changed(node_name="n" * 254), "node_name", "253"),
        (changed(cpu_used="3"), "cpu_used", "float"),
        (changed(cpu_used=-1), "cpu_used", "not negative"),
        (changed(cpu_allocatable=0), "cpu_allocatable", "above 0"),
        (changed(slo_violation_rate=40), "slo_violation_rate", "fraction"),
        (changed(per_task_fairness=1.2), "per_task_fairness", "fraction"),
        (changed(tail_latency_p99=-5), "tail_latency_p99", "not negative"),
        (changed(timestamp="yesterday"), "timestamp", "RFC 3339"),
        (changed(timestamp="2025-10-09T08:53:17"), "timestamp", "zone"),
        (changed(timestamp=NOW - 121), "timestamp", "clock"),
        (changed(timestamp=NOW + 3600), "timestamp", "clock"),
    ],
)
def test_a_wrong_field_is_named(body: bytes, field: str, says: str, ask: Callable[..., Any]) -> None:
    app, reports = endpoint()
    answered = ask(app, "/", body, headers=JSON)
    assert answered.status == 422
    assert answered.body.count(b"\n") == 1
    trouble = json.loads(answered.body)
    assert trouble["field"] == field
    assert says in trouble["error"]
    assert len(reports) == 0
    assert app.counts[ReportOutcome.INVALID] == 1


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"a":' * 30_00 + b"1" + b"}" * 30_00, b"[" * 60_000, b"NaN"]
)
def test_what_is_no_report_at_all(body: bytes, ask: Callable[..., Any]) -> None:
    app, reports = endpoint()
    answered = ask(app, "/", body, headers=JSON)
    assert answered.status in (400, 422)
    assert answered.body.count(b"\n") == 1
    assert json.loads(answered.body)["error"]
    assert len(reports) == 0


def test_unknown_fields_are_let_through(ask: Callable[..., Any]) -> None:
    app, _ = endpoint()
    assert ask(app, "/", changed(gpu_used=3, extra={"deep": [1]}), headers=JSON).status == 204


def test_sizes(ask: Callable[..., Any]) -> None:
    app, _ = endpoint()
    largest = changed(note="x" * (64 * 1024 - len(changed(note=""))))
    assert len(largest) == 64 * 1024
    assert ask(app, "/", largest, headers=JSON).status == 204
    assert ask(app, "/", largest + b" ", headers=JSON).status == 413
    assert ask(app, "/", [largest, b" "], headers=JSON).status == 413
    assert ask(app, "/", b"", headers={**JSON, "Content-Length": "70000"}).status == 413


def test_a_body_in_parts(ask: Callable[..., Any]) -> None:
    app, _ = endpoint()
    body = changed()
    assert ask(app, "/", [body[:7], body[7:90], body[90:]], headers=JSON).status == 204


def test_a_sender_that_hangs_up_gets_no_answer(ask: Callable[..., Any]) -> None:
    app, reports = endpoint()
    assert ask(app, "/", changed()[:50], headers=JSON, hangs_up=True).messages == []
    assert len(reports) == 0


def test_as_many_nodes_as_are_kept(ask: Callable[..., Any]) -> None:
    app, reports = endpoint(max_nodes=2)
    for name in ("a", "b"):
        assert ask(app, "/", changed(node_name=name), headers=JSON).status == 204
    answered = ask(app, "/", changed(node_name="c"), headers=JSON)
    assert answered.status == 429
    assert int(answered.headers[b"retry-after"]) > 0
    assert ask(app, "/", changed(node_name="a", timestamp=NOW), headers=JSON).status == 204
    assert len(reports) == 2


def test_method_and_type(ask: Callable[..., Any]) -> None:
    app, _ = endpoint()
    answered = ask(app, "/", method="GET")
    assert (answered.status, answered.headers[b"allow"]) == (405, b"POST")
    assert ask(app, "/", changed(), headers={"Content-Type": "text/plain"}).status == 415
    assert ask(app, "/", changed(), headers={"Content-Type": "Application/JSON; charset=utf-8"}).status == 204
    assert ask(app, "/", changed()).status == 204  # a bare client that names no type


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (None, 401),
        ("", 401),
        ("Bearer", 401),
        ("Bearer wrong", 401),
        (f"Basic {SECRET}", 401),
        (f"Bearer {SECRET}x", 401),
        (f"Bearer {SECRET}", 204),
        (f"bearer  {SECRET} ", 204),
    ],
)
def test_only_who_knows_the_token(header: str | None, status: int, tmp_path: Path, ask: Callable[..., Any]) -> None:
    file = tmp_path / "token"
    file.write_text(SECRET + "\n")
    app, reports = endpoint(token=BearerToken(file))
    headers = JSON if header is None else {**JSON, "Authorization": header}
    assert ask(app, "/", changed(), headers=headers).status == status
    assert len(reports) == (status == 204)


def test_only_nodes_of_the_cluster_are_taken(ask: Callable[..., Any]) -> None:
    reports = NodeReports()
    known: dict[str, bool | None] = {"node-1": None}
    app = ReportEndpoint(reports, lambda: NOW, knows=lambda name: known.get(name, False))
    waiting = ask(app, "/metrics/report", changed(), headers=JSON)
    assert (waiting.status, (b"retry-after", b"5") in waiting.headers.items()) == (503, True)
    stranger = ask(app, "/metrics/report", changed(node_name="other"), headers=JSON)
    assert stranger.status == 404
    assert json.loads(stranger.body)["field"] == "node_name"
    known["node-1"] = True
    assert ask(app, "/metrics/report", changed(), headers=JSON).status == 204
    assert [report.node for report in reports] == ["node-1"]
    assert app.counts[ReportOutcome.UNKNOWN] == 1


@pytest.mark.parametrize(("ahead_s", "status"), [(4.0, 204), (6.0, 422), (100.0, 422)])
def test_a_report_from_the_future_does_not_keep_out_the_true_one(
    ahead_s: float, status: int, ask: Callable[..., Any]
) -> None:
    app, reports = endpoint()
    assert ask(app, "/metrics/report", changed(timestamp=NOW + ahead_s), headers=JSON).status == status
    assert len(reports) == (status == 204)
