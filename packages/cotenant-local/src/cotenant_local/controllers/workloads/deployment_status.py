"""A Deployment's status: replica counts and the conditions Available and Progressing.

`kubectl rollout status` and `kubectl wait --for=condition=Available` read these fields. Source: Kubernetes
documentation "Deployments" (Deployment status: complete, progressing, failed; progressDeadlineSeconds), reasons worded
as upstream.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.controllers.runtime.actions import DEPLOYMENTS, Draft, Patch
from cotenant_local.controllers.views.core import ConditionView, seconds, stamp
from cotenant_local.controllers.views.workloads import DeploymentStatus, DeploymentView, ReplicaSet
from cotenant_local.controllers.workloads.deployment_sets import limits
from cotenant_local.controllers.workloads.pods import conditions_with

NO_DEADLINE = 2**31 - 1
_COUNTS = (
    "observedGeneration",
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
    "collisionCount",
)


def write(
    draft: Draft,
    deployment: DeploymentView,
    new: ReplicaSet | None,
    old: Sequence[ReplicaSet],
    now_s: float,
    collisions: int = 0,
    created: str = "",
) -> None:
    """Add the status patch if anything has changed; requeue for the end of the progress deadline.

    `created` names a ReplicaSet that this plan creates."""
    all_sets = [*old, new] if new is not None else [*old]
    desired = deployment.spec.replicas
    replicas = sum(rs.status.replicas for rs in all_sets)
    available = sum(rs.status.available_replicas for rs in all_sets)
    counts = DeploymentStatus(
        observed_generation=deployment.metadata.generation,
        replicas=replicas,
        updated_replicas=new.status.replicas if new else 0,
        ready_replicas=sum(rs.status.ready_replicas for rs in all_sets),
        available_replicas=available,
        unavailable_replicas=max(0, sum(rs.spec.replicas for rs in all_sets) - available),
        collision_count=max(collisions, deployment.status.collision_count),
    )
    conditions = _available(deployment, deployment.status.conditions, available, desired - limits(deployment)[1], now_s)
    conditions = _progressing(draft, deployment, conditions, counts, new, now_s, created)
    desired_status: Manifest = msgspec.to_builtins(counts)
    desired_status = {name: desired_status[name] for name in _COUNTS}
    current_status: Manifest = msgspec.to_builtins(deployment.status)
    same_counts = all(current_status[name] == desired_status[name] for name in _COUNTS)
    same_conditions = msgspec.convert(conditions, tuple[ConditionView, ...]) == deployment.status.conditions
    if same_counts and same_conditions:
        return
    if not desired_status["collisionCount"]:
        desired_status.pop("collisionCount")
    body: Manifest = {"status": {**desired_status, "conditions": conditions}}
    draft.add(Patch(DEPLOYMENTS, deployment.metadata.namespace, deployment.metadata.name, body, "status"))


def complete(deployment: DeploymentView, status: DeploymentStatus) -> bool:
    """Whether every replica has the new template and is available, and no old replica is left."""
    desired = deployment.spec.replicas
    return (
        status.updated_replicas == desired
        and status.replicas == desired
        and status.available_replicas == desired
        and status.observed_generation >= deployment.metadata.generation
    )


def _available(
    deployment: DeploymentView, existing: Sequence[ConditionView], available: int, min_available: int, now_s: float
) -> list[Manifest]:
    if available >= min_available:
        text = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        text = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    return conditions_with(existing, "Available", *text, stamp(now_s))


def _progressing(
    draft: Draft,
    deployment: DeploymentView,
    conditions: list[Manifest],
    counts: DeploymentStatus,
    new: ReplicaSet | None,
    now_s: float,
    created: str,
) -> list[Manifest]:
    deadline = deployment.spec.progress_deadline_seconds
    if deadline is None or deadline >= NO_DEADLINE:
        return [c for c in conditions if c["type"] != "Progressing"]
    as_views = msgspec.convert(conditions, tuple[ConditionView, ...])
    current = next((c for c in as_views if c.type == "Progressing"), None)
    now, before = stamp(now_s), deployment.status
    name = created or (new.metadata.name if new else deployment.metadata.name)
    if deployment.spec.paused:
        if current is not None and current.reason == "DeploymentPaused":
            return conditions
        return conditions_with(as_views, "Progressing", "Unknown", "DeploymentPaused", "Deployment is paused", now)
    if current is not None and current.reason == "DeploymentPaused":
        return conditions_with(as_views, "Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed", now)
    if created:
        text = f'Created new replica set "{created}"'
        return conditions_with(as_views, "Progressing", "True", "NewReplicaSetCreated", text, now, touch=True)
    if complete(deployment, counts):
        text = f'ReplicaSet "{name}" has successfully progressed.'
        return conditions_with(as_views, "Progressing", "True", "NewReplicaSetAvailable", text, now)
    left, left_before = counts.replicas - counts.updated_replicas, before.replicas - before.updated_replicas
    progressed = (
        current is None
        or counts.updated_replicas > before.updated_replicas
        or left < left_before
        or counts.ready_replicas > before.ready_replicas
        or counts.available_replicas > before.available_replicas
        # a new generation after a completed rollout restarts the deadline
        or (current.reason == "NewReplicaSetAvailable" and before.observed_generation < deployment.metadata.generation)
    )
    if progressed:
        text = f'ReplicaSet "{name}" is progressing.'
        return conditions_with(as_views, "Progressing", "True", "ReplicaSetUpdated", text, now, touch=True)
    if current is None or current.reason == "NewReplicaSetAvailable":
        return conditions  # the rollout has completed; losing a pod now is not a rollout
    deadline_at = (seconds(current.last_update_time) or now_s) + deadline
    if now_s >= deadline_at:
        text = f'ReplicaSet "{name}" has timed out progressing.'
        return conditions_with(as_views, "Progressing", "False", "ProgressDeadlineExceeded", text, now)
    draft.requeue_at(deadline_at)
    return conditions
