"""Kinds of moves other than LowNodeLoad on the scheduling engine: repairs, room for pods that wait, emptied nodes,
missed objectives.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.rebalancer.jobs import job_of, kind_of
from cotenant.engine.rebalancer.plan import MovePlan
from cotenant.engine.rebalancer.planner import Planner
from cotenant.engine.rebalancer.settings import (
    ActingSettings,
    Defragmentation,
    MissedObjectives,
    MoveKinds,
    MoveLimits,
    Packing,
    PodScope,
    RebalancerSettings,
)
from cotenant.model.cluster.affinity import PodTerm, SpreadConstraint
from cotenant.model.cluster.eviction import EvictionNotes
from cotenant.model.cluster.labels import Labels, LabelSelector
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import DisruptionBudget, ObservedPod, OwnedBy, PodPhase
from cotenant.model.cluster.pod import Pod, PodEstimate
from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.cluster.taints import Taint, TaintEffect
from cotenant.model.machine.node_metric import MeasuredPod, NodeMetric, PodSignals, Use
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile
from cotenant.policy.rebalance.migration.evictable import EvictionFilter, EvictionGate
from cotenant.policy.rebalance.violations.contract import ViolationRule

NOW = 1000.0
GIB = 1 << 30
WEB = LabelSelector.of({"app": "web"})


class World:
    """A cluster of nodes with 10 cores, without LowNodeLoad."""

    def __init__(self, kinds: MoveKinds, limits: MoveLimits | None = None) -> None:
        self.cluster = Cluster(
            profile("kube-default"), np.random.default_rng(0), EngineSettings(schedulers=("cotenant",))
        )
        settings = RebalancerSettings(
            (),
            filter=EvictionFilter(
                skip=frozenset({EvictionGate.MAX_UNAVAILABLE, EvictionGate.MAX_MOVING, EvictionGate.EXPECTED_REPLICAS})
            ),
            limits=limits or MoveLimits(per_node=None),
            kinds=kinds,
        )
        self.notes: dict[str, EvictionNotes] = {}
        self.planner = Planner(self.cluster, settings, lambda key: self.notes.get(key, EvictionNotes(is_ready=True)))
        self.planner.workload_seen("uid-w", 20)

    def node(self, name: str, cpu_m: int = 10_000, **more: Any) -> None:
        labels = Labels.of({"kubernetes.io/hostname": name, **more.pop("labels", {})})
        amounts = Amounts.of({"cpu": cpu_m, "memory": 64 * GIB, "pods": 20})
        self.cluster.node_seen(Node(name, amounts, labels, **more))

    def pod(self, name: str, node: str, cpu_m: int = 1000, owned: bool = True, **more: Any) -> None:
        owners = (OwnedBy("apps/v1", "ReplicaSet", "w", "uid-w", True),) if owned else ()
        more.setdefault("labels", Labels.of({"app": "web"}))
        pod = Pod(name, requests=Amounts.of({"cpu": cpu_m, "memory": GIB}), **more)
        phase = PodPhase.RUNNING if node else PodPhase.PENDING
        self.cluster.pod_seen(ObservedPod(pod, f"u-{name}", "cotenant", 0.0, node, phase, owned_by=owners), NOW)

    def plan(self, **more: Any) -> MovePlan:
        before = {entry.seen.uid: (entry.seen, entry.node) for entry in self.cluster.every_pod()}
        found = self.planner.plan_beside(NOW, **more)
        assert {entry.seen.uid: (entry.seen, entry.node) for entry in self.cluster.every_pod()} == before
        self.cluster.validate()
        return found


def every_rule(**more: Any) -> MoveKinds:
    return MoveKinds(dict.fromkeys(ViolationRule, PodScope()), **more)


def test_each_rule_moves_the_pod_that_violates_it() -> None:
    world = World(every_rule())
    world.node("a", labels={"disk": "hdd"}, taints=(Taint("gpu", "", TaintEffect.NO_SCHEDULE),))
    world.node("b", labels={"disk": "ssd"})
    world.node("c", labels={"disk": "ssd"})
    world.pod("selected", "a", node_selector=Labels.of({"disk": "ssd"}))
    world.pod("tainted", "a")
    lonely = (PodTerm("kubernetes.io/hostname", LabelSelector.of({"app": "x"})),)
    world.pod("x1", "b", labels=Labels.of({"app": "x"}), anti_affinity=lonely, priority=5)
    world.pod("x2", "b", labels=Labels.of({"app": "x"}), anti_affinity=lonely)
    found = world.plan()
    assert {move.pod: move.trigger for move in found.moves} == {
        "default/selected": ViolationRule.NODE_AFFINITY,
        "default/tainted": ViolationRule.NODE_TAINTS,
        "default/x2": ViolationRule.ANTI_AFFINITY,
    }
    assert {kind.trigger: (kind.considered, kind.solved) for kind in found.kinds} == {
        ViolationRule.NODE_AFFINITY: (1, 1),
        ViolationRule.NODE_TAINTS: (1, 1),
        ViolationRule.ANTI_AFFINITY: (1, 1),
        ViolationRule.SPREAD: (0, 0),
    }
    assert next(move.target for move in found.moves if move.pod == "default/x2") == "c"
    assert world.plan() == found


def test_a_pod_without_another_place_stays_with_the_schedulers_reason() -> None:
    world = World(every_rule())
    world.node("a", labels={"disk": "hdd"})
    world.node("b", labels={"disk": "hdd"})
    world.pod("selected", "a", node_selector=Labels.of({"disk": "ssd"}))
    (kept,) = world.plan().kept
    assert kept.reason.startswith("a does not satisfy its required node affinity; the scheduler finds no node: ")
    assert kept.trigger == ViolationRule.NODE_AFFINITY


def test_spread_within_a_budget_and_in_scope() -> None:
    rule = SpreadConstraint("kubernetes.io/hostname", WEB)
    for allowed, moves in ((5, 2), (1, 1)):
        world = World(every_rule())
        for name in "abc":
            world.node(name)
        for i in range(4):
            world.pod(f"p{i}", "a", spread=(rule,))
        world.cluster.budget_seen(DisruptionBudget("default", "web", LabelSelector(), allowed=allowed))
        assert len(world.plan().moves) == moves
    world = World(MoveKinds({ViolationRule.SPREAD: PodScope(exclude=("default",))}))
    world.node("a")
    world.node("b")
    for i in range(4):
        world.pod(f"p{i}", "a", spread=(rule,))
    assert not world.plan().moves


def fragmented(**more: Any) -> World:
    """Two nodes of 10 cores with 7 and 8 requested; a pod of 6 cores waits."""
    world = World(MoveKinds(defragmentation=Defragmentation(**more)))
    world.node("a")
    world.node("b")
    world.node("small", 4000)
    for name, node, cpu_m in (
        ("a1", "a", 3000),
        ("a2", "a", 2000),
        ("a3", "a", 2000),
        ("b1", "b", 6000),
        ("b2", "b", 2000),
    ):
        world.pod(name, node, cpu_m)
    world.pod("waits", "", 6000, owned=False)
    return world


def test_the_fewest_pods_make_room_for_one_that_waits() -> None:
    world = fragmented()
    found = world.plan()
    (move,) = found.moves
    assert (move.pod, move.node, move.target) == ("default/a1", "a", "small")
    assert (move.trigger, move.about) == ("Defragmentation", "default/waits")
    assert (found.kinds[0].considered, found.kinds[0].solved) == (1, 1)
    job = job_of(move, "uid-w", 20, ActingSettings(), NOW)
    assert (job.trigger, job.reason) == ("Defragmentation", "frees room for default/waits, which waits")
    assert kind_of(move) == "Defragmentation/default/waits"


def test_pods_that_are_more_important_than_the_one_that_waits_are_not_moved_for_it() -> None:
    world = fragmented()
    for name in ("a1", "a2", "a3", "b1", "b2"):
        entry = world.cluster.find(f"default/{name}")
        assert entry is not None
        world.cluster.pod_seen(replace(entry.seen, pod=replace(entry.seen.pod, priority=10)), NOW)
    found = world.plan()
    assert not found.moves
    assert found.kept[0].reason == "no node has pods enough that may move"


def test_a_pod_that_came_a_moment_ago_is_left_to_the_scheduler() -> None:
    assert not fragmented(waits_s=5000.0).plan().moves


@pytest.mark.parametrize("seed", range(25))
def test_room_is_made_with_the_fewest_pods_of_all_plans_that_land(seed: int) -> None:
    """Brute force: every set of at most two pods of one node, and every way to place them."""
    rng = np.random.default_rng(seed)
    world = World(MoveKinds(defragmentation=Defragmentation(max_pods=2)))
    free = {}
    pods: dict[str, list[int]] = {}
    for name in "abc":
        world.node(name)
        pods[name] = [int(integer) for integer in rng.integers(1, 5, 3)]
        while sum(pods[name]) > 10:
            pods[name].pop()
        free[name] = 10 - sum(pods[name])
        for i, cores in enumerate(pods[name]):
            world.pod(f"{name}{i}", name, 1000 * cores)
    need = max(free.values()) + int(rng.integers(1, 4))
    world.pod("waits", "", 1000 * need, owned=False)
    best = None
    for size in (1, 2):
        for node, own in pods.items():
            for chosen in combinations(range(len(own)), size):
                amounts = [own[i] for i in chosen]
                others = [free[name] for name in free if name != node]
                if free[node] + sum(amounts) >= need and best is None and _lands(amounts, others):
                    best = size
    found = world.plan()
    if best is None:
        assert not found.moves
    elif found.moves:  # the scheduler's own choice of nodes may leave no room for the second pod
        assert len(found.moves) == best
        assert len({move.node for move in found.moves}) == 1
    else:
        assert best == 2


def _lands(amounts: list[int], free: list[int]) -> bool:
    if not amounts:
        return True
    return any(
        amounts[0] <= room and _lands(amounts[1:], [*free[:i], room - amounts[0], *free[i + 1 :]])
        for i, room in enumerate(free)
    )


def packed(limits: MoveLimits | None = None) -> World:
    world = World(MoveKinds(packing=Packing({"cpu": 30.0})), limits)
    for name in "abc":
        world.node(name)
    for i in range(2):
        world.pod(f"a{i}", "a")
    for name in "bc":
        world.pod(name, name, 5000)
    return world


def test_an_underused_node_is_emptied_whole() -> None:
    found = packed().plan()
    assert {move.pod for move in found.moves} == {"default/a0", "default/a1"}
    assert {move.node for move in found.moves} == {"a"}
    assert found.moves[0].reason == "a is underused, and all of its 2 pods fit elsewhere"
    assert (found.kinds[0].trigger, found.kinds[0].solved) == ("HighNodeUtilization", 1)


def test_a_node_of_which_one_pod_has_no_other_place_is_not_begun() -> None:
    world = packed()
    world.pod("pinned", "a", 500, node_selector=Labels.of({"kubernetes.io/hostname": "a"}))
    found = world.plan()
    assert not found.moves
    assert found.kept[0].pod == "default/pinned"
    assert found.kept[0].reason.startswith("the scheduler finds no node")
    bare = packed()
    bare.pod("bare", "a", 500, owned=False)
    assert bare.plan().kept[0].reason == "no controller would create it again"


def test_a_node_is_emptied_over_several_rounds_where_limits_say_so() -> None:
    found = packed(MoveLimits(per_node=1)).plan()
    assert len(found.moves) == 1
    assert found.kept[0].reason == "in a later round: 1 pod of a is moving, at most 1 may at a time"


@pytest.mark.parametrize("seed", range(6))
def test_what_landed_in_a_try_that_failed_goes_back(seed: int) -> None:
    """Small pods fit elsewhere and land first or last; `pinned` never does: the node, and the room elsewhere, stay."""
    rng = np.random.default_rng(seed)
    world = World(MoveKinds(packing=Packing({"cpu": 45.0})))
    for name in "abcde":
        world.node(name, unschedulable=name in "ab")
    for name in "ab":
        for i in range(int(rng.integers(1, 4))):
            world.pod(f"{name}{i}", name, int(rng.integers(300, 1300)), priority=int(rng.integers(0, 3)))
        pinned = Labels.of({"kubernetes.io/hostname": name})
        world.pod(f"pinned-{name}", name, 100, node_selector=pinned, priority=9)  # so it is tried last
    for name in "cd":
        world.pod(name, name, 6000)
    world.pod("e", "e", 4000)  # fits on c or d, and only where what was tried before has gone back
    found = world.plan()
    assert {(move.pod, move.node) for move in found.moves} == {("default/e", "e")}
    assert {kept.pod for kept in found.kept} == {"default/pinned-a", "default/pinned-b"}
    assert world.plan() == found


@pytest.mark.parametrize("per_node", [1, 2, 3])
def test_a_try_within_no_limits_counts_nothing_when_the_round_allows_a_part(per_node: int) -> None:
    world = World(MoveKinds(packing=Packing({"cpu": 45.0})), MoveLimits(per_node=per_node))
    for name in "abc":
        world.node(name)
    for i in range(4):
        world.pod(f"a{i}", "a")
    for name in "bc":
        world.pod(name, name, 5000)
    found = world.plan()
    assert len(found.moves) == per_node
    assert len(found.kept) == 4 - per_node
    assert {move.node for move in found.moves} == {"a"}


LOUD = PodEstimate(2.0, GIB, pressure=3.0)
SENSITIVE = PodEstimate(1.0, GIB, sensitivity=1.0, pressure=0.1, allowance=0.2)


def test_a_node_is_not_emptied_onto_services_that_it_would_harm() -> None:
    world = packed()
    for i in range(2):
        world.pod(f"a{i}", "a", estimate=LOUD)
    assert len(world.plan().moves) == 2, "nobody there has an objective"
    for name in "bc":
        world.pod(f"service-{name}", name, 500, estimate=SENSITIVE, objective_p99_ms=10.0)
    found = world.plan()
    assert not found.moves
    assert "predicted violations would grow from 0.00 to" in found.kept[0].reason


def test_no_room_is_made_at_the_price_of_a_service() -> None:
    world = fragmented()
    world.pod("a1", "a", 3000, estimate=LOUD)
    world.pod("service", "small", 500, estimate=SENSITIVE, objective_p99_ms=10.0)
    moves = {(move.pod, move.target) for move in world.plan().moves}
    assert moves in ({("default/a2", "small"), ("default/a3", "b")}, {("default/a2", "b"), ("default/a3", "small")})


def missing(estimate: bool = True) -> World:
    """`victim` on `a` misses its objective beside a batch pod that presses; `b` is free."""
    world = World(MoveKinds(objectives=MissedObjectives()))
    world.node("a")
    world.node("b")
    service = PodEstimate(2.0, GIB, sensitivity=1.0, pressure=0.2, allowance=0.3) if estimate else None
    batch = PodEstimate(4.0, GIB, sensitivity=0.1, pressure=1.0, duration_s=36_000.0) if estimate else None
    prod: dict[str, Any] = {"qos": QoSClass.LS, "priority_class": PriorityClass.PROD, "priority": 9000}
    world.pod("victim", "a", 2000, estimate=service, objective_p99_ms=10.0, **prod)
    world.pod("batch", "a", 4000, estimate=batch, priority_class=PriorityClass.BATCH, priority=5000)
    return world


def measure(world: World, windows: int = 4) -> None:
    for window in range(windows):
        slow = MeasuredPod(Use(2000, GIB), PriorityClass.PROD, PodSignals(latency_p99_ms=25.0))
        world.planner.metric_seen(
            NodeMetric("a", 0.0, use=Use(6000, GIB), pods={"default/victim": slow}, system=Use()),
            NOW - 30.0 + 10 * window,
        )


def test_the_cheaper_of_victim_and_culprit_moves_with_the_predicted_effect() -> None:
    world = missing()
    assert not world.plan().moves, "not without evidence"
    measure(world)
    found = world.plan()
    (move,) = found.moves
    assert (move.pod, move.target, move.about) == ("default/batch", "b", "default/victim")
    assert "p99 is 2.50 of it" in move.reason
    assert move.reason.endswith("moving default/batch costs less")
    effect = move.effect
    assert effect is not None
    assert effect.source_before == pytest.approx(1.0 * (1.0 * 4.0 / 5.0) / 0.3 * 1.0, rel=0.5)
    assert effect.source_after == 0.0
    assert effect.violation_after < effect.violation_before
    assert effect.basis == "declared"
    assert not world.plan(done={kind_of(move)}).moves, "hysteresis: a pod was moved for it lately"


def test_the_victim_moves_where_the_culprit_may_not() -> None:
    world = missing()
    measure(world)
    world.notes["default/batch"] = EvictionNotes(is_ready=True, has_local_storage=True)
    (move,) = world.plan().moves
    assert (move.pod, move.target) == ("default/victim", "b")


def test_no_move_without_a_gain_by_prediction() -> None:
    world = missing()
    measure(world)
    press = PodEstimate(4.0, GIB, sensitivity=0.1, pressure=1.2)
    world.pod("tenant", "b", 5000, estimate=press, objective_p99_ms=10.0, labels=Labels.of({"app": "y"}))
    assert not [move for move in world.plan().moves if move.pod == "default/victim"]


def test_without_a_prediction_the_victim_itself_moves() -> None:
    world = missing(estimate=False)
    measure(world)
    (move,) = world.plan().moves
    assert move.pod == "default/victim"


def test_the_move_that_relieves_most_comes_first_and_no_more_are_made_than_the_allowance_has_left() -> None:
    def two_victims(share: float | None) -> World:
        """On `a` one service suffers little, on `c` two suffer much from one batch pod."""
        world = World(MoveKinds(objectives=MissedObjectives(hour_share=share)))
        for name in "abcd":
            world.node(name)
        prod: dict[str, Any] = {"qos": QoSClass.LS, "priority_class": PriorityClass.PROD, "priority": 9000}
        for name, node, allowance in (("little", "a", 0.6), ("much", "c", 0.3), ("more", "c", 0.3)):
            service = PodEstimate(1.0, GIB, sensitivity=1.0, pressure=0.1, allowance=allowance)
            world.pod(name, node, 1000, estimate=service, objective_p99_ms=10.0, **prod)
        press = PodEstimate(4.0, GIB, sensitivity=0.1, pressure=1.0, duration_s=36_000.0)
        for node in "ac":
            world.pod(f"batch-{node}", node, 4000, estimate=press, priority_class=PriorityClass.BATCH, priority=5000)
        for window in range(4):
            for node, names, p99_ms in (("a", ("little",), 40.0), ("c", ("much", "more"), 20.0)):
                slow = MeasuredPod(Use(1000, GIB), PriorityClass.PROD, PodSignals(latency_p99_ms=p99_ms))
                metric = NodeMetric(
                    node, 0.0, use=Use(6000, GIB), pods={f"default/{entry}": slow for entry in names}, system=Use()
                )
                world.planner.metric_seen(metric, NOW - 30.0 + 10 * window)
        return world

    assert two_victims(None).plan().moves[0].pod == "default/batch-c", "though little misses by more"
    limited = two_victims(1 / 24 / 3)  # of three services: one a day
    found = limited.plan()
    assert [move.pod for move in found.moves] == ["default/batch-c"]
    assert [kept_pod.reason for kept_pod in found.kept if kept_pod.pod == "default/little"] == [
        "the allowance of moves is spent"
    ]
    assert not limited.plan(begun={"that move"}).moves


@pytest.mark.parametrize(("duration_s", "pod"), [(36_000.0, "batch"), (1_200.0, "victim"), (600.0, "victim")])
def test_a_neighbour_that_is_about_to_end_is_not_moved(duration_s: float, pod: str) -> None:
    world = missing()
    ending = PodEstimate(4.0, GIB, sensitivity=0.1, pressure=1.0, duration_s=duration_s)  # since 1,000 s
    world.pod("batch", "a", 4000, estimate=ending, priority_class=PriorityClass.BATCH, priority=5000)
    measure(world)
    assert [move.pod for move in world.plan().moves] == [f"default/{pod}"]


def test_a_dearer_pod_moves_where_the_cheaper_one_relieves_too_little() -> None:
    world = missing()
    measure(world)
    big = PodEstimate(4.0, GIB, sensitivity=0.0, pressure=1.0)
    world.pod(
        "batch",
        "a",
        500,
        estimate=PodEstimate(0.4, GIB, sensitivity=0.1, pressure=1.0, duration_s=36_000.0),
        priority_class=PriorityClass.BATCH,
        priority=5000,
    )
    world.pod(
        "tenant",
        "a",
        4000,
        estimate=big,
        objective_p99_ms=10.0,
        labels=Labels.of({"app": "y"}),
        qos=QoSClass.LS,
        priority_class=PriorityClass.PROD,
        priority=8000,
    )
    (move,) = world.plan().moves
    assert (move.pod, move.target) == ("default/tenant", "b")
