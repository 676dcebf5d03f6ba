"""The rebalancer of a cluster beside the simulated world: its planner, its migrations and its limits, with the lab as
their API server.

What moves pods in a cluster must be what the lab measures. The objects of `cotenant rebalancer` themselves: an engine
that sees the scheduler's pods and learns from NodeMetrics, `plan_round` every two minutes, and `Migrations`, whose
writes are carried out here at once. The scheduler's part of a reservation is taken over: the two engines know the same
pods between two scheduling rounds, so what the simulation placed, the scheduler would place; the reservation is granted
on the simulated node, and the replacement is created on it. If that node fails meanwhile, the replacement is queued
like any pod.
Limits: a NodeMetric has no number of requests, so a window counts as one of 200, as in a cluster; there are no
ServiceObjectives, so services' own reports decide; no budgets, no other rebalancer, no lost writes. Services are
ReplicaSets and stages of batch jobs are Jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isnan

import numpy as np

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.migration.instructions import (
    CreateJob,
    CreateReservation,
    DeleteJob,
    DeleteJobReservation,
    EvictJobPod,
    Instruction,
    PodFacts,
    SetLanding,
    SetPodUid,
    WriteStatus,
)
from cotenant.engine.migration.migrations import Migrations
from cotenant.engine.rebalancer.arbiter import ClusterArbiter
from cotenant.engine.rebalancer.plan import PlannedRoom
from cotenant.engine.rebalancer.planner import Planner
from cotenant.engine.rebalancer.purposes import Purposes
from cotenant.engine.rebalancer.room import DEFRAGMENTATION
from cotenant.engine.rebalancer.rounds import kept_until_s, plan_round
from cotenant.engine.rebalancer.settings import RebalancerSettings
from cotenant.model.cluster.eviction import EvictionNotes
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ExpectedRoom, ObservedPod, OwnedBy, PodPhase
from cotenant.model.cluster.qos import KubernetesQoS
from cotenant.model.groups.migration import PodRef
from cotenant.model.groups.reservation import (
    ControllerOwner,
    CurrentOwner,
    Reservation,
    ReservationOwner,
    ReservationPhase,
)
from cotenant.model.machine.node_metric import NO_SIGNALS, NO_USE, MeasuredPod, NodeMetric, PodSignals, Use
from cotenant.policy.placement.profiles import PlacementProfile
from cotenant_lab.offered import OBJECTIVE_MS
from cotenant_lab.world.world import ArrivedMeasurements


@dataclass(frozen=True, slots=True)
class Shapes:
    """What controllers are known for, by shape of the offer."""

    is_service: Sequence[bool]
    pods: Sequence[int]


@dataclass(frozen=True, slots=True)
class Turn:
    """What the world has to do."""

    evict: list[str]  # UIDs of pods
    rooms: list[ObservedPod]  # pods that wait, for which room is kept now


class LabRebalancer:
    """One rebalancer of one run."""

    def __init__(
        self,
        profile: PlacementProfile,
        engine: EngineSettings,
        settings: RebalancerSettings,
        shapes: Shapes,
        ready_s: float,
        now_s: float,
    ) -> None:
        """`profile` is the scheduler's; `ready_s`: time after its start until a service's replica is ready."""
        self.settings = settings
        self.cluster = Cluster(profile, np.random.default_rng(0), engine)
        self.planner = Planner(self.cluster, settings, self._notes)
        self.migrations = Migrations(
            ClusterArbiter(self.cluster, settings, self.planner.replicas, self._notes),
            self._facts,
            lambda node, resource: self.planner.use.percent(node, resource, self._now_s),
            settings.acting.migration,
            purpose=Purposes(self.cluster, self.planner),
        )
        self.moved: list[tuple[float, str]] = []  # time and UID of each pod that was evicted
        self._shapes, self._ready_s, self._now_s, self._due_s = shapes, ready_s, now_s, now_s
        self._pods: dict[str, ObservedPod] = {}  # by UID
        self._reservations: dict[str, Reservation] = {}  # those that hold room, by UID of the controller
        self._down: set[str] = set()
        for shape, replicas in enumerate(shapes.pods):
            self.planner.workload_seen(_controller(shape), replicas)

    # ---- what a watch shows

    def node_seen(self, node: Node) -> None:
        """A node as the scheduler sees it."""
        self.cluster.node_seen(node)
        if node.ready:
            self._down.discard(node.name)
        else:
            self._down.add(node.name)

    def pod_seen(self, seen: ObservedPod, shape: int, now_s: float) -> None:
        """A pod was created; on a node where it has one."""
        kind = "ReplicaSet" if self._shapes.is_service[shape] else "Job"
        owner = OwnedBy("apps/v1", kind, f"shape-{shape}", _controller(shape), controller=True)
        self._pods[seen.uid] = replace(seen, owned_by=(owner,))
        self.cluster.pod_seen(self._pods[seen.uid], now_s)

    def bound(self, uid: str, node: str, now_s: float) -> None:
        """A pod was placed, and runs."""
        self._pods[uid] = replace(self._pods[uid], node=node, phase=PodPhase.RUNNING, started_s=now_s)
        self.cluster.pod_seen(self._pods[uid], now_s)

    def pod_gone(self, uid: str, now_s: float) -> None:
        """A pod finished or was evicted."""
        del self._pods[uid]
        self.cluster.pod_gone(uid, now_s)

    def room_for(self, seen: ObservedPod, shape: int) -> str:
        """The node whose reservation this new pod takes; empty = none. Where its node is down, nothing is reserved
        any more.
        """
        reservation = self._reservations.pop(_controller(shape), None)
        if reservation is None:
            return ""
        if reservation.node in self._down:
            self.migrations.reservation_gone(reservation.name)
            return ""
        owner = CurrentOwner(seen.pod.namespace, seen.pod.name, seen.uid)
        self.migrations.reservation_seen(replace(reservation, phase=ReservationPhase.SUCCEEDED, current=(owner,)))
        return reservation.node

    def measured(
        self, measured: ArrivedMeasurements, names: Sequence[str], uid_of: Sequence[str], now_s: float
    ) -> None:
        """The measurements of a minute, as the NodeMetrics that agents write. `uid_of`: of each pod of the offer
        now.
        """
        if isnan(measured.at_s):
            return
        ratio = np.full(len(measured.pods), np.nan)
        ratio[measured.replicas] = measured.p99_ratio
        pods: dict[int, dict[str, MeasuredPod]] = {}
        used_cores = np.bincount(measured.rows, measured.cpu_cores, len(names)).tolist()
        used_bytes = np.bincount(measured.rows, measured.memory_bytes, len(names)).tolist()
        columns = (measured.pods, measured.rows, np.rint(measured.cpu_cores * 1000.0), measured.memory_bytes, ratio)
        for pod, row, cpu_m, memory, p99 in zip(*(column.tolist() for column in columns), strict=True):
            use = Use(int(cpu_m), int(memory))
            signals = NO_SIGNALS if isnan(p99) else PodSignals(latency_p99_ms=p99 * OBJECTIVE_MS)
            pods.setdefault(row, {})[self._pods[uid_of[pod]].pod.key] = MeasuredPod(use, signals=signals)
        age_s = max(0.0, now_s - measured.at_s)
        for row, here in pods.items():
            use = Use(round(used_cores[row] * 1000.0), round(used_bytes[row]))
            metric = NodeMetric(names[row], age_s, use=use, pods=here, system=NO_USE)
            self.planner.metric_seen(metric, now_s)
            self.cluster.metric_seen(metric, now_s)

    # ---- what it does

    def step(self, now_s: float) -> Turn:
        """Plan a round where one is due, and carry out the writes of this moment."""
        self._now_s = now_s
        self.cluster.correct(now_s)
        rooms: list[ObservedPod] = []
        if now_s >= self._due_s:
            self._due_s = now_s + self.settings.acting.interval_s
            plan, intents = plan_round(self.planner, self.migrations, self.settings, now_s)
            made = [intent for intent in intents if not intent.stays]
            abouts = {intent.move.about for intent in made if intent.move.trigger == DEFRAGMENTATION}
            rooms = [self._keep(room) for room in plan.rooms if room.about in abouts]
            for intent in made:
                self._carry_out(CreateJob(intent.job), [])
        evicted: list[str] = []
        if self.migrations.next_s(now_s) <= now_s + self.settings.acting.interval_s:
            while writes := self.migrations.decide(now_s):
                for write in writes:
                    error = self._carry_out(write, evicted)
                    self.migrations.done(write, now_s, error, is_final=bool(error))
        self.moved += [(now_s, uid) for uid in evicted]
        return Turn(evicted, rooms)

    def _keep(self, room: PlannedRoom) -> ObservedPod:
        """Write the expected room of a pod that waits, before anything moves for it."""
        expected = ExpectedRoom(room.node, kept_until_s(self.settings, self._now_s), room.pods)
        self._pods[room.uid] = seen = replace(self._pods[room.uid], expected_room=expected)
        self.cluster.pod_seen(seen, self._now_s)
        return seen

    def _carry_out(self, what: Instruction, evicted: list[str]) -> str:
        """What an API server would do; returns the error, empty = none."""
        match what:
            case CreateJob(job=job):
                self.migrations.job_seen(replace(job, uid=job.name, created_s=self._now_s))
            case SetPodUid(job=job, uid=uid):
                self.migrations.job_seen(replace(job, pod=replace(job.pod, uid=uid)))
            case SetLanding(job=job, pod=pod, note=note):
                self.migrations.job_seen(replace(job, pod=pod, note=note))
            case WriteStatus(job=job):
                self.migrations.job_seen(job)
            case CreateReservation():
                return self._reserve(what)
            case EvictJobPod(job=job):
                evicted.append(job.pod.uid)
            case DeleteJobReservation(name=name):
                self.migrations.reservation_gone(name)
                self._reservations = {
                    key: reservation for key, reservation in self._reservations.items() if reservation.name != name
                }
            case DeleteJob(job=job):
                self.migrations.job_gone(job.name)
        return ""

    def _reserve(self, what: CreateReservation) -> str:
        seen = self._pods.get(what.pod.uid)
        if seen is None or what.target in self._down:
            return f"pod {what.pod.key} or node {what.target} is gone"
        owner = seen.owned_by[0]
        made = Reservation(
            what.job.reservation_name,
            f"reservation-{what.job.uid}",
            seen.pod,
            (
                ReservationOwner(
                    controller=ControllerOwner(owner.name, seen.pod.namespace, owner.uid, owner.kind, controller=True)
                ),
            ),
            created_s=self._now_s,
            ttl_s=what.job.ttl_s,
            phase=ReservationPhase.AVAILABLE,
            node=what.target,
        )
        self._reservations[owner.uid] = made
        self.migrations.reservation_seen(made)
        return ""

    # ---- what it asks about pods

    def _notes(self, key: str) -> EvictionNotes:
        entry = self.cluster.find(key)
        if entry is None:
            return EvictionNotes()
        seen = entry.seen
        service = seen.pod.objective_p99_ms is not None
        ready = bool(seen.node) and not (service and self._now_s - seen.started_s < self._ready_s)
        return EvictionNotes(
            KubernetesQoS.BURSTABLE if service else KubernetesQoS.BEST_EFFORT, is_ready=ready, uid=seen.uid
        )

    def _facts(self, key: str) -> PodFacts | None:
        entry = self.cluster.find(key)
        if entry is None:
            return None
        seen, owner = entry.seen, entry.seen.owned_by[0]
        return PodFacts(
            PodRef(seen.pod.namespace, seen.pod.name, seen.uid),
            seen.node,
            ready=self._notes(key).is_ready,
            workload=owner.uid,
            replicas=self.planner.replicas[owner.uid],
        )


def _controller(shape: int) -> str:
    """UID of the controller of a shape's pods."""
    return f"controller-{shape}"
