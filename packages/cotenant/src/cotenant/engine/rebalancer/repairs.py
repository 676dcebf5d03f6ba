"""Moves of pods that violate a hard rule where they are (policy/rebalance/violations).

Choice: pods that may violate a rule are collected once (suspects.py for rules between pods); the policy proposes in order, the round's choice answers. Limits: an engine's node that the profile does not select takes no part, neither as source nor as target.
"""

from __future__ import annotations

from collections.abc import Collection

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.rebalancer.kind_context import FoundMove, KindContext
from cotenant.engine.rebalancer.landing import is_copy
from cotenant.engine.rebalancer.plan import KeptPod, KindPlan
from cotenant.engine.rebalancer.settings import MoveKinds
from cotenant.engine.rebalancer.suspects import Suspects
from cotenant.model.cluster.observed import ObservedPod
from cotenant.policy.rebalance.loads.order import LoadPod
from cotenant.policy.rebalance.violations.anti_affinity import repair_anti_affinity
from cotenant.policy.rebalance.violations.contract import PlacedPod, Repair, Rule
from cotenant.policy.rebalance.violations.node_rules import repair_node_affinity, repair_taints
from cotenant.policy.rebalance.violations.spread import repair_spread


def repair_violations(context: KindContext, kinds: MoveKinds) -> None:
    """Add the moves of the configured repairs to the context."""
    nodes = context.nodes()
    tainted = {name for name, node in nodes.items() if node.taints}
    entries = [each for each in context.cluster.every_pod() if each.node in nodes and _counts(each.seen)]
    between = Rule.ANTI_AFFINITY in kinds.repairs and any(
        term.weight is None for each in entries for term in each.seen.pod.anti_affinity
    )
    spreads = Rule.SPREAD in kinds.repairs and any(rule.forbids for each in entries for rule in each.seen.pod.spread)
    namespaces = {facts.name: facts.labels for facts in context.cluster.namespaces()}
    suspects = Suspects(context.cluster.alike(entries) if between or spreads else (), nodes, namespaces)
    if between:
        suspects.anti_affinity()
    if spreads:
        suspects.spread()
    by_pods = suspects.pods()
    by_nodes: list[PodInfo] = []
    if Rule.NODE_AFFINITY in kinds.repairs:
        by_nodes = [each for each in entries if each.seen.pod.node_selector or each.seen.pod.node_affinity is not None]
    if Rule.NODE_TAINTS in kinds.repairs:
        by_nodes = [*by_nodes, *(each for each in entries if each.node in tainted)]
    considered = {each.seen.uid: each for each in (*by_nodes, *by_pods)}
    repair = Repair(nodes, namespaces, {uid: each.node for uid, each in considered.items()}, _Noted(context))
    context.choice.entries.update(considered)
    placed = {
        uid: PlacedPod(_brief(each), each.seen.pod, each.node, _rules(each, kinds)) for uid, each in considered.items()
    }
    if Rule.NODE_AFFINITY in kinds.repairs:
        repair_node_affinity(placed.values(), repair)
    if Rule.NODE_TAINTS in kinds.repairs:
        repair_taints(placed.values(), repair, kinds.excluded_taints)
    between_pods = [placed[each.seen.uid] for each in by_pods]
    if between:
        repair_anti_affinity(between_pods, repair)
    if spreads:
        repair_spread(between_pods, repair)
    context.moves += [
        FoundMove(each.pod, each.node, each.target, each.rule, each.reason, each.about or each.node, each.aim)
        for each in repair.moves
    ]
    context.kept += [KeptPod(each.pod.key, each.node, each.reason, each.rule) for each in repair.kept]
    for rule in kinds.repairs:
        solved = sum(each.rule is rule for each in repair.moves)
        context.kinds.append(KindPlan(rule, solved + sum(each.rule is rule for each in repair.kept), solved))


class _Noted:
    """Answers with the notes of a pod, which are read for pods that are tried only."""

    def __init__(self, context: KindContext) -> None:
        self._context = context
        self.land = context.land

    def admit(self, pod: LoadPod, node: str) -> str:
        """See `Choice`."""
        return self._context.admit(self._context.load_pod(self._context.choice.entries[pod.uid]), node)


def placed_pods(cluster: Cluster, nodes: Collection[str]) -> list[PlacedPod]:
    """Every pod on these nodes that rules count."""
    entries = [each for each in cluster.every_pod() if each.node in nodes and _counts(each.seen)]
    return [PlacedPod(_brief(each), each.seen.pod, each.node) for each in entries]


def _counts(seen: ObservedPod) -> bool:
    return not (seen.reservation or seen.terminating or is_copy(seen.uid))


def _rules(entry: PodInfo, kinds: MoveKinds) -> frozenset[Rule]:
    return frozenset(rule for rule, scope in kinds.repairs.items() if scope.covers(entry.seen.pod))


def _brief(entry: PodInfo) -> LoadPod:
    """What orders a pod, without what must be read of its object."""
    seen = entry.seen
    return LoadPod(seen.pod.key, seen.uid, None, priority=seen.pod.priority, qos=seen.pod.qos, priority_class=seen.pod.priority_class, created_s=seen.created_s)  # fmt: skip
