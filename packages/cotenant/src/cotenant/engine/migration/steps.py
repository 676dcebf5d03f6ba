"""The next step of one job, from what is stored and observed now.

A rebalancer may be killed between any two writes, its view may lag behind the server, and pods, reservations and jobs
may be deleted by others at any moment. One pure function from the job, its pod, its reservation and the replacement to
at most one write. It keeps no memory: what was done is a condition of the job, or can be seen in the cluster. The
intention to evict is written before the eviction, so a pod that is gone afterwards was evicted for this job. A failure
is written first, and the reservation is deleted when the job has ended (migrations.py), so the reason is never lost.
What a job waits for is a condition too (`Waiting`), and a wait for its turn among other moves does not count toward its
time limit. Differences from upstream: a job whose pod was replaced before it ran fails, where upstream moves the new
pod; the eviction is confirmed before the reservation's owner is read.
Limits: a replacement that is deleted before it is ready counts as ready, as upstream.
Source: Koordinator, pkg/descheduler/controllers/migration/controller.go.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from cotenant.engine.migration.instructions import (
    CreateReservation,
    EvictJobPod,
    Instruction,
    PodFacts,
    RequestEviction,
    SetLanding,
    SetPodUid,
    StartSurge,
    WriteStatus,
)
from cotenant.model.cluster.eviction_request import INVALID, EvictionProgress, EvictionRequest
from cotenant.model.groups.migration import (
    COMPLETE,
    EvictPolicy,
    JobMode,
    JobPhase,
    JobReason,
    JobStep,
    MigrationJob,
    MoveNote,
    PodRef,
    WaitReason,
)
from cotenant.model.groups.reservation import SCHEDULED, CurrentOwner, Reservation, ReservationPhase
from cotenant.policy.rebalance.migration.arbitration import BUDGET, ArbitrationVerdict

SETTLES_S = 10.0  # objects of different kinds are seen at different times
SUGGESTED_S = 1800.0  # for which a suggestion waits: the plan that it belongs to is then made anew
SCAVENGED_AFTER_S = 300.0  # after the end of its time limit
SCAVENGED_WITHOUT_TTL_S = 1800.0
_EXPIRED = "Expired"  # reason of a reservation's condition Ready


@dataclass(frozen=True, slots=True)
class SimulatedMove:
    """The what-if of a requested move: a pod with its landing, or why none of the named pods may move (`final`) or
    may move now.
    """

    pod: PodRef = field(default_factory=PodRef)
    note: MoveNote | None = None
    why: str = ""
    final: bool = False


@dataclass(frozen=True, slots=True)
class JobFacts:
    """What is observed about one job."""

    pod: PodFacts | None = None  # the pod of that namespace and name now
    reservation: Reservation | None = None
    new_pod: PodFacts | None = None  # the pod that the job's status names, only if it still is the one of that UID
    verdict: ArbitrationVerdict = ArbitrationVerdict.WAITING  # of arbitration, for a pending job
    why: str = ""  # of the verdict
    holds_back: str = ""  # why the eviction must wait; empty = it may begin
    holds_reservation: str = ""  # why no reservation may be created yet; empty = it may
    cannot_reserve: str = ""  # the server refuses the reservation for good
    cannot_evict: str = ""  # the server refuses the eviction for good
    request: EvictionRequest | None = None  # of this job
    progress: EvictionProgress | None = None  # of the Eviction of its pod
    policy: EvictPolicy = EvictPolicy.EVICTION  # where neither the pod nor the job says
    target: str = ""  # the only node that the reservation may be placed on
    simulated: SimulatedMove | None = None  # of a requested move that has no landing yet; None = not simulated yet


@dataclass(frozen=True, slots=True)
class Next:
    """One write, or None and what the job waits for."""

    write: Instruction | None
    waits: str = ""
    reason: WaitReason = WaitReason.NONE


def next_step(job: MigrationJob, facts: JobFacts, now_s: float) -> Next:
    """What to do for this job now."""
    if job.phase.is_final:
        return Next(None)
    if job.paused:
        if job.suggested and now_s - job.created_s >= SUGGESTED_S:
            return _fail(job, JobReason.NOT_APPROVED, f"nobody approved it within {SUGGESTED_S / 60:.0f} minutes")
        waits = f"cotenant receipts approve {job.name}" if job.suggested else "it is paused"
        return Next(None, waits, WaitReason.PAUSED)
    if job.ttl_s > 0 and now_s - job.limit_from_s(now_s) >= job.ttl_s:
        waiting = job.condition(JobStep.WAITING)
        why = f": {waiting.message}" if waiting is not None and waiting.status == "True" else ""
        return _fail(job, JobReason.TIMEOUT, f"not complete within {job.ttl_s:.0f} s{why}")
    if job.phase is JobPhase.PENDING:
        return _begin(job, facts, now_s)
    if job.mode is JobMode.EVICT_DIRECTLY:
        return _evict(job, facts, now_s) or _succeed(job)
    return _reserve(job, facts, now_s) or _hand_over(job, facts, now_s)


def is_scavenged(phase: JobPhase, age_s: float, ttl_s: float, kept_s: float = SCAVENGED_AFTER_S) -> bool:
    """Whether a job of this age is deleted. Without a time limit only ended jobs are; upstream deletes running ones
    too.
    """
    if ttl_s > 0:
        return age_s >= ttl_s + kept_s
    return phase.is_final and age_s >= SCAVENGED_WITHOUT_TTL_S - SCAVENGED_AFTER_S + kept_s


# ---- pending


def _begin(job: MigrationJob, facts: JobFacts, now_s: float) -> Next:
    if job.wrong or not (job.pod.namespace and job.pod.name):
        return _fail(job, JobReason.INVALID_POD_REF, "; ".join(job.wrong) or "spec.podRef needs namespace and name")
    if job.what_if and job.note is None:
        return _simulate(job, facts)
    pod = facts.pod
    if pod is None and now_s - job.created_s < SETTLES_S:
        return Next(None, f"pod {job.pod.key} is not known yet", WaitReason.POD)
    if pod is None or (job.pod.uid and pod.ref.uid != job.pod.uid):
        return _fail(job, JobReason.MISSING_POD, f"pod {job.pod.key} does not exist")
    if facts.verdict is ArbitrationVerdict.FAILED:
        return _fail(job, JobReason.FORBIDDEN, facts.why)
    if facts.verdict is ArbitrationVerdict.WAITING:
        return Next(None, facts.why, WaitReason.BUDGET if facts.why.startswith(BUDGET) else WaitReason.LIMIT)
    if not job.pod.uid:
        return Next(SetPodUid(job, pod.ref.uid))
    if facts.verdict is ArbitrationVerdict.SURGE:
        job = job.with_condition(JobStep.SURGE, "True", now_s, JobReason.SURGING, facts.why)
    return Next(WriteStatus(replace(job, phase=JobPhase.RUNNING, node=pod.node)))


def _simulate(job: MigrationJob, facts: JobFacts) -> Next:
    """A requested move: its landing is simulated and written before anything else."""
    found = facts.simulated
    if found is None:
        return Next(None, "its landing is not simulated yet", WaitReason.SIMULATION)
    if found.note is not None:
        return Next(SetLanding(job, found.pod, found.note))
    return (
        _fail(job, JobReason.NO_BETTER_PLACE, found.why)
        if found.final
        else Next(None, found.why, WaitReason.SIMULATION)
    )


# ---- reservation first


def _reserve(job: MigrationJob, facts: JobFacts, now_s: float) -> Next | None:
    """Until the reservation has a node; None from then on."""
    found, name = facts.reservation, job.reservation_name
    if not job.has(JobStep.RESERVATION_CREATED):
        if found is None:
            if job.reservation:
                return _fail(job, JobReason.MISSING_RESERVATION, f"reservation {name} does not exist")
            if _gone(job, facts) or facts.pod is None:
                return _fail(job, JobReason.MISSING_POD, f"pod {job.pod.key} is gone")
            if facts.cannot_reserve:
                return _fail(job, JobReason.FAILED_CREATE, facts.cannot_reserve)
            if facts.holds_reservation:
                return Next(None, facts.holds_reservation, WaitReason.WORKLOAD)
            if facts.holds_back:  # room is not reserved before the eviction may begin
                return Next(None, facts.holds_back, WaitReason.LIMIT)
            return Next(
                CreateReservation(job, facts.pod.ref, job.node, facts.target, job.uid if job.has(JobStep.SURGE) else "")
            )
        return _step(job, JobStep.RESERVATION_CREATED, "True", now_s, message=f"reservation {name}")
    if job.has(JobStep.POD_BOUND):
        return None  # it has served its purpose
    if found is None:
        return _fail(job, JobReason.MISSING_RESERVATION, f"reservation {name} was deleted")
    if not found.node:
        why = next(
            (
                condition.message
                for condition in found.conditions
                if condition.type == SCHEDULED and not condition.status
            ),
            "",
        )
        if found.phase is ReservationPhase.FAILED:
            if any(condition.reason == _EXPIRED for condition in found.conditions):
                return _fail(job, JobReason.EXPIRED, f"reservation {name} expired without a node")
            marked = job.with_condition(JobStep.RESERVATION_SCHEDULED, "False", now_s, JobReason.UNSCHEDULABLE, why)
            return _fail(marked, JobReason.UNSCHEDULABLE, why or f"reservation {name} has no node")
        before = job.condition(JobStep.RESERVATION_SCHEDULED)
        if why and (before is None or before.message != why):
            return _step(job, JobStep.RESERVATION_SCHEDULED, "False", now_s, JobReason.UNSCHEDULABLE, why)
        return Next(None, why or f"reservation {name} has no node yet", WaitReason.RESERVATION)
    if found.node == job.node:
        return _fail(job, JobReason.FORBIDDEN, f"reservation {name} is on the pod's own node {found.node}")
    if not job.has(JobStep.RESERVATION_SCHEDULED):
        return _step(job, JobStep.RESERVATION_SCHEDULED, "True", now_s, message=f"on {found.node}")
    if found.phase is ReservationPhase.FAILED:
        return _fail(job, JobReason.EXPIRED, f"reservation {name} ended before the pod was replaced")
    return None


def _hand_over(job: MigrationJob, facts: JobFacts, now_s: float) -> Next:
    """Evict, then follow the replacement until it is ready."""
    if not job.has(JobStep.POD_BOUND):
        waiting = _pending_pod(job, facts, now_s)
        if waiting is not None:
            return waiting
        evicting = _evict(job, facts, now_s)
        if evicting is not None:
            return evicting
        owner = _owner(facts.reservation)
        if owner is None:
            why = "its replacement is not placed yet"
            return _waits_for_replacement(job, JobStep.POD_BOUND, JobReason.WAIT_BOUND, why, now_s)
        marked = job.with_condition(JobStep.POD_BOUND, "True", now_s, message=f"{owner.namespace}/{owner.name}")
        return Next(
            WriteStatus(
                replace(marked, status=JobStep.POD_BOUND.value, new_pod=PodRef(owner.namespace, owner.name, owner.uid))
            )
        )
    bound = job.condition(JobStep.POD_BOUND)
    if facts.new_pod is None and bound is not None and now_s - bound.since_s < SETTLES_S:
        return Next(None, "its replacement is not known yet", WaitReason.REPLACEMENT)
    if facts.new_pod is None:
        return _succeed(job.with_condition(JobStep.POD_READY, "True", now_s, message="the replacement is gone"))
    if not facts.new_pod.ready:
        why = "its replacement is not ready yet"
        return _waits_for_replacement(job, JobStep.POD_READY, JobReason.WAIT_READY, why, now_s)
    return _succeed(job.with_condition(JobStep.POD_READY, "True", now_s))


def _pending_pod(job: MigrationJob, facts: JobFacts, now_s: float) -> Next | None:
    """A pod that had no node itself is not evicted, wherever it was placed meanwhile: it draws from its
    reservation. None for any other.
    """
    condition = job.condition(JobStep.POD_SCHEDULED)
    if condition is None and (job.node or job.condition(JobStep.EVICTION)):
        return None
    if _gone(job, facts):
        return _fail(job, JobReason.MISSING_POD, f"pod {job.pod.key} is gone")
    assert facts.pod is not None
    if facts.pod.node:
        return _succeed(job.with_condition(JobStep.POD_SCHEDULED, "True", now_s, message=f"on {facts.pod.node}"))
    owner = _owner(facts.reservation)
    if owner is not None and owner.uid != facts.pod.ref.uid:
        return _fail(job, JobReason.FORBIDDEN, f"pod {owner.namespace}/{owner.name} took the reservation first")
    if condition is None:
        return _step(job, JobStep.POD_SCHEDULED, "False", now_s, JobReason.UNSCHEDULABLE)
    return Next(None, "the pod is not placed yet", WaitReason.POD)


def _waits_for_replacement(job: MigrationJob, type_: JobStep, reason: JobReason, why: str, now_s: float) -> Next:
    """Written once as the step's condition, as upstream, for clients that watch it."""
    if job.condition(type_) is None:
        return _step(job, type_, "False", now_s, reason)
    return Next(None, why, WaitReason.REPLACEMENT)


# ---- eviction


def _evict(job: MigrationJob, facts: JobFacts, now_s: float) -> Next | None:
    """Until the pod is gone and that is written; None from then on."""
    if job.has(JobStep.EVICTION):
        return None
    begun, pod = job.condition(JobStep.EVICTION) is not None, facts.pod
    if _gone(job, facts) or pod is None:
        if begun:
            return _step(job, JobStep.EVICTION, "True", now_s, JobReason.EVICT_COMPLETE)
        return _fail(job, JobReason.MISSING_POD, f"pod {job.pod.key} was gone before it was evicted")
    if pod.terminating and begun:
        return Next(None, "the pod is terminating", WaitReason.POD)
    if facts.cannot_evict:
        return _fail(job, JobReason.FAILED_EVICT, facts.cannot_evict)
    owner = _owner(facts.reservation)
    is_surge = job.has(JobStep.SURGE)  # then the replacement has the reservation before the pod goes
    if owner is not None and not is_surge and (owner.namespace, owner.name) != (job.pod.namespace, job.pod.name):
        return _fail(job, JobReason.FORBIDDEN, f"pod {owner.namespace}/{owner.name} took the reservation first")
    if not begun:
        if facts.reservation is not None and facts.reservation.phase is ReservationPhase.SUCCEEDED:
            return _fail(
                job, JobReason.FORBIDDEN, f"reservation {job.reservation_name} was used up before the eviction"
            )
        if facts.holds_back:
            return Next(None, facts.holds_back, WaitReason.LIMIT)
        return _step(job, JobStep.EVICTION, "False", now_s, JobReason.SURGING if is_surge else JobReason.EVICTING)
    if is_surge:
        why = "its replacement is rolled out first" if owner is None else f"{owner.name} is to become ready first"
        return Next(StartSurge(job), why, WaitReason.REPLACEMENT)
    policy = pod.policy or job.policy or facts.policy
    if policy is EvictPolicy.SOFT and pod.softly_evicted:
        return Next(None, "another controller is to delete the pod", WaitReason.POD)
    if policy is EvictPolicy.EVICTION and pod.takes_requests:
        return _request(job, facts, now_s)
    return Next(EvictJobPod(job, policy), "the pod is there still", WaitReason.POD)


def _request(job: MigrationJob, facts: JobFacts, now_s: float) -> Next:
    """Ask for the eviction, and follow it. What holds it for ever ends with the job's time limit."""
    found = facts.request
    if found is None:
        return Next(RequestEviction(job), "the pod's eviction is requested", WaitReason.RESPONDER)
    if found.failed == INVALID:  # such as a pod of a group that was not known to be one
        return Next(EvictJobPod(job, EvictPolicy.EVICTION), "the pod is there still", WaitReason.POD)
    if found.failed:
        return _fail(job, JobReason.FAILED_EVICT, f"EvictionRequest {found.key}: {found.failed}: {found.message}")
    said = facts.progress.in_words(now_s) if facts.progress is not None else "no Eviction has begun yet"
    return Next(None, f"EvictionRequest {found.key}: {said}", WaitReason.RESPONDER)


def _gone(job: MigrationJob, facts: JobFacts) -> bool:
    """Whether the job's pod no longer exists; another pod may have its name."""
    return facts.pod is None or (bool(job.pod.uid) and facts.pod.ref.uid != job.pod.uid)


def _owner(reservation: Reservation | None) -> CurrentOwner | None:
    return reservation.current[0] if reservation is not None and reservation.current else None


# ---- writes


def _step(job: MigrationJob, type_: JobStep, status: str, now_s: float, reason: str = "", message: str = "") -> Next:
    marked = job.with_condition(type_, status, now_s, reason, message)
    return Next(WriteStatus(replace(marked, status=type_.value)))


def _fail(job: MigrationJob, reason: JobReason, message: str) -> Next:
    """The status stays the step that it reached, as upstream has it."""
    reached = job.status or str(reason)
    return Next(
        WriteStatus(replace(job, phase=JobPhase.FAILED, status=reached, status_reason=str(reason), message=message))
    )


def _succeed(job: MigrationJob) -> Next:
    return Next(WriteStatus(replace(job, phase=JobPhase.SUCCEEDED, status=COMPLETE, status_reason="", message="")))
