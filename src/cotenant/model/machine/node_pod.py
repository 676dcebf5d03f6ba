"""What runs on one node, as its agent knows it: pods, containers, and programs outside Kubernetes, with their cgroups.

Problem: the same judgement must serve a kubelet's pods, the founding pod directories and plain cgroups on a machine without Kubernetes.
Choice: all three become `NodePod`; what a source cannot tell has the default. Limits: amounts are what the node enforces; batch resources
(kubernetes.io/batch-cpu, -memory) are folded into the same fields, since on the node a CPU is a CPU.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from cotenant.model.cluster.labels import NO_LABELS, Labels
from cotenant.model.cluster.qos import KubernetesQoS, PriorityClass, QoSClass


class Phase(StrEnum):
    """As Kubernetes has it, as far as a node agent cares."""

    RUNNING = "Running"
    TERMINATING = "Terminating"  # being deleted, or evicted by us
    OVER = "Over"  # succeeded or failed; its cgroup may still be there


@dataclass(frozen=True, slots=True)
class NodeContainer:
    """One container. 0 = no request, no limit."""

    name: str
    group: str  # its cgroup's path; "" where it is not known
    container_id: str = ""
    cpu_request_m: int = 0
    cpu_limit_m: int = 0
    memory_request_bytes: int = 0
    memory_limit_bytes: int = 0


@dataclass(frozen=True, slots=True)
class NodePod:
    """A pod, or a program beside Kubernetes (`host_application`)."""

    uid: str
    namespace: str
    name: str
    group: str  # its cgroup's path
    qos: QoSClass = QoSClass.NONE  # effective; BE may be squeezed, LS and above are protected
    kubernetes_qos: KubernetesQoS = KubernetesQoS.BURSTABLE
    priority_class: PriorityClass = PriorityClass.NONE
    priority: int = 0
    sub_priority: int = 0
    tenant: str = ""
    objective_p99_us: int | None = None  # latency objective
    containers: tuple[NodeContainer, ...] = ()
    labels: Labels = NO_LABELS
    annotations: Labels = field(default=NO_LABELS)
    phase: Phase = Phase.RUNNING
    host_application: bool = False
    addresses: tuple[str, ...] = ()  # IPs of its own; none in the host's network
    own_cpus: tuple[int, ...] = ()  # logical CPUs given to it alone

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def best_effort(self) -> bool:
        """Whether it lives on what the others leave."""
        return self.qos is QoSClass.BE

    @property
    def cpu_request_m(self) -> int:
        """Sum over its containers."""
        return sum(container.cpu_request_m for container in self.containers)

    @property
    def memory_request_bytes(self) -> int:
        """Sum over its containers."""
        return sum(container.memory_request_bytes for container in self.containers)
