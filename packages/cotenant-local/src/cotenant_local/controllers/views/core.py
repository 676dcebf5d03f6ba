"""Views of pods, nodes and leases, and the base of all views.

An object has hundreds of fields and arrives as bytes many times a second. One frozen struct per kind with only the
fields that some controller or node reads; msgspec skips the others while decoding. Templates, which are only copied,
stay as `Manifest`.
Limits: views are read-only; what is written back is a patch or a separate manifest. Every view has `metadata`, so that
code about identity, ownership and deletion works on all kinds.
"""

from __future__ import annotations

from datetime import UTC, datetime

from msgspec import Struct, field


class View(Struct, frozen=True, rename="camel"):
    """Base of all views: JSON names are camel case."""


class OwnerReference(View, frozen=True):
    """An entry of `metadata.ownerReferences`."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class Meta(View, frozen=True):
    """`metadata`."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = "0"
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """(namespace, name)."""
        return (self.namespace, self.name)

    @property
    def created_s(self) -> float:
        """Unix time; 0 where unknown."""
        return seconds(self.creation_timestamp) or 0.0

    @property
    def terminating(self) -> bool:
        """Whether its deletion has been requested."""
        return self.deletion_timestamp is not None

    @property
    def controller(self) -> OwnerReference | None:
        """The owner reference with `controller: true`, if any."""
        for owner in self.owner_references:
            if owner.controller:
                return owner
        return None


class Object(View, frozen=True):
    """Any object: the fields that garbage collection needs."""

    metadata: Meta
    kind: str = ""
    api_version: str = ""


class Expression(View, frozen=True):
    """An entry of matchExpressions."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class Selector(View, frozen=True):
    """A LabelSelector."""

    match_labels: dict[str, str] = field(default_factory=dict)
    match_expressions: tuple[Expression, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether it selects everything."""
        return not (self.match_labels or self.match_expressions)

    def matches(self, labels: dict[str, str]) -> bool:
        """Whether it selects an object with these labels (Kubernetes API reference, LabelSelector)."""
        for key, value in self.match_labels.items():
            if labels.get(key) != value:
                return False
        return all(_holds(e, labels.get(e.key)) for e in self.match_expressions)


def _holds(expression: Expression, value: str | None) -> bool:
    match expression.operator:
        case "In":
            return value in expression.values
        case "NotIn":
            return value not in expression.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return False


class Condition(View, frozen=True):
    """An entry of `status.conditions`."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
    last_update_time: datetime | None = None
    last_heartbeat_time: datetime | None = None
    observed_generation: int = 0


# --- pods


class Resources(View, frozen=True):
    """A container's `resources`."""

    requests: dict[str, str | int | float] = field(default_factory=dict)
    limits: dict[str, str | int | float] = field(default_factory=dict)


class Port(View, frozen=True):
    """A container's port."""

    container_port: int = 0
    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = field(default="", name="hostIP")


class ResizePolicy(View, frozen=True):
    """Whether a container is restarted when an amount changes."""

    resource_name: str = ""
    restart_policy: str = ""


class Container(View, frozen=True):
    """A container of a pod."""

    name: str = ""
    image: str = ""
    resources: Resources = Resources()
    ports: tuple[Port, ...] = ()
    restart_policy: str = ""
    resize_policy: tuple[ResizePolicy, ...] = ()


class ClaimSource(View, frozen=True):
    """`persistentVolumeClaim` of a volume."""

    claim_name: str = ""


class Volume(View, frozen=True):
    """A pod's volume; only claims matter here."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None


class TolerationView(View, frozen=True):
    """A pod's toleration, not validated."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class TaintView(View, frozen=True):
    """A node's taint, not validated."""

    key: str = ""
    effect: str = ""
    value: str = ""
    time_added: datetime | None = None


class NodeExpression(View, frozen=True):
    """An expression of a node selector term."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeTerm(View, frozen=True):
    """A term of a node selector."""

    match_expressions: tuple[NodeExpression, ...] = ()
    match_fields: tuple[NodeExpression, ...] = ()


class NodeSelectorView(View, frozen=True):
    """Node selector terms; at least one must match."""

    node_selector_terms: tuple[NodeTerm, ...] = ()


class NodeAffinityView(View, frozen=True):
    """`nodeAffinity`; preferences are not read, since no reader scores nodes."""

    required: NodeSelectorView | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class AffinityView(View, frozen=True):
    """`spec.affinity`."""

    node_affinity: NodeAffinityView | None = None


class PodClaim(View, frozen=True):
    """An entry of `spec.resourceClaims`."""

    name: str = ""
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class PodClaimStatus(View, frozen=True):
    """An entry of `status.resourceClaimStatuses`: without a name of a claim, none is needed."""

    name: str = ""
    resource_claim_name: str | None = None


class ExtendedClaimStatus(View, frozen=True):
    """`status.extendedResourceClaimStatus`: the claim that the scheduler made for extended resources."""

    resource_claim_name: str = ""


class EvictionResponderView(View, frozen=True):
    """An entry of `spec.evictionResponders`."""

    name: str = ""
    priority: int = 0


class PodSpec(View, frozen=True):
    """`spec` of a pod."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: dict[str, str | int | float] = field(default_factory=dict)
    resources: Resources = Resources()  # for the pod as a whole
    node_name: str = ""
    node_selector: dict[str, str] = field(default_factory=dict)
    affinity: AffinityView | None = None
    restart_policy: str = "Always"
    termination_grace_period_seconds: int = 30
    active_deadline_seconds: int | None = None
    tolerations: tuple[TolerationView, ...] = ()
    volumes: tuple[Volume, ...] = ()
    scheduler_name: str = ""
    scheduling_gates: tuple[dict[str, str], ...] = ()
    scheduling_group: dict[str, str] | None = None
    eviction_responders: tuple[EvictionResponderView, ...] = ()
    host_network: bool = False
    resource_claims: tuple[PodClaim, ...] = ()


class Running(View, frozen=True):
    """`state.running`."""

    started_at: datetime | None = None


class Terminated(View, frozen=True):
    """`state.terminated`."""

    exit_code: int = 0
    reason: str = ""
    finished_at: datetime | None = None


class ContainerState(View, frozen=True):
    """`state` of a container."""

    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(View, frozen=True):
    """An entry of `status.containerStatuses`."""

    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()


class PodStatus(View, frozen=True):
    """`status` of a pod."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    start_time: datetime | None = None
    nominated_node_name: str = ""
    pod_ip: str = field(default="", name="podIP")
    resource_claim_statuses: tuple[PodClaimStatus, ...] = ()
    extended_resource_claim_status: ExtendedClaimStatus | None = None


class Pod(View, frozen=True):
    """A pod."""

    metadata: Meta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def finished(self) -> bool:
        """Whether its phase is terminal (Succeeded or Failed)."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def active(self) -> bool:
        """Neither finished nor being deleted: what counts as a replica."""
        return not self.finished and not self.metadata.terminating

    @property
    def ready(self) -> bool:
        """Whether its Ready condition is True."""
        return self.ready_condition is not None and self.ready_condition.status == "True"

    @property
    def ready_condition(self) -> Condition | None:
        """The Ready condition itself."""
        for condition in self.status.conditions:
            if condition.type == "Ready":
                return condition
        return None

    @property
    def restarts(self) -> int:
        """The most restarts of any container."""
        return max((c.restart_count for c in self.status.container_statuses), default=0)

    def available(self, min_ready_s: int, now_s: float) -> bool:
        """Whether it has been ready for at least `min_ready_s` (Kubernetes: minReadySeconds)."""
        condition = self.ready_condition
        if condition is None or condition.status != "True":
            return False
        since = seconds(condition.last_transition_time)
        return min_ready_s == 0 or (since is not None and since + min_ready_s <= now_s)

    def available_at(self, min_ready_s: int) -> float | None:
        """When a ready pod becomes available, Unix time; None if it is not ready."""
        condition = self.ready_condition
        if condition is None or condition.status != "True":
            return None
        return (seconds(condition.last_transition_time) or 0.0) + min_ready_s


# --- nodes


class NodeSpec(View, frozen=True):
    """`spec` of a node."""

    taints: tuple[TaintView, ...] = ()
    unschedulable: bool = False


class NodeStatus(View, frozen=True):
    """`status` of a node."""

    conditions: tuple[Condition, ...] = ()
    allocatable: dict[str, str | int | float] = field(default_factory=dict)
    capacity: dict[str, str | int | float] = field(default_factory=dict)


class NodeView(View, frozen=True):
    """A node."""

    metadata: Meta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    def condition(self, kind: str) -> Condition | None:
        """A condition by its type."""
        for condition in self.status.conditions:
            if condition.type == kind:
                return condition
        return None


class LeaseSpec(View, frozen=True):
    """`spec` of a lease."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: datetime | None = None


class Lease(View, frozen=True):
    """A Lease; a node's has the node's name and is in the namespace `kube-node-lease`."""

    metadata: Meta
    spec: LeaseSpec = LeaseSpec()


def seconds(at: datetime | None) -> float | None:
    """A timestamp as Unix time."""
    return None if at is None else at.timestamp()


def stamp(now_s: float) -> str:
    """A `metav1.Time`: RFC 3339, whole seconds, UTC."""
    return datetime.fromtimestamp(int(now_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_stamp(now_s: float) -> str:
    """A `metav1.MicroTime`: RFC 3339 with microseconds, UTC."""
    return datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
