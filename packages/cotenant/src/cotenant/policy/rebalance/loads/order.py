"""Order of nodes by use, and the order in which pods of an overloaded node are considered.

The pods that matter least should move, and few of them should suffice. Class, priority, QoS and configured costs decide
first; among equals the pod comes first whose use just covers what the node has too much, counted over the resources
that are above their threshold; then the youngest.
Limits: a pod's requests, its age beyond that order, and the cost of restarting it are not considered.
Source: Koordinator, pkg/descheduler/utils/sorter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cotenant.model.cluster.qos import KubernetesQoS, PriorityClass, QoSClass

_CLASS = {
    entry: rank
    for rank, entry in enumerate(
        (PriorityClass.FREE, PriorityClass.BATCH, PriorityClass.MID, PriorityClass.PROD, PriorityClass.NONE)
    )
}
_KUBERNETES = {
    entry: rank
    for rank, entry in enumerate((KubernetesQoS.BEST_EFFORT, KubernetesQoS.BURSTABLE, KubernetesQoS.GUARANTEED))
}
_QOS = {
    QoSClass.BE: 0,
    QoSClass.LS: 1,
    QoSClass.LSR: 2,
    QoSClass.LSE: 3,
    QoSClass.SYSTEM: 3,
    QoSClass.NONE: 4,
}


@dataclass(frozen=True, slots=True)
class LoadPod:
    """A pod of an overloaded node. `usage` is by resource as measured, None where the pod was not measured;
    `refused` says why it may not move.
    """

    key: str
    uid: str
    usage: Mapping[str, int] | None
    priority_class: PriorityClass = PriorityClass.NONE
    priority: int = 0
    kubernetes_qos: KubernetesQoS = KubernetesQoS.BEST_EFFORT
    qos: QoSClass = QoSClass.NONE
    deletion_cost: int = 0
    eviction_cost: int = 0
    created_s: float = 0.0
    refused: str = ""

    @property
    def is_prod(self) -> bool:
        """Whether it counts against production thresholds."""
        return self.priority_class is PriorityClass.PROD


def node_score(usage: Mapping[str, int], allocatable: Mapping[str, int], weights: Mapping[str, int]) -> int:
    """Weighted use of a node in thousandths of allocatable; 0 without weights."""
    total = sum(weights.values())
    if total <= 0:
        return 0
    parts = 0
    for name, weight in weights.items():
        size = allocatable.get(name, 0)
        if size > 0:
            parts += weight * (min(usage.get(name, 0), size) * 1000 // size)
    return parts // total


def pod_score(usage: Mapping[str, int], excess: Mapping[str, int], weights: Mapping[str, int]) -> float:
    """How well a pod's use covers the excess of its node: most for one that just covers it. 0 without an excess."""
    parts, total = 0.0, 0
    for name, much in excess.items():
        weight = weights.get(name, 1)
        if much > 0 and weight > 0:
            ratio = usage.get(name, 0) / much
            parts += weight * (ratio if ratio < 1 else 1 / ratio + 1)
            total += weight
    return parts / total if total else 0.0


def sorted_pods(pods: Sequence[LoadPod], excess: Mapping[str, int], weights: Mapping[str, int]) -> list[LoadPod]:
    """The pods in the order in which they are considered; `excess` is the node's use above its thresholds, by
    resource.
    """

    def key(pod: LoadPod) -> tuple[float, ...]:
        return (
            _CLASS[pod.priority_class],
            pod.priority,
            _KUBERNETES[pod.kubernetes_qos],
            _QOS[pod.qos],
            pod.deletion_cost,
            pod.eviction_cost,
            pod.usage is None,
            0.0 if pod.usage is None else -pod_score(pod.usage, excess, weights),
            -pod.created_s,
        )

    return sorted(pods, key=key)


def excess_of(usage: Mapping[str, int], high: Mapping[str, int]) -> dict[str, int]:
    """Use above the thresholds, by resource; only what is above."""
    return {name: used - high[name] for name, used in usage.items() if name in high and used > high[name]}
