"""Where use is known from: NodeMetrics of half of the nodes, else metrics-server, else the scheduler's reports."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest

from cotenant.drivers.kube.client.errors import Forbidden, NotFound, Refused, Unavailable
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod, PodPhase
from cotenant.model.cluster.pod import Pod
from cotenant.model.machine.node_metric import NodeMetric, Use
from cotenant.model.resources import Amounts
from cotenant.services.console.fleet import UNKNOWN, MeasuredFleet
from cotenant.services.console.pod_rows import pod_row
from cotenant.services.console.sources import SCHEDULER, USE, ConsoleSources
from cotenant.services.console.upstream import Unanswered
from cotenant.services.console.views.measurements import FleetMeasurements

SIZE = Amounts.of({"cpu": 4000, "memory": 8 << 30})
NODES = {"metadata": {"name": "n0"}, "usage": {"cpu": "1500m", "memory": "1Gi"}}
PODS = {
    "metadata": {"name": "p0", "namespace": "default"},
    "containers": [{"usage": {"cpu": "250m", "memory": "1Mi"}}, {"usage": {"cpu": "1500000n"}}, {}],
}


class Server:
    """The resource metrics API and a scheduler, each with what it answers or raises."""

    def __init__(self) -> None:
        self.nodes: Any = [NODES]
        self.pods: Any = [PODS]
        self.reports: Any = {}
        self.ready: Any = b"ok"
        self.asked: list[str] = []

    async def request(self, method: str, path: str) -> bytes:
        assert method == "GET"
        self.asked.append(path.removeprefix("/apis/metrics.k8s.io/v1beta1/"))
        found = self.nodes if path.endswith("nodes") else self.pods
        if isinstance(found, Exception):
            raise found
        return json.dumps({"items": found}).encode()

    async def get(self, path: str) -> bytes:
        found = self.ready if path == "/readyz" else self.reports
        if isinstance(found, Exception):
            raise found
        return found if isinstance(found, bytes) else json.dumps(found).encode()


class World:
    def __init__(self, nodes: int = 3) -> None:
        self.now_s, self.changes = 1000.0, 0
        self.fleet, self.server = MeasuredFleet(), Server()
        for k in range(nodes):
            self.fleet.node_seen(Node(f"n{k}", SIZE, Labels.of({})))
            of = Pod(f"p{k}", requests=Amounts.of({"cpu": 1000, "memory": 1 << 30}))
            self.fleet.pod_seen(pod_row(ObservedPod(of, f"u{k}", "s", 0.0, node=f"n{k}", phase=PodPhase.RUNNING)))
        self.sources = ConsoleSources(lambda: self.now_s)
        self.sources.ok("cluster")
        self.of = FleetMeasurements(
            self.fleet, cast(Any, self.server), cast(Any, self.server), self.sources, self._changed, 10.0,
            now=lambda: self.now_s,
        )  # fmt: skip

    def _changed(self) -> None:
        self.changes += 1

    def report(self, node: str, cpu_m: int) -> None:
        self.of.metric_seen(NodeMetric(node, 0.0, 60, Use(cpu_m, 1 << 30)))

    def used(self) -> list[int]:
        self.fleet.recompute()
        return [self.fleet.nodes[name].columns[2] for name in self.fleet.order]

    def why(self, source: str = USE) -> object:
        found = self.sources.view()[source]
        return "" if found["ok"] else found["why"]


def test_metrics_server_is_asked_where_fewer_than_half_of_the_nodes_have_a_node_metric() -> None:
    world = World(4)
    world.report("n3", 900)
    assert asyncio.run(world.of.read_use())
    assert world.server.asked == ["nodes", "pods"]
    assert (world.used(), world.why(), world.changes) == ([1500, UNKNOWN, UNKNOWN, 900], "", 1)
    world.report("n1", 700)  # half of them
    assert asyncio.run(world.of.read_use())
    assert world.server.asked == ["nodes", "pods"]


def test_what_a_node_metric_says_counts_before_metrics_server() -> None:
    world = World(4)
    world.report("n0", 900)
    assert asyncio.run(world.of.read_use())
    assert world.used()[0] == 900


def test_amounts_that_cannot_be_read_are_left_out() -> None:
    world = World()
    world.server.nodes = [
        {"metadata": {"name": "n0"}},
        {"metadata": {"name": "n1"}, "usage": {"cpu": "much"}},
        {"metadata": {"name": "n2"}, "usage": {"memory": "2Gi"}},
    ]
    assert asyncio.run(world.of.read_use())
    assert world.used() == [251, UNKNOWN, 0]  # of its pod: 250 m and 1.5 m


@pytest.mark.parametrize(
    ("error", "is_served", "why"),
    [
        (NotFound("x"), False, "the cluster has neither NodeMetrics nor metrics-server"),
        (Forbidden("x"), False, "the cluster has neither NodeMetrics nor metrics-server"),
        (Unavailable("away"), True, "away"),
        (Refused("odd"), True, "odd"),
    ],
)
def test_why_use_is_not_known_is_said(error: Exception, is_served: bool, why: str) -> None:
    for of_nodes, of_pods in ((error, [PODS]), ([NODES], error)):
        world = World()
        world.server.nodes, world.server.pods = of_nodes, of_pods
        assert asyncio.run(world.of.read_use()) is is_served
        assert (world.why(), world.changes, world.used()) == (why, 0, [UNKNOWN] * 3)


def test_a_server_that_is_away_is_said_once_and_not_of_use_too() -> None:
    world = World()
    asyncio.run(world.of.read_use())
    world.sources.failed("cluster", "away")
    world.server.nodes = Unavailable("away")
    assert asyncio.run(world.of.read_use())
    assert world.why() == ""


def test_without_another_source_the_schedulers_reports_say_what_nodes_use() -> None:
    world = World(5)
    world.server.nodes = NotFound("x")
    world.report("n1", 700)
    world.sources.failed(USE, "none")
    fresh = {"ageS": 180.0, "violation": 0.25, "cpuUsed": 0.5, "memoryUsed": 0.25}
    world.server.reports = {
        "n0": fresh,
        "n1": fresh,
        "n2": {**fresh, "ageS": 180.5},
        "n3": {**fresh, "cpuUsed": None, "violation": None},
        "gone": fresh,
    }
    assert asyncio.run(world.of.read_reports())
    assert (world.why(SCHEDULER), world.changes) == ("", 1)
    assert world.used() == [2000, 700, UNKNOWN, UNKNOWN, UNKNOWN]
    world.sources.ok(USE)
    world.server.reports = {"n0": {**fresh, "cpuUsed": 1.0}}
    assert asyncio.run(world.of.read_reports())
    assert world.used()[0] == 2000  # use has a source of its own now


@pytest.mark.parametrize(
    ("reports", "ready", "answered", "why"),
    [
        ({}, b"ok", True, ""),
        ({}, b"ok; does not lead \n", True, "does not lead"),
        ({}, Unanswered("scheduler", "gone"), True, ""),
        (Unanswered("scheduler", "away"), b"ok", False, "away"),
        (b"[", b"ok", False, "its answer cannot be read: it is of another version"),
        (b'{"n0": 3}', b"ok", False, "its answer cannot be read: it is of another version"),
    ],
)
def test_what_the_scheduler_says_of_itself_is_shown(reports: Any, ready: Any, answered: bool, why: str) -> None:
    world = World()
    world.server.reports, world.server.ready = reports, ready
    assert asyncio.run(world.of.read_reports()) is answered
    assert world.why(SCHEDULER) == why
    assert world.changes == answered
