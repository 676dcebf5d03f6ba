"""Plans on the scheduling engine: where pods land, what limits them, and that nothing is left behind by a refused
move.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.rebalancer.jobs import job_of
from cotenant.engine.rebalancer.plan import MovePlan, PlannedMove
from cotenant.engine.rebalancer.planner import Planner
from cotenant.engine.rebalancer.settings import ActingSettings, MoveLimits, RebalancerSettings
from cotenant.model.cluster.eviction import EvictionNotes
from cotenant.model.cluster.labels import Labels, LabelSelector
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import DisruptionBudget, ObservedPod, OwnedBy, PodPhase
from cotenant.model.cluster.pod import Pod, PodEstimate
from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.cluster.taints import Taint, TaintEffect
from cotenant.model.groups.migration import JobPhase, MigrationJob
from cotenant.model.groups.reservation import Reservation
from cotenant.model.machine.node_metric import MeasuredPod, NodeMetric, Use
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile
from cotenant.policy.rebalance.loads.pools import NodePool
from cotenant.policy.rebalance.loads.thresholds import Percentages
from cotenant.policy.rebalance.migration.evictable import EvictionFilter
from cotenant.policy.rebalance.migration.workload_limits import ReplicaShare

NOW = 1000.0
GIB = 1 << 30
POOL = NodePool("p", Percentages({"cpu": 30}, {"cpu": 60}), anomaly=None)
SETTINGS = RebalancerSettings(
    (POOL,), filter=EvictionFilter(max_unavailable=ReplicaShare(3)), limits=MoveLimits(per_node=None)
)


class World:
    """A cluster of nodes with 10 cores; pods request and use what they are given."""

    def __init__(self, **settings: Any) -> None:
        self.cluster = Cluster(
            profile("kube-default"), np.random.default_rng(0), EngineSettings(schedulers=("cotenant",))
        )
        self.notes: dict[str, EvictionNotes] = {}
        self.planner = Planner(
            self.cluster, replace(SETTINGS, **settings), lambda key: self.notes.get(key, EvictionNotes(is_ready=True))
        )
        self.use: dict[str, dict[str, MeasuredPod]] = {}

    def node(self, name: str, **more: Any) -> None:
        size = Amounts.of({"cpu": 10_000, "memory": 64 * GIB, "pods": 20})
        self.cluster.node_seen(Node(name, size, **more))
        self.use.setdefault(name, {})

    def pod(
        self,
        name: str,
        node: str,
        use_m: int = 2000,
        *,
        request_m: int = 1000,
        owner: str = "web",
        scheduler: str = "cotenant",
        **more: Any,
    ) -> None:
        owners = (OwnedBy("apps/v1", "ReplicaSet", owner, f"uid-{owner}", True),) if owner else ()
        made = Pod(
            name,
            requests=Amounts.of({"cpu": request_m, "memory": GIB}),
            qos=QoSClass.LS,
            priority_class=PriorityClass.PROD,
            **more,
        )
        state = PodPhase.RUNNING if node else PodPhase.PENDING
        self.cluster.pod_seen(ObservedPod(made, f"u-{name}", scheduler, 0.0, node, state, owned_by=owners), NOW)
        if node:
            self.use[node][made.key] = MeasuredPod(Use(use_m, GIB))

    def plan(self, replicas: int = 4, measured: Callable[[str], bool] = lambda node: True) -> MovePlan:
        self.measure(replicas, measured)
        return self.planner.plan(NOW)

    def measure(self, replicas: int, measured: Callable[[str], bool] = lambda node: True) -> None:
        """Report the number of replicas and the use of each node to the planner."""
        for owner in ("web", "other"):
            self.planner.workload_seen(f"uid-{owner}", replicas)
        for node, pods in self.use.items():
            if measured(node):
                total = sum(pod.use.cpu_m for pod in pods.values())
                metric = NodeMetric(node, 5.0, use=Use(total, GIB), pods=pods, system=Use(0, 0))
                self.planner.metric_seen(metric, NOW)


def hot(**settings: Any) -> World:
    """`a` uses 80 % of its CPU with four pods, `b` nothing."""
    world = World(**settings)
    world.node("a")
    world.node("b")
    for i in range(4):
        world.pod(f"w{i}", "a")
    return world


def test_a_move_with_its_effect() -> None:
    world = hot()
    found = world.plan()
    (move,) = found.moves
    assert (move.node, move.target, move.owner) == ("a", "b", "ReplicaSet/web")
    assert move.reason == "cpu 80.00 % above 60.00 %"
    assert (move.node_before["cpu"], move.node_after["cpu"]) == (80.0, 60.0)
    assert (move.target_before["cpu"], move.target_after["cpu"]) == (0.0, 20.0)
    assert found.pools[0].still_overloaded == ()
    world.cluster.validate()


def reasons(found: MovePlan) -> set[str]:
    assert not found.moves
    return {kept_pod.reason for kept_pod in found.kept}


def test_a_taint_that_the_pods_do_not_tolerate() -> None:
    world = hot()
    world.node("b", taints=(Taint("gpu", "", TaintEffect.NO_SCHEDULE),))
    (reason,) = reasons(world.plan())
    assert reason.startswith("the scheduler finds no node: ")
    assert "taint" in reason
    world.cluster.validate()
    assert len(world.cluster.pods_on("a")) == 4


def test_requests_that_do_not_fit_although_measured_use_does() -> None:
    world = hot()
    for i in range(10):
        world.pod(f"idle{i}", "b", 10, owner="other")
    (reason,) = reasons(world.plan())
    assert "nsufficient cpu" in reason


def test_a_landing_that_would_evict_others_is_refused() -> None:
    world = World()
    world.node("a")
    world.node("b")
    for i in range(4):
        world.pod(f"w{i}", "a", priority=1000)
    for i in range(10):
        world.pod(f"idle{i}", "b", 10, owner="other", priority=1)
    (reason,) = reasons(world.plan())
    assert reason.startswith("the scheduler would evict default/idle")
    assert len(world.cluster.pods_on("b")) == 10
    world.cluster.validate()


def test_pods_of_another_scheduler_are_not_moved() -> None:
    world = World()
    world.node("a")
    world.node("b")
    for i in range(4):
        world.pod(f"w{i}", "a", scheduler="kube-scheduler")
    assert reasons(world.plan()) == {"its scheduler kube-scheduler is not simulated"}


def test_a_budget_is_used_up_by_the_moves_of_the_plan() -> None:
    world = hot()
    for i in range(2):
        world.pod(f"more{i}", "a", 2000)
    everything = LabelSelector()
    world.cluster.budget_seen(DisruptionBudget("default", "web", everything, allowed=1))
    found = world.plan(replicas=6)
    assert len(found.moves) == 1
    assert {kept_pod.reason for kept_pod in found.kept} == {
        "1 pod under PodDisruptionBudget default/web is moving, it allows no more at a time"
    }


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (MoveLimits(per_node=1), "1 pod of a is moving, at most 1 may at a time"),
        (MoveLimits(globally=1, per_node=None), "1 pod of the cluster is moving, at most 1 may at a time"),
        (MoveLimits(per_namespace=1), "1 pod of namespace default is moving, at most 1 may at a time"),
        (MoveLimits(round_total=1), "1 pod moves in this round, at most 1 may"),
        (MoveLimits(round_per_node=1), "1 pod of a moves in this round, at most 1 may"),
        (MoveLimits(round_per_namespace=1), "1 pod of namespace default moves in this round, at most 1 may"),
    ],
)
def test_limits_count_the_moves_of_the_plan(limits: MoveLimits, reason: str) -> None:
    world = hot(limits=limits)
    world.pod("extra", "a", 1500)
    found = world.plan(replicas=5)
    assert len(found.moves) == 1
    assert {kept_pod.reason for kept_pod in found.kept} == {reason}


def test_a_pod_that_is_not_ready_counts_against_its_workload() -> None:
    world = hot(filter=EvictionFilter())
    world.notes["default/w1"] = EvictionNotes(is_ready=False)
    assert "2 of 5 replicas are moving or unavailable, at most 2 may" in reasons(
        world.plan(replicas=5)
    )  # w1, and one that is missing


def test_the_filters_apply() -> None:
    world = hot()
    for i in range(4):
        world.notes[f"default/w{i}"] = EvictionNotes(is_ready=True, has_local_storage=True)
    assert reasons(world.plan()) == {"it has local storage"}


def test_nodes_without_a_current_metric_take_no_part() -> None:
    world = hot()
    found = world.plan(measured=lambda node: node == "a")
    assert found.unmeasured == ("b",)
    assert found.pools[0].note == "no node is underused"
    assert not found.moves


def test_waiting_pods_are_placed_first() -> None:
    world = hot()
    for i in range(5):
        world.pod(f"waits{i}", "", request_m=1900, owner="other")
    found = world.plan()
    assert found.placed_first == 5
    world.cluster.validate()


def test_a_moved_pod_lands_where_its_own_rules_allow() -> None:
    world = World()
    world.node("a", labels=Labels.of({"disk": "ssd"}))
    world.node("b")
    world.node("c", labels=Labels.of({"disk": "ssd"}))
    for i in range(4):
        world.pod(f"w{i}", "a", node_selector=Labels.of({"disk": "ssd"}))
    (move,) = world.plan().moves
    assert move.target == "c"


def test_the_selector_of_the_profile_and_raw_allocatable() -> None:
    world = hot(node_selector=LabelSelector.of({"pool": "x"}))
    assert world.plan().nodes == 0
    world = hot()
    world.planner.use.raw_allocatable("a", Use(100_000, 64 * GIB))  # 8 % of what it really has
    assert world.plan().pools[0].note == "no node is overloaded"


@pytest.mark.parametrize("seed", range(12))
def test_only_the_pods_of_the_plan_move_and_every_node_holds_its_requests(seed: int) -> None:
    rng = np.random.default_rng(seed)
    world = World(limits=MoveLimits(per_node=int(rng.integers(0, 4))))
    for i in range(8):
        tainted = (Taint("gpu", "", TaintEffect.NO_SCHEDULE),) if rng.random() < 0.2 else ()
        world.node(f"n{i}", taints=tainted, labels=Labels.of({"half": str(i % 2)}))
    before = {}
    for number in range(40):
        node = f"n{int(8 * rng.random() ** 2)}"
        only = {"node_selector": Labels.of({"half": str(int(node[1:]) % 2)})} if rng.random() < 0.3 else {}
        world.pod(
            f"p{number}",
            node,
            int(rng.integers(50, 2500)),
            request_m=int(rng.integers(50, 1000)),
            priority=int(rng.integers(0, 3)),
            **only,
        )
        before[f"default/p{number}"] = node
    found = world.plan(replicas=40)
    world.cluster.validate()
    moved = {move.pod: move.target for move in found.moves}
    after = {entry.seen.pod.key: entry.node for entry in world.cluster.every_pod()}
    assert after == {**before, **moved}
    assert not moved.keys() & {kept_pod.pod for kept_pod in found.kept}
    for move in found.moves:
        assert before[move.pod] == move.node != move.target
        assert move.target_after["cpu"] <= 60.0
    for node in world.cluster.nodes():
        requested = sum(entry.seen.pod.requests.get("cpu") for entry in world.cluster.pods_on(node.name))
        if node.name in moved.values():
            assert requested <= 10_000


def hotter() -> World:
    """`a` uses 90 % of its CPU with nine pods, `b` nothing; measured."""
    world = World(filter=EvictionFilter(max_moving=ReplicaShare(5), max_unavailable=ReplicaShare(5)))
    world.node("a")
    world.node("b")
    for i in range(9):
        world.pod(f"w{i}", "a", 1000)
    world.measure(9)
    return world


def _job(move: PlannedMove, phase: JobPhase) -> MigrationJob:
    return replace(job_of(move, "uid-web", 4, ActingSettings(), NOW), uid="j", phase=phase, node=move.node)


def test_a_plan_beside_leaves_the_engine_as_it_is_and_is_repeated_alike() -> None:
    world = hotter()
    before = world.cluster.assigned()
    first, second = world.planner.plan_beside(NOW), world.planner.plan_beside(NOW)
    assert first == second
    assert first.moves
    assert world.cluster.assigned() == before
    world.cluster.validate()


def test_moves_that_a_measurement_does_not_show_yet_are_not_planned_again() -> None:
    world = hotter()
    first = world.planner.plan_beside(NOW)
    for phase in (JobPhase.RUNNING, JobPhase.SUCCEEDED):
        jobs = [_job(move, phase) for move in first.moves]
        kept = {move.uid: "it moves already" for move in first.moves}
        running = jobs if phase is JobPhase.RUNNING else []
        ended = jobs if phase is JobPhase.SUCCEEDED else []
        assert not world.planner.plan_beside(NOW, running, ended, kept).moves
    assert world.planner.plan_beside(NOW, (), (), kept).moves, "without the moves the node would be overloaded"


def test_a_workload_that_was_moved_a_moment_ago_is_left_alone() -> None:
    world = hotter()
    plan = world.planner.plan_beside(NOW, rate=lambda workload, replicas, more: "it was moved" if more else "")
    assert len(plan.moves) == 1
    assert "it was moved" in {kept_pod.reason for kept_pod in plan.kept}


def test_the_measured_percentage_of_a_node() -> None:
    world = hotter()
    assert world.planner.use.percent("a", "cpu", NOW) == pytest.approx(90.0)
    assert world.planner.use.percent("a", "cpu", NOW + 1000.0) is None
    assert world.planner.use.percent("nowhere", "cpu", NOW) is None


def test_nothing_is_simulated_where_no_node_is_overloaded() -> None:
    world = World()
    world.node("a")
    world.pod("w0", "a", 100)
    world.measure(4)
    before = world.cluster.counts
    world.cluster.tentative = None  # type: ignore[assignment, method-assign]
    assert world.planner.plan_beside(NOW).pools[0].note == "no node is overloaded"
    assert world.cluster.counts == before


def some_world(seed: int) -> World:
    rng = np.random.default_rng(seed)
    world = World(limits=MoveLimits(per_node=int(rng.integers(0, 4))))
    for i in range(6):
        world.node(f"n{i}", labels=Labels.of({"half": str(i % 2)}))
    for number in range(40):
        node = f"n{int(6 * rng.random() ** 2)}" if rng.random() < 0.8 else ""
        only = (
            {"node_selector": Labels.of({"half": str(rng.integers(0, 2))})} if rng.random() < 0.3 and not node else {}
        )
        priority = int(rng.integers(0, 3)) * 100  # those that wait may evict others
        world.pod(
            f"p{number}",
            node,
            int(rng.integers(50, 2500)),
            request_m=int(rng.integers(50, 3000)),
            priority=priority,
            **only,
        )
    requested = Amounts.of({"cpu": 300})
    for name in [f"r{i}" for i in range(int(rng.integers(0, 3)))]:  # of moves under way
        world.cluster.plugins.reservations.seen(Reservation(name, f"u-{name}", Pod(name, requests=requested)), NOW)
    world.measure(40)
    return world


@pytest.mark.parametrize("seed", range(10))
def test_a_round_beside_equals_one_in_an_engine_that_is_thrown_away(seed: int) -> None:
    world = some_world(seed)
    before = {entry.seen.uid: (entry.seen, entry.node) for entry in world.cluster.every_pod()}
    expected = some_world(seed).planner.plan(NOW)
    for _ in range(3):
        assert world.planner.plan_beside(NOW) == expected
        assert {entry.seen.uid: (entry.seen, entry.node) for entry in world.cluster.every_pod()} == before
        world.cluster.validate()


def test_the_engine_is_restored_where_a_simulation_fails() -> None:
    world = hotter()
    before = {entry.seen.uid: (entry, entry.seen, entry.node) for entry in world.cluster.every_pod()}

    def fails() -> None:
        with world.cluster.tentative(NOW):
            world.planner.plan(NOW)
            world.cluster.node_seen(replace(world.cluster.nodes()[0], unschedulable=True))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fails()
    assert {entry.seen.uid: (entry, entry.seen, entry.node) for entry in world.cluster.every_pod()} == before
    assert not any(node.unschedulable for node in world.cluster.nodes())
    world.cluster.validate()


@pytest.mark.parametrize(("pressure", "target"), [(0.1, "b"), (3.0, "c")])
def test_load_is_not_moved_to_a_node_whose_services_it_would_harm(pressure: float, target: str) -> None:
    world = World()
    for name in "abc":
        world.node(name)
    loud = PodEstimate(2.0, GIB, pressure=pressure)
    for i in range(4):
        world.pod(f"w{i}", "a", estimate=loud)
    sensitive = PodEstimate(1.0, GIB, sensitivity=1.0, pressure=0.1, allowance=0.2)
    world.pod("service", "b", 1000, owner="other", estimate=sensitive, objective_p99_ms=10.0)
    world.pod("full", "c", 1000, request_m=3000, owner="other")  # the scheduler prefers b, which has more room
    (move,) = world.plan().moves
    assert move.target == target
    assert move.effect is None or move.effect.violation_after <= move.effect.violation_before


def test_a_pod_stays_where_every_node_with_room_would_be_harmed() -> None:
    world = hot()
    for i in range(4):
        world.pod(f"w{i}", "a", estimate=PodEstimate(2.0, GIB, pressure=3.0))
    sensitive = PodEstimate(1.0, GIB, sensitivity=1.0, pressure=0.1, allowance=0.2)
    world.pod("service", "b", 1000, owner="other", estimate=sensitive, objective_p99_ms=10.0)
    (reason,) = reasons(world.plan())
    assert reason.startswith("on b predicted violations would grow from 0.00 to")
    world.cluster.validate()
    assert len(world.cluster.pods_on("b")) == 1
