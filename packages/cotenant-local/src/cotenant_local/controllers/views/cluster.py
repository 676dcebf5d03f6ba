"""Views of disruption budgets, namespaces and storage objects. Choice and limits as in `views/core.py`."""

from __future__ import annotations

from datetime import datetime

from msgspec import field

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.controllers.views.core import ConditionView, Meta, SelectorView, View
from cotenant_local.controllers.views.pods import NodeSelectorView, ResourcesView


class BudgetSpecView(View, frozen=True):
    """`spec` of a PodDisruptionBudget."""

    selector: SelectorView | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class BudgetStatusView(View, frozen=True):
    """`status` of a PodDisruptionBudget."""

    observed_generation: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    disruptions_allowed: int = 0
    expected_pods: int = 0
    disrupted_pods: dict[str, datetime] = field(default_factory=dict)
    conditions: tuple[ConditionView, ...] = ()


class BudgetView(View, frozen=True):
    """A PodDisruptionBudget."""

    metadata: Meta
    spec: BudgetSpecView = BudgetSpecView()
    status: BudgetStatusView = BudgetStatusView()


class NamespaceSpec(View, frozen=True):
    """`spec` of a Namespace."""

    finalizers: tuple[str, ...] = ()


class NamespaceView(View, frozen=True):
    """A Namespace."""

    metadata: Meta
    spec: NamespaceSpec = NamespaceSpec()


class ClaimReference(View, frozen=True):
    """`claimRef` of a volume."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeAffinityView(View, frozen=True):
    """`nodeAffinity` of a volume: the nodes it is accessible from."""

    required: NodeSelectorView | None = None


class VolumeSpecView(View, frozen=True):
    """`spec` of a PersistentVolume."""

    capacity: dict[str, str | int | float] = field(default_factory=dict)
    access_modes: tuple[str, ...] = ()
    storage_class_name: str = ""
    claim_ref: ClaimReference | None = None
    persistent_volume_reclaim_policy: str = "Retain"
    volume_mode: str = "Filesystem"
    node_affinity: VolumeAffinityView | None = None


class PhaseStatusView(View, frozen=True):
    """A status with only a phase."""

    phase: str = ""


class PersistentVolumeView(View, frozen=True):
    """A PersistentVolume."""

    metadata: Meta
    spec: VolumeSpecView = VolumeSpecView()
    status: PhaseStatusView = PhaseStatusView()


class VolumeClaimSpec(View, frozen=True):
    """`spec` of a PersistentVolumeClaim."""

    access_modes: tuple[str, ...] = ()
    resources: ResourcesView = ResourcesView()
    storage_class_name: str | None = None
    volume_name: str = ""
    volume_mode: str = "Filesystem"
    selector: SelectorView | None = None


class VolumeClaimView(View, frozen=True):
    """A PersistentVolumeClaim."""

    metadata: Meta
    spec: VolumeClaimSpec = VolumeClaimSpec()
    status: PhaseStatusView = PhaseStatusView()


class StorageClassView(View, frozen=True):
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
