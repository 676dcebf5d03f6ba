"""Views of pods: what controllers and simulated nodes read of them."""

from __future__ import annotations

from datetime import datetime

from msgspec import field

from cotenant_local.controllers.views.core import ConditionView, Meta, View, seconds


class ResourcesView(View, frozen=True):
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


class ContainerView(View, frozen=True):
    """A container of a pod."""

    name: str = ""
    image: str = ""
    resources: ResourcesView = ResourcesView()
    ports: tuple[Port, ...] = ()
    restart_policy: str = ""
    resize_policy: tuple[ResizePolicy, ...] = ()


class ClaimSource(View, frozen=True):
    """`persistentVolumeClaim` of a volume."""

    claim_name: str = ""


class VolumeView(View, frozen=True):
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


class PodClaimView(View, frozen=True):
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


class PodSpecView(View, frozen=True):
    """`spec` of a pod."""

    containers: tuple[ContainerView, ...] = ()
    init_containers: tuple[ContainerView, ...] = ()
    overhead: dict[str, str | int | float] = field(default_factory=dict)
    resources: ResourcesView = ResourcesView()  # for the pod as a whole
    node_name: str = ""
    node_selector: dict[str, str] = field(default_factory=dict)
    affinity: AffinityView | None = None
    restart_policy: str = "Always"
    termination_grace_period_seconds: int = 30
    active_deadline_seconds: int | None = None
    tolerations: tuple[TolerationView, ...] = ()
    volumes: tuple[VolumeView, ...] = ()
    scheduler_name: str = ""
    scheduling_gates: tuple[dict[str, str], ...] = ()
    scheduling_group: dict[str, str] | None = None
    eviction_responders: tuple[EvictionResponderView, ...] = ()
    host_network: bool = False
    resource_claims: tuple[PodClaimView, ...] = ()


class RunningView(View, frozen=True):
    """`state.running`."""

    started_at: datetime | None = None


class Terminated(View, frozen=True):
    """`state.terminated`."""

    exit_code: int = 0
    reason: str = ""
    finished_at: datetime | None = None


class ContainerStateView(View, frozen=True):
    """`state` of a container."""

    running: RunningView | None = None
    terminated: Terminated | None = None


class ContainerStatusView(View, frozen=True):
    """An entry of `status.containerStatuses`."""

    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerStateView = ContainerStateView()


class PodStatusView(View, frozen=True):
    """`status` of a pod."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[ConditionView, ...] = ()
    container_statuses: tuple[ContainerStatusView, ...] = ()
    start_time: datetime | None = None
    nominated_node_name: str = ""
    pod_ip: str = field(default="", name="podIP")
    resource_claim_statuses: tuple[PodClaimStatus, ...] = ()
    extended_resource_claim_status: ExtendedClaimStatus | None = None


class PodObjectView(View, frozen=True):
    """A pod."""

    metadata: Meta
    spec: PodSpecView = PodSpecView()
    status: PodStatusView = PodStatusView()

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
    def ready_condition(self) -> ConditionView | None:
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
