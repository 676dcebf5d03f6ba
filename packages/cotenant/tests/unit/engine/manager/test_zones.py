"""Batch amounts of NUMA zones: upstream's formula for each zone, the node's amount divided under `peak`, withdrawn
with the node's, written as rarely.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.fakes.processes.managed_world import GI, World, pod

from cotenant.engine.manager.instructions import WriteZones
from cotenant.model.cluster.demands import Holdings
from cotenant.model.cpus.spec import NumaAmount, ResourceStatus
from cotenant.model.machine.node_metric import Use
from cotenant.model.machine.zones import LentZone, NodeZones

BATCH = ("batch-cpu", "batch-memory")


class Zoned:
    """A world whose node has two equal zones, that keep what is written in them."""

    def __init__(self, **strategy: Any) -> None:
        self.world = World(**strategy)
        self.world.node()
        self.zones = NodeZones("n", tuple(LentZone(f"node-{i}", i, Use(50_000, 50 * GI)) for i in range(2)))
        self.loses = False
        self.show()

    def show(self) -> None:
        self.world.manager.zones_seen(self.zones)

    def step(self, seconds: float = 2.0) -> int:
        """Let time pass; how often zones were written."""
        writes = [write_amounts for write_amounts in self.world.step(seconds) if isinstance(write_amounts, WriteZones)]
        if not self.loses:
            for write in writes:
                self.store(write)
        return len(writes)

    def store(self, write: WriteZones) -> None:
        def stored(zone: LentZone) -> LentZone:
            lent: Mapping[str, int | None] = {**zone.lent, **write.amounts.get(zone.name, {})}
            return replace(zone, lent={name: amount for name, amount in lent.items() if amount is not None})

        zones = tuple(stored(zone) for zone in self.zones.zones)
        self.zones = NodeZones("n", zones, write.annotation or "")
        self.show()

    def lent(self, name: str = "batch-cpu") -> list[int | None]:
        return [zone.lent.get(name) for zone in self.zones.zones]


def on_zone(zone: int) -> Holdings:
    return Holdings(cpus=ResourceStatus(numa=(NumaAmount(zone, 10_000),)))


def test_each_zone_is_by_the_formula_from_its_own_pods() -> None:
    z = Zoned()
    z.world.pods["bound"] = pod("bound", holds=on_zone(1))
    z.world.manager.pod_seen(z.world.pods["bound"], z.world.now_s)
    z.world.pod("anywhere")
    z.world.measure(bound=8_000, anywhere=6_000)
    assert z.step() == 1
    assert z.lent() == [30_000 - 3_000, 30_000 - 3_000 - 8_000]
    assert sum(number or 0 for number in z.lent()) == z.world.lent()["batch-cpu"]
    written = json.loads(z.zones.written)["zones"]
    for zone in z.zones.zones:
        for name in BATCH:
            noted = written[zone.name][name]
            assert noted["value"] == zone.lent[name] == sum(amount for _, amount in noted["terms"])
    assert z.step() == 0


def test_a_pod_on_an_unknown_numa_node_counts_in_all_zones() -> None:
    z = Zoned()
    z.world.pods["p"] = pod("p", holds=on_zone(7))
    z.world.manager.pod_seen(z.world.pods["p"], z.world.now_s)
    z.world.measure(p=8_000)
    z.step()
    assert z.lent() == [26_000, 26_000]


def test_under_peak_the_nodes_amount_is_divided_by_what_is_unused() -> None:
    z = Zoned(cpuCalculatePolicy="peak")
    z.world.pods["p"] = pod("p", cores=20, holds=on_zone(0))
    z.world.manager.pod_seen(z.world.pods["p"], z.world.now_s)
    z.world.measure(p=10_000)
    z.step()
    lent, node = z.lent(), z.world.lent()["batch-cpu"]
    assert lent == [node * 40 // 90, node * 50 // 90]


def test_normalization_applies_to_zones() -> None:
    z = Zoned()
    z.world.node(normalization="1.5")
    z.world.pod("p")
    z.world.measure(p=6_000)
    z.step()
    assert z.lent() == [(30_000 - 3_000) * 3 // 2] * 2


@pytest.mark.parametrize("why", ["colocation is off", "no measurement"])
def test_zones_are_withdrawn_with_the_node(why: str) -> None:
    z = Zoned()
    z.world.pod("p")
    z.world.measure(p=6_000)
    z.step()
    assert None not in z.lent()
    if why == "colocation is off":
        z.world.configure({"colocation-config": '{"enable": false}'})
    assert z.step(16 * 60.0) == 1
    assert (z.lent(), z.lent("batch-memory"), z.zones.written) == ([None, None], [None, None], "")


def test_a_small_move_waits_and_a_large_one_does_not() -> None:
    z = Zoned()
    z.world.pod("p")
    z.world.measure(p=6_000)
    z.step()
    z.world.measure(p=6_400)
    assert z.step() == 0
    z.world.measure(p=30_000)
    assert z.step() == 1
    assert z.lent() == [15_000, 15_000]


def test_a_lost_write_is_issued_again() -> None:
    z = Zoned()
    z.loses = True
    z.world.pod("p")
    z.world.measure(p=6_000)
    assert z.step() == 1
    assert z.step() == 0
    z.loses = False
    assert z.step(40.0) == 1


def test_a_failed_tier_leaves_the_zones() -> None:
    z = Zoned()
    z.world.pod("p")
    z.world.measure(p=6_000)
    z.step()
    before = z.lent()
    z.world.node(normalization="much")
    assert z.step() == 0
    assert z.lent() == before


def test_no_zone_is_written_where_the_node_has_none() -> None:
    z = Zoned()
    z.zones = NodeZones("n")
    z.show()
    z.world.pod("p")
    z.world.measure(p=6_000)
    assert z.step() == 0
    z.world.manager.zones_gone("n")
    assert z.step() == 0
