"""A planned move as the PodMigrationJob that carries it out."""

from __future__ import annotations

from hashlib import sha256

from cotenant.engine.rebalancer.plan import PlannedMove
from cotenant.engine.rebalancer.settings import ActingSettings
from cotenant.model.groups.migration import MigrationJob, MoveNote, PodRef

LOW_NODE_LOAD = "LowNodeLoad"
_NAME_CHARACTERS = 40


def job_of(move: PlannedMove, workload: str, replicas: int, settings: ActingSettings, now_s: float) -> MigrationJob:
    """The job of a move. `workload`: UID of the pod's controller, empty without one. Its name is that of the pod,
    the pod's UID and the second, so that a repeated creation is refused.
    """
    namespace, _, name = move.pod.partition("/")
    resource = _resource(move)
    distinct = sha256(f"{move.uid} {int(now_s)}".encode()).hexdigest()[:8]
    return MigrationJob(
        name=f"{name[:_NAME_CHARACTERS].rstrip('.-')}-{distinct}",
        uid="",
        pod=PodRef(namespace, name, move.uid),
        ttl_s=settings.ttl_s,
        mode=settings.mode,
        grace_s=settings.grace_s,
        is_ours=True,
        reason=f"{move.node}: {move.reason}" if move.trigger == LOW_NODE_LOAD else move.reason,
        trigger=move.trigger,
        note=MoveNote(
            kind=kind_of(move),
            node=move.node,
            target=move.target,
            resource=resource,
            workload=workload,
            replicas=replicas,
            used=dict(move.used),
            node_before=dict(move.node_before),
            node_after=dict(move.node_after),
            target_before=dict(move.target_before),
            target_after=dict(move.target_after),
            aim=move.aim,
        ),
    )


def kind_of(move: PlannedMove) -> str:
    """Moves of one kind are backed off together: the trigger with pool, scope and resource, or with what it is
    about.
    """
    if move.trigger == LOW_NODE_LOAD:
        return f"{move.trigger}/{move.pool}/{move.scope}/{_resource(move)}"
    return f"{move.trigger}/{move.about}"


def _resource(move: PlannedMove) -> str:
    return move.over[0] if move.over else ""
