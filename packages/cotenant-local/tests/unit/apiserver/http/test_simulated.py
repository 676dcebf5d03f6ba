"""Requests about what runs on simulated nodes: usage is served, and what cannot be served is said to be so."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import msgspec
import pytest

from cotenant_local.apiserver.assembly import assemble
from cotenant_local.apiserver.http.app import ApiServerApp
from cotenant_local.apiserver.http.auth import Credentials
from cotenant_local.apiserver.http.resource_metrics import MeasuredUsage, ResourceUsage
from cotenant_local.apiserver.storage.store import Store

Ask = Callable[..., Awaitable[tuple[int, Any]]]
PODS = "/api/v1/namespaces/default/pods"
METRICS = "/apis/metrics.k8s.io/v1beta1"


class TwoNodes:
    """A usage source with two nodes and one pod."""

    window_s = 1.0

    def nodes(self) -> Iterator[MeasuredUsage]:
        yield MeasuredUsage("", "n0", {"zone": "a"}, {"": ResourceUsage(0.0, 0.0)})
        yield MeasuredUsage("", "n1", {"zone": "b"}, {"": ResourceUsage(1.5, 2048.0)})

    def pods(self, namespace: str) -> Iterator[MeasuredUsage]:
        if namespace in ("", "default"):
            yield MeasuredUsage(
                "default", "p", {"app": "x"}, {"a": ResourceUsage(0.001, 1 << 20), "b": ResourceUsage(0.5, 0.0)}
            )


def run(case: Callable[[Ask], Awaitable[None]], *, has_usage: bool = True) -> None:
    async def main() -> None:
        api = assemble(Store())
        await api.bootstrap()
        app = ApiServerApp(api, Credentials("t"))
        if has_usage:
            app.serve_usage(TwoNodes())

        async def ask(method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, Any]:
            path, _, query = path.partition("?")
            sent: list[Any] = []
            given = {"authorization": "Bearer t", **{name.replace("_", "-"): text for name, text in headers.items()}}
            scope: dict[str, Any] = {
                "type": "http",
                "method": method,
                "path": path,
                "query_string": query.encode(),
                "headers": [(name.encode(), text.encode()) for name, text in given.items()],
            }

            async def receive() -> dict[str, Any]:
                return {"type": "http.request", "body": body, "more_body": False}

            async def send(message: Any) -> None:
                sent.append(message)

            await app(scope, receive, send)
            return sent[0]["status"], msgspec.json.decode(b"".join(entry.get("body", b"") for entry in sent[1:]))

        await case(ask)
        await api.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("method", "path", "word"),
    [
        ("GET", f"{PODS}/p/log?container=a&follow=true", "logs"),
        ("POST", f"{PODS}/p/exec?command=ls", "executed"),
        ("GET", f"{PODS}/p/exec?command=ls", "executed"),
        ("POST", f"{PODS}/p/attach", "attach"),
        ("POST", f"{PODS}/p/portforward", "port"),
        ("GET", f"{PODS}/p/proxy", "port"),
        ("GET", f"{PODS}/p/proxy/a/b/c", "port"),
        ("PATCH", f"{PODS}/p/ephemeralcontainers", "debugging"),
        ("GET", "/api/v1/nodes/n/proxy/stats/summary", "kubelet"),
        ("GET", "/api/v1/namespaces/default/services/s/proxy/", "endpoint"),
    ],
)
def test_what_a_simulated_node_cannot_do_is_said(method: str, path: str, word: str) -> None:
    async def case(ask: Ask) -> None:
        code, status = await ask(method, path)
        assert (code, status["kind"], status["reason"]) == (501, "Status", "NotImplemented")
        assert "simulated" in status["message"]
        assert word in status["message"]

    run(case)


def test_an_unknown_subresource_is_not_found() -> None:
    async def case(ask: Ask) -> None:
        assert (await ask("GET", f"{PODS}/p/nothing"))[0] == 404
        assert (await ask("GET", f"{PODS}/p/nothing/more"))[0] == 404

    run(case)


@pytest.mark.parametrize("header", ["impersonate-user", "impersonate-group", "impersonate-uid"])
def test_impersonation_is_refused_and_not_ignored(header: str) -> None:
    async def case(ask: Ask) -> None:
        code, status = await ask("GET", PODS, **{header: "bob"})
        assert code == 501
        assert "--as" in status["message"]
        assert (await ask("GET", PODS, authorization="Bearer wrong", **{header: "bob"}))[0] == 401

    run(case)


def test_usage_of_nodes_and_pods_is_served_as_by_metrics_server() -> None:
    async def case(ask: Ask) -> None:
        code, nodes = await ask("GET", f"{METRICS}/nodes")
        assert (code, nodes["kind"]) == (200, "NodeMetricsList")
        assert [(node["metadata"]["name"], node["usage"]) for node in nodes["items"]] == [
            ("n0", {"cpu": "0n", "memory": "0Ki"}),
            ("n1", {"cpu": "1500000000n", "memory": "2Ki"}),
        ]
        _, one = await ask("GET", f"{METRICS}/nodes?labelSelector=zone%3Da")
        assert [entry["metadata"]["name"] for entry in one["items"]] == ["n0"]
        _, pods = await ask("GET", f"{METRICS}/namespaces/default/pods")
        assert pods["items"][0]["containers"] == [
            {"name": "a", "usage": {"cpu": "1000000n", "memory": "1024Ki"}},
            {"name": "b", "usage": {"cpu": "500000000n", "memory": "0Ki"}},
        ]
        assert (await ask("GET", f"{METRICS}/pods"))[1]["items"] == pods["items"]
        assert (await ask("GET", f"{METRICS}/namespaces/other/pods"))[1]["items"] == []
        assert (await ask("GET", f"{METRICS}/nodes/n1"))[1]["kind"] == "NodeMetrics"
        for path in ("nodes/none", "others", "nodes/n1/status", "namespaces/default/nodes"):
            assert (await ask("GET", f"{METRICS}/{path}"))[0] == 404
        assert (await ask("DELETE", f"{METRICS}/nodes/n1"))[0] == 405

    run(case)


def test_the_group_is_discovered_where_usage_is_known() -> None:
    async def case(ask: Ask) -> None:
        _, served = await ask("GET", METRICS)
        assert [entry["kind"] for entry in served["resources"]] == ["NodeMetrics", "PodMetrics"]
        _, groups = await ask("GET", "/apis")
        assert "metrics.k8s.io" in [group["name"] for group in groups["groups"]]

    run(case)


def test_without_usage_the_group_is_not_served() -> None:
    async def case(ask: Ask) -> None:
        assert (await ask("GET", METRICS))[0] == 404
        assert (await ask("GET", f"{METRICS}/nodes"))[0] == 404

    run(case, has_usage=False)
