"""Views of disruption budgets, namespaces and storage objects. Choice and limits as in `views/core.py`."""

from __future__ import annotations

from datetime import datetime

from msgspec import field

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.controllers.views.core import Condition, Meta, Selector, View
from cotenant_local.controllers.views.pods import NodeSelectorView, Resources


class BudgetSpec(View, frozen=True):
    """`spec` of a PodDisruptionBudget."""

    selector: Selector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class BudgetStatus(View, frozen=True):
    """`status` of a PodDisruptionBudget."""

    observed_generation: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    disruptions_allowed: int = 0
    expected_pods: int = 0
    disrupted_pods: dict[str, datetime] = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()


class Budget(View, frozen=True):
    """A PodDisruptionBudget."""

    metadata: Meta
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()


class NamespaceSpec(View, frozen=True):
    """`spec` of a Namespace."""

    finalizers: tuple[str, ...] = ()


class Namespace(View, frozen=True):
    """A Namespace."""

    metadata: Meta
    spec: NamespaceSpec = NamespaceSpec()


class ClaimReference(View, frozen=True):
    """`claimRef` of a volume."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeNodeAffinity(View, frozen=True):
    """`nodeAffinity` of a volume: the nodes it is accessible from."""

    required: NodeSelectorView | None = None


class PersistentVolumeSpec(View, frozen=True):
    """`spec` of a PersistentVolume."""

    capacity: dict[str, str | int | float] = field(default_factory=dict)
    access_modes: tuple[str, ...] = ()
    storage_class_name: str = ""
    claim_ref: ClaimReference | None = None
    persistent_volume_reclaim_policy: str = "Retain"
    volume_mode: str = "Filesystem"
    node_affinity: VolumeNodeAffinity | None = None


class PhaseStatus(View, frozen=True):
    """A status with only a phase."""

    phase: str = ""


class PersistentVolume(View, frozen=True):
    """A PersistentVolume."""

    metadata: Meta
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PhaseStatus = PhaseStatus()


class PersistentVolumeClaimSpec(View, frozen=True):
    """`spec` of a PersistentVolumeClaim."""

    access_modes: tuple[str, ...] = ()
    resources: Resources = Resources()
    storage_class_name: str | None = None
    volume_name: str = ""
    volume_mode: str = "Filesystem"
    selector: Selector | None = None


class PersistentVolumeClaim(View, frozen=True):
    """A PersistentVolumeClaim."""

    metadata: Meta
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PhaseStatus = PhaseStatus()


class StorageClass(View, frozen=True):
    """A StorageClass."""

    metadata: Meta
    provisioner: str = ""
    reclaim_policy: str = "Delete"
    volume_binding_mode: str = "Immediate"


class ResourceQuotaSpec(View, frozen=True):
    """`spec` of a ResourceQuota."""

    hard: dict[str, str] = field(default_factory=dict)
    scopes: tuple[str, ...] = ()
    scope_selector: Manifest | None = None


class ResourceQuotaStatus(View, frozen=True):
    """`status` of a ResourceQuota."""

    hard: dict[str, str] = field(default_factory=dict)
    used: dict[str, str] = field(default_factory=dict)


class ResourceQuotaView(View, frozen=True):
    """A ResourceQuota."""

    metadata: Meta
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()
