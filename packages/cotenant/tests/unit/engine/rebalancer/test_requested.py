"""Requested moves on the scheduling engine: the cheaper pod that lands on a better node, or why none does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.migration.steps import SimulatedMove
from cotenant.engine.rebalancer.planner import Planner
from cotenant.engine.rebalancer.requested import RequestedMoves
from cotenant.engine.rebalancer.settings import MoveLimits, RebalancerSettings
from cotenant.model.cluster.eviction import EvictionNotes
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod, OwnedBy, PodPhase
from cotenant.model.cluster.pod import Pod, PodEstimate
from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.groups.migration import MigrationJob, PodRef
from cotenant.model.machine.node_metric import MeasuredPod, NodeMetric, Use
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile
from cotenant.policy.rebalance.migration.evictable import EvictionFilter

NOW = 1000.0
GIB = 1 << 30
PROD = {"qos": QoSClass.LS, "priority_class": PriorityClass.PROD, "priority": 9000}
BATCH = {"priority_class": PriorityClass.BATCH, "priority": 5000}


class World:
    """`a` uses 60 % with a service and a batch pod; `b` is empty."""

    def __init__(self, limits: MoveLimits | None = None, use_of_b_m: int = 1000, **filters: bool) -> None:
        self.cluster = Cluster(
            profile("kube-default"), np.random.default_rng(0), EngineSettings(schedulers=("cotenant",))
        )
        self.notes: dict[str, EvictionNotes] = {}
        self.kept: dict[str, str] = {}
        self.planner = Planner(
            self.cluster,
            RebalancerSettings((), limits=limits or MoveLimits(), filter=EvictionFilter(**filters)),
            lambda key: self.notes.get(key, EvictionNotes(is_ready=True)),
        )
        self.requests = RequestedMoves(self.planner, lambda now_s: self.kept)
        for name in "ab":
            self.cluster.node_seen(Node(name, Amounts.of({"cpu": 10_000, "memory": 64 * GIB})))
        self.pod("victim", 2000, **PROD)
        self.pod("batch", 4000, **BATCH)
        pods = {"default/victim": MeasuredPod(Use(2000, GIB)), "default/batch": MeasuredPod(Use(4000, GIB))}
        self.planner.metric_seen(NodeMetric("a", 5.0, use=Use(6000, 2 * GIB), pods=pods, system=Use()), NOW)
        self.planner.metric_seen(NodeMetric("b", 5.0, use=Use(use_of_b_m, GIB), pods={}, system=Use(use_of_b_m)), NOW)

    def pod(self, name: str, cpu_m: int, node: str = "a", **more: Any) -> None:
        owner = OwnedBy("apps/v1", "ReplicaSet", name, f"uid-{name}", True)
        pod = Pod(name, requests=Amounts.of({"cpu": cpu_m, "memory": GIB}), **more)
        self.cluster.pod_seen(
            ObservedPod(pod, f"u-{name}", "cotenant", 0.0, node, PodPhase.RUNNING, owned_by=(owner,)), NOW
        )
        self.planner.workload_seen(owner.uid, 4)
        for number in range(3):  # the other replicas
            other = Pod(f"{name}-{number}", requests=Amounts.of({"cpu": 1}))
            self.cluster.pod_seen(
                ObservedPod(other, f"u-{name}-{number}", "cotenant", 0.0, node, PodPhase.RUNNING, owned_by=(owner,)),
                NOW,
            )

    def ask(self, *alternatives: str, pod: str = "victim") -> SimulatedMove:
        job = MigrationJob(
            "j", "j", PodRef("default", pod), what_if=True, alternatives=alternatives, trigger="recovery"
        )
        before = {entry.seen.uid: (entry.seen, entry.node) for entry in self.cluster.every_pod()}
        found = self.requests(job, (), NOW)
        assert {entry.seen.uid: (entry.seen, entry.node) for entry in self.cluster.every_pod()} == before
        self.cluster.validate()
        return found


def test_the_landing_with_what_it_changes() -> None:
    found = World().ask()
    assert found.pod == PodRef("default", "victim", "u-victim")
    note = found.note
    assert note is not None
    assert (note.node, note.target, note.kind, note.workload) == ("a", "b", "recovery/default/victim", "uid-victim")
    assert (note.node_before["cpu"], note.node_after["cpu"]) == (60.0, 40.0)
    assert (note.target_before["cpu"], note.target_after["cpu"]) == (10.0, 30.0)
    assert (note.resource, note.replicas) == ("cpu", 4)


def test_the_cheaper_of_the_named_pods_moves() -> None:
    assert World().ask("default/batch").pod.name == "batch"
    world = World()
    world.notes["default/batch"] = EvictionNotes(is_ready=True, has_local_storage=True)
    assert world.ask("default/batch").pod.name == "victim"
    assert world.ask(pod="batch").why == "default/batch: it has local storage"


def test_no_better_place() -> None:
    hot = World(use_of_b_m=7000).ask()
    assert hot.final
    assert hot.why == "default/victim: with it no other node would use less of its CPU than a does"
    gone = World().ask(pod="gone")
    assert (gone.why, gone.final) == ("default/gone: there is no such pod on a node", True)


def test_limits_and_a_recent_move_make_it_wait_or_fail() -> None:
    world = World(MoveLimits(globally=1))
    running = MigrationJob("other", "o", PodRef("default", "x", "u-x"), node="a")
    found = world.requests(MigrationJob("j", "j", PodRef("default", "victim"), what_if=True), (running,), NOW)
    assert not found.final
    assert found.why == "default/victim: 1 pod of the cluster is moving, at most 1 may at a time"
    world.kept["u-victim"] = "it was moved less than an hour ago"
    assert world.ask().why == "default/victim: it was moved less than an hour ago"


@pytest.mark.parametrize("pressure", [0.0, 3.0])
def test_a_landing_whose_predicted_violation_grows_is_refused(pressure: float) -> None:
    world = World()
    sensitive = PodEstimate(1.0, GIB, sensitivity=1.0, pressure=0.1, allowance=0.2)
    world.pod("neighbour", 1000, "b", estimate=sensitive, **PROD)
    world.pod("loud", 1000, estimate=PodEstimate(2.0, GIB, pressure=pressure), **BATCH)
    found = world.ask(pod="loud")
    assert found.final == (pressure > 0)
    if pressure:
        assert "predicted violations would grow from 0.00 to" in found.why


@pytest.mark.parametrize("may", [False, True])
def test_a_pod_without_an_owner_is_a_workload_of_one_where_such_pods_are_moved(may: bool) -> None:
    world = World(evicts_bare_pods=may)
    alone = Pod("alone", requests=Amounts.of({"cpu": 1000, "memory": GIB}), **BATCH)
    world.cluster.pod_seen(ObservedPod(alone, "u-alone", "cotenant", 0.0, "a", PodPhase.RUNNING), NOW)
    found = world.ask(pod="alone")
    if may:
        assert found.note is not None, found.why
        assert (found.note.workload, found.note.replicas) == ("", 1)
    else:
        assert found.why == "default/alone: no controller would create it again"
