"""Order of the jobs that wait to move a pod, and one round of arbitration.

More pods should move than may at a time. Stable sorts from the least to the most significant: newest first, by the
importance of the pod, pods of one batch Job next to each other, Jobs with most moving pods first. Then each job in that
order: a filter that can never pass fails it, a limit makes it wait, and what passes counts for those after it. A job
whose pod no longer exists passes, so that it can end.
Source: Koordinator, pkg/descheduler/controllers/migration/arbitrator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.groups.migration import JobPhase


@dataclass(frozen=True, slots=True)
class MoveJob:
    """A wish to move one pod. `pod_uid` is empty where the pod no longer exists; `batch_job` is the UID of the
    pod's batch/v1 Job, empty without one.
    """

    name: str
    created_s: float = 0.0
    pod_uid: str = ""
    pod_key: str = ""
    batch_job: str = ""


BUDGET = "PodDisruptionBudget"  # reasons of budgets begin so


class ArbitrationVerdict(StrEnum):
    """What arbitration decides about a job."""

    PASSED = "passed"
    SURGE = "surge"  # passed, and its replacement is to be there first
    WAITING = "waiting"
    FAILED = "failed"


def by_creation(jobs: Sequence[MoveJob]) -> list[MoveJob]:
    """Newest first, by whole seconds."""
    return sorted(jobs, key=lambda job: -int(job.created_s))


def by_pod(jobs: Sequence[MoveJob], rank: Mapping[str, int]) -> list[MoveJob]:
    """By the rank of the pod (by name of the job): the pods that matter least first."""
    return sorted(jobs, key=lambda job: rank.get(job.name, len(rank)))


def adjacent(jobs: Sequence[MoveJob]) -> list[MoveJob]:
    """Jobs of one batch Job next to each other, where the first of them is."""
    first: dict[str, int] = {}
    for at, job in enumerate(jobs):
        if job.batch_job:
            first.setdefault(job.batch_job, at)
    places = [(first.get(job.batch_job, at), at, job) for at, job in enumerate(jobs)]
    return [job for _, _, job in sorted(places, key=lambda place: place[:2])]


def by_moving(jobs: Sequence[MoveJob], moving: Mapping[str, int]) -> list[MoveJob]:
    """Those of the batch Jobs with most pods that move already first; `moving` is by UID of the Job."""
    return sorted(jobs, key=lambda job: -moving.get(job.batch_job, 0) if job.batch_job else 0)


def chain(jobs: Sequence[MoveJob], stages: Sequence[Callable[[Sequence[MoveJob]], list[MoveJob]]]) -> list[MoveJob]:
    """All stages, one after the other; the last is the most significant."""
    ordered = list(jobs)
    for stage in stages:
        ordered = stage(ordered)
    return ordered


def in_order(jobs: Sequence[MoveJob], rank: Mapping[str, int], moving: Mapping[str, int]) -> list[MoveJob]:
    """The order of arbitration."""
    return chain(jobs, (by_creation, lambda some: by_pod(some, rank), adjacent, lambda some: by_moving(some, moving)))


def moving_count(running: int, passed: int) -> int:
    """How many jobs count as moving: those that run, and pending ones that arbitration has passed."""
    return running + passed


def verdict(exists: bool, may_ever: bool, may_now: Callable[[], bool]) -> ArbitrationVerdict:
    """What becomes of a job: whether its pod exists, passes the filters that do not change, and those that do."""
    if not exists:
        return ArbitrationVerdict.PASSED
    if not may_ever:
        return ArbitrationVerdict.FAILED
    return ArbitrationVerdict.PASSED if may_now() else ArbitrationVerdict.WAITING


def arbitrate(
    jobs: Sequence[MoveJob], may_ever: Callable[[MoveJob], bool], may_now: Callable[[MoveJob], bool]
) -> dict[str, ArbitrationVerdict]:
    """One round over jobs in order, by name. `may_now` is asked after each earlier job that passed has been counted
    by the caller.
    """
    found = {}
    for job in jobs:
        found[job.name] = verdict(bool(job.pod_uid), may_ever(job), lambda job=job: may_now(job))  # type: ignore[misc]
    return found


def is_moving_already(pod_uid: str, pod_key: str, jobs: Sequence[tuple[MoveJob, JobPhase]]) -> bool:
    """Whether a job that has not ended is about this pod, by UID or by namespace/name."""
    return any(not phase.is_final and (job.pod_uid == pod_uid or job.pod_key == pod_key) for job, phase in jobs)
