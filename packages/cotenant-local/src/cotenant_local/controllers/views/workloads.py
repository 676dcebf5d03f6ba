"""Views of workloads: Deployments, ReplicaSets, StatefulSets, DaemonSets and Jobs.

Choice and limits as in `views/core.py`: frozen structs of the fields acted on; templates are only copied and stay as
`Manifest`.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import field

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant.model.json_object import JsonValue
from cotenant_local.controllers.views.core import ConditionView, Meta, SelectorView, View
from cotenant_local.controllers.views.pods import PodClaimStatus, PodClaimView


class RollingUpdateView(View, frozen=True):
    """`rollingUpdate` of any kind."""

    max_surge: int | str | None = None
    max_unavailable: int | str | None = None
    partition: int | None = None


class StrategyView(View, frozen=True):
    """`strategy` or `updateStrategy`."""

    type: str = "RollingUpdate"
    rolling_update: RollingUpdateView | None = None


class DeploymentSpecView(View, frozen=True):
    """`spec` of a Deployment."""

    selector: SelectorView = SelectorView()
    template: Manifest = field(default_factory=dict)
    replicas: int = 1
    strategy: StrategyView = StrategyView()
    min_ready_seconds: int = 0
    revision_history_limit: int = 10
    paused: bool = False
    progress_deadline_seconds: int | None = 600


class DeploymentStatus(View, frozen=True):
    """`status` of a Deployment."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    collision_count: int = 0
    conditions: tuple[ConditionView, ...] = ()


class DeploymentView(View, frozen=True):
    """A Deployment."""

    metadata: Meta
    spec: DeploymentSpecView = DeploymentSpecView()
    status: DeploymentStatus = DeploymentStatus()


class ReplicaSetSpec(View, frozen=True):
    """`spec` of a ReplicaSet."""

    selector: SelectorView = SelectorView()
    template: Manifest = field(default_factory=dict)
    replicas: int = 1
    min_ready_seconds: int = 0


class ReplicaSetStatus(View, frozen=True):
    """`status` of a ReplicaSet."""

    observed_generation: int = 0
    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    conditions: tuple[ConditionView, ...] = ()


class ReplicaSet(View, frozen=True):
    """A ReplicaSet."""

    metadata: Meta
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class ClaimRetention(View, frozen=True):
    """`persistentVolumeClaimRetentionPolicy`."""

    when_deleted: str = "Retain"
    when_scaled: str = "Retain"


class Ordinals(View, frozen=True):
    """`ordinals` of a StatefulSet."""

    start: int = 0


class StatefulSetSpec(View, frozen=True):
    """`spec` of a StatefulSet."""

    selector: SelectorView = SelectorView()
    template: Manifest = field(default_factory=dict)
    replicas: int = 1
    service_name: str = ""
    pod_management_policy: str = "OrderedReady"
    update_strategy: StrategyView = StrategyView()
    volume_claim_templates: tuple[Manifest, ...] = ()
    min_ready_seconds: int = 0
    revision_history_limit: int = 10
    persistent_volume_claim_retention_policy: ClaimRetention = ClaimRetention()
    ordinals: Ordinals = Ordinals()


class StatefulSetStatus(View, frozen=True):
    """`status` of a StatefulSet."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    collision_count: int = 0


class StatefulSet(View, frozen=True):
    """A StatefulSet."""

    metadata: Meta
    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class DaemonSetSpec(View, frozen=True):
    """`spec` of a DaemonSet."""

    selector: SelectorView = SelectorView()
    template: Manifest = field(default_factory=dict)
    update_strategy: StrategyView = StrategyView()
    min_ready_seconds: int = 0
    revision_history_limit: int = 10


class DaemonSetStatus(View, frozen=True):
    """`status` of a DaemonSet."""

    observed_generation: int = 0
    current_number_scheduled: int = 0
    number_misscheduled: int = 0
    desired_number_scheduled: int = 0
    number_ready: int = 0
    updated_number_scheduled: int = 0
    number_available: int = 0
    number_unavailable: int = 0
    collision_count: int = 0


class DaemonSet(View, frozen=True):
    """A DaemonSet."""

    metadata: Meta
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class ControllerRevision(View, frozen=True):
    """A ControllerRevision: a stored template of a StatefulSet or DaemonSet."""

    metadata: Meta
    revision: int = 0
    data: JsonValue = None


class JobSpecView(View, frozen=True):
    """`spec` of a Job."""

    selector: SelectorView = SelectorView()
    template: Manifest = field(default_factory=dict)
    parallelism: int = 1
    completions: int | None = None
    backoff_limit: int = 6
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    suspend: bool = False
    completion_mode: str = "NonIndexed"
    pod_replacement_policy: str = "TerminatingOrFailed"
    scheduling: Manifest | None = None


class JobStatusView(View, frozen=True):
    """`status` of a Job."""

    active: int = 0
    ready: int = 0
    terminating: int = 0
    succeeded: int = 0
    failed: int = 0
    start_time: datetime | None = None
    completion_time: datetime | None = None
    completed_indexes: str = ""
    conditions: tuple[ConditionView, ...] = ()


class JobView(View, frozen=True):
    """A Job."""

    metadata: Meta
    spec: JobSpecView = JobSpecView()
    status: JobStatusView = JobStatusView()


class GangPolicyView(View, frozen=True):
    """`schedulingPolicy.gang` of a PodGroup."""

    min_count: int = 0


class PolicyView(View, frozen=True):
    """`schedulingPolicy` of a PodGroup."""

    gang: GangPolicyView | None = None


class PodGroupSpecView(View, frozen=True):
    """`spec` of a PodGroup."""

    scheduling_policy: PolicyView = PolicyView()
    resource_claims: tuple[PodClaimView, ...] = ()


class PodGroupStatusView(View, frozen=True):
    """`status` of a PodGroup."""

    resource_claim_statuses: tuple[PodClaimStatus, ...] = ()


class PodGroupView(View, frozen=True):
    """A PodGroup of the Workload API."""

    metadata: Meta
    spec: PodGroupSpecView = PodGroupSpecView()
    status: PodGroupStatusView = PodGroupStatusView()

    @property
    def min_count(self) -> int | None:
        """The minimum of its gang; None with the basic policy."""
        gang = self.spec.scheduling_policy.gang
        return gang.min_count if gang is not None else None
