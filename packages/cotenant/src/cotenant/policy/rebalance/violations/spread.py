"""Pods of domains that have more pods than a hard topology spread constraint allows.

Nodes and pods come and go after pods were spread. The pods of one namespace with the same constraint (and, where they
count, the same node affinity and tolerations) are one group; while its largest domain exceeds the smallest by more than
the allowed skew, the least important pod of the largest domain that may move does so, to one of the smallest domains
where the scheduler has a place there, else to any other; counts follow each move.
Limits: constraints with ScheduleAnyway are not considered; a domain whose pods cannot move ends the group.
Source: Kubernetes' descheduler, plugin RemovePodsViolatingTopologySpreadConstraint; counting as PodTopologySpread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

from cotenant.model.cluster.affinity import NodeInclusionPolicy, SpreadConstraint
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.taints import first_repelling
from cotenant.model.groups.migration import MoveAim
from cotenant.policy.rebalance.violations.contract import PlacedPod, PodPlacement, Repair, ViolationRule, in_order
from cotenant.policy.rebalance.violations.node_rules import allows
from cotenant.policy.rebalance.violations.pod_index import PodIndex


@dataclass(frozen=True, slots=True)
class Eligible:
    """The nodes that count for a constraint, with the domain of each, and how many domains there are."""

    domains: Mapping[str, str]
    number: int


@dataclass(slots=True)
class SpreadGroup:
    """The pods of one constraint: `counts` are the selected pods of each domain that has any."""

    constraint: SpreadConstraint
    holders: list[PlacedPod]
    eligible: Eligible
    counts: Counter[str]

    @property
    def smallest(self) -> int:
        """The smallest count of a domain."""
        return min(self.counts.values(), default=0) if len(self.counts) >= self.eligible.number else 0

    @property
    def least(self) -> int:
        """What the others are compared with: the smallest count, 0 where there are fewer domains than required."""
        return 0 if self.eligible.number < self.constraint.min_domains else self.smallest

    @property
    def skew(self) -> int:
        """By how many pods the largest domain exceeds what it is compared with."""
        return max(self.counts.values(), default=0) - self.least

    def moved(self, domain: str, target: str) -> None:
        """Count a pod in the domain of its new node."""
        self.counts[domain] -= 1
        if not self.counts[domain]:
            del self.counts[domain]
        reached = self.eligible.domains.get(target)
        if reached is not None:
            self.counts[reached] += 1


def repair_spread(pods: Iterable[PlacedPod], repair: Repair) -> None:
    """Move pods until the skew of each constraint is allowed, or no pod of a largest domain can move."""
    placed = list(pods)
    holders: dict[Hashable, tuple[SpreadConstraint, list[PlacedPod]]] = {}
    for placed_pod in placed:
        for constraint in placed_pod.pod.spread:
            if constraint.forbids:
                holders.setdefault(_key(placed_pod.pod, constraint), (constraint, []))[1].append(placed_pod)
    index = PodIndex(placed) if holders else None
    known: dict[Hashable, Eligible] = {}
    for constraint, mine in holders.values():
        assert index is not None
        key = eligible_key(mine[0].pod, constraint)
        if key not in known:
            known[key] = eligible_nodes(mine[0].pod, constraint, repair.nodes)
        _repair(group_of(constraint, mine, known[key], index, repair), repair)


def group_of(
    constraint: SpreadConstraint, holders: list[PlacedPod], eligible: Eligible, index: PodIndex, placement: PodPlacement
) -> SpreadGroup:
    """The group of pods with the same constraint, counted now."""
    counts: Counter[str] = Counter()
    for other in index.selected(holders[0].pod.namespace, constraint.selector):
        domain = eligible.domains.get(placement.where[other.load.uid])
        if domain is not None and constraint.selects(other.pod.labels):
            counts[domain] += 1
    return SpreadGroup(constraint, holders, eligible, counts)


def group_now(
    holder: PlacedPod, constraint: SpreadConstraint, pods: Iterable[PlacedPod], placement: PodPlacement
) -> SpreadGroup:
    """The counts of one pod's constraint."""
    index = PodIndex(pod for pod in pods if pod.pod.namespace == holder.pod.namespace)
    return group_of(constraint, [holder], eligible_nodes(holder.pod, constraint, placement.nodes), index, placement)


def _repair(group: SpreadGroup, repair: Repair) -> None:
    constraint = group.constraint
    while True:
        least = group.least
        over = [domain for domain, pods in group.counts.items() if pods - least > constraint.max_skew]
        over.sort(key=lambda name: (-group.counts[name], name))
        if not over or not any(_move_one(group, domain, repair) for domain in over):
            return


def _move_one(group: SpreadGroup, domain: str, repair: Repair) -> bool:
    """Move one pod out of the domain; False where none can."""
    constraint = group.constraint
    mine = [holder for holder in group.holders if group.eligible.domains.get(repair.where[holder.load.uid]) == domain]
    for element in in_order([placed_pod for placed_pod in mine if constraint.selects(placed_pod.pod.labels)]):
        if not repair.may_try(element, ViolationRule.SPREAD):
            continue
        why = (
            f"{constraint.topology_key} {domain} has {group.counts[domain]} pods, the smallest domain "
            f"{group.least}: at most {constraint.max_skew} more are allowed"
        )
        smallest = group.smallest
        first = {name for name, entry in group.eligible.domains.items() if group.counts.get(entry, 0) == smallest}
        key = constraint.topology_key
        aim = MoveAim(group.skew, (), key, domain, group.counts[domain] - group.least)
        target = repair.attempt(
            element, ViolationRule.SPREAD, why, first, aim, f"{element.pod.namespace}/{key}/{domain}"
        )
        if target:
            group.moved(domain, target)
            return True
    return False


def _key(pod: Pod, constraint: SpreadConstraint) -> Hashable:
    return (pod.namespace, constraint, eligible_key(pod, constraint))


def eligible_key(pod: Pod, constraint: SpreadConstraint) -> Hashable:
    """What decides which nodes count."""
    affinity = (pod.node_selector, pod.node_affinity.required if pod.node_affinity is not None else None)
    honours = constraint.node_affinity_policy is NodeInclusionPolicy.HONOR
    tolerations = pod.tolerations if constraint.node_taints_policy is NodeInclusionPolicy.HONOR else None
    keys = tuple(entry.topology_key for entry in pod.spread if entry.forbids)
    return (constraint.topology_key, affinity if honours else None, tolerations, keys)


def eligible_nodes(pod: Pod, constraint: SpreadConstraint, nodes: Mapping[str, Node]) -> Eligible:
    """The nodes that count for the constraint."""
    keys = [entry.topology_key for entry in pod.spread if entry.forbids]
    found = {}
    for name, node in nodes.items():
        if any(node.labels.get(key) is None for key in keys):
            continue
        if constraint.node_affinity_policy is NodeInclusionPolicy.HONOR and not allows(pod, node):
            continue
        if (
            constraint.node_taints_policy is NodeInclusionPolicy.HONOR
            and first_repelling(node.effective_taints, pod.tolerations) is not None
        ):
            continue
        found[name] = node.labels.get(constraint.topology_key) or ""
    return Eligible(found, len(set(found.values())))
