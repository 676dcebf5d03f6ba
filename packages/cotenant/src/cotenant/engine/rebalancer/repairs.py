"""Moves of pods that violate a hard rule where they are (policy/rebalance/violations).

Pods that may violate a rule are collected once (suspects.py for rules between pods); the policy proposes in order, the
round's choice answers.
Limits: an engine's node that the profile does not select takes no part, neither as source nor as target.
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
from cotenant.policy.rebalance.violations.contract import PlacedPod, Repair, ViolationRule
from cotenant.policy.rebalance.violations.node_rules import repair_node_affinity, repair_taints
from cotenant.policy.rebalance.violations.spread import repair_spread


def repair_violations(context: KindContext, kinds: MoveKinds) -> None:
    """Add the moves of the configured repairs to the context."""
    nodes = context.nodes()
    tainted = {name for name, node in nodes.items() if node.taints}
    entries = [
        pod_info for pod_info in context.cluster.every_pod() if pod_info.node in nodes and _counts(pod_info.seen)
    ]
    between = ViolationRule.ANTI_AFFINITY in kinds.repairs and any(
        term.weight is None for entry in entries for term in entry.seen.pod.anti_affinity
    )
    spreads = ViolationRule.SPREAD in kinds.repairs and any(
        rule.forbids for entry in entries for rule in entry.seen.pod.spread
    )
    namespaces = {facts.name: facts.labels for facts in context.cluster.namespaces()}
    suspects = Suspects(context.cluster.alike(entries) if between or spreads else (), nodes, namespaces)
    if between:
        suspects.anti_affinity()
    if spreads:
        suspects.spread()
    by_pods = suspects.pods()
    by_nodes: list[PodInfo] = []
    if ViolationRule.NODE_AFFINITY in kinds.repairs:
        by_nodes = [
            entry for entry in entries if entry.seen.pod.node_selector or entry.seen.pod.node_affinity is not None
        ]
    if ViolationRule.NODE_TAINTS in kinds.repairs:
        by_nodes = [*by_nodes, *(entry for entry in entries if entry.node in tainted)]
    considered = {pod_info.seen.uid: pod_info for pod_info in (*by_nodes, *by_pods)}
    repair = Repair(nodes, namespaces, {uid: pod_info.node for uid, pod_info in considered.items()}, _Noted(context))
    context.choice.entries.update(considered)
    placed = {
        uid: PlacedPod(_brief(pod_info), pod_info.seen.pod, pod_info.node, _rules(pod_info, kinds))
        for uid, pod_info in considered.items()
    }
    if ViolationRule.NODE_AFFINITY in kinds.repairs:
        repair_node_affinity(placed.values(), repair)
    if ViolationRule.NODE_TAINTS in kinds.repairs:
        repair_taints(placed.values(), repair, kinds.excluded_taints)
    between_pods = [placed[pod.seen.uid] for pod in by_pods]
    if between:
        repair_anti_affinity(between_pods, repair)
    if spreads:
        repair_spread(between_pods, repair)
    context.moves += [
        FoundMove(move.pod, move.node, move.target, move.rule, move.reason, move.about or move.node, move.aim)
        for move in repair.moves
    ]
    context.kept += [
        KeptPod(rule_kept.pod.key, rule_kept.node, rule_kept.reason, rule_kept.rule) for rule_kept in repair.kept
    ]
    for rule in kinds.repairs:
        solved = sum(move.rule is rule for move in repair.moves)
        context.kinds.append(KindPlan(rule, solved + sum(rule_kept.rule is rule for rule_kept in repair.kept), solved))


class _Noted:
    """Answers with the notes of a pod, which are read for pods that are tried only."""

    def __init__(self, context: KindContext) -> None:
        self._context = context
        self.land = context.land

    def admit(self, pod: LoadPod, node: str) -> str:
        """See `MoveDecider`."""
        return self._context.admit(self._context.load_pod(self._context.choice.entries[pod.uid]), node)


def placed_pods(cluster: Cluster, nodes: Collection[str]) -> list[PlacedPod]:
    """Every pod on these nodes that rules count."""
    entries = [pod_info for pod_info in cluster.every_pod() if pod_info.node in nodes and _counts(pod_info.seen)]
    return [PlacedPod(_brief(entry), entry.seen.pod, entry.node) for entry in entries]


def _counts(seen: ObservedPod) -> bool:
    return not (seen.reservation or seen.terminating or is_copy(seen.uid))


def _rules(entry: PodInfo, kinds: MoveKinds) -> frozenset[ViolationRule]:
    return frozenset(rule for rule, scope in kinds.repairs.items() if scope.covers(entry.seen.pod))


def _brief(entry: PodInfo) -> LoadPod:
    """What orders a pod, without what must be read of its object."""
    seen = entry.seen
    return LoadPod(
        seen.pod.key,
        seen.uid,
        None,
        priority=seen.pod.priority,
        qos=seen.pod.qos,
        priority_class=seen.pod.priority_class,
        created_s=seen.created_s,
    )
