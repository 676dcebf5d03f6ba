"""What a scheduler needs to know about a node.

Problem and choice as for pods (model/cluster/pod.py). A node without CPU or memory is invalid, because every score
divides by them. Limits: a node that does not advertise `pods` gets the kubelet's default of 110; volume limits are kept
beside the node (model/cluster/observed.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cotenant.model.cluster.labels import NO_LABELS, UNSCHEDULABLE_TAINT, Labels
from cotenant.model.cluster.taints import Taint, TaintEffect
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import CPU_NAME, MEMORY_NAME, PODS_NAME, Amounts

KUBELET_MAX_PODS = 110

_CORDONED = Taint(UNSCHEDULABLE_TAINT, "", TaintEffect.NO_SCHEDULE)


class HoldsNoPod(InvalidInput):
    """A node without CPU or memory."""


@dataclass(frozen=True, slots=True)
class Node:
    """One node. `ready` is its Ready condition; `unschedulable` is set by cordoning.

    With `taints_decide`, only taints and cordoning exclude pods, as in kube-scheduler: the node controller taints a
    node that is not ready, and a pod that tolerates those taints (a network agent) may be placed there. Without it, a
    node that is not ready takes no pod.
    """

    name: str
    allocatable: Amounts
    labels: Labels = NO_LABELS
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    images: tuple[tuple[str, int], ...] = field(default=(), compare=False)  # names and bytes; they only change scores
    taints_decide: bool = False  # whether `ready` has no effect on placement
    annotations: Labels = NO_LABELS  # only those that a scheduler uses (model/cluster/annotations.py, ON_NODES)

    def __post_init__(self) -> None:
        if not self.name:
            raise InvalidInput("node", "", "a name")
        for name in (CPU_NAME, MEMORY_NAME):
            if self.allocatable.get(name) <= 0:
                raise HoldsNoPod(
                    f"node {self.name}: allocatable.{name}",
                    self.allocatable.get(name),
                    "more than 0",
                    "it can hold no pod",
                )
        if PODS_NAME not in self.allocatable:
            slots = Amounts.of({PODS_NAME: KUBELET_MAX_PODS})
            object.__setattr__(self, "allocatable", self.allocatable + slots)

    @property
    def takes_pods(self) -> bool:
        """Whether pods that tolerate its taints may be placed on it."""
        return self.ready or self.taints_decide

    @property
    def effective_taints(self) -> tuple[Taint, ...]:
        """Its taints; a cordoned node has one more, so that a pod may tolerate cordoning, as in Kubernetes."""
        if self.unschedulable and _CORDONED not in self.taints:
            return (_CORDONED, *self.taints)
        return self.taints
