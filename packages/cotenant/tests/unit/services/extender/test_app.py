"""The HTTP side: what kube-scheduler, agents, probes and strangers are answered."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.fakes.servers.extender_forms import NOW, Known, by_name, report, written
from tests.fakes.servers.http_connection import FakeConnection

from cotenant.drivers.http.limits import ServerLimits
from cotenant.drivers.http.messages import CONNECTION
from cotenant.drivers.kube.client.errors import Conflict
from cotenant.engine.state.reports import NodeReports
from cotenant.model.errors import Transient
from cotenant.services.extender.app import ExtenderApp, PodBinder, ProbePages
from cotenant.services.extender.metrics import ExtenderMetrics
from cotenant.services.reporting.endpoint import ReportEndpoint

Ask = Callable[..., Any]
JSON = {"Content-Type": "application/json"}
BINDING = {"PodName": "web", "PodNamespace": "shop", "PodUID": "u-1", "Node": "a"}


class Bound:
    """A binder that remembers, or fails."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.failure = failure

    async def __call__(self, namespace: str, pod: str, uid: str, node: str) -> None:
        self.calls.append((namespace, pod, uid, node))
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure


def application(bind: PodBinder | None = None, unready: str = "") -> tuple[ExtenderApp, Known]:
    known = Known(report("a"), report("full", cpu_used=8.0))
    reports = NodeReports()
    endpoint = ReportEndpoint(reports, lambda: NOW, taken=known.mirror.report_received)
    metrics = ExtenderMetrics(known.extender.tally, known.mirror, endpoint.counts, lambda: len(reports))
    return ExtenderApp(known.extender, endpoint, metrics, lambda: NOW, bind=bind, unready=lambda: unready), known


def test_filter_and_prioritize(ask: Ask) -> None:
    app, _ = application()
    answered = ask(app, "/filter", by_name(["a", "full"]), headers=JSON)
    assert answered.status == 200
    assert answered.headers[b"content-type"] == b"application/json"
    assert answered.headers[b"content-length"] == str(len(answered.body)).encode()
    assert json.loads(answered.body)["NodeNames"] == ["a"]
    scored = ask(app, "/prioritize", by_name(["a"]), headers=JSON)
    assert json.loads(scored.body)[0]["Host"] == "a"


def test_a_report_changes_the_next_answer(ask: Ask) -> None:
    app, _ = application()
    told = {
        "node_name": "a",
        "cpu_allocatable": 8,
        "cpu_used": 8,
        "memory_allocatable": 9,
        "memory_used": 1,
        "timestamp": NOW,
    }
    assert ask(app, "/metrics/report", written(told), headers=JSON).status == 204
    assert json.loads(ask(app, "/filter", by_name(["a"]), headers=JSON).body)["NodeNames"] == []


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b"\xff"])
def test_a_malformed_body_never_costs_the_connection_of_filter(body: bytes, ask: Ask) -> None:
    app, _ = application(bind=Bound())
    for verb in ("filter", "bind"):
        answered = ask(app, f"/{verb}", body, headers=JSON)
        assert answered.status == 200
        assert json.loads(answered.body)["Error"]
    for verb in ("prioritize", "preempt"):
        answered = ask(app, f"/{verb}", body, headers=JSON)
        assert answered.status == 400
        assert answered.body.count(b"\n") == 1


def test_wrong_content_type(ask: Ask) -> None:
    app, _ = application()
    answered = ask(app, "/filter", by_name(["a"]), headers={"Content-Type": "text/yaml"})
    assert answered.status == 200
    assert "text/yaml" in json.loads(answered.body)["Error"]
    assert ask(app, "/prioritize", by_name(["a"]), headers={"Content-Type": "text/yaml"}).status == 400
    charset = {"Content-Type": "application/json; charset=utf-8"}
    assert json.loads(ask(app, "/filter", by_name(["a"]), headers=charset).body)["NodeNames"] == ["a"]


def test_bodies_are_bounded(ask: Ask) -> None:
    limits = ServerLimits(body_bytes=2000)
    app, _ = application()
    large = by_name([f"node-{i}" for i in range(500)])
    answered = ask(app, "/filter", [large[:1500], large[1500:]], headers=JSON, limits=limits)
    assert answered.status == 200
    assert "2000 bytes" in json.loads(answered.body)["Error"]
    assert answered.headers[b"connection"] == b"close"
    announced = ask(app, "/prioritize", b"", headers={**JSON, "Content-Length": "3000"}, limits=limits)
    assert announced.status == 413


def test_a_body_that_does_not_arrive() -> None:
    app, _ = application()
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/filter",
        "headers": [],
        "extensions": {CONNECTION: FakeConnection(ServerLimits(body_within_s=0.001))},
    }
    asyncio.run(app(scope, receive, send))
    assert sent[0]["status"] == 200
    assert "did not arrive" in json.loads(sent[1]["body"])["Error"]


def test_who_hangs_up_gets_no_answer(ask: Ask) -> None:
    app, _ = application()
    assert ask(app, "/filter", by_name(["a"])[:20], headers=JSON, hangs_up=True).messages == []


def test_bind_goes_to_the_api_server(ask: Ask) -> None:
    bound = Bound()
    app, _ = application(bind=bound)
    assert json.loads(ask(app, "/bind", written(BINDING), headers=JSON).body) == {"Error": ""}
    assert bound.calls == [("shop", "web", "u-1", "a")]


@pytest.mark.parametrize("failure", [Conflict("409 already assigned"), Transient("no answer"), RuntimeError("a fault")])
def test_a_bind_that_fails_says_why(failure: Exception, ask: Ask) -> None:
    app, _ = application(bind=Bound(failure))
    answered = ask(app, "/bind", written(BINDING), headers=JSON)
    assert answered.status == 200
    assert str(failure) in json.loads(answered.body)["Error"]


def test_bind_is_answered_only_where_it_was_asked_for(ask: Ask) -> None:
    app, _ = application()
    assert ask(app, "/bind", written(BINDING), headers=JSON).status == 404


def test_a_fault_of_ours_is_an_answer_too(ask: Ask, caplog: pytest.LogCaptureFixture) -> None:
    app, known = application()
    known.extender._judge = None  # type: ignore[assignment]
    answered = ask(app, "/filter", by_name(["a"]), headers=JSON)
    assert answered.status == 200
    assert "cotenant extender failed" in json.loads(answered.body)["Error"]
    assert ask(app, "/prioritize", by_name(["a"]), headers=JSON).status == 400
    assert "Traceback" in caplog.text
    assert b"cotenant_extender_faults_total 2.0" in ask(app, "/metrics", method="GET").body


def test_pages(ask: Ask) -> None:
    app, _ = application()
    assert ask(app, "/healthz", method="GET").status == 200
    assert ask(app, "/readyz", method="GET").status == 200
    assert ask(app, "/", method="GET").status == 404
    assert ask(app, "/healthz", method="POST").status == 405
    assert ask(app, "/filter", method="GET").status == 405


def test_not_ready_before_the_cluster_is_known(ask: Ask) -> None:
    app, _ = application(unready="not listed yet")
    answered = ask(app, "/readyz", method="GET")
    assert (answered.status, answered.body) == (503, b"not listed yet\n")
    assert ask(app, "/healthz", method="GET").status == 200


def test_metrics_tell_what_happened(ask: Ask) -> None:
    app, _ = application()
    ask(app, "/filter", by_name(["a", "full", "unknown"]), headers=JSON)
    ask(app, "/filter", b"", headers=JSON)
    ask(app, "/prioritize", b"", headers=JSON)
    ask(app, "/metrics/report", b"", headers=JSON)
    page = ask(app, "/metrics", method="GET").body.decode().splitlines()
    for line in (
        'cotenant_extender_answers_total{status="200",verb="filter"} 2.0',
        'cotenant_extender_answers_total{status="400",verb="prioritize"} 1.0',
        'cotenant_extender_nodes_total{result="passed"} 2.0',
        'cotenant_extender_nodes_total{result="refused"} 1.0',
        "cotenant_extender_nodes_unknown_total 1.0",
        "cotenant_extender_errors_total 1.0",
        'cotenant_extender_reports_total{outcome="malformed"} 1.0',
        "cotenant_extender_nodes_known 2.0",
        'cotenant_extender_request_seconds_count{verb="filter"} 2.0',
    ):
        assert line in page


def test_the_second_listener_has_pages_only(ask: Ask) -> None:
    app, _ = application(bind=Bound())
    pages = ProbePages(app)
    assert ask(pages, "/healthz", method="GET").status == 200
    for path in ("/filter", "/bind", "/metrics/report"):
        assert ask(pages, path, written(BINDING), headers=JSON).status == 404
