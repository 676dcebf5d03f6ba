"""API objects as typed structs of only the fields that are used.

Problem: a Pod of 3 KB becomes 8 to 22 KiB as a dict or as a generated model, and costs 200 us to read; a scheduler needs a few dozen of its
fields. Choice: frozen msgspec structs that name exactly those; what is not named is skipped by the decoder without being built. A null means
absent everywhere, as it does to Kubernetes. `Kind` ties a struct to its place in the API.
Limits: fields not named here are lost, so such a struct is never written back as an update of a foreign object: those go by patch.
Source: Kubernetes API reference, v1.36.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Generic, TypeVar
from urllib.parse import quote

from msgspec import Meta, Struct, field

from cotenant.model.cluster import annotations as names
from cotenant.model.cpus.spec import NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC, RESOURCE_STATUS
from cotenant.model.devices.allocation import DEVICE_ALLOCATED
from cotenant.model.devices.hints import ALLOCATE_HINT, JOINT_ALLOCATE, PARTITION_SPEC
from cotenant.model.groups import gang
from cotenant.model.groups.reservation_notes import AFFINITY, ALLOCATED

Text = str | None
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]  # what the API gives such fields
Time = Annotated[datetime, Meta(tz=True)]
Quantities = dict[str, str | int | float] | None
Strings = dict[str, str] | None


class _Object(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False):
    """What all structs have in common: unknown fields are skipped, defaults are not written."""


class Something(_Object, frozen=True):
    """An object of which only the presence matters."""


class OwnerReference(_Object, frozen=True):
    """Who made an object."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None


class ObjectMeta(_Object, frozen=True):
    """Who an object is. `resource_version` is opaque by the API conventions; versions are compared only where both are numbers."""

    name: Text = None
    generate_name: Text = None
    namespace: Text = None
    uid: Text = None
    resource_version: Text = None
    generation: int | None = None
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    labels: Strings = None
    annotations: Strings = None
    owner_references: tuple[OwnerReference, ...] | None = None


class GangAnnotations(_Object, frozen=True):
    """What a pod and a PodGroup may both say of a gang."""

    gang_name: Text = field(default=None, name=gang.NAME)
    gang_min_available: Text = field(default=None, name=gang.MIN_AVAILABLE)
    gang_total_number: Text = field(default=None, name=gang.TOTAL_NUMBER)
    gang_waiting_time: Text = field(default=None, name=gang.WAITING_TIME)
    gang_mode: Text = field(default=None, name=gang.MODE)
    gang_groups: Text = field(default=None, name=gang.GROUPS)
    gang_match_policy: Text = field(default=None, name=gang.MATCH_POLICY)
    gang_topology: Text = field(default=None, name=gang.TOPOLOGY)


class PodAnnotations(GangAnnotations, frozen=True):
    """The annotations of a pod that mean something to a scheduler. Others, often kilobytes, are skipped."""

    tenant: Text = field(default=None, name=names.TENANT)
    objective_p99_ms: Text = field(default=None, name=names.OBJECTIVE_P99_MS)
    estimate: Text = field(default=None, name=names.ESTIMATE)
    deadline: Text = field(default=None, name=names.DEADLINE)
    group: Text = field(default=None, name=names.GROUP)
    group_limit: Text = field(default=None, name=names.GROUP_LIMIT)
    load_limit: Text = field(default=None, name=names.LOAD_LIMIT)
    resource_spec: Text = field(default=None, name=RESOURCE_SPEC)
    resource_status: Text = field(default=None, name=RESOURCE_STATUS)
    numa_topology_spec: Text = field(default=None, name=NUMA_TOPOLOGY_SPEC)
    device_allocate_hint: Text = field(default=None, name=ALLOCATE_HINT)
    device_joint_allocate: Text = field(default=None, name=JOINT_ALLOCATE)
    gpu_partition_spec: Text = field(default=None, name=PARTITION_SPEC)
    device_allocated: Text = field(default=None, name=DEVICE_ALLOCATED)
    reservation_affinity: Text = field(default=None, name=AFFINITY)
    reservation_allocated: Text = field(default=None, name=ALLOCATED)


class PodMeta(_Object, frozen=True):
    """ObjectMeta with a pod's annotations."""

    name: Text = None
    namespace: Text = None
    uid: Text = None
    resource_version: Text = None
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    labels: Strings = None
    annotations: PodAnnotations | None = None
    owner_references: tuple[OwnerReference, ...] | None = None


class Expression(_Object, frozen=True):
    """One expression over a label or a field."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class Selector(_Object, frozen=True):
    """LabelSelector."""

    match_labels: Strings = None
    match_expressions: tuple[Expression, ...] | None = None


class SelectorTerm(_Object, frozen=True):
    """NodeSelectorTerm."""

    match_expressions: tuple[Expression, ...] | None = None
    match_fields: tuple[Expression, ...] | None = None


class NodeSelector(_Object, frozen=True):
    """Terms of which one must hold."""

    node_selector_terms: tuple[SelectorTerm, ...] | None = None


class PreferredNodes(_Object, frozen=True):
    """PreferredSchedulingTerm."""

    weight: Int32 = 0
    preference: SelectorTerm | None = None


class NodeAffinity(_Object, frozen=True):
    """Demands and wishes about nodes."""

    required: NodeSelector | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[PreferredNodes, ...] | None = field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(_Object, frozen=True):
    """Which pods, in which topology."""

    topology_key: str = ""
    label_selector: Selector | None = None
    namespaces: tuple[str, ...] | None = None
    namespace_selector: Selector | None = None
    match_label_keys: tuple[str, ...] | None = None
    mismatch_label_keys: tuple[str, ...] | None = None


class WeightedPodTerm(_Object, frozen=True):
    """A preferred PodAffinityTerm."""

    weight: Int32 = 0
    pod_affinity_term: PodAffinityTerm | None = None


class PodAffinity(_Object, frozen=True):
    """Demands and wishes about neighbours; the same form for affinity and anti-affinity."""

    required: tuple[PodAffinityTerm, ...] | None = field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[WeightedPodTerm, ...] | None = field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(_Object, frozen=True):
    """The three affinities of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class SpreadConstraint(_Object, frozen=True):
    """TopologySpreadConstraint."""

    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: Selector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: Text = None
    node_taints_policy: Text = None
    match_label_keys: tuple[str, ...] | None = None


class Toleration(_Object, frozen=True):
    """Toleration, without tolerationSeconds: it does not concern placement."""

    key: Text = None
    operator: Text = None
    value: Text = None
    effect: Text = None


class ContainerPort(_Object, frozen=True):
    """A port; only host ports concern a node."""

    container_port: Int32 = 0
    host_port: Int32 | None = None
    protocol: Text = None
    host_ip: Text = field(default=None, name="hostIP")


class Resources(_Object, frozen=True):
    """ResourceRequirements."""

    requests: Quantities = None
    limits: Quantities = None
    claims: tuple[Something, ...] | None = None


class Container(_Object, frozen=True):
    """A container or an init container."""

    name: str = ""
    resources: Resources | None = None
    ports: tuple[ContainerPort, ...] | None = None
    restart_policy: Text = None


class ClaimVolume(_Object, frozen=True):
    """PersistentVolumeClaimVolumeSource."""

    claim_name: str = ""


class Volume(_Object, frozen=True):
    """A volume, as far as it restricts the node: other sources need nothing of it."""

    name: str = ""
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: Something | None = None
    gce_persistent_disk: Something | None = None
    aws_elastic_block_store: Something | None = None
    azure_disk: Something | None = None
    iscsi: Something | None = None
    rbd: Something | None = None


class Named(_Object, frozen=True):
    """Something with a name: a scheduling gate, a resource claim."""

    name: str = ""


class PodSpec(_Object, frozen=True):
    """What a pod asks for."""

    node_name: Text = None
    scheduler_name: Text = None
    priority: Int32 | None = None
    preemption_policy: Text = None
    node_selector: Strings = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] | None = None
    topology_spread_constraints: tuple[SpreadConstraint, ...] | None = None
    containers: tuple[Container, ...] | None = None
    init_containers: tuple[Container, ...] | None = None
    overhead: Quantities = None
    resources: Resources | None = None
    host_network: bool | None = None
    volumes: tuple[Volume, ...] | None = None
    scheduling_gates: tuple[Named, ...] | None = None
    resource_claims: tuple[Named, ...] | None = None
    workload_ref: Something | None = None
    scheduling_group: Something | None = None


class ContainerStatus(_Object, frozen=True):
    """What a container has on its node while it is resized in place."""

    name: str = ""
    allocated_resources: Quantities = None
    resources: Resources | None = None


class PodCondition(_Object, frozen=True):
    """A condition of a pod or a node."""

    type: str = ""
    status: str = ""
    reason: Text = None


class PodStatus(_Object, frozen=True):
    """How far a pod has come."""

    phase: Text = None
    nominated_node_name: Text = None
    start_time: Time | None = None
    conditions: tuple[PodCondition, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None


class Pod(_Object, frozen=True):
    """v1 Pod."""

    metadata: PodMeta = PodMeta()
    spec: PodSpec | None = None
    status: PodStatus | None = None


class Taint(_Object, frozen=True):
    """A node's taint."""

    key: str = ""
    value: Text = None
    effect: str = ""


class NodeSpec(_Object, frozen=True):
    """What an administrator says of a node."""

    unschedulable: bool | None = None
    taints: tuple[Taint, ...] | None = None


class NodeStatus(_Object, frozen=True):
    """What a node says of itself."""

    allocatable: Quantities = None
    capacity: Quantities = None
    conditions: tuple[PodCondition, ...] | None = None


class NodeObject(_Object, frozen=True):
    """v1 NodeObject."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class ObjectReference(_Object, frozen=True):
    """A reference to another object."""

    api_version: Text = None
    kind: Text = None
    namespace: Text = None
    name: Text = None
    uid: Text = None
    resource_version: Text = None


class VolumeNodeAffinity(_Object, frozen=True):
    """Where a volume can be reached from."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(_Object, frozen=True):
    """A volume that exists."""

    capacity: Quantities = None
    access_modes: tuple[str, ...] | None = None
    claim_ref: ObjectReference | None = None
    storage_class_name: Text = None
    volume_mode: Text = None
    node_affinity: VolumeNodeAffinity | None = None


class PhaseStatus(_Object, frozen=True):
    """A status of which only the phase is used."""

    phase: Text = None


class PersistentVolume(_Object, frozen=True):
    """v1 PersistentVolume."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec | None = None
    status: PhaseStatus | None = None


class PersistentVolumeClaimSpec(_Object, frozen=True):
    """What a claim asks for."""

    access_modes: tuple[str, ...] | None = None
    selector: Selector | None = None
    resources: Resources | None = None
    volume_name: Text = None
    storage_class_name: Text = None
    volume_mode: Text = None


class PersistentVolumeClaim(_Object, frozen=True):
    """v1 PersistentVolumeClaim."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec | None = None
    status: PhaseStatus | None = None


class TopologyTerm(_Object, frozen=True):
    """TopologySelectorTerm: all its expressions hold."""

    match_label_expressions: tuple[Expression, ...] | None = None


class StorageClass(_Object, frozen=True):
    """storage.k8s.io/v1 StorageClass."""

    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    volume_binding_mode: Text = None
    allowed_topologies: tuple[TopologyTerm, ...] | None = None


class BudgetSpec(_Object, frozen=True):
    """Whom a budget covers."""

    selector: Selector | None = None


class BudgetStatus(_Object, frozen=True):
    """What a budget has left."""

    disruptions_allowed: Int32 | None = None
    disrupted_pods: dict[str, str] | None = None
    observed_generation: int | None = None


class PodDisruptionBudget(_Object, frozen=True):
    """policy/v1 PodDisruptionBudget."""

    metadata: ObjectMeta = ObjectMeta()
    spec: BudgetSpec | None = None
    status: BudgetStatus | None = None


class Namespace(_Object, frozen=True):
    """v1 Namespace."""

    metadata: ObjectMeta = ObjectMeta()
    status: PhaseStatus | None = None


class PriorityClass(_Object, frozen=True):
    """scheduling.k8s.io/v1 PriorityClass."""

    metadata: ObjectMeta = ObjectMeta()
    value: Int32 = 0
    global_default: bool | None = None
    preemption_policy: Text = None


class LeaseSpec(_Object, frozen=True):
    """Who holds a lease. Times are MicroTime text: they are written, shown, and never compared with our clock."""

    holder_identity: Text = None
    lease_duration_seconds: Int32 | None = None
    acquire_time: Text = None
    renew_time: Text = None
    lease_transitions: Int32 | None = None


class Lease(_Object, frozen=True):
    """coordination.k8s.io/v1 Lease."""

    api_version: str = "coordination.k8s.io/v1"
    kind: str = "Lease"
    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec | None = None


class EventSource(_Object, frozen=True):
    """Which component speaks."""

    component: str = ""


class Event(_Object, frozen=True):
    """v1 Event."""

    metadata: ObjectMeta
    involved_object: ObjectReference
    reason: str
    message: str
    type: str
    count: Int32 = 1
    first_timestamp: Text = None
    last_timestamp: Text = None
    source: EventSource = EventSource()
    reporting_component: str = ""
    reporting_instance: str = ""


class Cause(_Object, frozen=True):
    """One field that the server refuses."""

    field: Text = None
    reason: Text = None
    message: Text = None


class StatusDetails(_Object, frozen=True):
    """More about a failure."""

    name: Text = None
    kind: Text = None
    causes: tuple[Cause, ...] | None = None
    retry_after_seconds: Int32 | None = None


class Status(_Object, frozen=True):
    """v1 Status: how a request ended."""

    status: Text = None
    message: Text = None
    reason: Text = None
    code: Int32 | None = None
    details: StatusDetails | None = None


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """A kind of object and its place in the API: `group` is empty for the core group; `form` is its struct here."""

    name: str
    group: str
    version: str
    plural: str
    namespaced: bool
    form: type[T]

    @property
    def api_version(self) -> str:
        """As objects say it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of the collection, of one object, or of its subresource. No namespace = all of them."""
        path = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if self.namespaced and namespace:
            path += f"/namespaces/{quote(namespace, safe='')}"
        path += f"/{self.plural}"
        if name:
            path += f"/{quote(name, safe='')}"
        return f"{path}/{subresource}" if subresource else path


PODS = Kind("Pod", "", "v1", "pods", True, Pod)
NODES = Kind("Node", "", "v1", "nodes", False, NodeObject)
NAMESPACES = Kind("Namespace", "", "v1", "namespaces", False, Namespace)
EVENTS = Kind("Event", "", "v1", "events", True, Event)
PERSISTENT_VOLUMES = Kind("PersistentVolume", "", "v1", "persistentvolumes", False, PersistentVolume)
PERSISTENT_VOLUME_CLAIMS = Kind(
    "PersistentVolumeClaim", "", "v1", "persistentvolumeclaims", True, PersistentVolumeClaim
)
STORAGE_CLASSES = Kind("StorageClass", "storage.k8s.io", "v1", "storageclasses", False, StorageClass)
POD_DISRUPTION_BUDGETS = Kind("PodDisruptionBudget", "policy", "v1", "poddisruptionbudgets", True, PodDisruptionBudget)
PRIORITY_CLASSES = Kind("PriorityClass", "scheduling.k8s.io", "v1", "priorityclasses", False, PriorityClass)
LEASES = Kind("Lease", "coordination.k8s.io", "v1", "leases", True, Lease)
