"""Workloads of one node as its agent sees them: pods, containers, and programs outside Kubernetes, with their cgroups.

The same policies must apply to a kubelet's pods, to the founding document's pod directories and to plain cgroups on a
machine without Kubernetes. All three become `NodePod`; what a source does not provide has the default. Amounts of batch
and mid resources (kubernetes.io/batch-cpu, mid-memory, ...) use the same fields as native ones and are marked, since a
kubelet enforces native ones only.
Amounts are those that the kubelet says it has put in place, else those of the specification, whatever the groups have.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from cotenant.model.cluster.labels import NO_LABELS, PART_OF, Labels
from cotenant.model.cluster.qos import KubernetesQoS, PriorityClass, QoSClass
from cotenant.model.cluster.seal import SealStanding

PRODUCT = "cotenant"  # in the label `PART_OF`


class NodePodPhase(StrEnum):
    """Pod phase, as far as a node agent needs it."""

    RUNNING = "Running"
    TERMINATING = "Terminating"  # being deleted, or evicted by us
    OVER = "Over"  # succeeded or failed; its cgroup may still exist


@dataclass(frozen=True, slots=True)
class NodeContainer:
    """One container. 0 = no request, no limit."""

    name: str
    group: str  # path of its cgroup; "" where unknown
    container_id: str = ""
    cpu_request_m: int = 0
    cpu_limit_m: int = 0
    memory_request_bytes: int = 0
    memory_limit_bytes: int = 0
    extended_cpu: bool = False  # its CPU amounts are of batch-cpu or mid-cpu: no kubelet enforces them
    extended_memory: bool = False  # its memory amounts are of batch-memory or mid-memory


@dataclass(frozen=True, slots=True)
class ExtendedAmounts:
    """What the group of a pod with batch or mid resources should have, native amounts, sidecars and overhead
    included. None = leave it as it is.
    """

    cpu_request_m: int | None = None  # None: no container has batch or mid CPU
    cpu_limit_m: int | None = None  # None: as above, or a container has no such limit
    memory_limit_bytes: int | None = None  # None: as above, of memory


NOT_EXTENDED = ExtendedAmounts()


@dataclass(frozen=True, slots=True)
class NodePod:
    """A pod, or a program outside Kubernetes (`host_application`)."""

    uid: str
    namespace: str
    name: str
    group: str  # path of its cgroup
    qos: QoSClass = QoSClass.NONE  # effective; BE may be throttled, LS and above are protected
    kubernetes_qos: KubernetesQoS = KubernetesQoS.BURSTABLE
    priority_class: PriorityClass = PriorityClass.NONE
    priority: int = 0
    sub_priority: int = 0
    tenant: str = ""
    objective_p99_us: int | None = None  # latency objective
    containers: tuple[NodeContainer, ...] = ()
    labels: Labels = NO_LABELS
    annotations: Labels = field(default=NO_LABELS)
    phase: NodePodPhase = NodePodPhase.RUNNING
    has_started: bool = False  # its kubelet says that each of its containers was started; False where nobody says so
    grace_s: int | None = None  # that it may take to end; None where nobody says so
    host_application: bool = False
    addresses: tuple[str, ...] = ()  # its own IPs; none in the host network
    own_cpus: tuple[int, ...] = ()  # logical CPUs allocated to it exclusively, as far as its annotation is believed
    has_outgrown_own_cpus: bool = False  # what it requests, as it is in place, is more than these: it was resized
    holdings: SealStanding = SealStanding.CHECKED  # how far its annotations about what it holds are believed
    unbelieved: str = (
        ""  # why it shares CPUs although its label or annotation says otherwise; "" = it says nothing else
    )
    relabelled: tuple[str, ...] = ()  # of its class, quota and tenant: changed since the bind, without effect
    extended: ExtendedAmounts = NOT_EXTENDED  # of the whole pod, native amounts as they are in place
    workload: str = ""  # kind and namespace/name of the object that made it, "Job shop/hogs"; "" where none is known
    ours: bool = False  # of this agent itself or of its keeper, as the kernel says of their processes
    is_confirmed_service: bool = False  # more than a label says so: its spec.priority, or a file of the node itself
    is_named: bool = (
        True  # False: known by its cgroup alone, so neither its name nor its class is certain; never evicted
    )

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_product(self) -> bool:
        """Whether it is a part of this product: the agent itself, or by its label, which costs who writes it the
        guard's protection and gains nothing.
        """
        return self.ours or self.labels.get(PART_OF) == PRODUCT

    @property
    def is_service_by_label_only(self) -> bool:
        """Whether Kubernetes counts it as best effort, and nothing but a label, which its owner writes, says otherwise.
        It stands among best-effort pods: what it is spared, they lose.
        """
        return (
            self.kubernetes_qos is KubernetesQoS.BEST_EFFORT
            and self.qos in (QoSClass.LSE, QoSClass.LSR, QoSClass.LS)
            and not self.is_confirmed_service
        )

    @property
    def best_effort(self) -> bool:
        """Whether it uses only what other pods leave."""
        return self.qos is QoSClass.BE

    @property
    def cpu_request_m(self) -> int:
        """Sum over its containers."""
        return sum(container.cpu_request_m for container in self.containers)

    @property
    def memory_request_bytes(self) -> int:
        """Sum over its containers."""
        return sum(container.memory_request_bytes for container in self.containers)
