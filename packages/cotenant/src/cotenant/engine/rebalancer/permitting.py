"""How far a move may go: by the rebalancer's own mode, by what the moves of its namespace have earned, and by the
cluster's Autonomy objects; the lowest counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from cotenant.engine.autonomy.permissions import Permissions
from cotenant.engine.migration.outcomes import judged
from cotenant.model.autonomy.autonomy import Action, AutonomyRung, MoveMode
from cotenant.model.groups.migration import MigrationJob
from cotenant.policy.autonomy.ladder import LadderSettings, earned


@dataclass(frozen=True, slots=True)
class Leave:
    """What may be done now. `is_held`: by a freeze, a blackout, or outside of windows; `why` says what lowers it, or
    who allows it.
    """

    rung: AutonomyRung
    why: str
    is_held: bool = False

    @property
    def may_create(self) -> bool:
        """Whether a job is created, waiting or not."""
        return self.rung >= AutonomyRung.APPROVE and not self.is_held

    def job_of(self, job: MigrationJob) -> MigrationJob:
        """The job as it is created: what may not act waits."""
        if self.rung >= AutonomyRung.ACT:
            return replace(job, allowed_by=self.why)
        return replace(job, paused=True, suggested=True)


class MovePermits:
    """Asked before a job is created, and again before each write that begins something."""

    def __init__(
        self, permissions: Permissions, jobs: Callable[[], Iterable[MigrationJob]], mode: MoveMode = MoveMode.ACT
    ) -> None:
        self.permissions, self._jobs, self.mode = permissions, jobs, mode

    def leave(self, namespace: str, now_s: float) -> Leave:
        """For a new move of a pod of this namespace."""
        allowed = self.permissions.of(Action.MOVES, namespace, now_s)
        own, why = AutonomyRung.ACT if self.mode is MoveMode.ACT else AutonomyRung.APPROVE, f"mode {self.mode}"
        if self.mode is MoveMode.EARNED:
            stands = earned(judged(job for job in self._jobs() if job.pod.namespace == namespace), LadderSettings())
            own, why = stands.rung, f"mode earned: {stands.why}"
        is_held = allowed.is_frozen or not allowed.may_begin
        rung = min(own, allowed.rung)
        return Leave(rung, allowed.why if is_held or allowed.rung < own else why, is_held)

    def holds(self, job: MigrationJob, now_s: float) -> str:
        """Why a step that begins something may not be made now; "" = it may. What was begun in a window is ended
        outside of it, but an approval given outside of one waits.
        """
        allowed = self.permissions.of(Action.MOVES, job.pod.namespace, now_s)
        waits = job.suggested and (allowed.rung < AutonomyRung.APPROVE or not allowed.may_begin)
        return allowed.why if allowed.is_frozen or waits else ""
