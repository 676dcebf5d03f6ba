"""Pod, as a scheduler decodes it: the fields that concern placement, and the annotations that mean something to it.

Limits: annotations that are not named here, often kilobytes, are skipped; an agent's view of its own pods, with all
annotations, is `on_node.py`.
Source: Kubernetes API reference (Pod), v1.36.
"""

from __future__ import annotations

from msgspec import field

from cotenant.drivers.kube.kinds.kind import ApiStruct, Int32, Int64, Kind, Quantities, Strings, Text, Time
from cotenant.drivers.kube.kinds.parts import Condition, NamedPart, OwnerReference, Resources, Something
from cotenant.drivers.kube.kinds.pod.affinity import Affinity, ApiSpreadConstraint
from cotenant.drivers.kube.kinds.pod.gang import GangAnnotations
from cotenant.drivers.kube.kinds.storage.inline_disks import ISCSI, RBD, AWSElasticBlockStore, GCEPersistentDisk
from cotenant.drivers.kube.kinds.taints import ApiToleration
from cotenant.model.cluster import annotations as names
from cotenant.model.cluster.demands import GPU_SHARE
from cotenant.model.cluster.seal import SEAL, SETTLED
from cotenant.model.cpus.spec import NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC, RESOURCE_STATUS
from cotenant.model.devices.allocation import DEVICE_ALLOCATED
from cotenant.model.devices.card_need import GPU_NEED
from cotenant.model.devices.hints import ALLOCATE_HINT, JOINT_ALLOCATE, PARTITION_SPEC
from cotenant.model.groups.kueue import WORKLOAD as KUEUE_WORKLOAD
from cotenant.model.groups.reservation_notes import AFFINITY, ALLOCATED, EXACT_MATCH, PRE_ALLOCATABLE_PRIORITY


class PodAnnotations(GangAnnotations, frozen=True):
    """The annotations of a pod that mean something to a scheduler. Others, often kilobytes, are skipped."""

    tenant: Text = field(default=None, name=names.TENANT)
    objective_p99_ms: Text = field(default=None, name=names.OBJECTIVE_P99_MS)
    estimate: Text = field(default=None, name=names.ESTIMATE)
    deadline: Text = field(default=None, name=names.DEADLINE)
    group: Text = field(default=None, name=names.GROUP)
    group_limit: Text = field(default=None, name=names.GROUP_LIMIT)
    load_limit: Text = field(default=None, name=names.LOAD_LIMIT)
    expected_room: Text = field(default=None, name=names.EXPECTED_ROOM)
    resource_spec: Text = field(default=None, name=RESOURCE_SPEC)
    resource_status: Text = field(default=None, name=RESOURCE_STATUS)
    numa_topology_spec: Text = field(default=None, name=NUMA_TOPOLOGY_SPEC)
    device_allocate_hint: Text = field(default=None, name=ALLOCATE_HINT)
    device_joint_allocate: Text = field(default=None, name=JOINT_ALLOCATE)
    gpu_partition_spec: Text = field(default=None, name=PARTITION_SPEC)
    device_allocated: Text = field(default=None, name=DEVICE_ALLOCATED)
    reservation_affinity: Text = field(default=None, name=AFFINITY)
    exact_match_reservation: Text = field(default=None, name=EXACT_MATCH)
    pre_allocatable_priority: Text = field(default=None, name=PRE_ALLOCATABLE_PRIORITY)
    reservation_allocated: Text = field(default=None, name=ALLOCATED)
    gpu_share: Text = field(default=None, name=GPU_SHARE)
    gpu_need: Text = field(default=None, name=GPU_NEED)
    seal: Text = field(default=None, name=SEAL)
    extended_spec: Text = field(default=None, name=names.EXTENDED_SPEC)
    settled: Text = field(default=None, name=SETTLED)
    kueue_workload: Text = field(default=None, name=KUEUE_WORKLOAD)
    do_not_disrupt: Text = field(default=None, name=names.DO_NOT_DISRUPT)
    safe_to_evict: Text = field(default=None, name=names.SAFE_TO_EVICT)
    prefer_no_eviction: Text = field(default=None, name=names.PREFER_NO_EVICTION)


class PodMeta(ApiStruct, frozen=True):
    """ObjectMeta with a pod's annotations."""

    name: Text = None
    namespace: Text = None
    uid: Text = None
    resource_version: Text = None
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: Int64 | None = None
    labels: Strings = None
    annotations: PodAnnotations | None = None
    owner_references: tuple[OwnerReference, ...] | None = None


class ContainerPort(ApiStruct, frozen=True):
    """A port; only host ports concern a node."""

    container_port: Int32 = 0
    host_port: Int32 | None = None
    protocol: Text = None
    host_ip: Text = field(default=None, name="hostIP")


class Container(ApiStruct, frozen=True):
    """A container or an init container."""

    name: str = ""
    image: Text = None
    resources: Resources | None = None
    ports: tuple[ContainerPort, ...] | None = None
    restart_policy: Text = None


class ClaimVolume(ApiStruct, frozen=True):
    """PersistentVolumeClaimVolumeSource."""

    claim_name: str = ""


class Volume(ApiStruct, frozen=True):
    """A volume, as far as it restricts the node: other sources need nothing of it."""

    name: str = ""
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: Something | None = None
    gce_persistent_disk: GCEPersistentDisk | None = None
    aws_elastic_block_store: AWSElasticBlockStore | None = None
    iscsi: ISCSI | None = None
    rbd: RBD | None = None


class SchedulingGroup(ApiStruct, frozen=True):
    """The PodGroup of the upstream Workload API that the pod belongs to."""

    pod_group_name: Text = None


class PodClaim(ApiStruct, frozen=True):
    """A claim that the pod needs: one that exists, or one made for it from a template."""

    name: str = ""
    resource_claim_name: Text = None
    resource_claim_template_name: Text = None


class MadeClaim(ApiStruct, frozen=True):
    """The claim that was made for a pod; without a name none is needed."""

    name: str = ""
    resource_claim_name: Text = None


class PodSpec(ApiStruct, frozen=True):
    """What a pod requests."""

    node_name: Text = None
    scheduler_name: Text = None
    priority: Int32 | None = None
    preemption_policy: Text = None
    termination_grace_period_seconds: Int64 | None = None
    node_selector: Strings = None
    affinity: Affinity | None = None
    tolerations: tuple[ApiToleration, ...] | None = None
    topology_spread_constraints: tuple[ApiSpreadConstraint, ...] | None = None
    containers: tuple[Container, ...] | None = None
    init_containers: tuple[Container, ...] | None = None
    overhead: Quantities = None
    resources: Resources | None = None
    host_network: bool | None = None
    volumes: tuple[Volume, ...] | None = None
    scheduling_gates: tuple[NamedPart, ...] | None = None
    resource_claims: tuple[PodClaim, ...] | None = None
    workload_ref: Something | None = None
    scheduling_group: SchedulingGroup | None = None
    eviction_responders: tuple[NamedPart, ...] | None = None


class ContainerStatus(ApiStruct, frozen=True):
    """What a container has on its node while it is resized in place."""

    name: str = ""
    allocated_resources: Quantities = None
    resources: Resources | None = None


class PodStatus(ApiStruct, frozen=True):
    """The status of a pod. `resources` and `allocated_resources`: of the pod as a whole."""

    phase: Text = None
    nominated_node_name: Text = None
    reason: Text = None
    start_time: Time | None = None
    conditions: tuple[Condition, ...] | None = None
    allocated_resources: Quantities = None
    resources: Resources | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None
    resource_claim_statuses: tuple[MadeClaim, ...] | None = None


class PodObject(ApiStruct, frozen=True):
    """v1 Pod."""

    metadata: PodMeta = PodMeta()
    spec: PodSpec | None = None
    status: PodStatus | None = None


PODS = Kind("Pod", "", "v1", "pods", True, PodObject)
