"""Moves of other kinds than LowNodeLoad are judged by what they were made for, and a kind that does not serve it is backed off."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cotenant.engine.migration.proof import FIRST_REST_S, Proofs, rests
from cotenant.engine.rebalancer.jobs import job_of
from cotenant.engine.rebalancer.purposes import Purposes
from cotenant.engine.rebalancer.settings import ActingSettings
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.observed import Phase
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
        self.job = replace(job, uid="j", phase=JobPhase.SUCCEEDED, conditions=(ready,), new_pod=self.new)
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
