"""Pods whose node no longer satisfies their required node affinity, or has a taint that they do not tolerate.

Labels and taints of a node change after pods were placed on it. The selector, the required affinity and the repelling
taints (NoSchedule, NoExecute) are evaluated on the pod's own node; each violating pod is tried once, the least
important first. Differences from upstream: a pod moves only where the scheduler has another place, and the taint of
cordoning never moves a pod.
Limits: preferred affinity and PreferNoSchedule are not considered.
Source: Kubernetes' descheduler, plugins RemovePodsViolatingNodeAffinity and RemovePodsViolatingNodeTaints.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from cotenant.model.cluster.labels import UNSCHEDULABLE_TAINT
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.taints import Taint, first_repelling
from cotenant.policy.rebalance.violations.contract import PlacedPod, Repair, ViolationRule, in_order


def allows(pod: Pod, node: Node) -> bool:
    """Whether the node satisfies the pod's node selector and required node affinity."""
    if pod.node_selector and not node.labels.contains(pod.node_selector):
        return False
    required = pod.node_affinity.required if pod.node_affinity is not None else None
    return required is None or required.matches(node.name, node.labels)


def repelling(pod: Pod, node: Node, excluded: Collection[str] = ()) -> Taint | None:
    """The first taint of the node that the pod does not tolerate. `excluded`: keys, or key=value, that are ignored."""
    taints = (
        taint
        for taint in node.taints
        if taint.key != UNSCHEDULABLE_TAINT
        and taint.key not in excluded
        and f"{taint.key}={taint.value}" not in excluded
    )
    return first_repelling(taints, pod.tolerations)


def repair_node_affinity(pods: Iterable[PlacedPod], repair: Repair) -> None:
    """Move pods whose node does not satisfy their required affinity."""
    for placed_pod in in_order([pod for pod in pods if pod.pod.node_selector or pod.pod.node_affinity is not None]):
        node = repair.nodes.get(repair.where[placed_pod.load.uid])
        if (
            node is not None
            and not allows(placed_pod.pod, node)
            and repair.may_try(placed_pod, ViolationRule.NODE_AFFINITY)
        ):
            repair.attempt(
                placed_pod, ViolationRule.NODE_AFFINITY, f"{node.name} does not satisfy its required node affinity"
            )


def repair_taints(pods: Iterable[PlacedPod], repair: Repair, excluded: Collection[str] = ()) -> None:
    """Move pods that do not tolerate a taint of their node."""
    tainted = {name for name, node in repair.nodes.items() if node.taints}
    for placed_pod in in_order([pod for pod in pods if repair.where[pod.load.uid] in tainted]):
        node = repair.nodes[repair.where[placed_pod.load.uid]]
        taint = repelling(placed_pod.pod, node, excluded)
        if taint is not None and repair.may_try(placed_pod, ViolationRule.NODE_TAINTS):
            repair.attempt(
                placed_pod,
                ViolationRule.NODE_TAINTS,
                f"it does not tolerate the taint {taint} ({taint.effect}) of {node.name}",
            )
