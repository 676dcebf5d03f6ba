"""The kubelet's admission: whether a node runs a pod that was bound to it.

A scheduler may be wrong or race with another, so the node has the final check. The kubelet's predicates, with its
reasons: OutOf<resource>, NodeAffinity, NodePorts. As in the kubelet, extended resources that the node does not
advertise are not checked.
Limits: devices and topology are not checked.
Source: Kubernetes documentation "Assigning Pods to Nodes", and the kubelet's reasons.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cotenant.model.cluster.node import KUBELET_MAX_PODS
from cotenant.model.cluster.pod import HostPort
from cotenant.model.resources import PODS_NAME, Amounts
from cotenant_local.controllers.views.nodes import NodeObjectView
from cotenant_local.controllers.views.pods import PodObjectView
from cotenant_local.controllers.workloads.scheduling import affinity_matches


@dataclass(frozen=True, slots=True)
class PodRejection:
    """Why a pod is rejected: `status.reason` and `status.message`."""

    reason: str
    message: str


@dataclass(slots=True)
class RunningUsage:
    """Resources and host ports in use by the pods running on a node."""

    used: dict[str, int] = field(default_factory=dict)
    pods: int = 0
    ports: dict[str, tuple[HostPort, ...]] = field(default_factory=dict)  # by pod UID

    def add(self, uid: str, requests: Amounts, ports: tuple[HostPort, ...]) -> None:
        """Count a pod that starts."""
        self.pods += 1
        for name, amount in requests:
            self.used[name] = self.used.get(name, 0) + amount
        if ports:
            self.ports[uid] = ports

    def remove(self, uid: str, requests: Amounts) -> None:
        """Subtract a pod that has ended."""
        self.pods -= 1
        for name, amount in requests:
            self.used[name] -= amount
        self.ports.pop(uid, None)


def host_ports(pod: PodObjectView) -> tuple[HostPort, ...]:
    """The host ports that a pod uses."""
    found = []
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        for port in container.ports:
            number = port.host_port or (port.container_port if pod.spec.host_network else 0)
            if number:
                found.append(HostPort(number, port.protocol, port.host_ip or "0.0.0.0"))
    return tuple(found)


def admit(
    pod: PodObjectView, requests: Amounts, node: NodeObjectView, allocatable: Amounts, usage: RunningUsage
) -> PodRejection | None:
    """Why the node rejects the pod; None if it admits it."""
    if not affinity_matches(pod.spec, node):
        text = "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
        return PodRejection("NodeAffinity", text)
    slots = allocatable.get(PODS_NAME) or KUBELET_MAX_PODS
    if usage.pods + 1 > slots:
        return _out_of(PODS_NAME, 1, usage.pods, slots)
    for name, amount in requests:
        if name not in allocatable and _is_extended(name):
            continue
        used, capacity = usage.used.get(name, 0), allocatable.get(name)
        if amount > 0 and used + amount > capacity:
            return _out_of(name, amount, used, capacity)
    requested_ports = host_ports(pod)
    if requested_ports and any(
        a.conflicts(b) for taken in usage.ports.values() for a in taken for b in requested_ports
    ):
        text = (
            "Pod was rejected: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
        )
        return PodRejection("NodePorts", text)
    return None


def _is_extended(name: str) -> bool:
    return "/" in name and "kubernetes.io/" not in name


def _out_of(name: str, requested: int, used: int, capacity: int) -> PodRejection:
    text = (
        f"Pod was rejected: Node didn't have enough resource: {name}, requested: {requested}, used: {used}, "
        f"capacity: {capacity}"
    )
    return PodRejection(f"OutOf{name}", text)
