"""Each node reports for itself: tokens are reviewed by the API server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.fakes.servers.scripted_server import Reply, ScriptedServer, refusal

from cotenant.drivers.http.messages import Message
from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.engine.state.reports import NodeReports
from cotenant.model.errors import InvalidInput, Transient
from cotenant.services.reporting import identity
from cotenant.services.reporting.accounts import parse_account, report_user
from cotenant.services.reporting.endpoint import ReportEndpoint, ReportOutcome
from cotenant.services.reporting.identity import AUDIENCE, TokenNodes

USER = "system:serviceaccount:cotenant-node:cotenant-node"
NOW = 1_760_000_000.0


def review(
    node: str | None = "n1",
    user: str = USER,
    authenticated: bool = True,
    audiences: tuple[str, ...] = (AUDIENCE,),
    nodes: tuple[str, ...] | None = None,
) -> Reply:
    names = nodes if nodes is not None else (node,) if node is not None else None
    extra = {"authentication.kubernetes.io/node-name": list(names)} if names is not None else {}
    status = {"authenticated": authenticated, "audiences": list(audiences), "user": {"username": user, "extra": extra}}
    return Reply(201, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": status})


def run(replies: list[Reply], scenario: Callable[[TokenNodes, ScriptedServer, list[float]], Awaitable[None]]) -> None:
    async def main() -> None:
        async with ScriptedServer({"POST": replies}) as server:
            access = Access(server.url, FixedCredential(Credential("")))
            client = Client(access, qps=1000, burst=1000, in_flight=4)
            now = [0.0]
            try:
                await scenario(TokenNodes(client, USER, lambda: now[0]), server, now)
            finally:
                await client.close()

    asyncio.run(main())


def test_the_node_of_a_token_is_asked_once_a_minute() -> None:
    async def scenario(nodes: TokenNodes, server: ScriptedServer, now: list[float]) -> None:
        found = await asyncio.gather(*(nodes.node_of(b"Bearer abc") for _ in range(5)))
        assert found == ["n1"] * 5
        now[0] = identity.ACCEPTED_S - 1
        assert await nodes.node_of(b"bearer abc") == "n1"
        assert server.asked == [("POST", "/apis/authentication.k8s.io/v1/tokenreviews")]
        assert server.bodies[0]["spec"] == {"token": "abc", "audiences": [AUDIENCE]}
        now[0] = identity.ACCEPTED_S
        assert await nodes.node_of(b"Bearer abc") == "n2"

    run([review("n1"), review("n2")], scenario)


@pytest.mark.parametrize(
    "reply",
    [
        review(authenticated=False),
        review(user="system:serviceaccount:default:default"),
        review(node=None),
        review(node=""),
        review(nodes=("n1", "n2")),
        review(audiences=("https://kubernetes.default.svc",)),
        Reply(201, {"kind": "TokenReview"}),
    ],
)
def test_a_token_of_anything_else_is_of_no_node(reply: Reply) -> None:
    async def scenario(nodes: TokenNodes, server: ScriptedServer, now: list[float]) -> None:
        assert await nodes.node_of(b"Bearer abc") == ""
        assert await nodes.node_of(b"Bearer abc") == ""
        assert len(server.asked) == 1
        now[0] = identity.REFUSED_S
        assert await nodes.node_of(b"Bearer abc") == "n1"

    run([reply, review()], scenario)


@pytest.mark.parametrize(
    "header", [b"", b"Basic abc", b"Bearer", b"Bearer  ", b"Bearer \xff", b"Bearer " + b"a" * 9000]
)
def test_a_header_without_a_token_asks_nothing(header: bytes) -> None:
    async def scenario(nodes: TokenNodes, server: ScriptedServer, now: list[float]) -> None:
        assert await nodes.node_of(header) == ""
        assert server.asked == []

    run([], scenario)


def test_an_api_server_that_refuses_is_asked_again() -> None:
    async def scenario(nodes: TokenNodes, server: ScriptedServer, now: list[float]) -> None:
        with pytest.raises(Transient):
            await nodes.node_of(b"Bearer abc")
        assert await nodes.node_of(b"Bearer abc") == "n1"

    run([refusal(403, "tokenreviews is forbidden", "Forbidden"), review()], scenario)


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "MAX_KEPT", 2)

    async def scenario(nodes: TokenNodes, server: ScriptedServer, now: list[float]) -> None:
        for token in (b"a", b"b", b"c", b"c", b"a"):
            await nodes.node_of(b"Bearer " + token)
        assert len(server.asked) == 4  # a was dropped for c

    run([review() for _ in range(4)], scenario)


class Fixed:
    """Nodes by header, without an API server."""

    async def node_of(self, authorization: bytes) -> str:
        if authorization == b"later":
            raise Transient("the API server cannot review the token now", retry_after_s=5.0)
        return authorization.decode()


async def answered(app: ReportEndpoint, node: str, authorization: bytes) -> tuple[int, bytes]:
    report = {"node_name": node, "cpu_allocatable": 8, "cpu_used": 3, "memory_allocatable": 8, "memory_used": 3}
    body = json.dumps({**report, "timestamp": NOW}).encode()
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/", "headers": [(b"authorization", authorization)]}
    await app(scope, receive, send)
    return sent[0]["status"], sent[1]["body"]


@pytest.mark.parametrize(
    ("node", "authorization", "status", "outcome"),
    [
        ("n1", b"n1", 204, ReportOutcome.TAKEN),
        ("n2", b"n1", 403, ReportOutcome.FORBIDDEN),
        ("n1", b"", 401, ReportOutcome.UNAUTHORIZED),
        ("n1", b"later", 503, ReportOutcome.REFUSED),
        ("gone", b"gone", 404, ReportOutcome.UNKNOWN),
    ],
)
def test_a_node_reports_for_itself_only(node: str, authorization: bytes, status: int, outcome: ReportOutcome) -> None:
    reports = NodeReports()
    senders: Any = Fixed()
    app = ReportEndpoint(reports, lambda: NOW, knows=lambda name: name != "gone", nodes=senders)
    found, body = asyncio.run(answered(app, node, authorization))
    assert found == status, body
    assert app.counts[outcome] == 1
    assert len(reports) == (status == 204)


def test_the_account_is_a_namespace_and_a_name(tmp_path: Any) -> None:
    assert parse_account("cotenant-node/cotenant-node") == USER
    assert report_user("", tmp_path) == ""
    for wrong in ("cotenant-node", "a/b/c", "/b", "A/b", "a/", "system:serviceaccount:a:b"):
        with pytest.raises(InvalidInput, match="NAMESPACE/NAME"):
            parse_account(wrong)
    with pytest.raises(InvalidInput, match="--report-token-file"):
        report_user("a/b", tmp_path)
