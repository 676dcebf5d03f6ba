"""What a kubelet checks before it runs a pod that somebody bound to it.

Problem: a scheduler may be wrong or race with another, and then the node has the last word. Choice: the kubelet's predicates, with its reasons:
OutOf<resource>, NodeAffinity, NodePorts; extended resources that the node does not tell of are not asked for, as there (others judge them).
Limits: devices and topology are not judged. Source: Kubernetes documentation "Assigning Pods to
Nodes", and the reasons as kubelets word them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cotenant.local.controllers.views.core import NodeView, Pod
from cotenant.local.controllers.workloads.scheduling import affinity_matches
from cotenant.model.cluster.node import KUBELET_MAX_PODS
from cotenant.model.cluster.pod import HostPort
from cotenant.model.resources import PODS_NAME, Amounts


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a pod is not run: `status.reason` and `status.message`."""

    reason: str
    message: str


@dataclass(slots=True)
class Room:
    """What the pods that run on a node hold."""

    held: dict[str, int] = field(default_factory=dict)
    pods: int = 0
    ports: dict[str, tuple[HostPort, ...]] = field(default_factory=dict)  # by pod UID

    def take(self, uid: str, requests: Amounts, ports: tuple[HostPort, ...]) -> None:
        """A pod begins to run."""
        self.pods += 1
        for name, amount in requests:
            self.held[name] = self.held.get(name, 0) + amount
        if ports:
            self.ports[uid] = ports

    def give_back(self, uid: str, requests: Amounts) -> None:
        """A pod has ended."""
        self.pods -= 1
        for name, amount in requests:
            self.held[name] -= amount
        self.ports.pop(uid, None)


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """The ports that a pod takes on its node."""
    found = []
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        for port in container.ports:
            number = port.host_port or (port.container_port if pod.spec.host_network else 0)
            if number:
                found.append(HostPort(number, port.protocol, port.host_ip or "0.0.0.0"))
    return tuple(found)


def admit(pod: Pod, requests: Amounts, node: NodeView, allocatable: Amounts, room: Room) -> Rejection | None:
    """Why this node does not run the pod; None where it does."""
    if not affinity_matches(pod.spec, node):
        text = "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
        return Rejection("NodeAffinity", text)
    slots = allocatable.get(PODS_NAME) or KUBELET_MAX_PODS
    if room.pods + 1 > slots:
        return _out_of(PODS_NAME, 1, room.pods, slots)
    for name, amount in requests:
        if name not in allocatable and _is_extended(name):
            continue
        held, most = room.held.get(name, 0), allocatable.get(name)
        if amount > 0 and held + amount > most:
            return _out_of(name, amount, held, most)
    wanted = host_ports(pod)
    if wanted and any(a.conflicts(b) for taken in room.ports.values() for a in taken for b in wanted):
        text = (
            "Pod was rejected: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
        )
        return Rejection("NodePorts", text)
    return None


def _is_extended(name: str) -> bool:
    return "/" in name and "kubernetes.io/" not in name


def _out_of(name: str, requested: int, used: int, capacity: int) -> Rejection:
    text = f"Pod was rejected: NodeView didn't have enough resource: {name}, requested: {requested}, used: {used}, capacity: {capacity}"
    return Rejection(f"OutOf{name}", text)
