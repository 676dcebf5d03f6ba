"""The kinds that a copy of a cluster has, and what is kept of each.

Those that a scheduler and a rebalancer read, and the quotas of namespaces. Of workloads of declared kinds numbers are
kept (declared.py).
`deploy/assess/rbac.yaml` grants exactly these; a test compares both with the requests that are sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from cotenant.drivers.kube.kinds.claims import schema
from cotenant.drivers.kube.kinds.custom.cluster_network_topology import NETWORK_TOPOLOGIES
from cotenant.drivers.kube.kinds.custom.device import DEVICES
from cotenant.drivers.kube.kinds.custom.elastic_quota import ELASTIC_QUOTAS, X_ELASTIC_QUOTAS
from cotenant.drivers.kube.kinds.custom.node_metric import NODE_METRICS
from cotenant.drivers.kube.kinds.custom.node_resource_topology import NODE_TOPOLOGIES
from cotenant.drivers.kube.kinds.custom.objective_status import OBJECTIVE_STATUSES
from cotenant.drivers.kube.kinds.custom.pod_group import POD_GROUPS, X_POD_GROUPS
from cotenant.drivers.kube.kinds.custom.reservation import PARTS, RESERVATIONS
from cotenant.drivers.kube.kinds.custom.workload_pod_group import (
    ALPHA2_POD_GROUPS,
    ALPHA3_POD_GROUPS,
    BETA_POD_GROUPS,
    COMPOSITE_POD_GROUPS,
)
from cotenant.drivers.kube.kinds.custom.workload_profile import WORKLOAD_PROFILES
from cotenant.drivers.kube.kinds.kind import AnyKind
from cotenant.drivers.kube.kinds.kueue_workload import KUEUE_BETA1, KUEUE_BETA2
from cotenant.drivers.kube.kinds.namespace import NAMESPACES
from cotenant.drivers.kube.kinds.node import NODES
from cotenant.drivers.kube.kinds.pod.eviction import EVICTION_PODS
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.drivers.kube.kinds.pod_disruption_budget import POD_DISRUPTION_BUDGETS
from cotenant.drivers.kube.kinds.priority_class import PRIORITY_CLASSES
from cotenant.drivers.kube.kinds.resource_quota import RESOURCE_QUOTAS
from cotenant.drivers.kube.kinds.storage.csi import (
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    VOLUME_ATTACHMENTS,
)
from cotenant.drivers.kube.kinds.storage.persistent_volume import PERSISTENT_VOLUMES
from cotenant.drivers.kube.kinds.storage.persistent_volume_claim import PERSISTENT_VOLUME_CLAIMS
from cotenant.drivers.kube.kinds.storage.storage_class import STORAGE_CLASSES
from cotenant.drivers.kube.kinds.workload.declarations import packaged
from cotenant.drivers.kube.kinds.workload.objects import kind_of
from cotenant.drivers.kube.kinds.workloads import JOBS, REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS
from cotenant.drivers.kube.snapshot.declared import CopiedNumbers
from cotenant.drivers.kube.snapshot.fields import Fields, fields_of
from cotenant.model.groups.workload_kind import WorkloadKind


@dataclass(frozen=True)
class CopiedKind:
    """A kind with every struct that its objects are decoded into. `needed`: nothing can be said without it.
    `declared`: how it was declared as a kind of workload.
    """

    kind: AnyKind
    also: tuple[AnyKind, ...] = ()
    needed: bool = False
    declared: WorkloadKind | None = None

    @property
    def key(self) -> str:
        """Its place in the API: group/version/plural, without a group for the core."""
        return key_of(self.kind)

    @cached_property
    def fields(self) -> Fields:
        """What is kept of its objects."""
        forms = [self.kind.form, *(kind.form for kind in self.also)]
        if self.declared is not None:
            return fields_of(*forms, instead={"status": CopiedNumbers})
        return fields_of(*forms, instead=PARTS if self.kind is RESERVATIONS else None)


def key_of(kind: AnyKind) -> str:
    """The place of a kind in the API, as text."""
    return f"{kind.api_version}/{kind.plural}"


def copied_workloads(kinds: Iterable[WorkloadKind]) -> dict[str, CopiedKind]:
    """Declared kinds, by key."""
    found = [CopiedKind(kind_of(kind), declared=kind) for kind in kinds]
    return {copied.key: copied for copied in found}


def _kinds() -> Iterable[CopiedKind]:
    yield CopiedKind(NODES, needed=True)
    yield CopiedKind(PODS, (EVICTION_PODS,), needed=True)
    for kind in (
        REPLICA_SETS,
        STATEFUL_SETS,
        REPLICATION_CONTROLLERS,
        JOBS,
        NAMESPACES,
        RESOURCE_QUOTAS,
        POD_DISRUPTION_BUDGETS,
        PRIORITY_CLASSES,
        PERSISTENT_VOLUMES,
        PERSISTENT_VOLUME_CLAIMS,
        STORAGE_CLASSES,
        CSI_DRIVERS,
        CSI_NODES,
        CSI_STORAGE_CAPACITIES,
        VOLUME_ATTACHMENTS,
        NODE_TOPOLOGIES,
        DEVICES,
        NODE_METRICS,
        ELASTIC_QUOTAS,
        X_ELASTIC_QUOTAS,
        RESERVATIONS,
        NETWORK_TOPOLOGIES,
        POD_GROUPS,
        X_POD_GROUPS,
        BETA_POD_GROUPS,
        ALPHA3_POD_GROUPS,
        ALPHA2_POD_GROUPS,
        COMPOSITE_POD_GROUPS,
        WORKLOAD_PROFILES,
        OBJECTIVE_STATUSES,
        KUEUE_BETA2,
        KUEUE_BETA1,
    ):
        yield CopiedKind(kind)
    for version in schema.VERSIONS:
        yield CopiedKind(schema.claims(version))
        yield CopiedKind(schema.device_classes(version))
        yield CopiedKind(schema.slices(version))
    for version in ("v1beta2", "v1alpha3"):
        yield CopiedKind(schema.taint_rules(version))
    yield from copied_workloads(packaged()).values()


COPIED: dict[str, CopiedKind] = {copied.key: copied for copied in _kinds()}
BY_OBJECT: dict[tuple[str, str], CopiedKind] = {
    (copied.kind.api_version, copied.kind.name): copied for copied in COPIED.values()
}
