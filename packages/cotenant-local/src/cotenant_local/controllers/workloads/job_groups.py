"""The Workload and the PodGroup of a Job, as Kubernetes 1.37 makes them with WorkloadWithJob.

Every Job without pods gets both, unless its pod template names a group itself: with the policy that `spec.scheduling`
asks for, basic without one. A gang's minimum follows the Job's, or its parallelism. Their names follow from the Job's
UID, so that a controller that was restarted finds them. Left out: Workloads that others made for a Job.

Source: KEP-5547, "Controller Workflow", "Defaulting Rules" and "Handling Updates and Mutability".
"""

from __future__ import annotations

import hashlib

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.controllers.runtime.actions import POD_GROUPS, WORKLOADS, Create, Draft, Patch
from cotenant_local.controllers.views.workloads import JobView, PodGroupView
from cotenant_local.controllers.workloads.pods import owner_reference

_API = "scheduling.k8s.io/v1beta1"
_JOB = ("Job", "batch/v1")


def template_name(job: JobView) -> str:
    """The name of the only template."""
    return f"{job.metadata.name[:50]}-pgt-0".strip("-")


def group_name(job: JobView) -> str:
    """The name of the Job's PodGroup; the Workload has the same."""
    return f"{job.metadata.name[:200]}-{hashlib.sha256(job.metadata.uid.encode()).hexdigest()[:10]}"


def wants_group(job: JobView) -> bool:
    """Whether the controller makes a PodGroup for the Job."""
    return not (job.spec.template.get("spec") or {}).get("schedulingGroup")


def add_group(draft: Draft, job: JobView, found: PodGroupView | None, has_pods: bool) -> str:
    """Create or adjust the Job's objects; the name of the group that its pods are in, empty for none."""
    name, policy = group_name(job), _policy(job)
    if found is not None:
        gang = policy.get("gang")
        if gang is not None and found.min_count not in (None, gang["minCount"]):
            body = {"spec": {"schedulingPolicy": {"gang": gang}}}
            draft.add(Patch(POD_GROUPS, job.metadata.namespace, name, body))
        return name
    if has_pods or job.status.start_time is not None:  # it began without a group
        return ""
    owner = owner_reference(job.metadata, *_JOB)
    metadata = {"name": name, "namespace": job.metadata.namespace, "ownerReferences": [owner]}
    spec: Manifest = {"schedulingPolicy": policy}
    for field in ("schedulingConstraints", "disruptionMode", "resourceClaims"):
        if (job.spec.scheduling or {}).get(field):
            spec[field] = (job.spec.scheduling or {})[field]
    priority = (job.spec.template.get("spec") or {}).get("priorityClassName")
    if priority:
        spec["priorityClassName"] = priority
    workload: Manifest = {
        "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": job.metadata.name},
        "podGroupTemplates": [{"name": template_name(job), **spec}],
    }
    draft.add(
        Create(
            WORKLOADS,
            job.metadata.namespace,
            {"apiVersion": _API, "kind": "Workload", "metadata": metadata, "spec": workload},
        )
    )
    group = {"workloadRef": {"workloadName": name, "templateName": template_name(job)}, **spec}
    draft.add(
        Create(
            POD_GROUPS,
            job.metadata.namespace,
            {"apiVersion": _API, "kind": "PodGroup", "metadata": metadata, "spec": group},
        )
    )
    return name


def _policy(job: JobView) -> Manifest:
    asked = ((job.spec.scheduling or {}).get("schedulingPolicy") or {}).get("gang")
    if asked is None:
        return {"basic": {}}
    return {"gang": {"minCount": asked.get("minCount") or max(1, job.spec.parallelism)}}
