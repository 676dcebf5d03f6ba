"""All migrations of a cluster: arbitration, the next write of each job, rates, cleaning up, and proof.

Jobs of several makers must keep common limits, each write must be answered before the next of the same job, and what an
earlier process left must be found. Jobs, reservations and pods are events or look-ups; `decide` returns at most one
write for each job, which stays pending until `done`. Reservations of jobs that ended or are gone are deleted, also
those of an earlier process: they are known by their label and by their name, the job's UID. Rates are read from the
jobs' conditions, so they survive a restart.
Limits: one leader writes; the rate of a workload is known of jobs that were planned here, of others only while their
pod exists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isnan
from typing import Protocol

from cotenant.engine.migration.instructions import (
    CreateJob,
    CreateReservation,
    DeleteJob,
    DeleteReservation,
    EvictPod,
    Instruction,
    PodFacts,
    SetLanding,
    SetPodUid,
    StartSurge,
    UndoSurge,
    WithdrawEviction,
    WriteStatus,
)
from cotenant.engine.migration.proof import Measure, Proofs, Purpose, ended_s, rests
from cotenant.engine.migration.steps import SCAVENGED_AFTER_S, JobFacts, Next, Simulated, is_scavenged, next_step
from cotenant.model.cluster.eviction_request import REBALANCER, EvictionProgress, EvictionRequest
from cotenant.model.groups.migration import (
    COMPONENT,
    CREATED_BY,
    EvictPolicy,
    JobMode,
    JobPhase,
    JobReason,
    MigrationJob,
    Step,
    WaitReason,
)
from cotenant.model.groups.reservation import Reservation
from cotenant.policy.rebalance.migration.arbitration import Verdict
from cotenant.policy.rebalance.migration.object_limiter import ObjectLimit, ObjectLimiter

_ORPHANED_S = 30.0  # a job may be listed later than its reservation
_POLL_S = 3.0
_FIRST_RETRY_S, _LONGEST_RETRY_S = 1.0, 30.0
_MINUTE_S = 60.0
_SIMULATE_AGAIN_S = 30.0
_SAY_AGAIN_S = 10.0
TWO_BUDGETS = "more than one PodDisruptionBudget"  # in the answer of the eviction API


@dataclass(frozen=True, slots=True)
class MigrationSettings:
    """How moves are carried out."""

    policy: EvictPolicy = EvictPolicy.EVICTION
    per_minute: int | None = 10  # evictions of the cluster; 0 or None = no limit
    per_workload: ObjectLimit = field(default_factory=ObjectLimit)
    kept_s: float = 6 * 3600.0  # an ended job is kept so long after its time limit
    watch_s: float = 180.0  # nodes of a move after it


class Arbiter(Protocol):
    """Filters and limits over pods."""

    def arbitrate(
        self, pending: Sequence[MigrationJob], moving: Sequence[MigrationJob], now_s: float
    ) -> Mapping[str, tuple[Verdict, str]]:
        """The verdict about each pending job by name, with its reason."""
        ...


class WhatIf(Protocol):
    """Simulates requested moves."""

    def __call__(self, job: MigrationJob, moving: Sequence[MigrationJob], now_s: float) -> Simulated:
        """The what-if of one job, with those that run counted."""
        ...


class PodSource(Protocol):
    """Pods by namespace/name."""

    def __call__(self, key: str) -> PodFacts | None:
        """The pod of this name; None = there is none."""
        ...


@dataclass(slots=True)
class _Pending:
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


class Migrations:
    """The jobs of one cluster."""

    def __init__(
        self,
        arbiter: Arbiter,
        pods: PodSource,
        measure: Measure = lambda node, resource: None,
        settings: MigrationSettings | None = None,
        what_if: WhatIf | None = None,
        purpose: Purpose | None = None,
    ) -> None:
        """`what_if` None: requested moves wait. `purpose` None: only moves for a node's use are judged."""
        self._what_if = what_if
        self._simulations = 0  # in this turn
        self.settings = settings or MigrationSettings()
        self.jobs: dict[str, MigrationJob] = {}  # by name
        self._reservations: dict[str, Reservation] = {}  # by name
        self._requests: dict[str, EvictionRequest] = {}  # by namespace/name
        self._progress: dict[str, EvictionProgress] = {}  # Evictions, by namespace/name
        self._arbiter, self._pods = arbiter, pods
        self._pending: dict[str, _Pending] = {}  # by what an instruction is about
        self._orphaned: dict[str, float] = {}  # reservations and requests without a job, since when
        self._limiter = ObjectLimiter(self.settings.per_workload)
        self._counted: set[str] = set()  # UIDs of jobs whose eviction the limiter knows
        self._proofs = (
            Proofs(measure, self.settings.watch_s)
            if purpose is None
            else Proofs(measure, self.settings.watch_s, purpose=purpose)
        )

    # ---- events

    def job_seen(self, job: MigrationJob) -> None:
        """A job as stored."""
        before = self.jobs.get(job.name)
        if before is not None and before.uid != job.uid:
            self.job_gone(job.name)
        self.jobs[job.name] = job

    def job_gone(self, name: str) -> None:
        """A job was deleted."""
        job = self.jobs.pop(name, None)
        self._pending.pop(name, None)
        if job is not None:
            self._proofs.forget(job.uid)
            self._counted.discard(job.uid)

    def reservation_seen(self, reservation: Reservation) -> None:
        """A reservation as stored."""
        self._reservations[reservation.name] = reservation

    def job_written(self, what: Instruction, job: MigrationJob) -> None:
        """The answer to a write, known before the watch repeats it. An answer may come after the watch has shown
        that write, or a later one: then it is old, and left alone.
        """
        before = self.jobs.get(job.name)
        if before is None and isinstance(what, CreateJob):
            self.job_seen(job)
        if before is None or not isinstance(what, (SetPodUid, SetLanding, WriteStatus)):
            return
        if (before.uid, before.version) == (what.job.uid, what.job.version):
            self.job_seen(job)

    def reservation_written(self, reservation: Reservation) -> None:
        """The answer to a creation; the watch may have shown what became of it since."""
        if reservation.name not in self._reservations:
            self.reservation_seen(reservation)

    def reservation_gone(self, name: str) -> None:
        """A reservation was deleted."""
        self._reservations.pop(name, None)

    def request_seen(self, request: EvictionRequest) -> None:
        """An EvictionRequest as stored, or as answered; only ours count."""
        if request.requester == REBALANCER:
            self._requests[request.key] = request

    def request_gone(self, key: str) -> None:
        """An EvictionRequest was deleted."""
        self._requests.pop(key, None)

    def eviction_seen(self, progress: EvictionProgress) -> None:
        """How far an Eviction has come."""
        self._progress[progress.key] = progress

    def eviction_gone(self, key: str) -> None:
        """An Eviction was deleted."""
        self._progress.pop(key, None)

    def done(self, what: Instruction, now_s: float, error: str = "", *, is_final: bool = False) -> None:
        """An instruction was answered. `error` empty = carried out; `is_final`: the server would refuse it again."""
        pending = self._pending.setdefault(what.about, _Pending())
        pending.in_flight = False
        if not error and _says_what_it_waits_for(what):
            return
        pending.refused = error
        if not error:
            pending.undone |= isinstance(what, UndoSurge)
            pending.failures = 0
            pending.retry_s = now_s + _POLL_S if isinstance(what, EvictPod | StartSurge) else -inf
            return
        if is_final and isinstance(what, CreateReservation):
            pending.cannot_reserve = error
            return
        if (isinstance(what, EvictPod) and TWO_BUDGETS in error) or (is_final and isinstance(what, StartSurge)):
            pending.cannot_evict = error
            return
        pending.waits = error
        pending.retry_s = now_s + min(_LONGEST_RETRY_S, _FIRST_RETRY_S * 2 ** min(pending.failures, 10))
        pending.failures += 1

    def stopped(self) -> None:
        """Nothing is under way any more: this replica no longer leads. What was done is read from the objects."""
        self._pending.clear()

    # ---- decisions

    def decide(self, now_s: float) -> list[Instruction]:
        """The writes to carry out now, at most one for each job."""
        found: list[Instruction] = []
        verdicts = self._arbitrate(now_s)
        first = self._first_of_workloads()
        for name in self.jobs:
            self._pending.setdefault(name, _Pending())
        evictions, intended = self._recent(now_s), self._intended()
        self._simulations = 0
        for name in sorted(self.jobs):
            job, pending = self.jobs[name], self._pending[name]
            if pending.in_flight or pending.retry_s > now_s:
                continue
            if job.phase.is_final:
                write = self._after(job, now_s)
            else:
                verdict, why = verdicts.get(name, (Verdict.WAITING, "it was not arbitrated"))
                taken = evictions if self._has_room(job) else evictions + intended
                facts = self._facts(job, verdict, why, taken, first, now_s)
                step = next_step(job, facts, now_s)
                write, pending.waits = self._said(job, step, now_s), step.waits
                pending.reserves = isinstance(write, CreateReservation)
                intended += pending.reserves
                if _begins_evicting(job, write):
                    evictions += 1
                    self._count(job, facts.pod, now_s)
            if write is not None:
                pending.in_flight = True
                found.append(write)
        return found + self._orphans(now_s)

    def next_s(self, now_s: float) -> float:
        """When `decide` should be called again if nothing happens; inf = never."""
        if any(not job.phase.is_final for job in self.jobs.values()) or self._orphaned:
            return now_s + 1.0
        is_watched = any(job.note is not None and job.condition(Step.HELPED) is None for job in self.jobs.values())
        return now_s + 5.0 if is_watched else inf

    # ---- questions

    def moving(self) -> list[MigrationJob]:
        """The jobs that run."""
        return [job for job in self.jobs.values() if job.phase is JobPhase.RUNNING]

    def unfinished(self) -> list[MigrationJob]:
        """The jobs that have not ended."""
        return [job for job in self.jobs.values() if not job.phase.is_final]

    def waits(self, name: str) -> str:
        """What a job waits for."""
        pending = self._pending.get(name)
        return pending.waits if pending is not None else ""

    def resting(self, now_s: float) -> dict[str, float]:
        """Kinds of moves that are left alone, with the time until when."""
        return rests(self.jobs.values(), now_s)

    def rate(self, workload: str, replicas: int, more: int, now_s: float) -> str:
        """Why a workload (UID) may not be moved again yet, `more` moves being planned already; empty = it may."""
        self._recent(now_s)
        more += sum(self._workload(job) == workload and isnan(job.began_evicting_s()) for job in self.unfinished())
        if self._limiter.must_wait(workload, replicas, now_s, more):
            return f"its workload is moved, or was less than {self.settings.per_workload.duration_s:.0f} s ago"
        return ""

    def ended_since(self, at_s: float) -> list[MigrationJob]:
        """The jobs that succeeded since this time."""
        return [job for job in self.jobs.values() if job.phase is JobPhase.SUCCEEDED and ended_s(job) >= at_s]

    def kinds_since(self, at_s: float) -> set[str]:
        """Kinds of moves (`MoveNote.kind`) of which one has not ended, or began to evict since this time."""
        return {
            job.note.kind
            for job in self.jobs.values()
            if job.note is not None and (not job.phase.is_final or job.began_evicting_s() >= at_s)
        }

    def begun_by(self, trigger: str) -> set[str]:
        """UIDs of the known jobs of this trigger that have not ended, or began to evict."""
        return {
            job.uid
            for job in self.jobs.values()
            if job.trigger == trigger and not (job.phase.is_final and isnan(job.began_evicting_s()))
        }

    def moved_since(self, at_s: float) -> set[str]:
        """UIDs of replacements that jobs placed since this time."""
        return {
            job.new_pod.uid for job in self.jobs.values() if job.new_pod is not None and job.began_evicting_s() >= at_s
        }

    # ---- one job

    def _arbitrate(self, now_s: float) -> Mapping[str, tuple[Verdict, str]]:
        pending = [
            job
            for job in self.jobs.values()
            if job.phase is JobPhase.PENDING and not job.paused and not _wants_simulation(job)
        ]
        return self._arbiter.arbitrate(pending, self.moving(), now_s) if pending else {}

    def _first_of_workloads(self) -> dict[str, str]:
        """The job of each workload that may hold a reservation now, by UID of the workload.

        A replacement takes any reservation of its controller, so two jobs of one controller would take each other's.
        """
        first: dict[str, str] = {}
        waiting = [
            job for job in self.moving() if job.mode is JobMode.RESERVATION_FIRST and not job.has(Step.POD_BOUND)
        ]
        for job in sorted(
            waiting,
            key=lambda migration_job: (
                migration_job.uid not in self._reservations,
                migration_job.created_s,
                migration_job.name,
            ),
        ):
            workload = self._workload(job)
            if workload:
                first.setdefault(workload, job.name)
        return first

    def _workload(self, job: MigrationJob) -> str:
        """UID of the controller of a job's pod; empty where there is none, or it is not known any more."""
        reservation = self._reservations.get(job.reservation_name)
        for owner in reservation.owners if reservation is not None else ():
            if owner.controller is not None and owner.controller.uid:
                return owner.controller.uid
        if job.note is not None:
            return job.note.workload
        pod = self._pods(job.pod.key)
        return pod.workload if pod is not None and pod.ref.uid == job.pod.uid else ""

    def _facts(
        self,
        job: MigrationJob,
        verdict: Verdict,
        why: str,
        evictions: int,
        first: Mapping[str, str],
        now_s: float,
    ) -> JobFacts:
        pod = self._pods(job.pod.key) if job.pod.name else None
        replacement = self._pods(job.new_pod.key) if job.new_pod is not None else None
        if replacement is not None and job.new_pod is not None and replacement.ref.uid != job.new_pod.uid:
            replacement = None
        return JobFacts(
            pod=pod,
            reservation=self._reservations.get(job.reservation_name),
            new_pod=replacement,
            verdict=verdict,
            why=why,
            holds_back=self._holds_back(job, pod, evictions, now_s),
            holds_reservation=self._holds_reservation(job, first),
            cannot_reserve=self._pending[job.name].cannot_reserve,
            cannot_evict=self._pending[job.name].cannot_evict,
            request=self._requests.get(request_key(job)),
            progress=self._progress_of(job.pod.uid),
            policy=self.settings.policy,
            target=job.note.target if job.note is not None else "",
            simulated=self._simulated(job, now_s),
        )

    def _progress_of(self, uid: str) -> EvictionProgress | None:
        """The newest Eviction of a pod."""
        found = [progress for progress in self._progress.values() if progress.pod_uid == uid]
        return max(found, key=lambda progress: (bool(progress.responder), progress.created_s), default=None)

    def _said(self, job: MigrationJob, step: Next, now_s: float) -> Instruction | None:
        """The write of a step; where it has none, or is refused, first of all what the job waits for, unless that
        is said already.
        """
        refused, write = self._pending[job.name].refused, step.write
        if isinstance(write, WriteStatus):
            ended = write.job.phase.is_final
            waits = write.job.waits(WaitReason.NONE, "", now_s)
            return WriteStatus(replace(waits, message=write.job.message) if ended else waits)
        if write is None:
            reason, message = step.reason, step.waits
        elif refused:
            is_budget = isinstance(write, EvictPod) and "disruption budget" in refused
            reason, message = WaitReason.BUDGET if is_budget else WaitReason.REFUSED, refused
        else:
            return write
        if not message or self._is_said(job, reason, message, now_s):
            return write
        self._pending[job.name].said_s = now_s
        return WriteStatus(job.waits(reason, message, now_s))

    def _is_said(self, job: MigrationJob, reason: WaitReason, message: str, now_s: float) -> bool:
        """Whether the job's status says this; other words for the same reason are written now and then only."""
        said = job.condition(Step.WAITING)
        if said is None or said.status != "True" or said.reason != reason:
            return False
        return said.message == message or now_s - self._pending[job.name].said_s < _SAY_AGAIN_S

    def _has_room(self, job: MigrationJob) -> bool:
        """Whether a reservation of it exists, or is being created."""
        is_known = job.reservation_name in self._reservations or self._pending[job.name].reserves
        return is_known or job.has(Step.RESERVATION_CREATED)

    def _intended(self) -> int:
        """Evictions for which room is reserved; those whose reservation finds no node do not count."""
        reserved = [job for job in self.moving() if self._has_room(job) and isnan(job.began_evicting_s())]
        placed = [job.condition(Step.RESERVATION_SCHEDULED) for job in reserved]
        return sum(found is None or found.status == "True" for found in placed)

    def _simulated(self, job: MigrationJob, now_s: float) -> Simulated | None:
        """The what-if of a requested move that has none; one a turn, since each may cost seconds. What cannot move
        now is simulated again later.
        """
        is_due = _wants_simulation(job) and not job.wrong and job.phase is JobPhase.PENDING and not job.paused
        if self._what_if is None or not is_due or self._simulations:
            return None
        self._simulations += 1
        found = self._what_if(job, self.moving(), now_s)
        if found.note is None and not found.final:
            self._pending[job.name].retry_s = now_s + _SIMULATE_AGAIN_S
        return found

    def _holds_reservation(self, job: MigrationJob, first: Mapping[str, str]) -> str:
        before = first.get(self._workload(job), job.name)
        return "" if before == job.name else f"job {before} moves a pod of its workload first"

    def _holds_back(self, job: MigrationJob, pod: PodFacts | None, evictions: int, now_s: float) -> str:
        limit = self.settings.per_minute
        if limit and evictions >= limit:
            return f"{evictions} pods were evicted in the last minute, at most {limit} may be"
        if pod is None or not pod.workload or job.forced:
            return ""
        if self._limiter.must_wait(pod.workload, pod.replicas, now_s):
            return f"its workload was moved less than {self.settings.per_workload.duration_s:.0f} s ago"
        return ""

    def _recent(self, now_s: float) -> int:
        """Evictions begun in the last minute; those of an earlier process are counted with their workloads."""
        recent = 0
        for job in sorted(self.jobs.values(), key=lambda migration_job: migration_job.name):
            began_s = job.began_evicting_s()
            if isnan(began_s):
                continue
            recent += began_s > now_s - _MINUTE_S
            if job.uid not in self._counted and job.note is not None and job.note.workload:
                self._counted.add(job.uid)
                if now_s - began_s < self.settings.per_workload.duration_s:
                    self._limiter.moved(job.note.workload, job.note.replicas, began_s)
        return recent

    def _count(self, job: MigrationJob, pod: PodFacts | None, now_s: float) -> None:
        if pod is not None and pod.workload and job.uid not in self._counted:
            self._counted.add(job.uid)
            self._limiter.moved(pod.workload, pod.replicas, now_s)

    # ---- afterwards

    def _after(self, job: MigrationJob, now_s: float) -> Instruction | None:
        """What remains of a job that ended: its reservation, its proof, and in the end the job itself."""
        own = self._reservations.get(job.uid)
        if own is not None and not own.phase.is_final and not own.current:
            return DeleteReservation(own.name, own.uid, job.name)
        request = self._requests.get(request_key(job))
        if request is not None:
            return WithdrawEviction(request, job.name)
        if job.has(Step.SURGE) and job.phase is not JobPhase.SUCCEEDED:
            begun = job.condition(Step.EVICTION)
            if begun is not None and begun.status != "True" and not self._pending[job.name].undone:
                return UndoSurge(job)
            return WriteStatus(job.with_condition(Step.SURGE, "False", now_s, JobReason.UNDONE))
        judged = self._proofs.judge(job, now_s)
        if judged is not None:
            return WriteStatus(judged)
        kept_s = self.settings.kept_s if job.is_ours else SCAVENGED_AFTER_S
        age_s = now_s - job.limit_from_s(now_s)
        return DeleteJob(job) if is_scavenged(job.phase, age_s, job.ttl_s, kept_s) else None

    def _orphans(self, now_s: float) -> list[Instruction]:
        """Reservations and EvictionRequests of a rebalancer whose job is gone."""
        known = {job.uid for job in self.jobs.values()}
        orphaned = {
            name
            for name, reservation in self._reservations.items()
            if name not in known and reservation.labels.get(CREATED_BY) == COMPONENT and not reservation.phase.is_final
        }
        asked = {request_key(job) for job in self.jobs.values()}
        lost = {key: request for key, request in self._requests.items() if key not in asked}
        self._orphaned = {name: self._orphaned.get(name, now_s) for name in (*orphaned, *lost)}
        found: list[Instruction] = []
        for name, since_s in sorted(self._orphaned.items()):
            write: DeleteReservation | WithdrawEviction = (
                WithdrawEviction(lost[name]) if name in lost else DeleteReservation(name, self._reservations[name].uid)
            )
            pending = self._pending.setdefault(write.about, _Pending())
            if now_s - since_s >= _ORPHANED_S and not pending.in_flight and pending.retry_s <= now_s:
                pending.in_flight = True
                found.append(write)
        return found


def request_key(job: MigrationJob) -> str:
    """namespace/name of the EvictionRequest of a job, which only this job has."""
    return f"{job.pod.namespace}/cotenant-{job.uid}"


def _wants_simulation(job: MigrationJob) -> bool:
    return job.what_if and job.note is None


def _says_what_it_waits_for(what: Instruction) -> bool:
    if not isinstance(what, WriteStatus):
        return False
    said = what.job.condition(Step.WAITING)
    return said is not None and said.status == "True"


def _begins_evicting(job: MigrationJob, write: Instruction | None) -> bool:
    return (
        isinstance(write, WriteStatus)
        and job.condition(Step.EVICTION) is None
        and write.job.condition(Step.EVICTION) is not None
    )
