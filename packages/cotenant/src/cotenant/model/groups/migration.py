"""PodMigrationJobs: the move of one pod to another node, as a record of how far it has come.

A move has several steps (reserve, evict, wait for the replacement), a rebalancer may be killed between any two of them,
and users and other controllers create moves too. Koordinator's PodMigrationJob as a frozen value. Its status is the
only memory of a move: whoever reads it knows the next step.
Limits: `reservationOptions.template` and `preemptionOptions` are not read.
Source: Koordinator, apis/scheduling/v1alpha1/pod_migration_job_types.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import nan

KIND = "PodMigrationJob"
EVICT_POLICY = "koordinator.sh/evict-policy"  # label of pods and jobs: Eviction, Delete or SoftEviction
EVICT_REASON = "koordinator.sh/evict-reason"  # annotation of jobs
EVICT_TRIGGER = "koordinator.sh/evict-trigger"  # annotation of jobs: what asked for the move
SOFT_EVICTION = "scheduling.koordinator.sh/soft-eviction"  # annotation of pods: another controller is to delete it
CREATED_BY = "app.kubernetes.io/created-by"  # label of jobs and reservations
MOVE = "cotenant.io/move"  # annotation of our jobs: JSON, the expected effect
# annotation of jobs, value REQUIRED: the landing is simulated first, and the job fails where there is no better place
WHAT_IF = "cotenant.io/what-if"
REQUIRED = "required"
# annotation of jobs: namespace/name, separated by commas: any of these may move instead, the one that costs least
OR_PODS = "cotenant.io/or-pods"
ALLOWED_BY = "cotenant.io/allowed-by"  # annotation of our jobs: who allowed it, or what earned it
SUGGESTED = "cotenant.io/suggested"  # annotation of our jobs, value TRUE: paused until a person approves
TRUE = "true"
SURGED = "cotenant.io/surge"  # label of a Deployment's pod template: UID of the job that rolled it out
COMPONENT = "cotenant-rebalancer"  # value of `CREATED_BY`

COMPLETE = "Complete"  # `status.status` of a job that succeeded


class JobPhase(StrEnum):
    """Phase of a PodMigrationJob. An empty phase is Pending."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    ABORTED = "Aborted"

    @property
    def is_final(self) -> bool:
        """Whether the job has ended."""
        return self in (JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.ABORTED)


class JobMode(StrEnum):
    """Whether room is reserved before the pod is evicted."""

    RESERVATION_FIRST = "ReservationFirst"
    EVICT_DIRECTLY = "EvictDirectly"


class EvictPolicy(StrEnum):
    """How a pod is evicted."""

    EVICTION = "Eviction"  # the eviction API, which honours PodDisruptionBudgets
    DELETE = "Delete"
    SOFT = "SoftEviction"  # an annotation asks another controller to delete it


class JobStep(StrEnum):
    """Types of the job's conditions."""

    RESERVATION_CREATED = "ReservationCreated"
    RESERVATION_SCHEDULED = "ReservationScheduled"
    EVICTION = "Eviction"
    POD_SCHEDULED = "PodScheduled"
    POD_BOUND = "PodBoundReservation"
    POD_READY = "BoundPodReady"
    HELPED = "Helped"  # ours: what the move changed, measured after it
    WAITING = "Waiting"  # ours: on what it waits now
    SURGE = "Surge"  # ours: the pod's replacement is rolled out first, and the rollout ends the pod; False = undone
    QUEUED = "Queued"  # ours: it waits for its turn, or is paused; such time does not count toward its time limit


# Conditions that say nothing about how far a move has come.
REMARKS = frozenset({JobStep.HELPED, JobStep.WAITING, JobStep.QUEUED, JobStep.SURGE})


class JobReason(StrEnum):
    """Reasons of a failed job, and of conditions."""

    TIMEOUT = "Timeout"
    INVALID_POD_REF = "InvalidPodRef"
    MISSING_POD = "MissingPod"
    MISSING_RESERVATION = "MissingReservation"
    FAILED_CREATE = "FailedCreateReservation"
    EXPIRED = "ReservationExpired"
    UNSCHEDULABLE = "Unschedulable"
    FORBIDDEN = "ForbiddenMigratePod"
    FAILED_EVICT = "FailedEvict"
    NO_BETTER_PLACE = "NoBetterPlace"  # ours: the simulation found none
    EVICTING = "Evicting"
    SURGING = "ReplacementFirst"  # ours
    UNDONE = "Undone"  # ours
    NOT_APPROVED = "NotApproved"  # ours
    EVICT_COMPLETE = "EvictComplete"
    WAIT_BOUND = "WaitForPodBindReservation"
    WAIT_READY = "WaitForBoundPodReady"


class WaitReason(StrEnum):
    """Reasons of the condition Waiting."""

    PAUSED = "Paused"
    POD = "Pod"  # it is not known yet, ends, or is to be deleted by another controller
    LIMIT = "Limit"  # of moves at a time, or in a time
    WORKLOAD = "Workload"  # another pod of it moves first
    BUDGET = "DisruptionBudget"
    SIMULATION = "Simulation"
    RESERVATION = "Reservation"
    REPLACEMENT = "Replacement"
    RESPONDER = "EvictionRequest"  # the pod's responders act, one after another
    REFUSED = "Refused"  # the API server refused the last write, which is tried again
    NONE = "NotWaiting"

    @property
    def is_queue(self) -> bool:
        """Whether this is a turn among other moves, or a person's."""
        return self in (WaitReason.LIMIT, WaitReason.WORKLOAD, WaitReason.PAUSED)


@dataclass(frozen=True, slots=True)
class PodRef:
    """A pod, by name and UID."""

    namespace: str = ""
    name: str = ""
    uid: str = ""

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class JobCondition:
    """A condition; `status` is True, False or Unknown."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    since_s: float = field(default=nan, compare=False)  # Unix time of the last change of `status`


@dataclass(frozen=True, slots=True)
class MoveAim:
    """What a move is to lower, as it was when the move was planned, with the earlier moves of the plan counted."""

    # anti-affinity: pods that the pod may not share a domain with and did; spread: the skew; emptying: the pods of the
    # node that were to leave
    before: int = 0
    peers: tuple[str, ...] = ()  # anti-affinity: namespace/name of the first of these pods
    topology_key: str = ""  # spread
    domain: str = ""  # spread: of the node that the pod left
    domain_before: int = 0  # spread: by how many pods that domain exceeded the smallest
    objective: str = ""  # a service's objective: namespace/name of the ServiceObjective whose budget burnt
    window: str = ""  # its shortest window, and the burn rate over it
    burn_before: float = 0.0


@dataclass(frozen=True, slots=True)
class MoveNote:
    """What a move is expected to change. Percentages are of raw allocatable, by resource, with the earlier moves of
    the same plan counted.
    """

    kind: str = ""  # moves of one kind are backed off together: trigger/pool/scope/resource
    node: str = ""
    target: str = ""
    resource: str = ""  # the one whose use was too high
    workload: str = ""  # UID of the pod's controller
    replicas: int = 1
    used: Mapping[str, int] = field(default_factory=dict)  # by the pod: CPU in milli-CPU, memory in bytes
    node_before: Mapping[str, float] = field(default_factory=dict)
    node_after: Mapping[str, float] = field(default_factory=dict)
    target_before: Mapping[str, float] = field(default_factory=dict)
    target_after: Mapping[str, float] = field(default_factory=dict)
    aim: MoveAim | None = None
    burning: tuple[str, ...] = ()  # namespace/name of the objectives of which an alert fired when it was planned


@dataclass(frozen=True, slots=True)
class MigrationJob:
    """One job as stored in the API server."""

    name: str
    uid: str
    pod: PodRef
    created_s: float = 0.0  # Unix time
    version: str = ""  # resourceVersion: a status is written only over the one that was read
    paused: bool = False
    ttl_s: float = 0.0  # 0 = no limit
    mode: JobMode = JobMode.RESERVATION_FIRST
    reservation: str = ""  # spec.reservationOptions.reservationRef.name; empty = one is created
    policy: EvictPolicy | None = None  # label of the job; None = the configured one
    grace_s: int | None = None  # deleteOptions.gracePeriodSeconds
    forced: bool = False  # annotation descheduler.alpha.kubernetes.io/evict on the job: no rate of its workload
    is_ours: bool = False  # made by a rebalancer of ours
    reason: str = ""  # why the pod should move
    trigger: str = ""
    note: MoveNote | None = None
    what_if: bool = False  # a request: `note` is written by the rebalancer once the landing was simulated
    alternatives: tuple[str, ...] = ()  # namespace/name of pods that may move instead of `pod`
    created_by: str = ""  # label: what asked for it
    suggested: bool = False  # nothing is done before a person ends its pause
    allowed_by: str = ""
    wrong: tuple[str, ...] = ()  # what of its spec cannot be used
    # --- from its status
    phase: JobPhase = JobPhase.PENDING
    status: str = ""
    status_reason: str = ""
    message: str = ""
    node: str = ""  # of the pod before the move
    new_pod: PodRef | None = None
    conditions: tuple[JobCondition, ...] = ()

    @property
    def reservation_name(self) -> str:
        """The reservation that it waits for: the one it names, else its own, named by its UID so that it is created
        at most once.
        """
        return self.reservation or self.uid

    def condition(self, type_: str) -> JobCondition | None:
        """A condition by type."""
        return next((job_condition for job_condition in self.conditions if job_condition.type == type_), None)

    def has(self, type_: str) -> bool:
        """Whether a condition is True."""
        found = self.condition(type_)
        return found is not None and found.status == "True"

    def began_evicting_s(self) -> float:
        """Unix time when its eviction began or was confirmed; NaN before."""
        found = self.condition(JobStep.EVICTION)
        return found.since_s if found is not None else nan

    def waits(self, reason: WaitReason, message: str, now_s: float) -> MigrationJob:
        """The job with what it waits for; an empty message = nothing."""
        queued = "True" if message and reason.is_queue else "False"
        made = self
        if queued == "True" or self.condition(JobStep.QUEUED) is not None:
            made = made.with_condition(JobStep.QUEUED, queued, now_s, reason if queued == "True" else WaitReason.NONE)
        if message:
            return replace(made.with_condition(JobStep.WAITING, "True", now_s, reason, message), message=message)
        if self.condition(JobStep.WAITING) is None:
            return made
        return replace(made.with_condition(JobStep.WAITING, "False", now_s, WaitReason.NONE), message="")

    def limit_from_s(self, now_s: float) -> float:
        """Unix time from which its time limit counts: its creation, or the end of its last wait for a turn; now,
        while it waits for one.
        """
        queued = self.condition(JobStep.QUEUED)
        if queued is None:
            return self.created_s
        return now_s if queued.status == "True" else max(self.created_s, queued.since_s)

    def with_condition(
        self, type_: str, status: str, now_s: float, reason: str = "", message: str = ""
    ) -> MigrationJob:
        """The job with this condition; the time of an unchanged `status` is kept."""
        before = self.condition(type_)
        since_s = before.since_s if before is not None and before.status == status else now_s
        made = JobCondition(type_, status, reason, message, since_s)
        if before is None:
            return replace(self, conditions=(*self.conditions, made))
        return replace(
            self, conditions=tuple(made if condition is before else condition for condition in self.conditions)
        )
