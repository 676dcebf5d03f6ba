"""Moves of other kinds than LowNodeLoad are judged by what they were made for, and a kind that does not serve it is
backed off.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.engine.rebalancer.test_other_kinds import GIB, NOW, WEB, World, every_rule, fragmented, measure, missing

from cotenant.engine.migration.proof import FIRST_REST_S, Proofs, rests
from cotenant.engine.rebalancer.jobs import job_of
from cotenant.engine.rebalancer.purposes import Purposes
from cotenant.engine.rebalancer.settings import ActingSettings, MoveKinds, Packing
from cotenant.model.cluster.affinity import PodTerm, SpreadConstraint
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.observed import PodPhase
from cotenant.model.cluster.qos import PriorityClass
from cotenant.model.cluster.taints import Taint, TaintEffect
from cotenant.model.groups.migration import JobCondition, JobPhase, JobStep, MigrationJob, PodRef
from cotenant.model.machine.node_metric import MeasuredPod, NodeMetric, PodSignals, Use


class Watched:
    """The first move of a plan, as if it had been carried out at `NOW`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.move = world.plan().moves[0]
        job = job_of(self.move, "uid-w", 20, ActingSettings(), NOW)
        ready = JobCondition(JobStep.POD_READY, "True", since_s=NOW)
        self.new = PodRef("default", f"{job.pod.name}-new", f"{job.pod.uid}-new")
        self.job = replace(job, uid="j", created_s=NOW, phase=JobPhase.SUCCEEDED, conditions=(ready,), new_pod=self.new)
        entry = world.cluster.find(self.move.pod)
        assert entry is not None
        world.cluster.pod_gone(self.move.uid, NOW)
        pod = replace(entry.seen.pod, name=self.new.name)
        world.cluster.pod_seen(
            replace(entry.seen, pod=pod, uid=self.new.uid, node=self.move.target, created_s=NOW + 5.0), NOW
        )
        purposes = Purposes(world.cluster, world.planner)
        self.proofs = Proofs(lambda node, resource: None, 180.0, purpose=purposes)

    def comes(self, name: str, node: str, **more: Any) -> None:
        """A pod that is created after the move and bound to this node by another scheduler."""
        self.world.pod(name, node, **more)
        entry = self.world.cluster.find(f"default/{name}")
        assert entry is not None
        self.world.cluster.pod_seen(replace(entry.seen, created_s=NOW + 20.0), NOW)

    def goes(self, name: str) -> None:
        self.world.cluster.pod_gone(f"u-{name}", NOW)

    def after(self, seconds: float) -> MigrationJob | None:
        return self.proofs.judge(self.job, NOW + seconds)

    def verdict(self, seconds: float = 180.0) -> tuple[str, str]:
        found = self.after(seconds)
        condition = found.condition(JobStep.HELPED) if found is not None else None
        assert condition is not None
        return condition.status, condition.message


def test_room_has_helped_as_soon_as_the_pod_that_waited_is_placed() -> None:
    watched = Watched(fragmented())
    assert watched.after(10.0) is None
    entry = watched.world.cluster.find("default/waits")
    assert entry is not None
    watched.world.cluster.pod_seen(replace(entry.seen, node="a", phase=PodPhase.RUNNING), NOW)
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
    taint = Taint("gpu", "", TaintEffect.NO_SCHEDULE)
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


APART = (PodTerm("kubernetes.io/hostname", WEB),)


def together() -> World:
    """Two pods on node a that may not share it; b is free."""
    world = World(every_rule())
    for name in "abc":
        world.node(name)
    world.pod("first", "a", anti_affinity=APART, priority=5)
    world.pod("second", "a", anti_affinity=APART)
    return world


@pytest.mark.parametrize(("comes_to", "beside", "since"), [("", 0, 0), ("new", 1, 0), ("a", 0, 1), ("c", 0, 0)])
def test_pods_that_were_moved_apart_are_counted_with_those_that_came_since(
    comes_to: str, beside: int, since: int
) -> None:
    watched = Watched(together())
    if comes_to:
        watched.comes("late", watched.move.target if comes_to == "new" else comes_to, anti_affinity=APART)
    assert watched.after(179.0) is None
    figures = (
        f"pods that its anti-affinity forbids beside default/second: 1 before, {beside} beside "
        f"default/second-new on b, {since} that came beside them since"
    )
    assert watched.verdict() == (str(beside + since == 0), figures)


def test_peers_that_still_share_their_node_do_not_count_against_a_move() -> None:
    world = together()
    world.pod("third", "a", anti_affinity=APART, priority=5)
    status, figures = Watched(world).verdict()
    assert (status, figures.partition("second: ")[2]) == (
        "True",
        "2 before, 0 beside default/second-new on b, 0 that came beside them since",
    )


ZONES = (SpreadConstraint("zone", WEB),)


def spreading() -> Watched:
    """Four pods in the first of three zones; the first of the moves out of it is done."""
    world = World(every_rule())
    for name in "abc":
        world.node(name, labels={"zone": f"z-{name}"})
    for i in range(4):
        world.pod(f"p{i}", "a", spread=ZONES)
    watched = Watched(world)
    assert watched.move.target == "b"
    return watched


@pytest.mark.parametrize(
    ("more", "status", "skew", "left", "here"),
    [
        ("", "True", 2, 2, 0),
        ("aa", "False", 4, 4, 0),
        ("bc", "True", 1, 1, 0),
        ("bccccccc", "False", 6, 1, 0),
        ("bbb", "False", 3, 2, 3),
    ],
)
def test_the_skew_of_the_constraint_is_compared(more: str, status: str, skew: int, left: int, here: int) -> None:
    watched = spreading()
    watched.comes("other", "c", spread=ZONES)  # the plan's second move
    for number, node in enumerate(more):
        watched.comes(f"late{number}", node, spread=ZONES)
    if not more:
        assert watched.after(179.0) is None
    figures = (
        f"skew over zone: 4 before, {skew} after, 1 allowed; above the smallest: z-a 4 before, {left} after; "
        f"z-b, where it is, {here}"
    )
    assert watched.verdict() == (status, figures)


def emptying() -> Watched:
    """Node a has four pods of one core, b and c are used more; the first of the moves off it is done."""
    world = World(MoveKinds(packing=Packing({"cpu": 45.0})))
    for name in "abc":
        world.node(name)
    for i in range(4):
        world.pod(f"p{i}", "a")
    for name in "bc":
        world.pod(f"used-{name}", name, 5000)
    return Watched(world)


@pytest.mark.parametrize(
    ("gone", "came", "status"),
    [(0, 0, "True"), (3, 0, "True"), (0, 1, "False"), (1, 1, "True"), (3, 3, "False"), (3, 4, "False")],
)
def test_a_node_was_emptied_or_refilled(gone: int, came: int, status: str) -> None:
    watched = emptying()
    left = [f"p{i}" for i in range(4) if f"default/p{i}" != watched.move.pod]
    for name in left[:gone]:
        watched.goes(name)
    for number in range(came):
        watched.comes(f"late{number}", "a")
    watched.comes("daemon", "a")
    entry = watched.world.cluster.find("default/daemon")
    assert entry is not None
    owner = replace(entry.seen.owned_by[0], kind="DaemonSet")
    watched.world.cluster.pod_seen(replace(entry.seen, owned_by=(owner,)), NOW)
    assert watched.after(179.0) is None
    figures = f"pods that keep a from being empty: 4 before, {3 - gone + came} after, {came} of them came since"
    assert watched.verdict() == (status, figures)


def test_a_node_that_was_removed_was_emptied() -> None:
    watched = emptying()
    watched.world.cluster.node_gone("a", NOW)
    assert watched.verdict() == ("True", "a was removed")


@pytest.mark.parametrize("kind", ["anti-affinity", "spread"])
def test_nothing_is_claimed_of_a_rule_where_the_replacement_is_gone(kind: str) -> None:
    world = together()
    if kind == "spread":
        for name in ("first", "second"):
            world.pod(name, "a", spread=(SpreadConstraint("kubernetes.io/hostname", WEB),))
    watched = Watched(world)
    watched.world.cluster.pod_gone(watched.new.uid, NOW)
    assert watched.verdict() == ("Unknown", "its replacement is gone")


def test_a_kind_rests_for_the_domain_or_the_node_that_did_not_become_better() -> None:
    refilled = emptying()
    refilled.comes("late", "a")
    apart = Watched(together())
    apart.comes("late", "a", anti_affinity=APART)
    spread = spreading()
    spread.comes("late", "a", spread=ZONES)
    jobs = [watched.after(180.0) for watched in (refilled, apart, spread)]
    resting = rests([job for job in jobs if job is not None], NOW + 200.0)
    assert resting == {
        "HighNodeUtilization/a": NOW + 180.0 + FIRST_REST_S,
        "RemovePodsViolatingInterPodAntiAffinity/a": NOW + 180.0 + FIRST_REST_S,
        "RemovePodsViolatingTopologySpreadConstraint/default/zone/z-a": NOW + 180.0 + FIRST_REST_S,
    }
