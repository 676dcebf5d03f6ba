"""The machine map's state: what is kept up to date change by change equals what is computed from the facts, on both
sides of the wire.
"""

from __future__ import annotations

import json
import struct
from array import array
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.few import examples

from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod, PodPhase
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.qos import PriorityClass
from cotenant.model.machine.node_metric import Use
from cotenant.model.resources import Amounts
from cotenant.services.console.encoding import change, snapshot
from cotenant.services.console.fleet import CELL, COLUMNS, UNKNOWN, UNMEASURED, MeasuredFleet
from cotenant.services.console.pod_rows import CellKind, pod_row

GIB = 1 << 30


def node(name: str, cpu_m: int = 4000, **labels: str) -> Node:
    return Node(name, Amounts.of({"cpu": cpu_m, "memory": 8 * GIB, "kubernetes.io/batch-cpu": 1000}), Labels.of(labels))


def pod(
    name: str, on: str = "", cpu_m: int = 1000, tenant: str = "t", phase: PodPhase = PodPhase.RUNNING, **more: Any
) -> ObservedPod:
    of = Pod(name, requests=Amounts.of({"cpu": cpu_m, "memory": GIB}), tenant=tenant, **more)
    return ObservedPod(of, f"uid-{name}", "cotenant", 0.0, node=on, phase=phase)


class Viewer:
    """What a page keeps: a decoded snapshot, and changes applied to it."""

    def __init__(self, data: bytes) -> None:
        magic, size = struct.unpack_from("<4sI", data)
        assert magic == b"CTM1"
        assert size % 4 == 0
        self.head = json.loads(data[8 : 8 + size])
        count, at = len(self.head["nodes"]), 8 + size
        columns = array("I", data[at : at + 4 * COLUMNS * count])
        at += 4 * COLUMNS * count
        offsets = array("I", data[at : at + 4 * (count + 1)])
        cells = array("H", data[at + 4 * (count + 1) :])
        self.rows = {
            name: [
                *columns[i * COLUMNS : (i + 1) * COLUMNS],
                *(self._named(cells[offsets[i] * CELL : offsets[i + 1] * CELL])),
            ]
            for i, name in enumerate(self.head["nodes"])
        }

    def apply(self, data: bytes) -> None:
        value = json.loads(data)
        assert value["epoch"] == self.head["epoch"]
        if "tenants" in value:
            first, names = value["tenants"]
            self.head["tenants"][first:] = names
        for at, *row in value["rows"]:
            self.rows[self.head["nodes"][at]] = [*row[:COLUMNS], *self._named(row[COLUMNS:])]

    def _named(self, cells: Any) -> list[Any]:
        """Tenants by name, since their numbers depend on the order in which they were seen."""
        rows = [(self.head["tenants"][cells[c]], *cells[c + 1 : c + CELL]) for c in range(0, len(cells), CELL)]
        return sorted(rows)


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("node"), st.integers(0, 2), st.integers(1, 3)),
        st.tuples(st.just("no node"), st.integers(0, 2), st.just(0)),
        st.tuples(st.just("pod"), st.integers(0, 5), st.integers(0, 4)),
        st.tuples(st.just("no pod"), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("use"), st.integers(0, 5), st.integers(0, 2000)),
        st.tuples(st.just("late"), st.integers(0, 2), st.integers(0, 4)),
        st.tuples(st.just("look"), st.just(0), st.just(0)),
    ),
    max_size=40,
)


@given(EVENTS)
@settings(max_examples=examples(60), deadline=None)
def test_a_viewer_that_follows_changes_sees_what_a_new_one_loads(events: list[tuple[str, int, int]]) -> None:
    fleet, viewer, position = MeasuredFleet(), None, (0, 0)
    for what, which, value in [*events, ("look", 0, 0)]:
        match what:
            case "node":
                fleet.node_seen(node(f"n{which}", 1000 * value, zone="ab"[value % 2]))
            case "no node":
                fleet.node_gone(f"n{which}")
            case "pod":
                on = f"n{value}" if value < 3 else ""
                phase = PodPhase.SUCCEEDED if value == 4 else PodPhase.RUNNING
                fleet.pod_seen(pod_row(pod(f"p{which}", on, 300 * (which + 1), f"t{value}", phase)))
            case "no pod":
                fleet.pod_gone(f"default/p{which}")
            case "use":
                fleet.measured({}, {f"default/p{which}": Use(value, GIB)})
            case "late":
                fleet.missing({f"n{which}": value / 4})
            case _:
                while fleet.has_changes:
                    fleet.recompute(2)
                if viewer is None or position[0] != fleet.epoch:
                    viewer = Viewer(snapshot(fleet, 0.0))
                else:
                    viewer.apply(change(fleet, position[1], 0.0))
                position = (fleet.epoch, fleet.seq)
                new = Viewer(snapshot(fleet, 0.0))
                assert viewer.rows == new.rows
                assert set(new.rows) == set(fleet.nodes)
    for name, row in fleet.nodes.items():
        held = [entry for entry in fleet.pods.values() if entry.node == name and not entry.phase.is_final]
        assert row.columns[1] == sum(entry.cpu_m for entry in held)
        assert sorted(row.pods) == sorted(entry.key for entry in held)
    assert sorted(fleet.pending) == sorted(
        key for key, entry in fleet.pods.items() if not entry.node and not entry.phase.is_final
    )


def test_what_is_not_measured_is_not_zero() -> None:
    fleet = MeasuredFleet()
    fleet.node_seen(node("a"))
    fleet.pod_seen(pod_row(pod("p", "a")))
    fleet.recompute()
    assert fleet.nodes["a"].columns[2] == UNKNOWN
    assert fleet.nodes["a"].cells[3] == UNMEASURED
    assert fleet.totals().used_m is None
    fleet.measured({"a": Use(700, GIB)}, {"default/p": Use(600, GIB)})
    fleet.recompute()
    assert fleet.nodes["a"].columns[2] == 700
    assert fleet.nodes["a"].cells[2:4] == (250, 150)
    assert fleet.totals().used_m == 700


def test_a_measurement_that_arrives_before_its_pod_counts() -> None:
    fleet = MeasuredFleet()
    fleet.node_seen(node("a"))
    fleet.measured({}, {"default/p": Use(500, GIB)})
    fleet.pod_seen(pod_row(pod("p", "a")))
    fleet.recompute()
    assert fleet.nodes["a"].cells[3] == 125


def test_pods_of_a_node_that_is_listed_later_are_on_it() -> None:
    fleet = MeasuredFleet()
    fleet.pod_seen(pod_row(pod("p", "a")))
    fleet.node_seen(node("a"))
    fleet.recompute()
    assert fleet.nodes["a"].columns[1] == 1000


def test_a_pod_that_waits_changes_the_sums_and_no_machine() -> None:
    fleet = MeasuredFleet()
    fleet.node_seen(node("a"))
    fleet.recompute()
    seq = fleet.seq
    fleet.pod_seen(pod_row(pod("p")))
    assert fleet.recompute()
    assert (fleet.seq, fleet.totals().pending) == (seq + 1, 1)
    assert json.loads(change(fleet, seq, 0.0))["rows"] == []
    fleet.pod_seen(pod_row(pod("p")))
    assert not fleet.recompute()
    fleet.pod_gone("default/p")
    assert fleet.recompute()
    assert fleet.totals().pending == 0


def test_a_service_beyond_its_objective_makes_its_machine_burn() -> None:
    fleet = MeasuredFleet()
    fleet.node_seen(node("a"))
    fleet.pod_seen(pod_row(pod("p", "a", objective_p99_ms=20.0)))
    fleet.pod_seen(pod_row(pod("q", "a", objective_p99_ms=20.0)))
    fleet.measured({}, {}, {"default/p": 30.0, "default/q": 10.0})
    fleet.recompute()
    assert fleet.nodes["a"].columns[8] & 0xFFFF == 500
    assert fleet.totals().burning == 1
    fleet.missing({"a": 0.75})  # which counts only where nothing says whose
    fleet.recompute()
    assert fleet.nodes["a"].columns[8] & 0xFFFF == 500
    assert fleet.unnamed_late() == 0
    fleet.measured({}, {}, {"default/p": None})  # one may miss it and not be named
    fleet.recompute()
    assert fleet.nodes["a"].columns[8] & 0xFFFF == 750
    assert fleet.unnamed_late() == 1
    fleet.measured({}, {}, {"default/p": None, "default/q": None})
    fleet.recompute()
    assert fleet.nodes["a"].columns[8] & 0xFFFF == 750
    assert fleet.unnamed_late() == 1


def test_classes_of_pods() -> None:
    assert pod_row(pod("a", objective_p99_ms=5.0)).kind is CellKind.SERVICE
    assert pod_row(pod("b", priority_class=PriorityClass.BATCH)).kind is CellKind.BATCH
    assert pod_row(pod("c", priority_class=PriorityClass.MID)).kind is CellKind.MID
    assert pod_row(pod("d")).kind is CellKind.OTHER


def test_labels_that_group_nodes_are_sent_with_the_snapshot() -> None:
    fleet = MeasuredFleet()
    for name, zone in (("a", "x"), ("b", "y"), ("c", "")):
        fleet.node_seen(node(name, **({"zone": zone} if zone else {}), os="linux"))
    fleet.recompute()
    labels = Viewer(snapshot(fleet, 0.0)).head["labels"]
    assert labels == {"zone": {"values": ["x", "y"], "of": [0, 1, -1]}}  # `os` groups nothing


@pytest.mark.parametrize("label", ["pod-group.scheduling.sigs.k8s.io", "scheduling.x-k8s.io/pod-group"])
def test_a_pod_that_names_its_gang_by_a_label_has_it(label: str) -> None:
    assert pod_row(pod("a", labels=Labels.of({label: "ring"}))).gang == "default/ring"
    assert pod_row(pod("a")).gang == ""


def test_the_map_the_list_and_the_line_of_a_local_cluster_count_the_same_missed_objectives() -> None:
    from math import inf

    from cotenant_lab.world.config import WorldConfig
    from cotenant_local.nodes.behaviour import SimulatedBehaviour, SimulatedPodBehaviour
    from cotenant_local.nodes.world import LiveWorld

    world, fleet = (
        LiveWorld(WorldConfig(node_cores=16, node_memory_bytes=64 * GIB, pair_cores=8.0), 60.0, 0.0),
        MeasuredFleet(),
    )
    names = [f"pod-{k}" for k in range(12)]
    for k, name in enumerate(names):
        if k % 3 == 0:
            world.add_node(f"n{k // 3}")
            fleet.node_seen(node(f"n{k // 3}"))
        truth = SimulatedBehaviour(service=name, workers=4, peak_erlangs=2.0, use_memory_bytes=GIB)
        world.start(
            name, f"n{k // 3}", SimulatedPodBehaviour(4000, GIB, "web", name, truth, 1.0 + 0.8 * k, inf, 0), 0.0
        )
    for second in (1.0, 2.0, 3.0):  # in the first minute no replica has served anything
        world.advance(second)
        seen = {name: usage for name in names if (usage := world.usage(name)) is not None}
        for k, (name, usage) in enumerate(seen.items()):
            fleet.pod_seen(pod_row(pod(name, f"n{k // 3}", objective_p99_ms=usage.objective_ms)))
        fleet.measured({}, {}, {f"default/{name}": usage.p99_ms for name, usage in seen.items()})
        fleet.recompute()
        shares = [fleet.nodes[f"n{k}"].columns[8] & 0xFFFF for k in range(4)]
        assert sum(round(3 * share / 1000) for share in shares) == len(world.snapshot().victims)
        assert sum(fleet.is_late(row) for row in fleet.pods.values()) == len(world.snapshot().victims)
    assert 0 < len(world.snapshot().victims) < 12
