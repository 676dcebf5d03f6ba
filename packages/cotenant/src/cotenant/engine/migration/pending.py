"""What is known of a job beside its object: the write under way, what was refused and when to try again, and what the
job said last that it waits for.

None of it is stored: a process that takes over starts without, and learns it from the answers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from cotenant.engine.migration.instructions import (
    CreateReservation,
    EvictJobPod,
    Instruction,
    StartSurge,
    UndoSurge,
    WriteStatus,
)
from cotenant.engine.migration.steps import Next
from cotenant.model.groups.migration import JobStep, MigrationJob, WaitReason

_POLL_S = 3.0
_FIRST_RETRY_S, _LONGEST_RETRY_S = 1.0, 30.0
_SAY_AGAIN_S = 10.0
TWO_BUDGETS = "more than one PodDisruptionBudget"  # in the answer of the eviction API


@dataclass(slots=True)
class PendingJob:
    """What is known of a job beside its object."""

    in_flight: bool = False
    failures: int = 0
    retry_s: float = -inf
    cannot_reserve: str = ""
    cannot_evict: str = ""
    undone: bool = False  # whether its surge is
    refused: str = ""  # why the last write was
    reserves: bool = False  # whether the write under way creates its reservation
    said_s: float = -inf  # when what it waits for was written
    waits: str = ""

    def is_due(self, now_s: float) -> bool:
        """Whether the next write may go out."""
        return not self.in_flight and self.retry_s <= now_s

    def answered(self, what: Instruction, now_s: float, error: str, *, is_final: bool) -> None:
        """A write was answered. `error` empty = carried out; `is_final`: the server would refuse it again."""
        self.in_flight = False
        if not error and _says_what_it_waits_for(what):
            return
        self.refused = error
        if not error:
            self.undone |= isinstance(what, UndoSurge)
            self.failures = 0
            self.retry_s = now_s + _POLL_S if isinstance(what, EvictJobPod | StartSurge) else -inf
            return
        if is_final and isinstance(what, CreateReservation):
            self.cannot_reserve = error
            return
        if (isinstance(what, EvictJobPod) and TWO_BUDGETS in error) or (is_final and isinstance(what, StartSurge)):
            self.cannot_evict = error
            return
        self.waits = error
        self.retry_s = now_s + min(_LONGEST_RETRY_S, _FIRST_RETRY_S * 2 ** min(self.failures, 10))
        self.failures += 1

    def write_of(self, job: MigrationJob, step: Next, now_s: float) -> Instruction | None:
        """The write of a step; where it has none, or is refused, first of all what the job waits for, unless that
        is said already.
        """
        refused, write = self.refused, step.write
        if isinstance(write, WriteStatus):
            ended = write.job.phase.is_final
            waits = write.job.waits(WaitReason.NONE, "", now_s)
            return WriteStatus(replace(waits, message=write.job.message) if ended else waits)
        if write is None:
            reason, message = step.reason, step.waits
        elif refused:
            is_budget = isinstance(write, EvictJobPod) and "disruption budget" in refused
            reason, message = WaitReason.BUDGET if is_budget else WaitReason.REFUSED, refused
        else:
            return write
        if not message or self._is_said(job, reason, message, now_s):
            return write
        self.said_s = now_s
        return WriteStatus(job.waits(reason, message, now_s))

    def _is_said(self, job: MigrationJob, reason: WaitReason, message: str, now_s: float) -> bool:
        """Whether the job's status says this; other words for the same reason are written now and then only."""
        said = job.condition(JobStep.WAITING)
        if said is None or said.status != "True" or said.reason != reason:
            return False
        return said.message == message or now_s - self.said_s < _SAY_AGAIN_S


def _says_what_it_waits_for(what: Instruction) -> bool:
    if not isinstance(what, WriteStatus):
        return False
    said = what.job.condition(JobStep.WAITING)
    return said is not None and said.status == "True"
