"""Common values of the repairs, and one attempt to move a pod.

A repair proposes pods, `MoveDecider` (loads/low_node_load.py) says whether each may move and where it lands, and
what stays is kept with its reason.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from cotenant.model.cluster.labels import NO_LABELS, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.pod import Pod
from cotenant.model.groups.migration import MoveAim
from cotenant.policy.rebalance.loads.low_node_load import MoveDecider
from cotenant.policy.rebalance.loads.order import LoadPod, sorted_pods


class ViolationRule(StrEnum):
    """What a pod may violate; the values are the names of the descheduler's plugins."""

    NODE_AFFINITY = "RemovePodsViolatingNodeAffinity"
    NODE_TAINTS = "RemovePodsViolatingNodeTaints"
    ANTI_AFFINITY = "RemovePodsViolatingInterPodAntiAffinity"
    SPREAD = "RemovePodsViolatingTopologySpreadConstraint"


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """A pod on a node. Pods that terminate are left out by the caller."""

    load: LoadPod
    pod: Pod
    node: str
    may_repair: frozenset[ViolationRule] = frozenset(
        ViolationRule
    )  # the rules for which it may be moved; it counts for all of them


@dataclass(frozen=True, slots=True)
class RuleMove:
    """A pod that moves because it violates a rule."""

    pod: LoadPod
    node: str
    target: str
    rule: ViolationRule
    reason: str
    aim: MoveAim | None = None
    about: str = ""  # moves of one rule about the same are backed off together; empty = about the node


@dataclass(frozen=True, slots=True)
class RuleKept:
    """A pod that violates a rule and stays."""

    pod: LoadPod
    node: str
    rule: ViolationRule
    reason: str


@dataclass(slots=True)
class PodPlacement:
    """Where pods are: `where` is each pod's node by UID."""

    nodes: Mapping[str, Node]
    namespaces: Mapping[str, Labels]
    where: dict[str, str]

    def labels_of(self, namespace: str) -> Labels:
        """A namespace's labels."""
        return self.namespaces.get(namespace, NO_LABELS)


@dataclass(slots=True)
class Repair(PodPlacement):
    """The moves so far, which `where` follows. Pods move at most once."""

    choice: MoveDecider
    moves: list[RuleMove] = field(default_factory=list)
    kept: list[RuleKept] = field(default_factory=list)
    tried: set[tuple[str, ViolationRule]] = field(default_factory=set)
    moved: set[str] = field(default_factory=set)

    def may_try(self, pod: PlacedPod, rule: ViolationRule) -> bool:
        """Whether the pod may be moved for this rule and was not tried."""
        uid = pod.load.uid
        return rule in pod.may_repair and uid not in self.moved and (uid, rule) not in self.tried

    def attempt(
        self,
        pod: PlacedPod,
        rule: ViolationRule,
        reason: str,
        first: Collection[str] = (),
        aim: MoveAim | None = None,
        about: str = "",
    ) -> str:
        """Move the pod to another node, one of `first` where the scheduler places it there; returns that node,
        empty where it stays.
        """
        node = self.where[pod.load.uid]
        self.tried.add((pod.load.uid, rule))
        stays = pod.load.refused or self.choice.admit(pod.load, node)
        if not stays:
            targets = [name for name, entry in self.nodes.items() if name != node and not entry.unschedulable]
            among = [name for name in targets if name in first]
            landing = self.choice.land(pod.load, node, among or targets)
            if not landing.node and among:
                landing = self.choice.land(pod.load, node, targets)
            if landing.node:
                self.moves.append(RuleMove(pod.load, node, landing.node, rule, reason, aim, about))
                self.where[pod.load.uid] = landing.node
                self.moved.add(pod.load.uid)
                return landing.node
            stays = landing.reason
        self.kept.append(RuleKept(pod.load, node, rule, f"{reason}; {stays}"))
        return ""


def in_order(pods: Sequence[PlacedPod]) -> list[PlacedPod]:
    """The least important first, among equals by name."""
    by_uid = {pod.load.uid: pod for pod in pods}
    ordered = sorted_pods(sorted((pod.load for pod in pods), key=lambda load: load.key), {}, {})
    return [by_uid[load.uid] for load in ordered]
