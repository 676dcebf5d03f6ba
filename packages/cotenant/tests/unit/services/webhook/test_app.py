"""The webhook's HTTP side without a server: a write of a status is let through, whatever goes wrong."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cotenant.drivers.http.pages import HealthPages
from cotenant.drivers.metrics.registry import MetricsRegistry
from cotenant.model.cluster.annotations import AMPLIFICATION_RATIO, RAW_ALLOCATABLE
from cotenant.services.reviewing.facts import WebhookFacts
from cotenant.services.reviewing.reviewer import Reviewer
from cotenant.services.reviewing.rules import ReviewRules
from cotenant.services.webhook.app import WebhookApp
from cotenant.services.webhook.configurations import configurations
from cotenant.services.webhook.metrics import WebhookMetrics

RULES = ReviewRules(amplifies_nodes=True, reservations=True)


def application(unready: str = "") -> WebhookApp:
    facts = WebhookFacts(lambda: 0.0)
    registry = MetricsRegistry()
    metrics = WebhookMetrics(registry, facts, dict, lambda: 0.0, dict)

    async def has_pods(quota: Any) -> bool:
        raise AssertionError("no quota is asked about")

    return WebhookApp(
        Reviewer(facts, RULES, has_pods, Random(1)), metrics, HealthPages(registry.page, unready=lambda: unready)
    )


def asked(app: WebhookApp, path: str, request: dict[str, Any]) -> tuple[int, Any]:
    """Status and body of the answer to a review."""
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u", **request}}
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": path, "headers": [(b"content-type", b"application/json")]}
    asyncio.run(app(scope, receive, send))
    content = b"".join(message.get("body", b"") for message in sent)
    code = sent[0]["status"]
    return code, json.loads(content)["response"] if code == 200 else content.decode()


def status_write(node: Any) -> dict[str, Any]:
    resource = {"group": "", "version": "v1", "resource": "nodes"}
    return {"operation": "UPDATE", "resource": resource, "subResource": "status", "object": node, "oldObject": node}


def node(allocatable: Any, **annotations: Any) -> dict[str, Any]:
    status = {"allocatable": allocatable, "capacity": {"cpu": "4"}}
    return {"metadata": {"name": "n1", "annotations": annotations}, "status": status}


def _values(*, allow_nan: bool) -> st.SearchStrategy[Any]:
    return st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=allow_nan, allow_infinity=allow_nan)
        | st.text(),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["cpu", "memory", "x"]), inner),
        max_leaves=4,
    )


_TEXTS = st.text(max_size=8) | _values(allow_nan=True).map(json.dumps)


@pytest.mark.slow
@given(_TEXTS, _TEXTS, _values(allow_nan=False))
@example('{"cpu":0.5}', "", {"cpu": "4"})
@example('{"cpu":1.5}', "{", {"cpu": "4"})
@example('{"cpu":1.5}', "", {"cpu": {"a": 1}})
def test_no_write_of_a_status_is_refused(ratio: str, raw: str, allocatable: Any) -> None:
    written = node(allocatable, **{AMPLIFICATION_RATIO: ratio, RAW_ALLOCATABLE: raw})
    code, response = asked(application(), "/mutate-node-status", status_write(written))
    assert (code, response["allowed"]) == (200, True)


@pytest.mark.parametrize("body", [None, [], {}, {"metadata": 1}, {"metadata": {"annotations": {"a": 1}}}])
def test_nor_one_whose_node_cannot_be_read(body: Any) -> None:
    code, response = asked(application(), "/mutate-node-status", status_write(body))
    assert (code, response["allowed"]) == (200, True)


def test_nor_one_before_the_first_lists_or_after_a_failure_of_ours() -> None:
    written = node({"cpu": "4"}, **{AMPLIFICATION_RATIO: '{"cpu":1.5}'})
    code, response = asked(application("no list yet"), "/mutate-node-status", status_write(written))
    assert (code, response["allowed"]) == (200, True)
    pod = {"operation": "CREATE", "resource": {"group": "", "version": "v1", "resource": "pods"}, "object": {}}
    assert asked(application("no list yet"), "/mutate-pod", pod)[0] == 503

    app = application()

    class Broken(Reviewer):
        async def review(self, path: str, request: Any) -> Any:
            raise RuntimeError("a defect")

    app._reviewer.__class__ = Broken
    code, response = asked(app, "/mutate-node-status", status_write(written))
    assert (code, response["allowed"]) == (200, True)
    assert "RuntimeError: a defect" in response["warnings"][0]
    assert asked(app, "/mutate-pod", pod)[0] == 500


def test_what_is_ignored_is_a_warning_to_the_writer_and_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    app = application()
    written = node({"cpu": "4"}, **{AMPLIFICATION_RATIO: '{"cpu":0.5}'})
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            _, response = asked(app, "/mutate-node-status", status_write(written))
            assert len(response["warnings"]) == 1
    assert [record.getMessage() for record in caplog.records] == response["warnings"]
    assert "node n1" in response["warnings"][0]
    assert "0.5: expected a number from 1 to 1000: not amplified" in response["warnings"][0]


def test_every_webhook_of_a_status_ignores_failures_under_either_policy() -> None:
    made: list[Any] = []
    for _, configuration in configurations(RULES, {"url": "https://h:1"}, "", "Fail"):
        made += configuration["webhooks"]
    of_status = [entry for entry in made if entry["rules"][0]["resources"][0].endswith("/status")]
    assert {entry["name"].partition(".")[0] for entry in of_status} == {
        path.removeprefix("/") for path in application()._reviewer.status_paths
    }
    assert {entry["failurePolicy"] for entry in of_status} == {"Ignore"}
    assert {entry["failurePolicy"] for entry in made if entry not in of_status} == {"Fail"}


JSON = {"content-type": "Application/JSON; charset=utf-8"}
REVIEW = b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":%s}'


@pytest.mark.parametrize(
    ("method", "path", "headers", "unready", "status", "said"),
    [
        ("GET", "/healthz", {}, "", 200, b"ok\n"),
        ("GET", "/readyz", {}, "", 200, b"ok\n"),
        ("GET", "/readyz", {}, "no list yet", 503, b"no list yet\n"),
        ("POST", "/healthz", {}, "", 405, b"only GET\n"),
        ("GET", "/", {}, "", 404, b"not found\n"),
        ("POST", "/mutate-nothing", JSON, "", 404, b"not found\n"),
        ("GET", "/mutate-pod", JSON, "", 405, b"only POST\n"),
        ("PUT", "/mutate-pod", JSON, "", 405, b"only POST\n"),
        ("POST", "/mutate-pod", {"content-type": "text/plain"}, "", 415, b"expected application/json\n"),
        ("POST", "/mutate-pod", JSON, "no list yet", 503, b"not ready: no list yet\n"),
        ("POST", "/mutate-pod", JSON, "", 400, b"request: nothing"),
        ("POST", "/mutate-pod", {}, "", 400, b"request: nothing"),
    ],
)
def test_what_is_no_review_gets_no_verdict(
    method: str, path: str, headers: dict[str, str], unready: str, status: int, said: bytes, ask: Any
) -> None:
    answer = ask(application(unready), path, REVIEW % b"null", method=method, headers=headers)
    assert (answer.status, answer.body[: len(said)]) == (status, said)
    if status == 405:
        assert answer.headers[b"allow"].split(b", ")[0] == {b"only POST\n": b"POST"}.get(said, b"GET")


def test_a_caller_that_hangs_up_gets_no_answer(ask: Any) -> None:
    assert ask(application(), "/mutate-pod", [REVIEW[:9]], hangs_up=True).messages == []


def test_each_review_is_counted_and_timed_once_by_its_verdict(ask: Any) -> None:
    app = application()
    unready = ""
    app._health = replace(app._health, unready=lambda: unready)
    pod = {"operation": "CREATE", "resource": {"group": "", "version": "v1", "resource": "pods"}, "object": {}}
    amplified = node({"cpu": "4"}, **{AMPLIFICATION_RATIO: '{"cpu":1.5}'})
    asked(app, "/mutate-node-status", status_write(amplified))
    asked(app, "/mutate-node-status", status_write(node({"cpu": "4"})))
    asked(app, "/mutate-node-status", status_write(None))
    assert ask(app, "/mutate-pod", b"{").status == 400
    unready = "no list yet"
    assert asked(app, "/mutate-pod", pod)[0] == 503
    page = ask(app, "/metrics", method="GET").body.decode()
    counted = dict(line.rsplit(" ", 1) for line in page.splitlines() if line.startswith("cotenant_webhook_review"))
    assert {key: float(count) for key, count in counted.items() if key.startswith("cotenant_webhook_reviews_")} == {
        'cotenant_webhook_reviews_total{path="/mutate-node-status",verdict="patched"}': 1,
        'cotenant_webhook_reviews_total{path="/mutate-node-status",verdict="allowed"}': 2,
        'cotenant_webhook_reviews_total{path="/mutate-pod",verdict="malformed"}': 1,
        'cotenant_webhook_reviews_total{path="/mutate-pod",verdict="unready"}': 1,
    }
    for path, count in (("/mutate-node-status", 3), ("/mutate-pod", 2)):
        assert float(counted[f'cotenant_webhook_review_seconds_count{{path="{path}"}}']) == count
