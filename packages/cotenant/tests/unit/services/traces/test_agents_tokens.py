"""Agents come to the trace process with the tokens of their own pods: good for their own node, and for nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest
from tests.fakes.servers.scripted_server import Reply, ScriptedServer
from tests.fakes.servers.spans import EPOCH_S

from cotenant.drivers.http.address import Address
from cotenant.drivers.http.server import HttpServer
from cotenant.drivers.http.tokens import BearerToken
from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.drivers.otlp.resources import span_tags
from cotenant.engine.node.recovery.story import ServiceStory
from cotenant.engine.traces.trace_engine import TraceEngine
from cotenant.model.errors import InvalidInput
from cotenant.model.traces.objective import ServiceObjective
from cotenant.services.reporting import signals, stories
from cotenant.services.reporting.identity import AUDIENCE, TokenNodes
from cotenant.services.reporting.signals import ACTIONS, SIGNALS, ActionTaken, SignalSubscription, SubscribedPod
from cotenant.services.reporting.stories import STORIES, StoryReport
from cotenant.services.traces.app import EXPORT, LATENCY, TracesApp
from cotenant.services.traces.metrics import TraceMetrics
from cotenant.services.traces.traces_arguments import TraceSettings, check

USER = "system:serviceaccount:cotenant-node:cotenant-node"
CART = ServiceObjective("shop/cart-latency", "shop", "cart", threshold_us=80_000)
Post = Callable[[str, bytes], Awaitable[int]]


def review(node: str) -> Reply:
    user = {"username": USER, "extra": {"authentication.kubernetes.io/node-name": [node]}}
    status = {"authenticated": bool(node), "audiences": [AUDIENCE], "user": user}
    return Reply(201, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": status})


def run(tmp_path: Path, reply: Reply, scenario: Callable[[Post], Awaitable[None]]) -> None:
    """`Post` sends a body with an agent's own token, and gives the status."""
    file = tmp_path / "token"
    file.write_text("of-the-senders-of-spans\n")

    async def main() -> None:
        now_s = float(EPOCH_S + 10)
        engine = TraceEngine(now_s, span_tags)
        engine.objectives.set(CART, now_s)
        app = TracesApp(engine, TraceMetrics(engine), lambda: now_s, BearerToken(file, "--token-file"))
        async with ScriptedServer({"POST": [reply] * 9}) as api, aiohttp.ClientSession() as session:
            access = Access(api.url, FixedCredential(Credential("")))
            async with Client(access, qps=1000, burst=1000, in_flight=4) as client:
                app.nodes = TokenNodes(client, USER, lambda: 0.0)
                server = HttpServer(app, Address.parse("--http", "127.0.0.1:0"))
                await server.start()

                async def post(path: str, body: bytes) -> int:
                    headers = {"Authorization": "Bearer of-my-pod", "Content-Type": "application/json"}
                    async with session.post(server.url + path, data=body, headers=headers) as answer:
                        return answer.status

                try:
                    await scenario(post)
                finally:
                    app.streams.close()
                    await server.stop()

    asyncio.run(main())


def action(node: str) -> bytes:
    return signals.encode(ActionTaken(CART.key, node, "shop/cart-1", "cap", "it burns", float(EPOCH_S)))


def story(node: str) -> bytes:
    return stories.encode(StoryReport(node, float(EPOCH_S), ServiceStory("shop/cart", node, 0, True, (), (), ())))


def asked(node: str) -> bytes:
    return signals.encode(SignalSubscription(node, (SubscribedPod("shop/cart-1", "u1"),)))


def test_an_agent_speaks_for_its_own_node_only(tmp_path: Path) -> None:
    async def scenario(post: Post) -> None:
        assert [await post(ACTIONS, action(node)) for node in ("n1", "n2")] == [204, 403]
        assert [await post(STORIES, story(node)) for node in ("n1", "n2")] == [204, 403]
        assert [await post(SIGNALS, asked(node)) for node in ("n1", "n2")] == [200, 403]

    run(tmp_path, review("n1"), scenario)


def test_its_token_sends_no_spans_and_no_reports_of_services(tmp_path: Path) -> None:
    async def scenario(post: Post) -> None:
        assert await post(EXPORT, b'{"resourceSpans": []}') == 401
        assert await post(LATENCY, b"{}") == 401

    run(tmp_path, review("n1"), scenario)


@pytest.mark.parametrize(("reply", "status"), [(review(""), 401), (Reply(500, {}), 503)])
def test_a_stranger_is_refused_and_a_review_that_fails_is_tried_again(
    tmp_path: Path, reply: Reply, status: int
) -> None:
    async def scenario(post: Post) -> None:
        assert await post(ACTIONS, action("n1")) == status

    run(tmp_path, reply, scenario)


def test_tokens_are_reviewed_by_a_cluster() -> None:
    with pytest.raises(InvalidInput, match="--report-account: cotenant-node/cotenant-node: expected --cluster"):
        check(TraceSettings(report_account="cotenant-node/cotenant-node"))
    with pytest.raises(InvalidInput, match="NAMESPACE/NAME"):
        check(TraceSettings(report_account="agent", cluster=True))
    check(TraceSettings(report_account="cotenant-node/cotenant-node", cluster=True))
