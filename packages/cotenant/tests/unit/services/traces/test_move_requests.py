"""Moves that nodes ask for: who may ask, what is checked against the API server, and the job that is made."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from tests.fakes.servers.spans import EPOCH_S
from tests.fakes.waiting import soon

from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.drivers.kube.client.errors import AlreadyExists, NotFound
from cotenant.drivers.otlp.resources import span_tags
from cotenant.engine.traces.trace_engine import TraceEngine
from cotenant.model.errors import InvalidInput, Transient
from cotenant.model.machine.replica_signal import MaxAction
from cotenant.model.traces.objective import ServiceObjective
from cotenant.services.reporting.signals import ActionTaken
from cotenant.services.traces.move_requests import MAX_WAITING, OLDEST_S, PER_MINUTE, MoveRequests

CART = ServiceObjective("shop/cart-latency", "shop", "cart", threshold_us=80_000, max_action=MaxAction.EVICT)
ASKED = ActionTaken(CART.key, "n1", "shop/cart-1", "move", "cart burns", float(EPOCH_S), culprit="batch/b")


class Cluster(Client):
    """Has pods by path, and keeps what is created."""

    def __init__(self, **nodes: str) -> None:
        super().__init__(Access("http://127.0.0.1:1", FixedCredential(Credential(""))), qps=10.0, burst=1, in_flight=1)
        self.nodes = {"shop/cart-1": "n1", "batch/b": "n1"} | nodes
        self.jobs: dict[str, dict[str, Any]] = {}
        self.failures = 0

    async def request(self, method: str, path: str, *args: Any, **more: Any) -> bytes:
        if self.failures:
            self.failures -= 1
            raise Transient("away")
        if method == "POST":
            body = more.get("body") or args[0]
            job = json.loads(body) if isinstance(body, bytes) else body
            name = job["metadata"]["name"]
            if name in self.jobs:
                raise AlreadyExists(path)
            self.jobs[name] = job
            return msgspec.json.encode(job)
        *_, namespace, _, name = path.split("/")
        node = self.nodes.get(f"{namespace}/{name}")
        if node is None:
            raise NotFound(path)
        return msgspec.json.encode(
            {"metadata": {"namespace": namespace, "name": name}, "spec": {"nodeName": node, "containers": []}}
        )


class World:
    """Requests against a cluster, with a clock."""

    def __init__(self, cluster: Cluster | None = None, *objectives: ServiceObjective) -> None:
        self.cluster = cluster or Cluster()
        self.now_s, self.burning, self.slept = float(EPOCH_S + 1), {("n1", CART.key, "shop/cart-1")}, list[float]()
        tracked = TraceEngine(self.now_s, span_tags).objectives
        for objective in objectives or (CART,):
            tracked.set(objective, self.now_s)
        self.moves = MoveRequests(
            self.cluster,
            tracked,
            lambda *of: of in self.burning,
            lambda: self.now_s,
            monotonic=lambda: self.now_s,
            sleep=self._sleep,
        )

    async def _sleep(self, s: float) -> None:
        self.slept.append(s)
        self.now_s += s
        await asyncio.sleep(0)

    def run(self, is_done: Callable[[], bool]) -> None:
        async def scenario() -> None:
            running = asyncio.create_task(self.moves.run())
            try:
                await soon("the requests are made", is_done)
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)

        asyncio.run(scenario())


def test_a_request_becomes_one_job_whose_landing_is_simulated_first() -> None:
    world = World()
    world.cluster.failures = 1
    world.moves.ask(ASKED)
    world.run(lambda: bool(world.moves.counts["created"]))
    world.moves.ask(ASKED)  # delivered twice
    world.moves.ask(replace_action(ASKED, pod="shop/cart-1", culprit="batch/gone"))
    world.run(lambda: bool(world.moves.counts["refused"]))
    ((name, job),) = world.cluster.jobs.items()
    assert name.startswith("recovery-")
    assert job["metadata"]["labels"] == {"app.kubernetes.io/created-by": "cotenant-traces"}
    assert job["metadata"]["annotations"] == {
        "cotenant.io/what-if": "required",
        "cotenant.io/or-pods": "shop/cart-1",
        "koordinator.sh/evict-trigger": "Recovery",
        "koordinator.sh/evict-reason": "cart burns",
    }
    assert job["spec"]["podRef"]["name"] == "b"
    assert job["spec"]["mode"] == "ReservationFirst"
    assert world.moves.counts == {"created": 1, "refused": 1, "dropped": 0}


def replace_action(action: ActionTaken, **fields: Any) -> ActionTaken:
    return msgspec.structs.replace(action, **fields)


@pytest.mark.parametrize(
    ("objective", "changes", "says"),
    [
        (CART, {"objective": "shop/none"}, "objective: shop/none"),
        (replace(CART, max_action=MaxAction.IDLE), {}, "maxAction evict"),
        (replace(CART, guard=False), {}, "maxAction evict"),
        (CART, {"pod": "shop/cart-2"}, "burns the budget"),
        (CART, {"node": "n2"}, "burns the budget"),
        (CART, {"culprit": ""}, "culprit: "),
        (CART, {"culprit": "b"}, "culprit: b"),
    ],
)
def test_what_the_objective_does_not_permit_is_refused(
    objective: ServiceObjective, changes: dict[str, str], says: str
) -> None:
    world = World(None, objective)
    with pytest.raises(InvalidInput, match=says):
        world.moves.ask(replace_action(ASKED, **changes))
    assert world.moves.counts["refused"] == 1


@pytest.mark.parametrize("nodes", [{"batch/b": "n2"}, {"shop/cart-1": "n2"}, {"batch/b": ""}])
def test_both_pods_run_on_the_node_that_asks(nodes: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    world = World(Cluster(**nodes))
    world.moves.ask(ASKED)
    world.run(lambda: bool(world.moves.counts["refused"]))
    assert not world.cluster.jobs
    assert "expected a pod on node n1" in caplog.text


def test_requests_are_paced_bounded_and_dropped_when_they_are_old() -> None:
    world = World()
    for second in range(MAX_WAITING + 2):
        world.moves.ask(replace_action(ASKED, at_s=ASKED.at_s + second))
    assert world.moves.counts["dropped"] == 2
    world.run(lambda: sum(world.moves.counts.values()) == MAX_WAITING + 2)
    made_within_s = world.now_s - EPOCH_S - 1
    assert world.moves.counts["created"] <= PER_MINUTE + made_within_s * PER_MINUTE / 60
    assert world.moves.counts["created"] >= OLDEST_S / 60 * PER_MINUTE
    assert world.moves.counts["dropped"] > 2
