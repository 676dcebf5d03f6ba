"""ServiceObjectives on an API server: watched, counted, and their status written by the trace process's own writer."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from tests.fakes.servers.spans import EPOCH_S, Given, batch_of
from tests.fakes.waiting import patience, soon
from tests.kube.definitions import collection, installed

from cotenant.drivers.kube.client.access import load_access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.otlp.resources import span_tags
from cotenant.engine.traces.trace_engine import TraceEngine
from cotenant.model.traces.spans import SpanKind
from cotenant.services.running import TaskSet
from cotenant.services.traces.cluster import ClusterObjectives
from cotenant.services.traces.objective_board import ObjectiveBoard

pytestmark = pytest.mark.slow  # definitions take a moment to be served

SPEC: dict[str, Any] = {
    "service": {"name": "cart", "namespace": "shop"},
    "indicator": {"latency": {"below": "80ms"}},
    "target": 99,
    "window": "1d",
    "alerting": {"minEvents": 3},
}


def test_a_status_follows_the_spans_and_a_deleted_objective_is_forgotten(kube: Any) -> None:
    name, now = f"case-{uuid.uuid4().hex[:8]}", [float(EPOCH_S + 10)]
    engine = TraceEngine(now[0], span_tags)
    board = ObjectiveBoard(engine.objectives, lambda: now[0])

    async def until(what: Callable[[], bool]) -> None:
        await soon("it holds", what)

    async def scenario() -> None:
        path = collection("serviceobjectives", "default")
        async with Client(load_access(kube.kubeconfig), qps=1000, burst=1000, in_flight=4) as client:
            cluster, tasks = ClusterObjectives(client, board), TaskSet()
            tasks.start("watches", cluster.watches.run())
            tasks.start("statuses", cluster.writer.run())
            made = {"apiVersion": "slo.cotenant.io/v1alpha1", "kind": "ServiceObjective", "metadata": {"name": name}}
            await asyncio.to_thread(kube.create, path, {**made, "spec": SPEC})
            await until(lambda: engine.objectives.get(f"default/{name}") is not None)

            async def status() -> Any:
                cluster.put_due()
                assert await cluster.writer.flush(patience(20))
                return (await asyncio.to_thread(kube.get, f"{path}/{name}"))["status"]

            first = await status()
            assert (first["state"], first["requests"]) == ("noData", 0)
            assert "worstReplica" not in first
            late = [
                Given(n, 0, "GET", SpanKind.SERVER, 0, 100, "cart", "shop", trace=n, pod="cart-1") for n in range(1, 41)
            ]
            engine.add(batch_of(*late), now[0])
            now[0] += 1
            burning = await status()
            assert (burning["state"], burning["requests"], burning["bad"]) == ("burning", 40, 40)
            assert burning["worstReplica"]["pod"] == "shop/cart-1"
            assert {entry["type"]: entry["status"] for entry in burning["conditions"]} == {
                "Valid": "True",
                "Receiving": "True",
                "Alerting": "True",
            }
            written = cluster.writer.written
            await status()
            assert (cluster.writer.written, cluster.writer.refused) == (written, 0)  # nothing changed
            await asyncio.to_thread(kube.request, "DELETE", f"{path}/{name}")
            await until(lambda: engine.objectives.get(f"default/{name}") is None)
            await tasks.cancel()

    with installed(kube):
        asyncio.run(scenario())
