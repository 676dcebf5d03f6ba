"""PodGroup and CompositePodGroup of the Workload API, scheduling.k8s.io: read as gangs and as groups of gangs; their
conditions are written.

Kubernetes 1.36 serves PodGroup as v1alpha2, 1.37 as v1beta1 and v1alpha3 and v1alpha2 no more; CompositePodGroup is in
v1alpha3 alone. The versions differ in the names of few fields, so one struct reads all of them. Workloads and their
templates are not read: controllers copy them into PodGroups.

Source: staging/src/k8s.io/api/scheduling/{v1alpha2,v1alpha3,v1beta1}/types.go of Kubernetes 1.36 and 1.37; KEP-4671,
5710, 5729, 5732, 6012.
"""

from __future__ import annotations

from datetime import UTC, datetime

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.kinds.kind import ApiStruct, Int32, Kind, Text
from cotenant.drivers.kube.kinds.parts import ObjectMeta, Something
from cotenant.model.claims.needs import GroupClaim
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.gang import (
    K8S_GROUP,
    CompositeGroup,
    Disruption,
    GangMode,
    GangNotes,
    GangPhase,
    GangTopology,
    MatchPolicy,
    PodGroup,
    PodGroupStatus,
)


class GangPolicy(ApiStruct, frozen=True):
    """All or nothing: of pods, or of groups."""

    min_count: Int32 | None = None
    min_group_count: Int32 | None = None


class SchedulingPolicy(ApiStruct, frozen=True):
    """Gang or, without it, basic."""

    gang: GangPolicy | None = None


class TopologyConstraint(ApiStruct, frozen=True):
    """One domain for all members."""

    key: Text = None


class SchedulingConstraints(ApiStruct, frozen=True):
    """At most one topology constraint."""

    topology: tuple[TopologyConstraint, ...] | None = None


class DisruptionModeChoice(ApiStruct, frozen=True):
    """Single or all."""

    all: Something | None = None


class WorkloadReference(ApiStruct, frozen=True):
    """The Workload that a group was made from."""

    workload_name: Text = None


class TemplateReference(ApiStruct, frozen=True):
    """The same in v1alpha2."""

    workload: WorkloadReference | None = None


class GroupClaimObject(ApiStruct, frozen=True):
    """A claim that the pods of a group share."""

    name: str = ""
    resource_claim_name: Text = None
    resource_claim_template_name: Text = None


class GroupSpec(ApiStruct, frozen=True):
    """That of a group of pods or of groups."""

    scheduling_policy: SchedulingPolicy | None = None
    scheduling_constraints: SchedulingConstraints | None = None
    disruption_mode: str | DisruptionModeChoice | None = None
    priority_class_name: Text = None
    priority: Int32 | None = None
    preemption_policy: Text = None
    parent_composite_pod_group_name: Text = None
    workload_ref: WorkloadReference | None = None
    pod_group_template_ref: TemplateReference | None = None
    resource_claims: tuple[GroupClaimObject, ...] | None = None

    @property
    def is_disrupted_whole(self) -> bool:
        """Whether what is in the group can be evicted together only."""
        mode = self.disruption_mode
        return mode == "PodGroup" if isinstance(mode, str) else mode is not None and mode.all is not None

    @property
    def workload(self) -> str:
        """The name of its Workload; empty if it has none."""
        before = self.pod_group_template_ref
        found = self.workload_ref or (before.workload if before is not None else None)
        return found.workload_name or "" if found is not None else ""

    @property
    def own_priority(self) -> int | None:
        """The priority that somebody asked for: admission writes 0 into every group without a class."""
        return self.priority if self.priority_class_name or self.priority else None


class GroupCondition(ApiStruct, frozen=True):
    """A condition."""

    type: str = ""
    status: str = ""


class GroupStatus(ApiStruct, frozen=True):
    """The conditions."""

    conditions: tuple[GroupCondition, ...] | None = None


class WorkloadPodGroupObject(ApiStruct, frozen=True):
    """A PodGroup or a CompositePodGroup."""

    metadata: ObjectMeta = ObjectMeta()
    spec: GroupSpec | None = None
    status: GroupStatus | None = None


_FORM = WorkloadPodGroupObject
COMPOSITE_POD_GROUPS = Kind("CompositePodGroup", K8S_GROUP, "v1alpha3", "compositepodgroups", True, _FORM)
BETA_POD_GROUPS = Kind("PodGroup", K8S_GROUP, "v1beta1", "podgroups", True, _FORM)
ALPHA3_POD_GROUPS = Kind("PodGroup", K8S_GROUP, "v1alpha3", "podgroups", True, _FORM)
ALPHA2_POD_GROUPS = Kind("PodGroup", K8S_GROUP, "v1alpha2", "podgroups", True, _FORM)
POD_GROUP_VERSIONS = {kind.version: kind for kind in (BETA_POD_GROUPS, ALPHA3_POD_GROUPS, ALPHA2_POD_GROUPS)}
"""The versions in which PodGroups are read, newest first."""


def scheduled_condition(version: str) -> str:
    """The condition of a PodGroup that says that its minimum had nodes."""
    return "PodGroupScheduled" if version == ALPHA2_POD_GROUPS.version else "PodGroupInitiallyScheduled"


def read_workload_pod_group(obj: WorkloadPodGroupObject, version: str = BETA_POD_GROUPS.version) -> PodGroup:
    """A gang's definition, from an object of a version. Raises `InvalidInput` for one without a name.

    With the basic policy each pod is placed by itself, once the group exists; where it has a topology key as well, in
    one domain with the others. With the gang policy the minimum counts at every decision, pods that are placed
    included, since it may change.
    """
    spec = obj.spec or GroupSpec()
    key = _key(obj, "PodGroup")
    gang = spec.scheduling_policy.gang if spec.scheduling_policy is not None else None
    topology, wrong = _topology_key(spec)
    notes = GangNotes(
        topology=GangTopology((topology,), True) if topology else None,
        mode=GangMode.STRICT if gang is not None or topology else GangMode.NON_STRICT,
        match_policy=MatchPolicy.WAITING_AND_RUNNING if gang is not None else None,
        wrong=wrong,
    )
    conditions = obj.status.conditions or () if obj.status is not None else ()
    condition = scheduled_condition(version)
    stored = next((found.status for found in conditions if found.type == condition), "")
    phase = {"True": GangPhase.SCHEDULED, "False": GangPhase.PENDING}.get(stored, GangPhase.NONE)
    meta, parent = obj.metadata, spec.parent_composite_pod_group_name
    return PodGroup(
        key=key,
        uid=meta.uid or "",
        created_s=_created_s(obj),
        min_member=gang.min_count if gang is not None else 1,
        wait_s=None,
        notes=notes,
        status=PodGroupStatus(key, meta.uid or "", phase, api_group=K8S_GROUP, version=version),
        api_group=K8S_GROUP,
        version=version,
        parent=f"{_namespace(obj)}/{parent}" if parent else "",
        workload=spec.workload,
        claims=tuple(
            GroupClaim(claim.name, claim.resource_claim_name or "", claim.resource_claim_template_name or "")
            for claim in spec.resource_claims or ()
        ),
        priority=spec.own_priority,
        preempts=spec.preemption_policy != "Never",
        disruption=Disruption.ALL if gang is not None and spec.is_disrupted_whole else Disruption.SINGLE,
        disrupted_with=(key,) if gang is not None and spec.is_disrupted_whole else (),
    )


def read_composite_pod_group(
    obj: WorkloadPodGroupObject, version: str = COMPOSITE_POD_GROUPS.version
) -> CompositeGroup:
    """A group of groups. Raises `InvalidInput` for one without a name."""
    spec = obj.spec or GroupSpec()
    key = _key(obj, "CompositePodGroup")
    gang = spec.scheduling_policy.gang if spec.scheduling_policy is not None else None
    topology, wrong = _topology_key(spec)
    parent = spec.parent_composite_pod_group_name
    return CompositeGroup(
        key=key,
        uid=obj.metadata.uid or "",
        created_s=_created_s(obj),
        version=version,
        min_groups=max(1, gang.min_group_count or 1) if gang is not None else None,
        parent=f"{_namespace(obj)}/{parent}" if parent else "",
        workload=spec.workload,
        topology_key=topology,
        all_together=spec.is_disrupted_whole,
        priority=spec.own_priority,
        preempts=spec.preemption_policy != "Never",
        wrong=wrong,
    )


async def write_workload_pod_group(client: Client, status: PodGroupStatus) -> None:
    """Write the condition of a PodGroup, in the version that was read, unless another object has its name by now."""
    namespace, _, name = status.key.partition("/")
    kind = next(
        found for found in (BETA_POD_GROUPS, ALPHA3_POD_GROUPS, ALPHA2_POD_GROUPS) if found.version == status.version
    )
    done = status.phase is GangPhase.SCHEDULED
    condition = {
        "type": scheduled_condition(kind.version),
        "status": "True" if done else "False",
        "reason": "Scheduled" if done else "Unschedulable",
        "message": "The minimum of pods got nodes." if done else "Fewer pods than the minimum have nodes.",
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    body: dict[str, object] = {"metadata": {"uid": status.uid}, "status": {"conditions": [condition]}}
    await client.patch_status(kind, namespace, name, body)


def _key(obj: WorkloadPodGroupObject, kind: str) -> str:
    meta = obj.metadata
    if not meta.name or not meta.uid:
        raise InvalidInput(kind, f"{meta.namespace}/{meta.name}", "a name and a UID")
    return f"{_namespace(obj)}/{meta.name}"


def _namespace(obj: WorkloadPodGroupObject) -> str:
    return obj.metadata.namespace or "default"


def _created_s(obj: WorkloadPodGroupObject) -> float:
    at = obj.metadata.creation_timestamp
    return at.timestamp() if at is not None else 0.0


def _topology_key(spec: GroupSpec) -> tuple[str, tuple[str, ...]]:
    """The key, and a sentence about others."""
    constraints = spec.scheduling_constraints or SchedulingConstraints()
    keys = [constraint.key for constraint in constraints.topology or () if constraint.key]
    wrong = (f"spec.schedulingConstraints.topology: only {keys[0]} is considered",) if len(keys) > 1 else ()
    return keys[0] if keys else "", wrong
