"""What a scheduler needs to know about a pod.

A Pod object has hundreds of fields; placement depends on few, and pods equal in those are interchangeable. A frozen
value with exactly those; `shape()` keeps the part that is evaluated on a node's own row. Rules about other pods, host
ports and the node name of a DaemonSet's pod are evaluated by narrowing (engine/state/narrowing.py).
Limits: resource claims are not modelled; volumes are kept beside the pod (model/cluster/observed.py).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from math import inf, isfinite, isnan

from cotenant.model.cluster.affinity import NodeAffinity, PodTerm, SpreadConstraint
from cotenant.model.cluster.labels import NO_LABELS, Labels, LabelSelector
from cotenant.model.cluster.qos import PriorityClass, QoSClass, effective_class
from cotenant.model.cluster.taints import NODE_UNSCHEDULABLE, TAINT_TOLERATION, Toleration
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import NOTHING, PODS_NAME, Amounts

# Plugins whose filters a profile may leave out, by Kubernetes' names; a node that the pod names counts apart.
NODE_AFFINITY, NODE_NAMED = "NodeAffinity", "NodeAffinity by name"
NODE_PORTS, INTER_POD_AFFINITY, POD_TOPOLOGY_SPREAD = "NodePorts", "InterPodAffinity", "PodTopologySpread"
ROW_LOCAL_FILTERS = frozenset({NODE_AFFINITY, TAINT_TOLERATION, NODE_UNSCHEDULABLE})


@dataclass(frozen=True, slots=True)
class PodEstimate:
    """The expected behaviour of a pod, as far as a scheduler may know it: noisy, and never the true values of the
    simulated world.

    Sensitivity a and pressure b as in the contention model: a pod slows down by 1 + a x the pressure of the other pods
    on its node, and exerts a pressure of b x the cores it uses.
    """

    use_cpu_cores: float
    use_memory_bytes: int
    sensitivity: float = 0.0
    pressure: float = 0.0
    allowance: float = inf  # tolerated excess slowdown: service tolerance - 1, batch slack ratio - 1
    duration_s: float = inf  # alone on a node; inf = a service

    def __post_init__(self) -> None:
        for name in ("use_cpu_cores", "use_memory_bytes", "sensitivity", "pressure"):
            value = getattr(self, name)
            if not isfinite(value) or value < 0:
                raise InvalidInput(f"estimate.{name}", value, "a finite number that is not negative")
        for name in ("allowance", "duration_s"):
            value = getattr(self, name)
            if isnan(value) or value < 0:
                raise InvalidInput(f"estimate.{name}", value, "a number that is not negative")


@dataclass(frozen=True, slots=True)
class JobStage:
    """What the job of a batch pod still needs, counted from the start of this pod."""

    job: str  # pods of one job have equal names
    path_s: float  # estimated seconds on idle nodes from the start of this pod to the end of the job
    work: float = 0.0  # estimated seconds x demand of all pods from this stage on; demand as a fraction of a node

    def __post_init__(self) -> None:
        for name in ("path_s", "work"):
            value = getattr(self, name)
            if not isfinite(value) or value < 0:
                raise InvalidInput(f"job stage.{name}", value, "a finite number that is not negative")


@dataclass(frozen=True, slots=True)
class HostPort:
    """A host port. The address 0.0.0.0 (or none) takes the port on every address."""

    port: int
    protocol: str = "TCP"
    address: str = "0.0.0.0"

    def __post_init__(self) -> None:
        if isinstance(self.port, bool) or not 1 <= self.port <= 65535:
            raise InvalidInput("hostPort", self.port, "1 to 65535")
        if not self.address:
            object.__setattr__(self, "address", "0.0.0.0")

    def conflicts(self, other: HostPort) -> bool:
        """Whether the two cannot be used on one node."""
        if (self.port, self.protocol) != (other.port, other.protocol):
            return False
        return self.address == other.address or "0.0.0.0" in (self.address, other.address)


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod. Requests exclude the one `pods` slot that every pod uses."""

    name: str
    namespace: str = "default"
    requests: Amounts = NOTHING
    qos: QoSClass = QoSClass.NONE
    priority_class: PriorityClass = PriorityClass.NONE
    priority: int = 0
    sub_priority: int = 0
    labels: Labels = NO_LABELS
    node_selector: Labels = NO_LABELS
    node_affinity: NodeAffinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    tenant: str = ""  # empty = the namespace
    group: str = ""  # at most `group_limit` pods of a group on one node; empty = no such rule
    group_limit: int = 1
    estimate: PodEstimate | None = None
    deadline_s: float = inf  # of its job, absolute
    job: JobStage | None = None  # None: the pod is taken for the whole of its job
    objective_p99_ms: float | None = None  # a service's latency objective
    load_limit: float = inf  # highest estimated CPU fraction of a node at which the pod may still be placed there
    images: tuple[str, ...] = ()  # one for each container and init container, by the names that nodes report
    replica_of: str = (
        ""  # uid of the controller whose pods are spread by default where they have no constraints; empty = not
    )
    default_selector: LabelSelector | None = None  # of its fellows, by which it is spread where it has no constraints
    scored_by: str = ""  # name of the profile that scores it, where that is not the engine's own
    is_daemon: bool = False  # owned by a DaemonSet: filters by load do not apply to it
    limits: Amounts = NOTHING  # of the requested resources; placement uses the expected use instead
    profile: str = ""  # namespace/name of the WorkloadProfile of its workload; empty = none
    has_whole_cpus: bool = (
        False  # Guaranteed, each container with whole CPUs: a static kubelet gives it CPUs of its own
    )
    unfiltered: frozenset[str] = frozenset()  # plugins that its scheduler's profile does not let filter
    # What follows from these and is asked many times:
    key: str = field(init=False, repr=False, compare=False)  # `namespace/name`, unique among the pods of a cluster
    effective_class: PriorityClass = field(init=False, repr=False, compare=False)  # the default of its QoS counts too
    # whether latency matters rather than throughput: it has a latency objective, or production priority
    is_service: bool = field(init=False, repr=False, compare=False)
    # whether it is of the classes that may be held back for others at any time: BE, or priority class batch or free
    is_best_effort: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        key = f"{self.namespace}/{self.name}"
        if not self.name:
            raise InvalidInput("pod", self.namespace, "a name")
        for resource, amount in self.requests.items:
            if resource == PODS_NAME:
                raise InvalidInput(f"pod {key}: requests.pods", amount, "no amount: every pod takes one slot")
        if isnan(self.deadline_s):
            raise InvalidInput(f"pod {key}: deadline", self.deadline_s, "seconds, or inf for none")
        if isnan(self.load_limit) or self.load_limit <= 0:
            raise InvalidInput(f"pod {key}: load limit", self.load_limit, "a fraction above 0, or inf for none")
        if self.objective_p99_ms is not None and not (isfinite(self.objective_p99_ms) and self.objective_p99_ms > 0):
            raise InvalidInput(f"pod {key}: latency objective", self.objective_p99_ms, "milliseconds above 0")
        if self.group and self.group_limit < 1:
            raise InvalidInput(f"pod {key}: group limit", self.group_limit, "1 or more")
        band = self.priority_class
        if band is PriorityClass.NONE and self.qos is not QoSClass.NONE:
            band = effective_class(band, self.qos)
        held_back = self.qos is QoSClass.BE or band is PriorityClass.BATCH or band is PriorityClass.FREE
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "effective_class", band)
        object.__setattr__(self, "is_service", self.objective_p99_ms is not None or band is PriorityClass.PROD)
        object.__setattr__(self, "is_best_effort", held_back)

    @property
    def owner(self) -> str:
        """The tenant; the namespace by default."""
        return self.tenant or self.namespace

    @property
    def path_s(self) -> float:
        """Estimated seconds on idle nodes from the start of the pod to the end of its job; 0 where nothing is known."""
        if self.job is not None:
            return self.job.path_s
        duration_s = self.estimate.duration_s if self.estimate is not None else inf
        return duration_s if isfinite(duration_s) else 0.0

    @property
    def pinned(self) -> str | None:
        """The one node that the pod requires by name (as a DaemonSet's pods do); None = any."""
        return self.node_affinity.pinned if self.node_affinity is not None else None

    def shape_key(self, violation_surcharge: float = 0.0) -> Hashable:
        """Pods with equal keys have equal shapes; made in a third of the time. The reverse need not hold: the node that
        a pod names is in its key.
        """
        return (
            self.requests,
            self.tenant or self.namespace,
            self.effective_class,
            self.is_service,
            self.node_selector,
            self.node_affinity,
            self.tolerations,
            self.group,
            self.group_limit,
            self.estimate,
            self.load_limit,
            self.scored_by,
            self.profile,
            violation_surcharge,
            self.unfiltered,
        )

    def shape(self, violation_surcharge: float = 0.0) -> Shape:
        """The part of this pod that is evaluated on a node's own row; pods with equal shapes are interchangeable
        there.
        """
        return Shape(
            requests=self.requests,
            tenant=self.owner,
            priority_class=self.effective_class,
            is_service=self.is_service,
            node_selector=self.node_selector,
            node_affinity=self.node_affinity.unpinned() if self.node_affinity is not None else None,
            tolerations=self.tolerations,
            group=self.group,
            group_limit=self.group_limit if self.group else 0,
            estimate=self.estimate,
            load_limit=self.load_limit,
            scored_by=self.scored_by,
            profile=self.profile,
            violation_surcharge=violation_surcharge,
            unfiltered=self.unfiltered & ROW_LOCAL_FILTERS if self.unfiltered else self.unfiltered,
        )


@dataclass(frozen=True, slots=True)
class Shape:
    """The pod as placement sees it: equal shapes are placed alike, and share one row of `ShapeArrays`."""

    requests: Amounts
    tenant: str
    priority_class: PriorityClass
    is_service: bool
    node_selector: Labels
    node_affinity: NodeAffinity | None
    tolerations: tuple[Toleration, ...]
    group: str
    group_limit: int
    estimate: PodEstimate | None
    load_limit: float
    scored_by: str = ""
    profile: str = ""
    violation_surcharge: float = 0.0  # by credit, not by the pod itself (`Plugin.pre_score`)
    unfiltered: frozenset[str] = frozenset()  # of `ROW_LOCAL_FILTERS`
