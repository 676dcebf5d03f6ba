"""All migrations of a cluster: arbitration, the next write of each job, rates, cleaning up, and proof.

Jobs of several makers must keep common limits, each write must be answered before the next of the same job, and what an
earlier process left must be found. Jobs, reservations and pods are events or look-ups; `decide` returns at most one
write for each job, which stays pending until `done`. Reservations of jobs that ended or are gone are deleted, also
those of an earlier process: they are known by their label and by their name, the job's UID. Rates are read from the
jobs' conditions, so they survive a restart. One leader writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, isnan

from cotenant.engine.migration.contracts import Arbiter, MigrationSettings, MoveSimulator, PodSource
from cotenant.engine.migration.instructions import (
    CreateJob,
    CreateReservation,
    DeleteJob,
    DeleteJobReservation,
    Instruction,
    SetLanding,
    SetPodUid,
    UndoSurge,
    WithdrawEviction,
    WriteStatus,
)
from cotenant.engine.migration.outcomes import kept_receipts
from cotenant.engine.migration.pending import PendingJob
from cotenant.engine.migration.proof import Broken, Measure, Proofs, Purpose, ended_s, no_purpose, none_broke, rests
from cotenant.engine.migration.rates import EvictionRates, begins_evicting
from cotenant.engine.migration.steps import SCAVENGED_AFTER_S, JobFacts, SimulatedMove, is_scavenged, next_step
from cotenant.model.cluster.eviction_request import REBALANCER, EvictionProgress, EvictionRequest
from cotenant.model.groups.migration import (
    COMPONENT,
    CREATED_BY,
    JobMode,
    JobPhase,
    JobReason,
    JobStep,
    MigrationJob,
)
from cotenant.model.groups.reservation import Reservation
from cotenant.policy.rebalance.migration.arbitration import ArbitrationVerdict

_ORPHANED_S = 30.0  # a job may be listed later than its reservation
_SIMULATE_AGAIN_S = 30.0


class Migrations:
    """The jobs of one cluster."""

    def __init__(
        self,
        arbiter: Arbiter,
        pods: PodSource,
        measure: Measure = lambda node, resource: None,
        settings: MigrationSettings | None = None,
        what_if: MoveSimulator | None = None,
        purpose: Purpose = no_purpose,
        broken: Broken = none_broke,
    ) -> None:
        """`what_if` None: requested moves wait. Without a purpose only moves for a node's use are judged."""
        self._what_if = what_if
        self._simulations = 0  # in this turn
        self.settings = settings or MigrationSettings()
        self.jobs: dict[str, MigrationJob] = {}  # by name
        self._reservations: dict[str, Reservation] = {}  # by name
        self._requests: dict[str, EvictionRequest] = {}  # by namespace/name
        self._progress: dict[str, EvictionProgress] = {}  # Evictions, by namespace/name
        self._arbiter, self._pods = arbiter, pods
        self._pending: dict[str, PendingJob] = {}  # by what an instruction is about
        self._orphaned: dict[str, float] = {}  # reservations and requests without a job, since when
        self._rates = EvictionRates(self.settings)
        self._proofs = Proofs(measure, self.settings.watch_s, purpose=purpose, broken=broken)
        self._receipts: frozenset[str] = frozenset()  # names of jobs that are kept

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
            self._rates.forget(job.uid)

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
        self._pending.setdefault(what.about, PendingJob()).answered(what, now_s, error, is_final=is_final)

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
            self._pending.setdefault(name, PendingJob())
        evictions, intended = self._rates.recent(self.jobs.values(), now_s), self._intended()
        self._simulations = 0
        self._receipts = kept_receipts(self.jobs.values(), self.settings.receipts, now_s)
        for name in sorted(self.jobs):
            job, pending = self.jobs[name], self._pending[name]
            if not pending.is_due(now_s):
                continue
            if job.phase.is_final:
                write = self._after(job, now_s)
            else:
                verdict, why = verdicts.get(name, (ArbitrationVerdict.WAITING, "it was not arbitrated"))
                taken = evictions if self._has_room(job) else evictions + intended
                facts = self._facts(job, verdict, why, taken, first, now_s)
                step = next_step(job, facts, now_s)
                write, pending.waits = pending.write_of(job, step, now_s), step.waits
                pending.reserves = isinstance(write, CreateReservation)
                intended += pending.reserves
                if begins_evicting(job, write):
                    evictions += 1
                    self._rates.count(job, facts.pod, now_s)
            if write is not None:
                pending.in_flight = True
                found.append(write)
        return found + self._orphans(now_s)

    def next_s(self, now_s: float) -> float:
        """When `decide` should be called again if nothing happens; inf = never."""
        if any(not job.phase.is_final for job in self.jobs.values()) or self._orphaned:
            return now_s + 1.0
        is_watched = any(job.note is not None and job.condition(JobStep.HELPED) is None for job in self.jobs.values())
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
        self._rates.recent(self.jobs.values(), now_s)
        more += sum(self._workload(job) == workload and isnan(job.began_evicting_s()) for job in self.unfinished())
        return self._rates.refuses(workload, replicas, more, now_s)

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

    def _arbitrate(self, now_s: float) -> Mapping[str, tuple[ArbitrationVerdict, str]]:
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
            job for job in self.moving() if job.mode is JobMode.RESERVATION_FIRST and not job.has(JobStep.POD_BOUND)
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
        verdict: ArbitrationVerdict,
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
            holds_back=self._rates.holds_back(job, pod, evictions, now_s),
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

    def _has_room(self, job: MigrationJob) -> bool:
        """Whether a reservation of it exists, or is being created."""
        is_known = job.reservation_name in self._reservations or self._pending[job.name].reserves
        return is_known or job.has(JobStep.RESERVATION_CREATED)

    def _intended(self) -> int:
        """Evictions for which room is reserved; those whose reservation finds no node do not count."""
        reserved = [job for job in self.moving() if self._has_room(job) and isnan(job.began_evicting_s())]
        placed = [job.condition(JobStep.RESERVATION_SCHEDULED) for job in reserved]
        return sum(found is None or found.status == "True" for found in placed)

    def _simulated(self, job: MigrationJob, now_s: float) -> SimulatedMove | None:
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

    # ---- afterwards

    def _after(self, job: MigrationJob, now_s: float) -> Instruction | None:
        """What remains of a job that ended: its reservation, its proof, and in the end the job itself."""
        own = self._reservations.get(job.uid)
        if own is not None and not own.phase.is_final and not own.current:
            return DeleteJobReservation(own.name, own.uid, job.name)
        request = self._requests.get(request_key(job))
        if request is not None:
            return WithdrawEviction(request, job.name)
        if job.has(JobStep.SURGE) and job.phase is not JobPhase.SUCCEEDED:
            begun = job.condition(JobStep.EVICTION)
            if begun is not None and begun.status != "True" and not self._pending[job.name].undone:
                return UndoSurge(job)
            return WriteStatus(job.with_condition(JobStep.SURGE, "False", now_s, JobReason.UNDONE))
        judged = self._proofs.judge(job, now_s)
        if judged is not None:
            return WriteStatus(judged)
        kept_s = self.settings.kept_s if job.is_ours else SCAVENGED_AFTER_S
        age_s = now_s - job.limit_from_s(now_s)
        if job.name in self._receipts:
            return None
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
            write: DeleteJobReservation | WithdrawEviction = (
                WithdrawEviction(lost[name])
                if name in lost
                else DeleteJobReservation(name, self._reservations[name].uid)
            )
            pending = self._pending.setdefault(write.about, PendingJob())
            if now_s - since_s >= _ORPHANED_S and pending.is_due(now_s):
                pending.in_flight = True
                found.append(write)
        return found


def request_key(job: MigrationJob) -> str:
    """namespace/name of the EvictionRequest of a job, which only this job has."""
    return f"{job.pod.namespace}/cotenant-{job.uid}"


def _wants_simulation(job: MigrationJob) -> bool:
    return job.what_if and job.note is None
