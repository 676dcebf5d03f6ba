"""The cluster around the engine in virtual time: API server, kubelets and a job controller that carry out its
instructions.

The benefit of gangs, quotas and topology shows only in the outcome of jobs, and the engine under test must be the one
that a cluster runs. A queue of events around `engine.cluster.Cluster`: facts go in as from a watch, instructions are
carried out after a delay, some binds and nodes fail, a job computes while all of its members run, and one that loses a
member restarts from its last checkpoint. What pods hold on nodes is counted again (capacity_check.py), so an engine
that overfills a node is detected.
Limits: events of one pod arrive in order and are not lost (tests/fault covers that); eviction always succeeds after its
grace period.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import count
from math import ceil, inf, isfinite, nan
from time import perf_counter

import numpy as np

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, ClearNomination, Evict, Instruction, Preempt, Unschedulable
from cotenant.model.cluster.demands import NO_DEMANDS, Demands
from cotenant.model.cluster.labels import NO_LABELS, Labels
from cotenant.model.cluster.observed import ObservedPod, PodPhase
from cotenant.model.cluster.pod import Pod
from cotenant.model.devices.inventory import NodeDevices
from cotenant.model.errors import Permanent
from cotenant_lab.clusterworld.capacity_check import CapacityCheck
from cotenant_lab.clusterworld.config import ClusterConfig
from cotenant_lab.clusterworld.job import JobMember, WorldJob
from cotenant_lab.clusterworld.racks import RackedNode
from cotenant_lab.clusterworld.usage import Levels, UsageTotals
from cotenant_lab.workloads.training import JobPlan

_SAMPLE_S = 300.0


@dataclass(frozen=True, slots=True)
class PodAttributes:
    """What the pods of a job have besides their requests; it enables the engine's features."""

    labels: Labels = NO_LABELS
    demands: Demands = NO_DEMANDS
    namespace: str = "default"


@dataclass(slots=True)
class JobLog:
    """Records all events of one job."""

    job: int
    lines: list[str] = field(default_factory=list)


class ClusterWorld:
    """One simulation run."""

    def __init__(
        self,
        cluster: Cluster,
        nodes: Iterable[RackedNode],
        plans: Iterable[JobPlan],
        attributes: Callable[[JobPlan], PodAttributes],
        usage: UsageTotals,
        config: ClusterConfig,
        rng: np.random.Generator,
        rack_gpus: float,
        log: JobLog | None = None,
    ) -> None:
        self.cluster = cluster
        self.usage = usage
        self.jobs = [WorldJob(plan) for plan in plans]
        self.now_s = 0.0
        self.preempted = 0  # pods evicted by the scheduler
        self.lost = 0  # pods on nodes that failed
        self.failed_binds = 0
        self.decision_us: list[float] = []  # one per bind
        self.decision_s = 0.0
        self.samples: list[
            tuple[float, float, float]
        ] = []  # seconds, GPUs held, GPUs computing; at least five minutes apart
        self._check = CapacityCheck()
        racked = tuple(nodes)
        self._nodes = {racked_node.node.name: racked_node.node for racked_node in racked}
        self._rack_of = {racked_node.node.name: racked_node.rack for racked_node in racked}
        self._rack_gpus = rack_gpus
        self._attributes = attributes
        self._config = config
        self._rng = rng
        self._log = log
        self._members: dict[str, JobMember] = {}  # by uid, including terminating ones
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._open = len(self.jobs)
        teams = len(usage.held)
        self._levels = Levels(np.zeros(teams), np.zeros(teams), np.zeros(teams))
        for racked_node in racked:
            self._check.add_node(racked_node.node)
            cluster.node_seen(racked_node.node)
            cluster.plugins.devices.seen(NodeDevices(racked_node.node.name, racked_node.devices))
            self._fail_later(racked_node.node.name)
        for job in self.jobs:
            self._at(job.plan.arrival_s, self._arrival(job))

    # ---- the clock

    def run(self) -> None:
        """Run until every job has ended or the time limit is reached."""
        decided_s = -inf
        while self._open:
            next_event = self._events[0][0] if self._events else inf
            wanted = max(self.cluster.next_s(), decided_s + self._config.period_s, self.now_s)
            if isfinite(wanted):
                wanted = ceil(wanted / self._config.period_s) * self._config.period_s
            at = min(next_event, wanted)
            if at >= self._config.max_s:
                break
            self.usage.advance(at, self._levels)
            self.now_s = at
            if next_event <= at:
                while self._events and self._events[0][0] <= at:
                    heappop(self._events)[2]()
            else:
                decided_s = at
                self._decide()
            self._measure()
        self.usage.advance(min(self.now_s, self._config.max_s), self._levels)

    def _at(self, at_s: float, action: Callable[[], None]) -> None:
        heappush(self._events, (at_s, next(self._order), action))

    def _decide(self) -> None:
        started = perf_counter()
        instructions = self.cluster.decide(self.now_s)
        taken = perf_counter() - started
        self.decision_s += taken
        binds = sum(isinstance(instruction, Bind) for instruction in instructions)
        if binds:
            self.decision_us += [taken / binds * 1e6] * binds
        for instruction in instructions:
            self._carry_out(instruction)

    def _measure(self) -> None:
        """Update the current levels by team."""
        held, computing = [0.0] * len(self._levels.held), [0.0] * len(self._levels.held)
        for uid in self.cluster.assigned():
            member = self._members[uid]
            plan = member.job.plan
            held[plan.team] += plan.gpu_percent / 100.0
            if member.job.running and not member.seen.terminating:
                computing[plan.team] += plan.gpu_percent / 100.0
        self._levels.held, self._levels.computing = np.array(held), np.array(computing)
        if not self.samples or self.now_s >= self.samples[-1][0] + _SAMPLE_S:
            self.samples.append((self.now_s, sum(held), sum(computing)))

    # ---- jobs

    def _arrival(self, job: WorldJob) -> Callable[[], None]:
        def arrive() -> None:
            self._levels.demand[job.plan.team] += job.plan.gpus
            self._note(job, f"arrives: {job.plan.pods} pods of {job.plan.gpu_percent} % of a GPU")
            self._create_pods(job)

        return arrive

    def _create_pods(self, job: WorldJob) -> None:
        """Create the pods of a job's next attempt."""
        plan, attributes = job.plan, self._attributes(job.plan)
        job.attempt += 1
        job.alive = True
        job.first_bound_s = nan
        for i in range(plan.pods):
            name = f"{job.name}-{job.attempt}-{i}"
            pod = Pod(name, attributes.namespace, plan.requests(), priority=plan.priority, labels=attributes.labels)
            seen = ObservedPod(pod, f"uid-{name}", "cotenant", self.now_s, demands=attributes.demands)
            member = job.members[seen.uid] = self._members[seen.uid] = JobMember(seen, job)
            self.cluster.pod_seen(member.seen, self.now_s)

    def _started(self, uid: str, attempt: int, job: WorldJob) -> None:
        member = job.members.get(uid)
        if member is None or not job.alive or job.attempt != attempt:
            return
        member.started = True
        if len(job.members) < job.plan.pods or not all(entry.started for entry in job.members.values()):
            return
        racks = {self._rack_of[entry.seen.node] for entry in job.members.values()}
        crosses = len(racks) > 1 and job.plan.gpus <= self._rack_gpus
        job.crossed += crosses
        job.runs += 1
        job.speed = 1.0 / (1.0 + self._config.crossing * (len(racks) > 1))
        job.running_since_s = self.now_s
        if job.first_run_s != job.first_run_s:
            job.first_run_s = self.now_s
        self._note(job, f"runs on {len({m.seen.node for m in job.members.values()})} nodes in {len(racks)} racks")
        self._at(self.now_s + job.remaining_s() / job.speed, lambda: self._finish(job, attempt))

    def _finish(self, job: WorldJob, attempt: int) -> None:
        if job.attempt != attempt or not job.running:
            return
        job.ended_s = self.now_s
        job.running_since_s = nan
        job.alive = False
        self._open -= 1
        self._levels.demand[job.plan.team] -= job.plan.gpus
        self._note(job, "ends")
        for member in list(job.members.values()):
            self._update(member, phase=PodPhase.SUCCEEDED)
            self._remove(member)

    def _interrupt(self, job: WorldJob, restart_s: float, why: str) -> None:
        """A member was lost, or the job is requeued: delete the other members, and create all of them again after a
        delay.
        """
        if not job.alive:
            return
        job.alive = False
        self._note(job, f"interrupted: {why}")
        job.stop(self.now_s, self._config.checkpoint_s)
        job.interruptions += 1
        for member in list(job.members.values()):
            self._delete(member)
        self._at(self.now_s + restart_s, lambda: self._create_pods(job))

    def _check_complete(self, job: WorldJob, attempt: int) -> None:
        """Requeue a job that is still incomplete at the time-out."""
        if job.attempt == attempt and job.alive and not job.running:
            wait_s = min(self._config.requeue_most_s, self._config.requeue_first_s * 2.0**job.requeued)
            job.requeued += 1
            started = sum(member.started for member in job.members.values())
            self._interrupt(job, wait_s, f"{started} of {job.plan.pods} pods had started in time")

    # ---- pods

    def _update(self, member: JobMember, **changes: object) -> None:
        member.seen = replace(member.seen, **changes)  # type: ignore[arg-type]
        self.cluster.pod_seen(member.seen, self.now_s)

    def _delete(self, member: JobMember) -> None:
        """Delete a pod; a bound one terminates for its grace period."""
        uid = member.seen.uid
        member.job.members.pop(uid, None)
        if not member.bound:
            self._remove(member)
        elif not member.seen.terminating:
            ends_s = self.now_s + self._config.grace_s
            self._update(member, ends_s=ends_s)
            self._at(ends_s, lambda: self._remove(member))

    def _remove(self, member: JobMember) -> None:
        uid = member.seen.uid
        if self._members.pop(uid, None) is None:
            return
        member.job.members.pop(uid, None)
        self._check.remove(uid)
        self.cluster.pod_gone(uid, self.now_s)

    def _evict(self, uid: str, why: str) -> None:
        member = self._members.get(uid)
        if member is None or member.seen.terminating:
            return
        self.preempted += 1
        job = member.job
        self._interrupt(job, self._config.grace_s + self._config.restart_s, why)

    # ---- instructions

    def _carry_out(self, instruction: Instruction) -> None:
        match instruction:
            case Bind(uid=uid, number=number):
                if self.cluster.sending(uid, self.now_s, number):
                    self._at(self.now_s + self._rng.uniform(*self._config.bind_s), self._finish_bind(instruction))
            case Preempt(uid=uid, node=node, victims=victims):
                member = self._members.get(uid)
                if member is None or node not in self._nodes:
                    self.cluster.preempt_failed(uid, self.now_s)
                    return
                self._update(member, nominated_node=node)
                for victim in victims:
                    self._evict(victim.uid, f"evicted for {instruction.key}, which has a higher priority")
            case ClearNomination(uid=uid):
                member = self._members.get(uid)
                if member is not None and not member.bound:
                    self._update(member, nominated_node="")
            case Evict(victim=victim, message=message):
                self._evict(victim.uid, message)
            case Unschedulable(uid=uid, message=message):
                member = self._members.get(uid)
                if member is not None:
                    self._note(member.job, f"{instruction.key} waits: {message}")
            case _:
                pass  # statuses of objects are not simulated

    def _finish_bind(self, bind: Bind) -> Callable[[], None]:
        def finish() -> None:
            member = self._members.get(bind.uid)
            if member is None:
                self.cluster.bind_failed(bind.uid, "the pod is gone", self.now_s, retry=False, number=bind.number)
                return
            job = member.job
            if not self._nodes[bind.node].ready or self._rng.random() < self._config.bind_fails:
                self.failed_binds += 1
                self.cluster.bind_failed(bind.uid, "the API server did not answer", self.now_s, number=bind.number)
                return
            if member.bound:
                raise Permanent(f"pod {bind.key} is bound twice: to {member.seen.node}, then to {bind.node}")
            self._check.assign(bind.uid, member.seen.pod, bind.node, bind.holds)
            member.seen = replace(member.seen, node=bind.node, nominated_node="", holds=bind.holds)
            self.cluster.bound(bind.uid, self.now_s, bind.number)
            self.cluster.pod_seen(member.seen, self.now_s)
            self._note(job, f"{bind.key} is bound to {bind.node}")
            attempt = job.attempt
            self._at(self.now_s + self._config.start_s, lambda: self._started(bind.uid, attempt, job))
            if job.first_bound_s != job.first_bound_s:
                job.first_bound_s = self.now_s
                if job.plan.pods > 1 and isfinite(self._config.timeout_s):
                    self._at(self.now_s + self._config.timeout_s, lambda: self._check_complete(job, attempt))

        return finish

    # ---- nodes

    def _fail_later(self, name: str) -> None:
        if isfinite(self._config.between_failures_s):
            at_s = self.now_s + self._rng.exponential(self._config.between_failures_s)
            self._at(at_s, lambda: self._fail(name))

    def _fail(self, name: str) -> None:
        """A node fails: it is not ready, and its pods are lost."""
        self._set_ready(name, False)
        here = [member for member in self._members.values() if member.seen.node == name]
        for member in here:
            self.lost += 1
            self._remove(member)
            self._interrupt(member.job, self._config.grace_s + self._config.restart_s, f"{name} failed")
        self._at(self.now_s + self._config.outage_s, lambda: self._recover(name))

    def _recover(self, name: str) -> None:
        self._set_ready(name, True)
        self._fail_later(name)

    def _set_ready(self, name: str, ready: bool) -> None:
        self._nodes[name] = replace(self._nodes[name], ready=ready)
        self.cluster.node_seen(self._nodes[name])

    # ---- log

    def _note(self, job: WorldJob, text: str) -> None:
        if self._log is not None and self._log.job == job.plan.number:
            self._log.lines.append(f"{self.now_s:,.0f} s: {text}")
