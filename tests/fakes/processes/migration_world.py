"""A cluster in which a rebalancer may be killed after any write: jobs, reservations and the pods of one ReplicaSet,
stored as values.

The other processes (scheduler, controller, kubelet) act in `turn`. A rebalancer is a `Migrations` that is made anew
from what is stored; nothing else survives it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cotenant.engine.migration.contracts import MigrationSettings
from cotenant.engine.migration.instructions import (
    CreateJob,
    CreateReservation,
    DeleteJob,
    DeleteJobReservation,
    EvictJobPod,
    Instruction,
    PodFacts,
    RequestEviction,
    SetLanding,
    SetPodUid,
    StartSurge,
    UndoSurge,
    WithdrawEviction,
    WriteStatus,
)
from cotenant.engine.migration.migrations import Migrations, request_key
from cotenant.engine.migration.steps import SimulatedMove
from cotenant.model.cluster.eviction_request import REBALANCER, EvictionProgress, EvictionRequest
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.pod import Pod
from cotenant.model.groups.migration import COMPONENT, CREATED_BY, EvictPolicy, JobPhase, MigrationJob, PodRef
from cotenant.model.groups.reservation import (
    SCHEDULED,
    ControllerOwner,
    CurrentOwner,
    Reservation,
    ReservationCondition,
    ReservationOwner,
    ReservationPhase,
)
from cotenant.policy.rebalance.migration.arbitration import ArbitrationVerdict


class Killed(Exception):
    """The rebalancer was killed."""


class PassAll:
    """An arbiter without limits; `surge`: pods move by a rollout."""

    surge = False

    def arbitrate(
        self, pending: Sequence[MigrationJob], moving: Sequence[MigrationJob], now_s: float
    ) -> Mapping[str, tuple[ArbitrationVerdict, str]]:
        return {
            job.name: (ArbitrationVerdict.SURGE if self.surge else ArbitrationVerdict.PASSED, "") for job in pending
        }


@dataclass
class MigrationWorld:
    """What the API server stores. Time advances by three seconds a turn."""

    replicas: int = 3
    now_s: float = 1000.0
    jobs: dict[str, MigrationJob] = field(default_factory=dict)
    reservations: dict[str, Reservation] = field(default_factory=dict)
    pods: dict[str, PodFacts] = field(default_factory=dict)  # by key
    evicted: list[str] = field(default_factory=list)  # UIDs
    writes: int = 0
    kill_after: int | None = None
    schedules: bool = True  # the scheduler finds a node for reservations
    budget: Callable[[], bool] = lambda: True
    arbiter: PassAll = field(default_factory=PassAll)
    settings: MigrationSettings = field(default_factory=MigrationSettings)
    serves_requests: bool = False
    requests: dict[str, EvictionRequest] = field(default_factory=dict)  # by key
    responds: Callable[[float], bool] = lambda asked_s: True  # whether a pod's responder lets it go, so long after
    rolled_out: str = ""  # label of the Deployment's template
    refuses_rollout: str = ""  # why the Deployment cannot be rolled out
    starts: bool = True  # whether the replacement of a rollout becomes ready
    refuses: str = ""  # reason with which requests fail
    templates: dict[str, str] = field(default_factory=dict)  # of pods, by UID
    min_ready: int = 1000  # the fewest pods that were ready at a time
    number: int = 0
    simulated: SimulatedMove | None = None  # the answer to every what-if
    simulations: int = 0

    def __post_init__(self) -> None:
        for _ in range(self.replicas):
            self._pod("old-node", ready=True)
        self.engine = self.restart()

    def _pod(self, node: str, *, ready: bool = False) -> PodFacts:
        self.number += 1
        made = PodFacts(
            PodRef("default", f"web-{self.number}", f"u{self.number}"),
            node,
            ready=ready,
            workload="rs",
            replicas=self.replicas,
            takes_requests=self.serves_requests,
        )
        self.pods[made.ref.key] = made
        return made

    def serve_requests(self) -> None:
        """The server serves EvictionRequests from now on."""
        self.serves_requests = True
        self.pods = {key: replace(pod, takes_requests=True) for key, pod in self.pods.items()}
        self.restart()

    def job(self, **fields: object) -> MigrationJob:
        """A job about the first pod, as a user or a planner creates it."""
        made = MigrationJob(
            "job", "job-uid", PodRef("default", "web-1", "u1"), self.now_s, "1", ttl_s=300.0, is_ours=True
        )
        self.jobs[made.name] = replace(made, **fields)  # type: ignore[arg-type]
        return self.jobs[made.name]

    def restart(self) -> Migrations:
        """A new rebalancer, which reads everything that is stored."""
        self.engine = Migrations(self.arbiter, self.pods.get, settings=self.settings, what_if=self._what_if)
        return self.engine

    def _what_if(self, job: MigrationJob, moving: Sequence[MigrationJob], now_s: float) -> SimulatedMove:
        assert self.simulated is not None
        self.simulations += 1
        return self.simulated

    # ---- the rebalancer

    def act(self) -> None:
        """One round: the engine sees everything, decides, and its writes are carried out. Raises `Killed` after the
        write that was asked for.
        """
        self._show()
        for create_job in self.engine.decide(self.now_s):
            error = self._carry_out(create_job)
            self.writes += 1
            if self.writes == self.kill_after:
                raise Killed
            is_final = bool(error) and error == self.refuses_rollout
            self.engine.done(create_job, self.now_s, error, is_final=is_final)

    def _show(self) -> None:
        engine = self.engine
        for name in [name for name in engine.jobs if name not in self.jobs]:
            engine.job_gone(name)
        for job in self.jobs.values():
            engine.job_seen(job)
        for name in list(engine._reservations):
            if name not in self.reservations:
                engine.reservation_gone(name)
        for reservation in self.reservations.values():
            engine.reservation_seen(reservation)
        for key in [key for key in engine._requests if key not in self.requests]:
            engine.request_gone(key)
        for request in self.requests.values():
            engine.request_seen(request)
            engine.eviction_seen(
                EvictionProgress(f"{request.key}-e", request.pod_uid, "example.com/mover", request.created_s)
            )

    def _carry_out(self, what: Instruction) -> str:
        match what:
            case CreateJob(job=job):
                self.jobs.setdefault(job.name, job)
            case SetPodUid(job=job, uid=uid):
                self._store(job, replace(self.jobs[job.name], pod=replace(job.pod, uid=uid)))
            case SetLanding(job=job, pod=pod, note=note):
                return self._store(job, replace(self.jobs[job.name], pod=pod, note=note))
            case WriteStatus(job=job):
                return self._store(job, job)
            case CreateReservation(job=job):
                made = Reservation(
                    job.uid,
                    f"r-{job.uid}",
                    Pod(job.uid),
                    (ReservationOwner(controller=ControllerOwner(uid="rs")),),
                    created_s=self.now_s,
                    ttl_s=job.ttl_s,
                    labels=Labels.of({CREATED_BY: COMPONENT}),
                )
                self.reservations.setdefault(job.uid, made)
            case EvictJobPod(job=job, policy=policy):
                return self._evict(job, policy)
            case StartSurge(job=job):
                if self.refuses_rollout:
                    return self.refuses_rollout
                self.rolled_out = job.uid
            case UndoSurge(job=job):
                if self.rolled_out == job.uid:
                    self.rolled_out = ""
            case RequestEviction(job=job):
                namespace, _, name = request_key(job).partition("/")
                made_request = EvictionRequest(
                    namespace,
                    name,
                    f"q-{job.uid}",
                    REBALANCER,
                    job.pod.uid,
                    job.pod.name,
                    self.now_s,
                    failed=self.refuses,
                )
                self.requests.setdefault(made_request.key, made_request)
            case WithdrawEviction(request=request):
                self.requests.pop(request.key, None)
            case DeleteJobReservation(name=name, uid=uid):
                if name in self.reservations and self.reservations[name].uid == uid:
                    del self.reservations[name]
            case DeleteJob(job=job):
                self.jobs.pop(job.name, None)
        return ""

    def _store(self, read: MigrationJob, written: MigrationJob) -> str:
        stored = self.jobs.get(read.name)
        if stored is None or stored.version != read.version:
            return "conflict"
        self.jobs[read.name] = replace(written, version=str(int(stored.version) + 1))
        return ""

    def _evict(self, job: MigrationJob, policy: EvictPolicy) -> str:
        pod = self.pods.get(job.pod.key)
        if pod is None or pod.ref.uid != job.pod.uid:
            return "not found"
        if policy is EvictPolicy.SOFT:
            self.pods[pod.ref.key] = replace(pod, softly_evicted=True)
            return ""
        if policy is EvictPolicy.EVICTION and not self.budget():
            return "Cannot evict pod as it would violate the pod's disruption budget."
        if not pod.terminating:
            self.evicted.append(pod.ref.uid)
            self.pods[pod.ref.key] = replace(pod, terminating=True)
        return ""

    # ---- the others

    def turn(self) -> None:
        """Scheduler, controller, kubelet and responders each do what is due."""
        self.now_s += 3.0
        for request in self.requests.values():
            asked = next((pod for pod in self.pods.values() if pod.ref.uid == request.pod_uid), None)
            wanted = asked is not None and not asked.terminating and not request.failed
            if asked is not None and wanted and self.responds(self.now_s - request.created_s):
                self.evicted.append(asked.ref.uid)
                self.pods[asked.ref.key] = replace(asked, terminating=True)
        self._roll_out()
        for key, pod in list(self.pods.items()):
            if pod.terminating or pod.softly_evicted:
                if not pod.terminating:
                    self.evicted.append(pod.ref.uid)
                del self.pods[key]
            elif pod.node and not pod.ready:
                self.pods[key] = replace(pod, ready=self.starts)
            elif not pod.node:
                self._place(pod)
        while len(self.pods) < self.replicas:
            self._template(self._pod(""))
        least = sum(pod.ready for pod in self.pods.values())
        self.min_ready = min(self.min_ready, least)
        for name, reservation in list(self.reservations.items()):
            if reservation.phase is ReservationPhase.PENDING:
                why = ReservationCondition(SCHEDULED, False, "Unschedulable", "0/2 nodes are available")
                self.reservations[name] = (
                    replace(reservation, conditions=(why,))
                    if not self.schedules
                    else replace(reservation, phase=ReservationPhase.AVAILABLE, node="new-node")
                )
            if not reservation.phase.is_final and self.now_s >= reservation.ends_s:
                self.reservations[name] = replace(reservation, phase=ReservationPhase.FAILED)

    def _template(self, pod: PodFacts) -> None:
        self.templates[pod.ref.uid] = self.rolled_out

    def _roll_out(self) -> None:
        """The Deployment's controller, with maxSurge 1 and maxUnavailable 0: one pod of the present template first."""
        if not self.arbiter.surge:
            return
        new = [pod for pod in self.pods.values() if self.templates.get(pod.ref.uid, "") == self.rolled_out]
        old = [pod for pod in self.pods.values() if pod not in new]
        if old and not new and len(self.pods) <= self.replicas:
            self._template(self._pod(""))
        going = old if any(pod.ready for pod in new) else []
        for pod in going:
            if not pod.terminating:
                self.evicted.append(pod.ref.uid)
                self.pods[pod.ref.key] = replace(pod, terminating=True)

    def _place(self, pod: PodFacts) -> None:
        for name, reservation in self.reservations.items():
            if reservation.phase is ReservationPhase.AVAILABLE and not reservation.current:
                owner = CurrentOwner(pod.ref.namespace, pod.ref.name, pod.ref.uid)
                self.reservations[name] = replace(reservation, phase=ReservationPhase.SUCCEEDED, current=(owner,))
                self.pods[pod.ref.key] = replace(pod, node=reservation.node)
                return
        self.pods[pod.ref.key] = replace(pod, node="other-node")

    # ---- what must hold

    def run(self, turns: int = 60) -> None:
        """Act and let the others act, so many times."""
        for _ in range(turns):
            self.act()
            self.turn()

    def check(self) -> None:
        """Nothing is left half done."""
        for job in self.jobs.values():
            assert job.phase.is_final, f"{job.name} is {job.phase}: {self.engine.waits(job.name)}"
        held = [reservation.name for reservation in self.reservations.values() if not reservation.phase.is_final]
        assert not held, f"held by nobody: {held}"
        assert not self.requests, f"not withdrawn: {self.requests}"
        assert len(self.pods) == self.replicas
        assert all(pod.node and pod.ready for pod in self.pods.values())
        assert len(self.evicted) == len(set(self.evicted))
        if any(job.phase is JobPhase.SUCCEEDED for job in self.jobs.values()):
            assert self.evicted or any(job.node == "" for job in self.jobs.values())
