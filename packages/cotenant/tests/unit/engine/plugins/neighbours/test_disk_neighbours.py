"""Pods of disk-bound workloads and their nodes, in the engine."""

from __future__ import annotations

import numpy as np
import pytest

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.registry import PluginRegistry
from cotenant.model.cluster.labels import NO_LABELS
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod, OwnedBy
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.workload_profile import (
    AxisReading,
    FigureSource,
    ProfileAxis,
    ProfileFigure,
    Unknown,
    WorkloadProfile,
    WorkloadRef,
)
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

GIB = 1 << 30


def declared(workload: str, disk: int, namespace: str = "default", key: str = "") -> WorkloadProfile:
    reading = AxisReading(ProfileFigure(disk, disk, disk, 0, FigureSource.DECLARED), Unknown("x"))
    name = f"{namespace}/{key or workload}"
    return WorkloadProfile(name, WorkloadRef("Job", workload), declared={ProfileAxis.DISK: reading}, uid=name)


class World:
    def __init__(self, nodes: int = 3, policy: str = "cotenant", cpu_m: int = 16_000) -> None:
        self.engine = Cluster(profile(policy), np.random.default_rng(0), EngineSettings(max_pods=100))
        for i in range(nodes):
            self.engine.node_seen(Node(f"n{i}", Amounts.of({"cpu": cpu_m, "memory": 64 * GIB, "pods": 50})))

    def pod(self, name: str, workload: str, node: str = "", namespace: str = "default") -> None:
        pod = Pod(name, namespace=namespace, requests=Amounts.of({"cpu": 1000, "memory": GIB}), labels=NO_LABELS)
        owner = OwnedBy("batch/v1", "Job", workload, "u", controller=True)
        self.engine.pod_seen(ObservedPod(pod, name, "cotenant", 0.0, node=node, owned_by=(owner,)), 0.0)

    def decided(self, now_s: float = 1.0) -> dict[str, str]:
        binds = [found for found in self.engine.decide(now_s) if isinstance(found, Bind)]
        self.engine.validate()
        return {bind.key.partition("/")[2]: bind.node for bind in binds}

    def sentence(self, name: str) -> str:
        entry = self.engine.find(f"default/{name}")
        assert entry is not None
        view = self.engine.plugins.neighbours.describe(entry)
        return "" if view is None else view.sentence()


@pytest.mark.parametrize("policy", ["cotenant", "cotenant-learned", "cotenant-requests"])
def test_two_that_want_the_disk_are_not_neighbours_while_there_is_another_node(policy: str) -> None:
    world = World(policy=policy)
    world.engine.workload_profile_seen(declared("etl", 700), 0.0)
    for i in range(3):
        world.pod(f"e{i}", "etl")
    assert sorted(world.decided().values()) == ["n0", "n1", "n2"]


def test_without_a_profile_nothing_is_different() -> None:
    plain, known = World(), World()
    known.engine.workload_profile_seen(declared("etl", 700, namespace="other"), 0.0)
    known.engine.workload_profile_seen(declared("compute", 0), 0.0)
    for world in (plain, known):
        for i in range(6):
            world.pod(f"e{i}", "etl")
    assert plain.decided() == known.decided()


def test_one_more_than_there_are_nodes_is_placed_where_the_excess_is_least() -> None:
    world = World()
    world.engine.workload_profile_seen(declared("etl", 800), 0.0)
    world.engine.workload_profile_seen(declared("log", 300), 0.0)
    for name, workload, node in (("a", "etl", "n0"), ("b", "etl", "n1"), ("c", "log", "n2"), ("d", "log", "n2")):
        world.pod(name, workload, node)
    world.pod("e", "etl")
    assert world.decided() == {"e": "n2"}
    assert "2 other pods on n2 want 60 %, more than there is" in world.sentence("e")


def test_a_profile_that_comes_later_counts_the_pods_that_are_there_and_one_that_goes_no_longer() -> None:
    world = World(nodes=2)
    world.pod("a", "etl", "n0")
    world.pod("b", "web", "n1")
    world.decided(0.0)
    assert world.sentence("a") == ""
    world.engine.workload_profile_seen(declared("etl", 900), 1.0)
    world.pod("c", "etl")
    assert world.decided(2.0) == {"c": "n1"}
    assert "no other pod on n1" in world.sentence("c")
    world.engine.workload_profile_gone("default/etl", 3.0)
    for name in ("a", "c"):
        world.engine.pod_gone(name, 4.0)
    world.engine.workload_profile_seen(declared("etl", 900), 5.0)
    world.pod("d", "etl", "n1")
    world.pod("e", "etl")
    assert world.decided(6.0) == {"e": "n0"}


def test_of_two_objects_for_one_workload_the_first_key_counts() -> None:
    world = World()
    world.engine.workload_profile_seen(declared("etl", 900, key="b"), 0.0)
    world.engine.workload_profile_seen(declared("etl", 200, key="a"), 0.0)
    world.pod("e", "etl", "n0")
    world.decided()
    assert "default/a it wants 20 %" in world.sentence("e")
    world.engine.workload_profile_gone("default/a", 1.0)
    assert "default/b it wants 90 %" in world.sentence("e")


def test_sums_equal_those_of_all_pods_after_any_events() -> None:
    """`validate` compares both after every step; what is placed is on the least wanted of the nodes with room."""
    rng = np.random.default_rng(7)
    world = World(nodes=4)
    demands = {"a": 400, "b": 650, "c": 0}
    alive: dict[str, tuple[str, str]] = {}
    for step in range(120):
        choice = rng.integers(4)
        if choice == 0 and alive:
            name = sorted(alive)[int(rng.integers(len(alive)))]
            del alive[name]
            world.engine.pod_gone(name, float(step))
        elif choice == 1:
            workload = str(rng.choice(list(demands)))
            demands[workload] = int(rng.choice((0, 400, 650)))
            world.engine.workload_profile_seen(declared(workload, demands[workload]), float(step))
        else:
            workload = str(rng.choice(list(demands)))
            world.pod(f"p{step}", workload)
            alive[f"p{step}"] = workload, ""
        for name, node in world.decided(float(step)).items():
            alive[name] = alive[name][0], node
            world.pod(name, alive[name][0], node)
        profiles = world.engine.plugins.neighbours
        known = {workload: profiles._demand(("default", WorkloadRef("Job", workload))) for workload in demands}
        sums = {f"n{i}": 0 for i in range(4)}
        for workload, node in alive.values():
            sums[node] += known[workload]
        for name, (workload, node) in alive.items():
            if known[workload]:
                entry = world.engine.find(f"default/{name}")
                assert entry is not None
                view = profiles.describe(entry)
                assert view is not None
                assert view.others == sums[node] - known[workload]


def test_a_captured_plugin_has_the_profiles_of_its_time_and_reads_nothing_later() -> None:
    world = World()
    world.engine.workload_profile_seen(declared("etl", 700), 0.0)
    make = world.engine.plugins.neighbours.capture()
    world.engine.workload_profile_gone(declared("etl", 700).key, 1.0)
    copy = World()
    copy.engine = Cluster(
        profile("cotenant"), np.random.default_rng(0), EngineSettings(max_pods=100), PluginRegistry(neighbours=make())
    )
    for i in range(2):
        copy.engine.node_seen(Node(f"n{i}", Amounts.of({"cpu": 16_000, "memory": 64 * GIB, "pods": 50})))
    for name in ("e0", "e1"):
        copy.pod(name, "etl")
    assert sorted(copy.decided().values()) == ["n0", "n1"]
    assert "default/etl" in copy.sentence("e0")
    world.pod("e0", "etl")
    world.decided()
    assert world.sentence("e0") == ""
