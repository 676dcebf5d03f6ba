"""Repairs of violated rules against brute force on small clusters: what violates, and that only violating pods move
to places where nothing is violated.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from cotenant.model.cluster.affinity import NodeAffinity, NodeSelector, NodeSelectorTerm, PodTerm, SpreadConstraint
from cotenant.model.cluster.labels import Labels, LabelSelector, Requirement, SelectorOperator
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.taints import Match, Taint, TaintEffect, Toleration
from cotenant.model.resources import Amounts
from cotenant.policy.rebalance.loads.low_node_load import Landing
from cotenant.policy.rebalance.loads.order import LoadPod
from cotenant.policy.rebalance.violations.anti_affinity import conflicts, forbids, repair_anti_affinity
from cotenant.policy.rebalance.violations.contract import PlacedPod, Repair, ViolationRule
from cotenant.policy.rebalance.violations.node_rules import repair_node_affinity, repair_taints
from cotenant.policy.rebalance.violations.spread import repair_spread

SIZE = Amounts.of({"cpu": 1000, "memory": 1 << 30})


def node(name: str, taints: tuple[Taint, ...] = (), **labels: str) -> Node:
    return Node(name, SIZE, Labels.of({"kubernetes.io/hostname": name, **labels}), taints)


def placed(
    name: str, where: str, *, priority: int = 0, refused: str = "", app: str = "web", **more: object
) -> PlacedPod:
    pod = Pod(name, labels=Labels.of({"app": app}), priority=priority, **more)  # type: ignore[arg-type]
    return PlacedPod(LoadPod(pod.key, name, None, priority=priority, refused=refused), pod, where)


class Legal:
    """Lands a pod on the first node, by name, on which no rule of any pod is violated with it there."""

    def __init__(self, pods: Sequence[PlacedPod], nodes: Sequence[Node]) -> None:
        self.pods = {pod.load.uid: pod for pod in pods}
        self.nodes = {node.name: node for node in nodes}
        self.where = {pod.load.uid: pod.node for pod in pods}
        self.asked: list[str] = []

    def admit(self, pod: LoadPod, node: str) -> str:
        assert self.where[pod.uid] == node
        self.asked.append(pod.uid)
        return ""

    def land(self, pod: LoadPod, node: str, targets: Sequence[str]) -> Landing:
        for target in sorted(targets):
            if self.may_be_on(pod.uid, target):
                self.where[pod.uid] = target
                return Landing(target)
        return Landing("", "no node")

    def may_be_on(self, uid: str, target: str) -> bool:
        """Brute force: as a scheduler would judge a pod that is not there yet."""
        own, found = self.pods[uid].pod, self.nodes[target]
        if not found.labels.contains(own.node_selector):
            return False
        if (
            own.node_affinity
            and own.node_affinity.required
            and not own.node_affinity.required.matches(target, found.labels)
        ):
            return False
        if any(t.repels and not any(toleration.tolerates(t) for toleration in own.tolerations) for t in found.taints):
            return False
        for other_uid, where in self.where.items():
            other = self.pods[other_uid].pod
            for holder, selected in ((own, other), (other, own)):
                for term in holder.anti_affinity:
                    here, there = found.labels.get(term.topology_key), self.nodes[where].labels.get(term.topology_key)
                    selects = term.selects(holder.namespace, selected.namespace, selected.labels)
                    if other_uid != uid and here is not None and here == there and selects:
                        return False
        return all(self.skew(own, rule, target, uid) <= rule.max_skew for rule in own.spread)

    def skew(self, pod: Pod, rule: SpreadConstraint, target: str, without: str = "") -> int:
        """Pods of the target's domain with one more, less those of the smallest domain."""
        domain = self.nodes[target].labels.get(rule.topology_key)
        counts = {
            node.labels.get(rule.topology_key): 0 for node in self.nodes.values() if node.labels.get(rule.topology_key)
        }
        for uid, where in self.where.items():
            at = self.nodes[where].labels.get(rule.topology_key)
            if uid != without and at in counts and rule.selects(self.pods[uid].pod.labels):
                counts[at] += 1
        return counts[domain] + bool(without) - min(counts.values()) if domain in counts else 99

    def repair(self) -> Repair:
        return Repair(self.nodes, {}, dict(self.where), self)


def test_node_affinity_and_taints_on_the_own_node() -> None:
    gpu = Taint("gpu", "yes", TaintEffect.NO_EXECUTE)
    soft = Taint("soft", "", TaintEffect.PREFER_NO_SCHEDULE)
    nodes = [node("a", (gpu, soft), disk="hdd"), node("b", disk="ssd")]
    wants = NodeAffinity(NodeSelector((NodeSelectorTerm((Requirement("disk", SelectorOperator.IN, ("ssd",)),)),)))
    tolerant = (Toleration("gpu", Match.EXISTS),)
    pods = [
        placed("selector", "a", node_selector=Labels.of({"disk": "ssd"}), tolerations=tolerant),
        placed("affinity", "a", node_affinity=wants, tolerations=tolerant),
        placed("tainted", "a"),
        placed("fine", "a", tolerations=tolerant),
        placed("elsewhere", "b", node_affinity=wants),
    ]
    world = Legal(pods, nodes)
    repair = world.repair()
    repair_node_affinity(pods, repair)
    repair_taints(pods, repair)
    assert [(move.pod.uid, move.target, move.rule) for move in repair.moves] == [
        ("affinity", "b", ViolationRule.NODE_AFFINITY),
        ("selector", "b", ViolationRule.NODE_AFFINITY),
        ("tainted", "b", ViolationRule.NODE_TAINTS),
    ]
    assert repair.moves[-1].reason == "it does not tolerate the taint {gpu: yes} (NoExecute) of a"


def test_excluded_taints_and_cordoning_move_no_pod() -> None:
    cordoned = Taint("node.kubernetes.io/unschedulable", "", TaintEffect.NO_SCHEDULE)
    nodes = [node("a", (Taint("team", "x"), cordoned)), node("b")]
    pods = [placed("p", "a")]
    for excluded in (("team",), ("team=x",)):
        repair = Legal(pods, nodes).repair()
        repair_taints(pods, repair, excluded)
        assert not repair.moves
        assert not repair.kept


def test_a_pod_that_may_not_move_is_kept_with_both_reasons() -> None:
    pods = [placed("p", "a", node_selector=Labels.of({"disk": "ssd"}), refused="it has local storage")]
    repair = Legal(pods, [node("a"), node("b", disk="ssd")]).repair()
    repair_node_affinity(pods, repair)
    (kept,) = repair.kept
    assert kept.reason == "a does not satisfy its required node affinity; it has local storage"


def test_one_move_resolves_all_pairs_of_a_pod() -> None:
    term = PodTerm("kubernetes.io/hostname", LabelSelector.of({"app": "web"}))
    pods = [
        placed("a", "n0", priority=5),
        placed("b", "n0", priority=9),
        placed("c", "n0", priority=1, anti_affinity=(term,)),
    ]
    repair = Legal(pods, [node("n0"), node("n1")]).repair()
    repair_anti_affinity(pods, repair)
    assert [(move.pod.uid, move.target) for move in repair.moves] == [("c", "n1")]


def random_world(seed: int) -> tuple[Legal, list[PlacedPod]]:
    rng = np.random.default_rng(seed)
    zones = int(rng.integers(2, 4))
    nodes = [
        node(
            f"n{i}",
            (Taint("t", "", TaintEffect.NO_SCHEDULE),) if rng.random() < 0.2 else (),
            **({"zone": f"z{i % zones}"} if rng.random() < 0.9 else {}),
            disk=str(rng.integers(0, 2)),
        )
        for i in range(5)
    ]
    pods = []
    for number in range(int(rng.integers(3, 10))):
        more: dict[str, object] = {}
        app = f"app{rng.integers(0, 2)}"
        if rng.random() < 0.4:
            key = str(rng.choice(["zone", "kubernetes.io/hostname"]))
            more["anti_affinity"] = (PodTerm(key, LabelSelector.of({"app": f"app{rng.integers(0, 2)}"})),)
        if app == "app0":
            more["spread"] = (SpreadConstraint("zone", LabelSelector.of({"app": "app0"}), max_skew=1),)
        if rng.random() < 0.3:
            more["node_selector"] = Labels.of({"disk": str(rng.integers(0, 2))})
        if rng.random() < 0.5:
            more["tolerations"] = (Toleration("t", Match.EXISTS),)
        pods.append(placed(f"p{number}", f"n{rng.integers(0, 5)}", priority=int(rng.integers(0, 3)), app=app, **more))
    return Legal(pods, nodes), pods


@pytest.mark.parametrize("seed", range(60))
def test_only_violating_pods_move_and_what_is_left_cannot(seed: int) -> None:
    world, pods = random_world(seed)
    repair = world.repair()
    before = dict(world.where)
    on_node = {uid for uid, pod in world.pods.items() if _violates_its_node(world, uid)}
    repair_node_affinity(pods, repair)
    repair_taints(pods, repair)
    assert {value.pod.uid for value in (*repair.moves, *repair.kept)} == on_node
    paired = _paired(world)
    assert {uid for uid, others in conflicts(pods, repair).items() if others} == paired
    for pod in pods:
        beside = {other.load.uid for other in pods if other is not pod and forbids(pod, other, repair)}
        assert beside == set(conflicts(pods, repair).get(pod.load.uid, {}))
    known = len(repair.moves)
    repair_anti_affinity(pods, repair)
    assert {rule_move.pod.uid for rule_move in repair.moves[known:]} <= paired
    known = len(repair.moves)
    repair_spread(pods, repair)
    for move in repair.moves[known:]:
        assert world.pods[move.pod.uid].pod.spread
    assert repair.where == world.where
    moved = [rule_move.pod.uid for rule_move in repair.moves]
    assert len(set(moved)) == len(moved)
    assert all(before[move.pod.uid] == move.node != move.target for move in repair.moves)
    # where it landed nothing of its node is violated
    for uid, move in ((rule_move.pod.uid, rule_move) for rule_move in repair.moves):
        assert not _violates_its_node(world, uid), move
    tried = {rule_kept.pod.uid for rule_kept in repair.kept} | set(moved)
    assert {uid for uid in _paired(world) if uid not in tried} == set()


def _violates_its_node(world: Legal, uid: str) -> bool:
    own, found = world.pods[uid].pod, world.nodes[world.where[uid]]
    repelled = any(
        t.repels and not any(toleration.tolerates(t) for toleration in own.tolerations) for t in found.taints
    )
    return repelled or not found.labels.contains(own.node_selector)


def _paired(world: Legal) -> set[str]:
    """Pods of pairs that may not share a domain and do."""
    found = set()
    for holder_uid, holder in world.pods.items():
        for other_uid, other in world.pods.items():
            for term in holder.pod.anti_affinity if other_uid != holder_uid else ():
                here = world.nodes[world.where[holder_uid]].labels.get(term.topology_key)
                there = world.nodes[world.where[other_uid]].labels.get(term.topology_key)
                if here is not None and here == there and term.selects("default", "default", other.pod.labels):
                    found |= {holder_uid, other_uid}
    return found


@pytest.mark.parametrize("seed", range(20))
def test_spread_moves_the_fewest_pods_that_restore_the_skew(seed: int) -> None:
    """With room everywhere, the number of moves is the smallest possible: what the largest domains have too many."""
    rng = np.random.default_rng(seed)
    nodes = [node(f"n{i}", zone=f"z{i}") for i in range(3)]
    rule = SpreadConstraint("zone", LabelSelector.of({"app": "web"}), max_skew=int(rng.integers(1, 3)))
    pods = [placed(f"p{i}", f"n{int(3 * rng.random() ** 3)}", spread=(rule,)) for i in range(int(rng.integers(2, 9)))]
    world = Legal(pods, nodes)
    repair = world.repair()
    counts = [sum(pod.node == name for pod in pods) for name in world.nodes]
    repair_spread(pods, repair)
    after = [sum(where == name for where in world.where.values()) for name in world.nodes]
    assert max(after) - min(after) <= rule.max_skew
    assert len(repair.moves) == _fewest(counts, rule.max_skew)


def _fewest(counts: list[int], skew: int) -> int:
    """Brute force over all final counts."""
    total = sum(counts)
    best = total
    for a in range(total + 1):
        for b in range(total - a + 1):
            final = (a, b, total - a - b)
            if max(final) - min(final) <= skew:
                best = min(best, sum(max(0, now - then) for now, then in zip(counts, final, strict=True)))
    return best
