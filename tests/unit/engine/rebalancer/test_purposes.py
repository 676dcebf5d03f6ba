"""Moves of other kinds than LowNodeLoad are judged by what they were made for, and a kind that does not serve it is backed off."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cotenant.engine.migration.proof import FIRST_REST_S, Proofs, rests
from cotenant.engine.rebalancer.jobs import job_of
from cotenant.engine.rebalancer.purposes import Purposes
from cotenant.engine.rebalancer.settings import ActingSettings, MoveKinds, Packing
from cotenant.model.cluster.affinity import PodTerm, SpreadConstraint
from cotenant.model.cluster.labels import Labels, LabelSelector
from cotenant.model.cluster.observed import ObservedPod, OwnedBy, Phase
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.qos import PriorityClass
from cotenant.model.cluster.taints import Effect, Taint
from cotenant.model.groups.migration import JobCondition, JobPhase, MigrationJob, PodRef, Step
from cotenant.model.machine.node_metric import MeasuredPod, NodeMetric, PodSignals, Use

sys.path.insert(0, str(Path(__file__).parent))
from test_other_kinds import GIB, NOW, World, every_rule, fragmented, measure, missing


class Watched:
    """The first move of a plan, as if it had been carried out at `NOW`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.move = world.plan().moves[0]
        job = job_of(self.move, "uid-w", 20, ActingSettings(), NOW)
        ready = JobCondition(Step.POD_READY, "True", since_s=NOW)
        self.new = PodRef("default", f"{job.pod.name}-new", f"{job.pod.uid}-new")
        self.job = replace(job, uid="j", created_s=NOW, phase=JobPhase.SUCCEEDED, conditions=(ready,), new_pod=self.new)
        entry = world.cluster.find(self.move.pod)
        assert entry is not None
        world.cluster.pod_gone(self.move.uid, NOW)
        pod = replace(entry.seen.pod, name=self.new.name)
        world.cluster.pod_seen(replace(entry.seen, pod=pod, uid=self.new.uid, node=self.move.target), NOW)
        purposes = Purposes(world.cluster, world.planner.last_window)
        self.proofs = Proofs(lambda node, resource: None, 180.0, purpose=purposes)

    def after(self, seconds: float) -> MigrationJob | None:
        return self.proofs.judge(self.job, NOW + seconds)

    def verdict(self, seconds: float = 180.0) -> tuple[str, str]:
        found = self.after(seconds)
        condition = found.condition(Step.HELPED) if found is not None else None
        assert condition is not None
        return condition.status, condition.message


def test_room_has_helped_as_soon_as_the_pod_that_waited_is_placed() -> None:
    watched = Watched(fragmented())
    assert watched.after(10.0) is None
    entry = watched.world.cluster.find("default/waits")
    assert entry is not None
    watched.world.cluster.pod_seen(replace(entry.seen, node="a", phase=Phase.RUNNING), NOW)
    assert watched.verdict(11.0) == ("True", "default/waits was placed on a")


def test_room_that_others_took_has_not_helped_and_such_moves_are_backed_off() -> None:
    watched = Watched(fragmented())
    assert watched.after(170.0) is None
    found = watched.after(180.0)
    assert found is not None
    assert watched.verdict() == ("False", "default/waits still waits")
    assert rests([found], NOW + 200.0) == {"Defragmentation/default/waits": NOW + 180.0 + FIRST_REST_S}
    assert watched.proofs.judge(found, NOW + 9000.0) is None


def test_nothing_is_claimed_of_a_pod_that_is_gone() -> None:
    watched = Watched(fragmented())
    watched.world.cluster.pod_gone("u-waits", NOW)
    assert watched.verdict(1.0) == ("Unknown", "default/waits is gone")


@pytest.mark.parametrize("kept", [True, False])
def test_a_rule_is_checked_where_the_replacement_is(kept: bool) -> None:
    world = World(every_rule())
    world.node("a", labels={"disk": "hdd"})
    world.node("b", labels={"disk": "ssd"})
    world.pod("p", "a", node_selector=Labels.of({"disk": "ssd"}))
    watched = Watched(world)
    if not kept:
        world.node("b", labels={"disk": "hdd"})
    words = "satisfies" if kept else "does not satisfy"
    assert watched.verdict() == (str(kept), f"b {words} the node affinity of default/p-new")


@pytest.mark.parametrize("kept", [True, False])
def test_taints_are_checked_where_the_replacement_is(kept: bool) -> None:
    world = World(every_rule())
    taint = Taint("gpu", "", Effect.NO_SCHEDULE)
    world.node("a", taints=(taint,))
    world.node("b")
    world.pod("p", "a")
    watched = Watched(world)
    if not kept:
        world.node("b", taints=(taint,))
    words = "tolerates" if kept else "does not tolerate"
    assert watched.verdict() == (str(kept), f"default/p-new {words} the taints of b")


@pytest.mark.parametrize("kept", [True, False])
def test_anti_affinity_is_checked_where_the_replacement_is(kept: bool) -> None:
    world = World(every_rule())
    world.node("a")
    world.node("b")
    alone = (PodTerm("kubernetes.io/hostname", LabelSelector.of({"app": "x"})),)
    for name, priority in (("x1", 5), ("x2", 0)):
        world.pod(name, "a", labels=Labels.of({"app": "x"}), anti_affinity=alone, priority=priority)
    watched = Watched(world)
    assert watched.move.pod == "default/x2"
    if not kept:
        world.pod("x3", "b", labels=Labels.of({"app": "x"}))  # another scheduler put it there
    assert watched.after(170.0) is None
    words = "allows default/x2-new on b" if kept else "forbids default/x2-new a common domain with default/x3"
    assert watched.verdict() == (str(kept), f"anti-affinity {words}")


@pytest.mark.parametrize("kept", [True, False])
def test_spread_is_checked_where_the_replacement_is(kept: bool) -> None:
    world = World(every_rule())
    for name in "abc":
        world.node(name)
    rule = SpreadConstraint("kubernetes.io/hostname", LabelSelector.of({"app": "web"}))
    for i in range(3):
        world.pod(f"p{i}", "a", spread=(rule,))
    watched = Watched(world)
    if not kept:
        for i in range(2):
            world.pod(f"q{i}", watched.move.target)
    has = 1 if kept else 3
    words = f"kubernetes.io/hostname {watched.move.target} has {has} pods, the smallest domain 0: at most 1 more are allowed"
    assert watched.verdict() == (str(kept), words)


def emptying() -> Watched:
    world = World(MoveKinds(packing=Packing({"cpu": 20.0})))
    world.node("a")
    world.node("b")
    world.pod("p", "a")
    world.pod("q", "b", 5000)
    return Watched(world)


def test_an_emptied_node_is_empty_apart_from_pods_that_every_node_has() -> None:
    watched = emptying()
    assert (watched.move.node, watched.move.target) == ("a", "b")
    seen = ObservedPod(Pod("d"), "u-d", "cotenant", NOW + 1.0, "a", Phase.RUNNING, owned_by=(OwnedBy("apps/v1", "DaemonSet", "d", "uid-d", True),))  # fmt: skip
    watched.world.cluster.pod_seen(seen, NOW)
    assert watched.after(170.0) is None
    assert watched.verdict() == ("True", "a is empty")


def test_an_emptied_node_that_is_filled_again_was_emptied_in_vain_and_is_backed_off() -> None:
    watched = emptying()
    watched.world.cluster.pod_seen(ObservedPod(Pod("r"), "u-r", "cotenant", NOW + 60.0, "a", Phase.RUNNING), NOW + 60.0)
    found = watched.after(180.0)
    assert found is not None
    assert watched.verdict() == ("False", "a has 1 pods, 1 of which came after the move")
    assert rests([found], NOW + 200.0) == {"HighNodeUtilization/a": NOW + 180.0 + FIRST_REST_S}


def test_a_node_that_is_still_being_emptied_is_not_judged() -> None:
    watched = emptying()
    watched.world.cluster.pod_seen(ObservedPod(Pod("r"), "u-r", "cotenant", NOW - 60.0, "a", Phase.RUNNING), NOW)
    assert watched.verdict() == ("Unknown", "a still has 1 pods from before the move")


def test_a_node_that_was_removed_needs_no_judgement_of_its_pods() -> None:
    watched = emptying()
    watched.world.cluster.node_gone("a", NOW + 100.0)
    assert watched.verdict() == ("True", "a was removed")


@pytest.mark.parametrize(("p99_ms", "status"), [(8.0, "True"), (14.0, "False")])
def test_an_objective_is_judged_by_the_windows_after_the_move(p99_ms: float, status: str) -> None:
    world = missing()
    measure(world)
    watched = Watched(world)
    assert watched.move.pod == "default/batch"
    assert watched.after(10.0) is None
    for at in (60.0, 120.0):
        signals = PodSignals(latency_p99_ms=p99_ms)
        slow = MeasuredPod(Use(2000, GIB), PriorityClass.PROD, signals)
        metric = NodeMetric("a", 0.0, use=Use(2000, GIB), pods={"default/victim": slow}, system=Use())
        world.planner.metric_seen(metric, NOW + at)
        assert watched.after(at) is None
    found, figures = watched.verdict()
    assert found == status
    assert (
        figures == f"p99 of default/victim over its objective: {p99_ms / 10.0:.2f}, the mean of the time after the move"
    )


def test_an_objective_that_was_not_measured_since_is_not_known() -> None:
    world = missing()
    measure(world)
    assert Watched(world).verdict() == ("Unknown", "p99 of default/victim was not measured since")
