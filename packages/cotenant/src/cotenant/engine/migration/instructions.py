"""Instructions of the migration engine, each one API write, and the facts that it reads of pods.

Every write may be repeated: it names the UID, or the resourceVersion, of the object that it is about, or creates an
object under a name that only one job has.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.cluster.eviction_request import EvictionRequest
from cotenant.model.groups.migration import EvictPolicy, MigrationJob, MoveNote, PodRef


@dataclass(frozen=True, slots=True)
class PodFacts:
    """A pod as it is now."""

    ref: PodRef
    node: str = ""  # empty = not bound
    terminating: bool = False
    ready: bool = False
    softly_evicted: bool = False  # the annotation of a soft eviction is present
    policy: EvictPolicy | None = None  # label of the pod
    workload: str = ""  # UID of its controller; empty = none
    replicas: int = 1  # of its controller
    takes_requests: bool = False  # the server serves EvictionRequests, and evicts such a pod by them


@dataclass(frozen=True, slots=True)
class CreateJob:
    """Create a job; only its spec and metadata count."""

    job: MigrationJob

    @property
    def about(self) -> str:
        """The job's name."""
        return self.job.name


@dataclass(frozen=True, slots=True)
class SetPodUid:
    """Write the UID of the pod that the job is about into its spec."""

    job: MigrationJob
    uid: str

    @property
    def about(self) -> str:
        """The job's name."""
        return self.job.name


@dataclass(frozen=True, slots=True)
class SetLanding:
    """Write which pod a requested move is about, and its simulated landing, over the version that was read."""

    job: MigrationJob
    pod: PodRef
    note: MoveNote

    @property
    def about(self) -> str:
        """The job's name."""
        return self.job.name


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Write the status of this job, over the version that was read."""

    job: MigrationJob

    @property
    def about(self) -> str:
        """The job's name."""
        return self.job.name


@dataclass(frozen=True, slots=True)
class CreateReservation:
    """Create the reservation of a job, unless it exists. `target`: the only node that it may be placed on; empty =
    any but the pod's.
    """

    job: MigrationJob
    pod: PodRef
    node: str
    target: str
    by_label: str = ""  # value of the label `SURGED` by which its owner is known; empty = by its controller

    @property
    def about(self) -> str:
        """The job's name."""
        return self.job.name


@dataclass(frozen=True, slots=True)
class StartSurge:
    """Roll the pod's Deployment out anew, under the job's name, unless it is done already."""

    job: MigrationJob

    @property
    def about(self) -> str:
        """The job's name."""
        return self.job.name


@dataclass(frozen=True, slots=True)
class UndoSurge:
    """Give the Deployment the template back that it had, if it still has the one of this job."""

    job: MigrationJob

    @property
    def about(self) -> str:
        """The job's name."""
        return self.job.name


@dataclass(frozen=True, slots=True)
class EvictJobPod:
    """Evict the pod of a job, only if it still is the one of that UID."""

    job: MigrationJob
    policy: EvictPolicy

    @property
    def about(self) -> str:
        """The job's name."""
        return self.job.name


@dataclass(frozen=True, slots=True)
class RequestEviction:
    """Create the EvictionRequest of a job, unless it exists."""

    job: MigrationJob

    @property
    def about(self) -> str:
        """The job's name."""
        return self.job.name


@dataclass(frozen=True, slots=True)
class WithdrawEviction:
    """Delete an EvictionRequest whose job has ended or is gone, which withdraws it."""

    request: EvictionRequest
    job: str = ""  # name of its job; empty = the job is gone

    @property
    def about(self) -> str:
        """The job's name, else that of the request."""
        return self.job or f"eviction request {self.request.key}"


@dataclass(frozen=True, slots=True)
class DeleteJobReservation:
    """Delete a reservation whose job has ended or is gone."""

    name: str
    uid: str
    job: str = ""  # name of its job; empty = the job is gone

    @property
    def about(self) -> str:
        """The job's name, else that of the reservation."""
        return self.job or f"reservation {self.name}"


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Delete a job that ended long ago."""

    job: MigrationJob

    @property
    def about(self) -> str:
        """The job's name."""
        return self.job.name


Instruction = (
    CreateJob
    | SetPodUid
    | SetLanding
    | WriteStatus
    | CreateReservation
    | EvictJobPod
    | StartSurge
    | UndoSurge
    | RequestEviction
    | WithdrawEviction
    | DeleteJobReservation
    | DeleteJob
)
