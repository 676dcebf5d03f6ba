"""A Deployment's ReplicaSets: finding and making the new one, revision numbers, and the history limit.

Source: Kubernetes documentation "Deployments" (pod-template-hash label, revision annotation, revisionHistoryLimit,
rolling back); names of the annotations as kubectl reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant.model.whole_number import whole_number
from cotenant_local.controllers.runtime.actions import REPLICA_SETS, Delete, Draft, Patch
from cotenant_local.controllers.views.workloads import DeploymentView, ReplicaSet
from cotenant_local.controllers.workloads.pods import TEMPLATE_HASH, owner_reference, same_template, template_hash
from cotenant_local.controllers.workloads.rounding import fenceposts

KIND, API_VERSION = "Deployment", "apps/v1"
REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_NOT_COPIED = (LAST_APPLIED, REVISION, REVISION_HISTORY, DESIRED, MAXIMUM, "deprecated.deployment.rollback.to")


def limits(deployment: DeploymentView) -> tuple[int, int]:
    """The (surge, unavailable) limits of the strategy, in pods."""
    if deployment.spec.strategy.type == "Recreate":
        return 0, deployment.spec.replicas
    rolling = deployment.spec.strategy.rolling_update
    surge = rolling.max_surge if rolling else None
    unavailable = rolling.max_unavailable if rolling else None
    return fenceposts(surge, unavailable, deployment.spec.replicas)


def revision_of(rs: ReplicaSet) -> int:
    """The revision annotated on a ReplicaSet, 0 if absent."""
    text = rs.metadata.annotations.get(REVISION, "0")
    return whole_number(text) or 0


def annotated(rs: ReplicaSet, name: str, otherwise: int) -> int:
    """A number annotated by the last scaling, else `otherwise`."""
    number = whole_number(rs.metadata.annotations.get(name, ""))
    return otherwise if number is None else number


def newest(deployment: DeploymentView, sets: Iterable[ReplicaSet]) -> ReplicaSet | None:
    """The ReplicaSet with the Deployment's template; the oldest if several match, so that the choice is
    deterministic.
    """
    matching = [rs for rs in sets if same_template(rs.spec.template, deployment.spec.template)]
    return min(matching, key=lambda rs: (rs.metadata.created_s, rs.metadata.name), default=None)


def make(deployment: DeploymentView, replicas: int, revision: int, name: str) -> Manifest:
    """The manifest of the new ReplicaSet."""
    surge, _ = limits(deployment)
    digest = name[len(deployment.metadata.name) + 1 :]
    template = dict(deployment.spec.template)
    metadata = dict(template.get("metadata") or {})
    metadata["labels"] = {**(metadata.get("labels") or {}), TEMPLATE_HASH: digest}
    template["metadata"] = metadata
    selector: Manifest = msgspec.to_builtins(deployment.spec.selector)
    selector["matchLabels"] = {**selector.get("matchLabels", {}), TEMPLATE_HASH: digest}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": name,
            "namespace": deployment.metadata.namespace,
            "labels": metadata["labels"],
            "annotations": {
                **_copied(deployment),
                REVISION: str(revision),
                DESIRED: str(deployment.spec.replicas),
                MAXIMUM: str(deployment.spec.replicas + surge),
            },
            "ownerReferences": [owner_reference(deployment.metadata, KIND, API_VERSION)],
        },
        "spec": {
            "replicas": replicas,
            "minReadySeconds": deployment.spec.min_ready_seconds,
            "selector": {k: v for k, v in selector.items() if v},
            "template": template,
        },
    }


def new_name(deployment: DeploymentView, taken: Callable[[str], bool]) -> tuple[str, int]:
    """An unused name for the new ReplicaSet, and the collision count that produced it."""
    collisions = deployment.status.collision_count
    while True:
        name = f"{deployment.metadata.name}-{template_hash(deployment.spec.template, collisions)}"
        if not taken(name):
            return name, collisions
        collisions += 1


def refresh(draft: Draft, deployment: DeploymentView, rs: ReplicaSet, others: Sequence[ReplicaSet]) -> int:
    """Keep the new ReplicaSet's revision above all others and its annotations equal to the Deployment's. Returns
    its revision.
    """
    highest = max((revision_of(o) for o in others), default=0)
    revision = revision_of(rs) if revision_of(rs) > highest else highest + 1
    change: Manifest = {}
    if revision != revision_of(rs):
        change[REVISION] = str(revision)
        if revision_of(rs):
            history = [h for h in rs.metadata.annotations.get(REVISION_HISTORY, "").split(",") if h]
            change[REVISION_HISTORY] = ",".join([*history, str(revision_of(rs))])
    change |= {k: v for k, v in _copied(deployment).items() if rs.metadata.annotations.get(k) != v}
    body: Manifest = {"metadata": {"annotations": change}} if change else {}
    if rs.spec.min_ready_seconds != deployment.spec.min_ready_seconds:
        body["spec"] = {"minReadySeconds": deployment.spec.min_ready_seconds}
    if body:
        draft.add(Patch(REPLICA_SETS, rs.metadata.namespace, rs.metadata.name, body), f"revision {revision}")
    return revision


def clean(draft: Draft, deployment: DeploymentView, old: Sequence[ReplicaSet]) -> None:
    """Delete the oldest ReplicaSets beyond the history limit, except those still in use."""
    idle = [rs for rs in old if not rs.metadata.terminating]
    surplus = len(idle) - deployment.spec.revision_history_limit
    for rs in sorted(idle, key=lambda rs: (revision_of(rs), rs.metadata.created_s))[: max(0, surplus)]:
        in_use = rs.status.replicas or rs.spec.replicas or rs.status.observed_generation < rs.metadata.generation
        if not in_use:
            delete = Delete(REPLICA_SETS, rs.metadata.namespace, rs.metadata.name, rs.metadata.uid)
            draft.add(delete, f"delete revision {revision_of(rs)}")


def _copied(deployment: DeploymentView) -> Manifest:
    return {k: v for k, v in deployment.metadata.annotations.items() if k not in _NOT_COPIED}
