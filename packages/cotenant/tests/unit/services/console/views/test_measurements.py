"""Measurements that become old: they are no longer shown as what is used now, and viewers are told."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import NotFound
from cotenant.drivers.kube.kinds.custom.node_resource_topology import (
    NodeResourceTopology,
    TopologyMeta,
    TopologyZone,
    ZoneResource,
)
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod, PodPhase
from cotenant.model.cluster.pod import Pod
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_metric import NodeMetric, Use
from cotenant.model.resources import Amounts
from cotenant.services.console.encoding import NUMA, _numa
from cotenant.services.console.fleet import UNKNOWN, MeasuredFleet
from cotenant.services.console.pod_rows import pod_row
from cotenant.services.console.sources import USE, ConsoleSources
from cotenant.services.console.upstream import Upstream
from cotenant.services.console.views.measurements import FRESH_S, FleetMeasurements
from cotenant.services.console.views.numa import numa_words

SIZE = Amounts.of({"cpu": 4000, "memory": 8 << 30})


class NoMetricsServer:
    async def request(self, method: str, path: str) -> bytes:
        """The API is not served."""
        raise NotFound(path)


class World:
    """Two nodes with a pod each, and a clock."""

    def __init__(self, ready: tuple[bool, bool] = (True, True)) -> None:
        self.now_s = 1000.0
        self.fleet = MeasuredFleet()
        for k, is_ready in enumerate(ready):
            self.fleet.node_seen(Node(f"n{k}", SIZE, Labels.of({}), ready=is_ready))
            of = Pod(f"p{k}", requests=Amounts.of({"cpu": 1000, "memory": 1 << 30}))
            self.fleet.pod_seen(pod_row(ObservedPod(of, f"u{k}", "s", 0.0, node=f"n{k}", phase=PodPhase.RUNNING)))
        self.sources = ConsoleSources(lambda: self.now_s)
        client, scheduler = cast(Client, NoMetricsServer()), cast(Upstream, None)
        self.of = FleetMeasurements(
            self.fleet, client, scheduler, self.sources, lambda: None, 10.0, now=lambda: self.now_s
        )

    def report(self, node: str, cpu_m: int, age_s: float = 0.0) -> None:
        self.of.metric_seen(NodeMetric(node, age_s, 60, Use(cpu_m, 1 << 30)))

    def used(self) -> list[int]:
        """CPU used by node, as of a look now."""
        asyncio.run(self.of.read_use())
        self.fleet.recompute()
        return [self.fleet.nodes[name].columns[2] for name in self.fleet.order]

    @property
    def why(self) -> object:
        found = self.sources.view()[USE]
        return "" if found["ok"] else found["why"]


def test_a_node_metric_that_is_not_renewed_is_not_shown_as_use() -> None:
    world = World()
    world.report("n0", 700)
    world.report("n1", 900)
    assert (world.used(), world.why) == ([700, 900], "")
    world.now_s += FRESH_S - 1
    world.report("n1", 950)
    assert (world.used(), world.why) == ([700, 950], "")
    world.now_s += 2
    assert world.used() == [UNKNOWN, 950]
    assert world.why == "the NodeMetrics of 1 of 2 nodes were not renewed in time"
    totals = world.fleet.totals()
    assert (totals.used_m, totals.unmeasured) == (950, 1)
    world.report("n0", 800)
    assert (world.used(), world.why) == ([800, 950], "")


def test_where_all_are_old_nothing_is_measured() -> None:
    world = World()
    world.report("n0", 700, age_s=FRESH_S + 1)  # an old object of the first list
    assert world.used() == [UNKNOWN, UNKNOWN]
    assert world.why == "the NodeMetrics of 1 of 2 nodes were not renewed in time"
    assert world.fleet.totals().used_m is None


def test_a_node_that_is_not_ready_is_known_to_be_silent() -> None:
    world = World(ready=(False, True))
    world.report("n0", 700)
    world.report("n1", 900)
    world.now_s += FRESH_S + 1
    world.report("n1", 900)
    assert (world.used(), world.why) == ([UNKNOWN, 900], "")


def topology(*cpus: str, kind: str = "Node") -> NodeResourceTopology:
    zones = tuple(TopologyZone(f"node-{k}", kind, (ZoneResource("cpu", cpu),)) for k, cpu in enumerate(cpus))
    return NodeResourceTopology(metadata=TopologyMeta(name="n0"), zones=zones)


def test_numa_nodes_in_words() -> None:
    assert numa_words(topology("16", "16")) == ("n0", "2 x 16 CPU")
    assert numa_words(topology("16000m", "8")) == ("n0", "16 + 8 CPU")
    assert numa_words(topology("16", kind="Core")) == ("n0", "")
    with pytest.raises(InvalidInput, match="zone node-0"):
        numa_words(NodeResourceTopology(metadata=TopologyMeta(name="n0"), zones=(TopologyZone("node-0", "Node"),)))


def test_numa_nodes_are_sent_like_a_label_and_begin_an_epoch() -> None:
    world = World()
    fleet = world.fleet
    fleet.recompute()
    rows, epoch = [fleet.nodes[name] for name in fleet.order], fleet.epoch
    assert _numa(fleet, rows) == {}
    fleet.numa_seen("n1", "2 x 16 CPU")
    fleet.recompute()
    assert _numa(fleet, rows) == {NUMA: {"values": ["2 x 16 CPU"], "of": [-1, 0]}}
    assert fleet.epoch == epoch + 1
    fleet.numa_seen("n1", "2 x 16 CPU")
    assert not fleet.has_changes
    fleet.numa_seen("n1", "")
    fleet.recompute()
    assert _numa(fleet, rows) == {}
