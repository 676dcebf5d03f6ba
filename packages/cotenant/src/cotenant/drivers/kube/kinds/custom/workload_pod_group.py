"""PodGroup of the upstream Workload API, scheduling.k8s.io/v1alpha2: read as a gang's definition; its condition is
written.

Problem: Kubernetes 1.36 has gangs of its own, whose pods name a PodGroup in `spec.schedulingGroup`. Choice: the group's
minimum, and its topology key, in one domain of which all members must be, are those of a Strict gang; a group with the
basic policy has a minimum of 1. The outcome is the condition `PodGroupScheduled`, merged by type. Limits: an alpha API
behind the feature gate GenericWorkload; Workloads and templates are not read, since controllers copy them into
PodGroups; v1alpha1 (`spec.workloadRef`, 1.35) is not supported.

Source: Kubernetes 1.36, staging/src/k8s.io/api/scheduling/v1alpha2/types.go; KEP-4671, KEP-5732.
"""

from __future__ import annotations

from datetime import UTC, datetime

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.kinds.kind import ApiStruct, Int32, Kind, Text
from cotenant.drivers.kube.kinds.parts import ObjectMeta
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.gang import K8S_GROUP, GangNotes, GangPhase, GangTopology, PodGroup, PodGroupStatus

SCHEDULED = "PodGroupScheduled"


class GangPolicy(ApiStruct, frozen=True):
    """All or nothing."""

    min_count: Int32 | None = None


class SchedulingPolicy(ApiStruct, frozen=True):
    """Gang or, without it, basic."""

    gang: GangPolicy | None = None


class TopologyConstraint(ApiStruct, frozen=True):
    """One domain for all members."""

    topology_key: Text = None


class SchedulingConstraints(ApiStruct, frozen=True):
    """At most one topology constraint."""

    topology_constraints: tuple[TopologyConstraint, ...] | None = None


class WorkloadPodGroupSpec(ApiStruct, frozen=True):
    """The policy and the constraints."""

    scheduling_policy: SchedulingPolicy | None = None
    scheduling_constraints: SchedulingConstraints | None = None


class GroupCondition(ApiStruct, frozen=True):
    """A condition."""

    type: str = ""
    status: str = ""


class WorkloadPodGroupStatus(ApiStruct, frozen=True):
    """The conditions."""

    conditions: tuple[GroupCondition, ...] | None = None


class WorkloadPodGroupObject(ApiStruct, frozen=True):
    """A PodGroup."""

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadPodGroupSpec | None = None
    status: WorkloadPodGroupStatus | None = None


WORKLOAD_POD_GROUPS = Kind("PodGroup", K8S_GROUP, "v1alpha2", "podgroups", True, WorkloadPodGroupObject)


def read_workload_pod_group(obj: WorkloadPodGroupObject) -> PodGroup:
    """A gang's definition. Raises `InvalidInput` for one without a name."""
    meta, spec = obj.metadata, obj.spec or WorkloadPodGroupSpec()
    if not meta.name or not meta.uid:
        raise InvalidInput("PodGroup", f"{meta.namespace}/{meta.name}", "a name and a UID")
    policy = spec.scheduling_policy or SchedulingPolicy()
    constraints = spec.scheduling_constraints or SchedulingConstraints()
    keys = [constraint.topology_key for constraint in constraints.topology_constraints or () if constraint.topology_key]
    wrong = (f"spec.schedulingConstraints: only {keys[0]} is considered",) if len(keys) > 1 else ()
    notes = GangNotes(topology=GangTopology((keys[0],), True) if keys else None, wrong=wrong)
    conditions = obj.status.conditions or () if obj.status is not None else ()
    found = next((condition.status for condition in conditions if condition.type == SCHEDULED), "")
    phase = {"True": GangPhase.SCHEDULED, "False": GangPhase.PENDING}.get(found, GangPhase.NONE)
    key = f"{meta.namespace or 'default'}/{meta.name}"
    return PodGroup(
        key=key,
        uid=meta.uid,
        created_s=meta.creation_timestamp.timestamp() if meta.creation_timestamp is not None else 0.0,
        min_member=policy.gang.min_count if policy.gang is not None else 1,
        wait_s=None,
        notes=notes,
        status=PodGroupStatus(key, meta.uid, phase, api_group=K8S_GROUP),
        api_group=K8S_GROUP,
    )


async def write_workload_pod_group(client: Client, status: PodGroupStatus) -> None:
    """Write the condition of a PodGroup, unless another object has its name by now."""
    namespace, _, name = status.key.partition("/")
    done = status.phase is GangPhase.SCHEDULED
    condition = {
        "type": SCHEDULED,
        "status": "True" if done else "False",
        "reason": "Scheduled" if done else "Unschedulable",
        "message": "The minimum of pods has nodes." if done else "Fewer pods than the minimum have nodes.",
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    body: dict[str, object] = {"metadata": {"uid": status.uid}, "status": {"conditions": [condition]}}
    await client.patch_status(WORKLOAD_POD_GROUPS, namespace, name, body)
