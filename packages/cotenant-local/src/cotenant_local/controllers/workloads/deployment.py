"""Deployment: moves pods from old ReplicaSets to the one with the current template, within the limits of the strategy.

A rollout must never exceed replicas + maxSurge pods, nor itself bring the available pods below replicas -
maxUnavailable, and it must still finish. One step per call, computed from the ReplicaSets' spec and status alone; each
call scales either the new set up, or old sets down (unhealthy pods first), never both.
Limits: proportional scaling gives the rounding remainder to the largest set.
Source: Kubernetes documentation "Deployments" (rolling update, recreate, proportional scaling, rolling back, pausing).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.controllers.runtime.actions import DEPLOYMENTS, REPLICA_SETS, Create, Draft, EmitEvent, Patch, Plan
from cotenant_local.controllers.views.workloads import DeploymentView, ReplicaSet
from cotenant_local.controllers.workloads import deployment_sets as sets
from cotenant_local.controllers.workloads import deployment_status as status
from cotenant_local.controllers.workloads.deployment_sets import API_VERSION, DESIRED, KIND, MAXIMUM, REVISION
from cotenant_local.controllers.workloads.pods import adopted, owner_reference, released


@dataclass(slots=True)
class _ReplicaSets:
    new: ReplicaSet | None
    old: list[ReplicaSet]

    @property
    def all(self) -> list[ReplicaSet]:
        return [*self.old, self.new] if self.new else list(self.old)

    @property
    def total(self) -> int:
        return sum(rs.spec.replicas for rs in self.all)

    @property
    def active_old(self) -> list[ReplicaSet]:
        return [rs for rs in self.old if rs.spec.replicas > 0]


def reconcile(
    deployment: DeploymentView,
    candidates: Iterable[ReplicaSet],
    now_s: float,
    taken: Callable[[str], bool] = lambda name: False,
    old_pods: Callable[[Sequence[ReplicaSet]], int] = lambda old: 0,
) -> Plan:
    """Take one step towards the spec.

    `candidates`: ReplicaSets of the namespace controlled by it or without a controller. `taken`: whether a ReplicaSet
    of that name exists.
    `old_pods`: the number of these sets' pods that have not finished, for Recreate.
    """
    draft = Draft()
    owned = _claim(draft, deployment, candidates)
    new = sets.newest(deployment, owned)
    replica_sets = _ReplicaSets(
        new, sorted((rs for rs in owned if rs is not new), key=lambda rs: rs.metadata.created_s)
    )
    created, collisions = "", 0
    if deployment.metadata.terminating:
        status.write(draft, deployment, new, replica_sets.old, now_s)
        return draft.plan("being deleted")
    if new is not None and not deployment.spec.paused:
        _set_revision(draft, deployment, sets.refresh(draft, deployment, new, replica_sets.old))
    if _scaling_requested(deployment, replica_sets) or deployment.spec.paused:
        _scale(draft, deployment, replica_sets)
    elif deployment.spec.strategy.type == "Recreate":
        created, collisions = _recreate(draft, deployment, replica_sets, taken, old_pods)
    else:
        created, collisions = _rolling_update(draft, deployment, replica_sets, taken)
    if status.complete(deployment, deployment.status) or deployment.spec.paused:
        sets.clean(draft, deployment, replica_sets.old)
    status.write(draft, deployment, new, replica_sets.old, now_s, collisions, created)
    return draft.plan("all replicas have the current template")


def _claim(draft: Draft, deployment: DeploymentView, candidates: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    owned: list[ReplicaSet] = []
    meta = deployment.metadata
    for rs in candidates:
        controller = rs.metadata.controller
        selected = deployment.spec.selector.matches(rs.metadata.labels)
        if controller is not None and controller.uid == meta.uid:
            if selected:
                owned.append(rs)
            elif not meta.terminating:
                draft.add(released(REPLICA_SETS, rs, meta.uid), f"release {rs.metadata.name}")
        elif controller is None and selected and not meta.terminating and not rs.metadata.terminating:
            reference = owner_reference(meta, KIND, API_VERSION)
            draft.add(adopted(REPLICA_SETS, rs, reference), f"adopt {rs.metadata.name}")
            owned.append(rs)
    return owned


def _set_revision(draft: Draft, deployment: DeploymentView, revision: int) -> None:
    if deployment.metadata.annotations.get(REVISION) != str(revision):
        body: Manifest = {"metadata": {"annotations": {REVISION: str(revision)}}}
        draft.add(Patch(DEPLOYMENTS, deployment.metadata.namespace, deployment.metadata.name, body))


def _create_new(
    draft: Draft, deployment: DeploymentView, replica_sets: _ReplicaSets, taken: Callable[[str], bool]
) -> tuple[str, int]:
    """Create the new set, as large as the limits allow immediately."""
    name, collisions = sets.new_name(deployment, taken)
    revision = max((sets.revision_of(rs) for rs in replica_sets.old), default=0) + 1
    surge, _ = sets.limits(deployment)
    room = max(0, deployment.spec.replicas + surge - replica_sets.total)
    size = (
        deployment.spec.replicas if deployment.spec.strategy.type == "Recreate" else min(deployment.spec.replicas, room)
    )
    obj = sets.make(deployment, size, revision, name)
    draft.add(Create(REPLICA_SETS, deployment.metadata.namespace, obj), f"create {name} with {size} replicas")
    draft.add(_scaling_event(deployment, f"Scaled up replica set {name} from 0 to {size}"))
    _set_revision(draft, deployment, revision)
    return name, collisions


def _rolling_update(
    draft: Draft, deployment: DeploymentView, replica_sets: _ReplicaSets, taken: Callable[[str], bool]
) -> tuple[str, int]:
    if replica_sets.new is None:
        return _create_new(draft, deployment, replica_sets, taken)
    desired = deployment.spec.replicas
    surge, unavailable = sets.limits(deployment)
    new = replica_sets.new
    if new.spec.replicas > desired:
        _resize(draft, deployment, new, desired)
        return "", 0
    if new.spec.replicas < desired:
        room = desired + surge - replica_sets.total
        if room > 0:
            _resize(draft, deployment, new, new.spec.replicas + min(room, desired - new.spec.replicas))
            return "", 0
    _scale_down_old(draft, deployment, replica_sets, desired - unavailable)
    return "", 0


def _scale_down_old(draft: Draft, deployment: DeploymentView, replica_sets: _ReplicaSets, min_available: int) -> None:
    """Scale old sets down while enough pods stay available: unhealthy pods first, then the oldest sets."""
    assert replica_sets.new is not None
    new_unavailable = replica_sets.new.spec.replicas - replica_sets.new.status.available_replicas
    max_removed = replica_sets.total - min_available - new_unavailable
    if max_removed <= 0 or not replica_sets.active_old:
        return
    size = {rs.metadata.name: rs.spec.replicas for rs in replica_sets.active_old}
    left = max_removed
    for rs in replica_sets.active_old:
        unhealthy = max(0, rs.spec.replicas - rs.status.available_replicas)
        removed = min(left, unhealthy)
        size[rs.metadata.name] -= removed
        left -= removed
    surplus = sum(rs.status.available_replicas for rs in replica_sets.all) - min_available
    for rs in replica_sets.active_old:
        removed = max(0, min(surplus, left, size[rs.metadata.name]))
        size[rs.metadata.name] -= removed
        surplus -= removed
        left -= removed
    for rs in replica_sets.active_old:
        if size[rs.metadata.name] != rs.spec.replicas:
            _resize(draft, deployment, rs, size[rs.metadata.name])


def _recreate(
    draft: Draft,
    deployment: DeploymentView,
    replica_sets: _ReplicaSets,
    taken: Callable[[str], bool],
    old_pods: Callable[[Sequence[ReplicaSet]], int],
) -> tuple[str, int]:
    for rs in replica_sets.active_old:
        _resize(draft, deployment, rs, 0)
    if replica_sets.active_old or old_pods(replica_sets.old):
        draft.reasons.append("old pods have not finished yet")
        return "", 0
    if replica_sets.new is None:
        return _create_new(draft, deployment, replica_sets, taken)
    if replica_sets.new.spec.replicas != deployment.spec.replicas:
        _resize(draft, deployment, replica_sets.new, deployment.spec.replicas)
    return "", 0


def _scaling_requested(deployment: DeploymentView, replica_sets: _ReplicaSets) -> bool:
    """Whether the number of replicas in the spec has changed since the sets were last scaled."""
    return any(
        rs.spec.replicas > 0 and sets.annotated(rs, DESIRED, deployment.spec.replicas) != deployment.spec.replicas
        for rs in replica_sets.all
    )


def _scale(draft: Draft, deployment: DeploymentView, replica_sets: _ReplicaSets) -> None:
    """Distribute a new number of replicas over the active sets, in proportion to their sizes."""
    active = [rs for rs in replica_sets.all if rs.spec.replicas > 0]
    desired = deployment.spec.replicas
    if len(active) <= 1:
        latest = active[0] if active else (replica_sets.new or (replica_sets.old[-1] if replica_sets.old else None))
        if latest is not None:
            _resize(draft, deployment, latest, desired)
        return
    new = replica_sets.new
    if new is not None and new.spec.replicas == desired == new.status.available_replicas:
        for rs in replica_sets.active_old:
            _resize(draft, deployment, rs, 0)
        return
    if deployment.spec.strategy.type != "RollingUpdate":
        return
    surge, _ = sets.limits(deployment)
    allowed = desired + surge if desired > 0 else 0
    to_add = allowed - replica_sets.total
    # among sets of equal size, scale the newest up first and the oldest down first
    order = sorted(active, key=lambda rs: rs.metadata.created_s, reverse=to_add >= 0)
    order.sort(key=lambda rs: rs.spec.replicas, reverse=True)
    size = {}
    left = to_add
    for rs in order:
        before = sets.annotated(rs, MAXIMUM, replica_sets.total) or replica_sets.total
        share = _round(rs.spec.replicas * allowed / before) - rs.spec.replicas
        share = max(min(share, left), 0) if to_add > 0 else min(max(share, left), 0)
        size[rs.metadata.name] = max(0, rs.spec.replicas + share)
        left -= share
    first = order[0].metadata.name
    size[first] = max(0, size[first] + left)
    for rs in order:
        _resize(draft, deployment, rs, size[rs.metadata.name])


def _round(number: float) -> int:
    return int(number + 0.5)


def _resize(draft: Draft, deployment: DeploymentView, rs: ReplicaSet, size: int) -> None:
    surge, _ = sets.limits(deployment)
    annotations = {DESIRED: str(deployment.spec.replicas), MAXIMUM: str(deployment.spec.replicas + surge)}
    stale = any(rs.metadata.annotations.get(k) != v for k, v in annotations.items())
    if size == rs.spec.replicas and not stale:
        return
    body: Manifest = {"metadata": {"annotations": annotations}}
    if size != rs.spec.replicas:
        body["spec"] = {"replicas": size}
    version = rs.metadata.resource_version  # the sizes were computed from this version: refuse if it has changed
    if any(isinstance(a, Patch) and a.resource == REPLICA_SETS and a.name == rs.metadata.name for a in draft.actions):
        version = ""  # this plan changes the set already
    patch = Patch(REPLICA_SETS, rs.metadata.namespace, rs.metadata.name, body, resource_version=version)
    draft.add(patch, f"{rs.metadata.name}: {rs.spec.replicas} -> {size}")
    if size != rs.spec.replicas:
        direction = "up" if size > rs.spec.replicas else "down"
        text = f"Scaled {direction} replica set {rs.metadata.name} from {rs.spec.replicas} to {size}"
        draft.add(_scaling_event(deployment, text))


def _scaling_event(deployment: DeploymentView, message: str) -> EmitEvent:
    return EmitEvent(deployment, KIND, API_VERSION, "Normal", "ScalingReplicaSet", message)
