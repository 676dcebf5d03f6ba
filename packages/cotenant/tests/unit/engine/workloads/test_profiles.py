"""WorkloadProfiles in the engine: pods by workload, priors of placement, and statuses that are worth a write."""

from __future__ import annotations

from dataclasses import replace
from math import isinf

import numpy as np
import pytest

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.state.learned_profiles import Prior
from cotenant.engine.workloads.profiles import FollowedProfiles, WorkloadProfileStatus, workload_of
from cotenant.model.arrays import Param
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod, OwnedBy
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.workload_profile import (
    FigureSource,
    Overall,
    ProfileAxis,
    ProfileFigure,
    Unknown,
    WorkloadProfile,
    WorkloadRef,
    figure,
)
from cotenant.model.machine.node_metric import MeasuredPod, NodeMetric, PodSignals, Use
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

GIB = 2**30


def declared(workload: str, sensitivity: float, pressure: float, name: str = "") -> WorkloadProfile:
    return WorkloadProfile(
        f"default/{name or workload}",
        WorkloadRef("Deployment", workload),
        declared_overall=Overall(
            *(figure(value, 0.0, 0, FigureSource.DECLARED) for value in (sensitivity, pressure, 0.4)),
        ),
        uid=f"uid-{workload}",
        generation=1,
    )


class World:
    """Two nodes of 16 cores."""

    def __init__(self, policy: str = "cotenant-learned") -> None:
        self.engine = Cluster(profile(policy), np.random.default_rng(0), EngineSettings(max_pods=100))
        for i in range(2):
            self.engine.node_seen(Node(f"n{i}", Amounts.of({"cpu": 16_000, "memory": 64 * GIB, "pods": 50})))

    def seen(self, name: str, workload: str, node: str = "", service: bool = True, cpu_m: int = 4000) -> ObservedPod:
        pod = Pod(
            name,
            requests=Amounts.of({"cpu": cpu_m, "memory": GIB}),
            labels=Labels.of({"pod-template-hash": "abc"}),
            objective_p99_ms=10.0 if service else None,
        )
        owner = OwnedBy("apps/v1", "ReplicaSet", f"{workload}-abc", "u", controller=True)
        return ObservedPod(pod, name, "cotenant", 0.0, node=node, owned_by=(owner,), started_s=-1000.0)

    def pod(self, name: str, workload: str, node: str = "", service: bool = True, cpu_m: int = 4000) -> int:
        self.engine.pod_seen(self.seen(name, workload, node, service, cpu_m), 0.0)
        return self.engine.number_of(name)

    def param(self, number: int, param: Param) -> float:
        assignments = self.engine._components.assignments
        return float(assignments.ledger.shapes.params[assignments.encoder.shape_of(number), param])

    def round(self, minute: int, loud: bool) -> list[WorkloadProfileStatus]:
        """Both pods of node n0 are reported; the service suffers from a loud neighbour."""
        pods = {
            "default/a": MeasuredPod(
                Use(1000, GIB),
                signals=PodSignals(latency_p99_ms=9.0 if loud else 5.0, wait_per_cpu=0.5 if loud else 0.1),
            ),
            "default/b": MeasuredPod(Use(8000 if loud else 500, GIB)),
        }
        self.engine.metric_seen(NodeMetric("n0", 5.0, use=Use(4000, GIB), pods=pods), 60.0 * minute)
        given = self.engine.decide(60.0 * minute)
        return [instruction for instruction in given if isinstance(instruction, WorkloadProfileStatus)]


def test_a_deployment_stands_for_its_replica_sets() -> None:
    assert workload_of(World().seen("a", "shop")) == WorkloadRef("Deployment", "shop")
    plain = replace(World().seen("a", "shop"), owned_by=(OwnedBy("batch/v1", "Job", "j", "u", controller=True),))
    assert workload_of(plain) == WorkloadRef("Job", "j")
    assert workload_of(replace(plain, owned_by=())) is None


def test_a_cold_pod_is_placed_by_the_profile_of_its_workload() -> None:
    """A sensitive service goes where the gentle neighbour is, once profiles say which one is gentle."""
    for loud_node in ("n0", "n1"):
        quiet_node = "n1" if loud_node == "n0" else "n0"
        world = World()
        world.engine.workload_profile_seen(declared("loud", 0.0, 1.0), 0.0)
        world.engine.workload_profile_seen(declared("gentle", 0.0, 0.0), 0.0)
        world.engine.workload_profile_seen(declared("shop", 1.0, 0.0), 0.0)
        world.pod("l", "loud", loud_node, service=False, cpu_m=6000)
        world.pod("g", "gentle", quiet_node, service=False, cpu_m=6000)
        service = world.pod("s", "shop")
        binds = [instruction for instruction in world.engine.decide(1.0) if isinstance(instruction, Bind)]
        assert [(bind.key, bind.node) for bind in binds] == [("default/s", quiet_node)]
        assert world.param(service, Param.SENSITIVITY) == 1.0
        world.engine.validate()


def test_an_object_that_comes_after_its_pods_counts_too_and_one_that_goes_no_longer() -> None:
    world = World()
    number = world.pod("s", "shop", cpu_m=99_000)  # fits nowhere: stays cold
    world.engine.decide(0.0)
    usual = world.param(number, Param.SENSITIVITY)
    world.engine.workload_profile_seen(declared("shop", 0.9, 0.1), 1.0)
    world.engine.decide(20.0)
    assert world.param(world.engine.number_of("s"), Param.SENSITIVITY) == 0.9
    world.engine.workload_profile_seen(declared("shop", 0.2, 0.1), 21.0)  # the prior of what was not measured follows
    world.engine.pod_seen(world.seen("s2", "shop", cpu_m=99_000), 22.0)
    world.engine.decide(40.0)
    assert world.param(world.engine.number_of("s2"), Param.SENSITIVITY) == 0.2
    world.engine.workload_profile_gone("default/shop", 41.0)
    world.engine.decide(60.0)
    assert world.param(world.engine.number_of("s"), Param.SENSITIVITY) == usual
    world.engine.validate()


def test_a_profile_that_does_not_learn_changes_no_placement() -> None:
    world = World("cotenant")
    number = world.pod("s", "shop", "n0")
    world.engine.workload_profile_seen(declared("shop", 0.9, 0.1), 1.0)
    world.engine.decide(2.0)
    assert world.param(number, Param.SENSITIVITY) == 0.0


def test_a_profile_without_measurements_is_written_for_its_problem_alone() -> None:
    world = World()
    shop = WorkloadProfile("default/shop", WorkloadRef("Deployment", "shop"), uid="u")
    world.engine.workload_profile_seen(shop, 0.0)
    assert world.round(0, loud=False) == []  # no pod of it was measured
    world.engine.workload_profile_seen(replace(shop, wrong=("spec.workload: no such kind",)), 60.0)
    (written,) = world.round(1, loud=False)
    assert (written.key, written.axes, written.pods) == ("default/shop", {}, 0)
    assert world.round(2, loud=False) == []  # said once


def test_a_measured_profile_has_figures_of_its_pods() -> None:
    world = World()
    world.engine.workload_profile_seen(WorkloadProfile("default/shop", WorkloadRef("Deployment", "shop"), uid="u"), 0.0)
    world.pod("a", "shop", "n0")
    given = [status for minute in range(25) for status in world.round(minute, loud=minute % 2 == 1)]
    assert isinstance(given[-1].axes[ProfileAxis.CPU].tendency, ProfileFigure)


@pytest.mark.slow
def test_statuses_appear_when_figures_do_and_then_rarely() -> None:
    world = World()
    world.engine.workload_profile_seen(WorkloadProfile("default/shop", WorkloadRef("Deployment", "shop"), uid="u"), 0.0)
    world.pod("a", "shop", "n0")
    world.pod("b", "noise", "n0", service=False)
    given = [status for minute in range(200) for status in world.round(minute, loud=minute % 2 == 1)]
    assert 2 <= len(given) <= 14  # 200 rounds
    last = given[-1]
    assert (last.key, last.uid, last.pods, last.problem) == ("default/shop", "u", 1, "")
    cpu, queue = last.axes[ProfileAxis.CPU], last.axes[ProfileAxis.RUN_QUEUE]
    assert isinstance(cpu.tendency, ProfileFigure)
    assert abs(cpu.tendency.value - 62) <= 1  # 1 of 16 cores
    for found in (cpu.sensitivity, queue.sensitivity, last.overall.sensitivity):
        assert isinstance(found, ProfileFigure)
        assert found.value > 300
        assert found.samples >= 20
    assert isinstance(last.axes[ProfileAxis.CACHE].sensitivity, Unknown)
    world.engine.validate()


@pytest.mark.slow
def test_a_restart_keeps_stored_figures_until_new_ones_are_supported() -> None:
    stored = World()
    stored.engine.workload_profile_seen(
        WorkloadProfile("default/shop", WorkloadRef("Deployment", "shop"), uid="u"), 0.0
    )
    stored.pod("a", "shop", "n0")
    stored.pod("b", "noise", "n0", service=False)
    last = [status for minute in range(100) for status in stored.round(minute, loud=minute % 2 == 1)][-1]
    anew = World()
    anew.engine.workload_profile_seen(
        WorkloadProfile(
            "default/shop",
            WorkloadRef("Deployment", "shop"),
            learned=last.axes,
            learned_overall=last.overall,
            bound=last.bound,
            uid="u",
        ),
        0.0,
    )
    number = anew.pod("a", "shop", "n0")
    anew.pod("b", "noise", "n0", service=False)
    assert isinstance(last.overall.sensitivity, ProfileFigure)
    anew.engine.decide(0.0)
    learned = anew.engine.workload_profile(anew.engine.find("default/a").seen.pod)  # type: ignore[union-attr]
    assert learned is not None
    assert learned.declared
    assert abs(learned.sensitivity - last.overall.sensitivity.value / 1000) < 1e-9
    assert number >= 0
    for minute in range(1, 15):
        assert anew.round(minute, loud=True) == []  # fewer windows than support what is stored


def test_measurements_of_followed_workloads_wake_an_idle_engine() -> None:
    world = World()
    world.pod("a", "shop", "n0")
    world.engine.decide(0.0)
    pods = {"default/a": MeasuredPod(Use(1000, GIB))}
    world.engine.metric_seen(NodeMetric("n0", 5.0, pods=pods), 10.0)
    assert isinf(world.engine.next_s())
    world.engine.workload_profile_seen(declared("shop", 0.9, 0.1), 11.0)
    assert world.engine.next_s() <= 71.0


def test_two_objects_for_one_workload_and_too_many() -> None:
    followed = FollowedProfiles()
    followed.seen(declared("shop", 0.9, 0.1, name="b"))
    followed.seen(declared("shop", 0.3, 0.1, name="a"))
    assert followed.key_of(World().seen("p", "shop")) == "default/a"
    followed.gone("default/a")
    assert followed.key_of(World().seen("p", "shop")) == "default/b"
    assert followed.prior("default/b") == Prior(0.9, 0.1, 0.4)
    assert followed.prior("default/a") == Prior()
