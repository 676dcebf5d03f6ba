"""Connects the simulated world and the scheduling engine in virtual time, in place of an API server, kubelets and
agents. It translates and never decides.

The engine measured in the lab must be the one that runs in a cluster. The lab drives `engine.cluster.Cluster` itself:
the world's events go in as from a watch, instructions are carried out at once (a bind starts the pod in the world, an
eviction ends it there), nodes report once a minute, and agents' measurements are passed on in the same round. Every
policy gets exactly the same information: the offer (requests, deadlines, noisy estimates), the reports, and what an
agent can measure.
Limits: a round every five simulated seconds when something has changed, which is also the back-off of refused pods; the
run time of the policy is measured, not added to simulated time; binds never fail.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from math import inf
from time import perf_counter

import numpy as np

from cotenant.engine.cluster import Cluster
from cotenant.engine.cycle.score_parts import Seen, table
from cotenant.engine.framework.backoff import Backoff
from cotenant.engine.framework.instructions import Bind, Evict, Instruction, Unschedulable
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.rebalancer.settings import RebalancerSettings
from cotenant.engine.rehearsal import rehearse
from cotenant.model.arrays import Float, Int, ReportColumn
from cotenant.model.cluster.interference_profile import InterferenceProfile
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod, PodPhase
from cotenant.model.decisions.record import CandidateNode, DecisionRecord
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.policy.placement.contract import RoundPolicy
from cotenant.policy.placement.profiles import PlacementProfile
from cotenant_lab.lending import LentAmounts
from cotenant_lab.offered import SCHEDULER, OfferedPods, nodes_of, offering
from cotenant_lab.rebalancing import LabRebalancer, Shapes
from cotenant_lab.world.config import WorldConfig
from cotenant_lab.world.offer import Offer
from cotenant_lab.world.state import MEMORY
from cotenant_lab.world.world import ArrivedMeasurements, World

ROUND_S = 5.0
_BEST = 5  # candidates kept for the watched pod
SETTINGS = EngineSettings(
    schedulers=(SCHEDULER,), max_pods=1 << 30, backoff=Backoff(ROUND_S, ROUND_S), detailed_records=False
)


@dataclass(slots=True)
class DecisionTiming:
    """Wall time of decisions: one entry per placed pod, its round's time divided by the pods evaluated in that
    round.
    """

    per_decision_us: list[Float] = field(default_factory=list)
    total_s: float = 0.0
    rounds: int = 0

    def note(self, elapsed_s: float, evaluated: int, placed: int) -> None:
        """Add a round of `elapsed_s` that evaluated `evaluated` pods and placed `placed`."""
        self.total_s += elapsed_s
        self.rounds += 1
        if placed:
            self.per_decision_us.append(np.full(placed, elapsed_s / max(evaluated, placed) * 1e6))

    def quantile_us(self, q: float) -> float:
        """Quantile over placed pods, microseconds."""
        return float(np.quantile(np.concatenate(self.per_decision_us), q)) if self.per_decision_us else float("nan")


class Bridge:
    """One run: a world, an engine, and the messages between them."""

    def __init__(
        self,
        world: World,
        offer: Offer,
        config: WorldConfig,
        policy: PlacementProfile | RoundPolicy,
        rng: np.random.Generator,
        watched: int = -1,
        lending: LentAmounts | None = None,
        rebalancing: RebalancerSettings | None = None,
    ) -> None:
        """`watched`: the pod of the offer whose latest decision record is kept in `record`. `lending`: what nodes
        offer to batch, which then requests that. `rebalancing`: of a rebalancer beside the scheduler.
        """
        self.world = world
        self.offer = offer
        self.config = config
        self.policy = policy
        self.engine = Cluster(policy, rng, replace(SETTINGS, detailed_records=watched >= 0))
        self.timing = DecisionTiming()
        self.record: DecisionRecord | None = None
        self.moves: list[tuple[float, int]] = []  # time and pod of each eviction that the policy asked for
        self._now_s = 0.0
        self._next_report_s = 0.0
        self._watched = watched
        self._pod_of_key: dict[str, int] = {}  # of the watched pod's current attempt
        self._best: tuple[CandidateNode, ...] = ()
        self._nodes = list(nodes_of(config))
        self._down: set[int] = set()
        self._lending = lending
        self._names = [node.name for node in self._nodes]
        self._rows = {node.name: row for row, node in enumerate(self._nodes)}
        self._offered = OfferedPods(offer, lending is not None)
        self._is_service = offer.is_service[offer.shape]
        self._uid = [""] * len(offer.shape)  # of each pod's current attempt
        self._number = np.full(len(offer.shape), -1, dtype=np.int64)  # the engine's, of each pod's current attempt
        self._pod: dict[str, int] = {}  # uid -> pod of the offer
        self._held: list[tuple[float, int]] = []  # heap of (time when it is created again, pod)
        self.rebalancer = self._rebalancer(rebalancing)
        if watched >= 0 and isinstance(policy, PlacementProfile):
            self.engine.observe(self)
        for node in self._nodes:
            self._show(node)

    def judging(self, seen: Seen) -> None:
        """Keep the scores of the best nodes for the watched pod, before it is placed (`ScoreListener`)."""
        if self._pod_of_key.get(seen.pod) == self._watched:
            self._best = table(seen).best(_BEST)

    def learned(self, pod: int) -> InterferenceProfile | None:
        """What the engine has learned of the application of this pod of the offer; None where the policy does not
        learn.
        """
        return self.engine.workload_profile(self._offered.templates[int(self.offer.shape[pod])])

    def run(self, until_s: float = inf) -> None:
        """Run until the world ends or its clock has reached `until_s`, and continue from there when called again."""
        rehearse(self.policy)
        if self._now_s == 0.0:
            self._advance(0.0)
        while not self.world.done and self._now_s < until_s:
            now = self._now_s
            if now >= self._next_report_s:
                self._next_report_s += 60.0
                self._report(now)
            if self.engine.next_s() <= now:
                self._decide(now)
            if self.rebalancer is not None:
                turn = self.rebalancer.step(now)
                for seen in turn.rooms:
                    self.engine.pod_seen(seen, now)
                self._evict(self._running([self._pod[uid] for uid in turn.evict]), now)
            self._now_s = now + ROUND_S
            self._advance(self._now_s)

    def take_over(
        self,
        policy: PlacementProfile | RoundPolicy,
        rng: np.random.Generator,
        rebalancing: RebalancerSettings | None = None,
    ) -> None:
        """Replace the scheduler, as an installation in a running cluster does, with or without a rebalancer.

        The new engines are given the nodes and pods that an API server has, assigned ones with their node. They have
        measured and learned nothing.
        """
        self.policy = policy
        self.engine = Cluster(policy, rng, SETTINGS)
        self.rebalancer = self._rebalancer(rebalancing)
        for row, node in enumerate(self._nodes):
            self._show(replace(node, ready=row not in self._down))
        pods = sorted(self._pod.values())
        rows, _ = self.world.assigned(np.array(pods, dtype=np.int64))
        for pod, row, ready_s in zip(pods, rows.tolist(), self.world.ready_s(pods).tolist(), strict=True):
            seen = self._offered.created(pod, ready_s)
            if row >= 0:
                seen = replace(seen, node=self._names[row])
            self._see(pod, seen, self._now_s)

    def _rebalancer(self, settings: RebalancerSettings | None) -> LabRebalancer | None:
        """A new one, which has seen nothing yet."""
        if settings is None:
            return None
        if not isinstance(self.policy, PlacementProfile):
            raise InvalidInput("policy", self.policy.name, "a profile: a rebalancer simulates single placements")
        shapes = Shapes(self.offer.is_service.tolist(), self.offer.pods.tolist())
        return LabRebalancer(self.policy, SETTINGS, settings, shapes, self.config.replica_start_s, self._now_s)

    def _show(self, node: Node) -> None:
        """Let the engines see a node."""
        self.engine.node_seen(node)
        if self.rebalancer is not None:
            self.rebalancer.node_seen(node)

    def _see(self, pod: int, seen: ObservedPod, now_s: float) -> None:
        """Let the engines see a pod that was created, on its node where it has one."""
        self.engine.pod_seen(seen, now_s)
        self._number[pod] = self.engine.number_of(seen.uid)
        if self.rebalancer is not None:
            self.rebalancer.pod_seen(seen, int(self.offer.shape[pod]), now_s)

    def _report(self, now_s: float) -> None:
        """Pass on the reports of nodes and the measurements of agents, once a minute."""
        reports = self.world.reports()
        self.engine.report_all(self._names, reports)
        if self._lending is None and self.rebalancer is None and not self.engine.wants_measurements:
            return
        measured = self.world.measured()
        if self.rebalancer is not None:
            self.rebalancer.measured(measured, self._names, self._uid, now_s)
        if self._lending is not None:
            self._lend(self._lending, measured, reports[:, ReportColumn.REPORTED_AT], now_s)
        if not self.engine.wants_measurements:
            return
        numbers = self._number[measured.pods]
        signal = np.full(len(numbers), np.nan)
        signal[measured.replicas] = measured.p99_ratio
        self.engine.interference_measured(numbers, measured.cpu_cores, signal, now_s)
        self.engine.usage_measured(numbers, measured.cpu_cores, measured.memory_bytes, now_s)
        self.engine.latency_measured(numbers[measured.replicas], measured.p99_ratio, measured.requests, now_s)

    def _lend(self, lending: LentAmounts, measured: ArrivedMeasurements, reported_s: Float, now_s: float) -> None:
        """Let nodes offer what the manager would write on them."""
        replicas = self.world.replicas
        rows, attempts = self.world.assigned(replicas)
        there = rows >= 0
        of_services = self._is_service[measured.pods]
        pods = measured.pods[of_services]
        sample = (
            measured.rows[of_services],
            lending.key_of(pods, self.world.assigned(pods)[1]),
            measured.cpu_cores[of_services],
            measured.memory_bytes[of_services],
        )
        present = (rows[there], lending.key_of(replicas[there], attempts[there]))
        for row in lending.step(reported_s, sample, present, now_s).tolist():
            self._nodes[row] = offering(self._nodes[row], lending.lent[row])
            self._show(replace(self._nodes[row], ready=row not in self._down))

    def _decide(self, now_s: float) -> None:
        """Run one scheduling round and carry out its instructions."""
        judged, start = self.engine.judged, perf_counter()
        instructions = self.engine.decide(now_s)
        elapsed_s = perf_counter() - start
        pods, rows, evicted = self._carry_out(instructions, now_s)
        self.timing.note(elapsed_s, self.engine.judged - judged, len(pods))
        self._evict(evicted, now_s)
        if pods:
            self.world.start(np.array(pods, dtype=np.int64), np.array(rows, dtype=np.int64))

    def _running(self, pods: list[int]) -> list[int]:
        """Those on a node: a node without memory evicts a pod that a start of this moment left no room for, and
        reports it later.
        """
        return [
            pod
            for pod, row in zip(pods, self.world.assigned(np.array(pods, dtype=np.int64))[0], strict=True)
            if row >= 0
        ]

    def _evict(self, pods: list[int], now_s: float) -> None:
        self.moves += [(now_s, pod) for pod in pods]
        if pods:
            self.world.evict(np.array(pods, dtype=np.int64))

    def _carry_out(self, instructions: tuple[Instruction, ...], now_s: float) -> tuple[list[int], list[int], list[int]]:
        """Pods to start, the rows to start them on, and pods to evict."""
        pods: list[int] = []
        rows: list[int] = []
        evicted: list[int] = []
        for instruction in instructions:
            match instruction:
                case Bind(uid=uid, node=node, record=record):
                    pod = self._pod[uid]
                    pods.append(pod)
                    rows.append(self._rows[node])
                    if not self.engine.sending(uid, now_s):
                        raise Permanent(f"pod {uid} was bound and unassigned in one round")
                    self.engine.bound(uid, now_s)
                    if self.rebalancer is not None:
                        self.rebalancer.bound(uid, node, now_s)
                    if pod == self._watched:
                        self._keep_record(record)
                case Evict(victim=victim):
                    evicted.append(self._pod[victim.uid])
                case Unschedulable(uid=uid, record=record):
                    if self._pod[uid] == self._watched:
                        self._keep_record(record)
        return pods, rows, evicted

    def _keep_record(self, record: DecisionRecord) -> None:
        if isinstance(self.policy, PlacementProfile):
            best = self._best
            chosen = [candidate for candidate in record.candidates if candidate.node == record.node]
            if record.node is not None and chosen and all(candidate.node != record.node for candidate in best):
                best = (*best[:-1], *chosen)  # with ties or sampling, the chosen node may not be among the best few
            self.record = replace(record, candidates=best)

    def _advance(self, until_s: float) -> None:
        """Advance the world, and pass its events on to the engine."""
        events = self.world.advance(until_s)
        engine = self.engine
        for pod in events.finished.tolist():
            self._remove(pod, until_s)
        for row in events.nodes_down.tolist():
            self._down.add(row)
            self._show(replace(self._nodes[row], ready=False))
        outgrown = events.cause == MEMORY
        for i, pod in enumerate(events.evicted.tolist()):
            if outgrown[i]:
                engine.outgrew(self._uid[pod], float(events.evicted_memory_bytes[i]))
            self._remove(pod, until_s)
            heappush(self._held, (float(events.hold_until_s[i]), pod))
        for row in events.nodes_up.tolist():
            self._down.discard(row)
            self._show(self._nodes[row])
        self._arrive(events.ready, events.ready_s, until_s)
        while self._held and self._held[0][0] <= until_s:
            held_until_s, pod = heappop(self._held)
            self._create(pod, held_until_s, until_s)

    def _arrive(self, pods: Int, ready_s: Float, now_s: float) -> None:
        for pod, at_s in zip(pods.tolist(), ready_s.tolist(), strict=True):
            self._create(pod, at_s, now_s)

    def _create(self, pod: int, ready_s: float, now_s: float) -> None:
        seen = self._offered.arrive(pod, ready_s)
        self._uid[pod] = seen.uid
        self._pod[seen.uid] = pod
        if pod == self._watched:
            self._pod_of_key = {seen.pod.key: pod}
        room = self.rebalancer.room_for(seen, int(self.offer.shape[pod])) if self.rebalancer is not None else ""
        if room:
            self.world.start(np.array([pod]), np.array([self._rows[room]]))
            seen = replace(seen, node=room, phase=PodPhase.RUNNING, started_s=now_s)
        self._see(pod, seen, now_s)

    def _remove(self, pod: int, now_s: float) -> None:
        uid = self._uid[pod]
        del self._pod[uid]
        self.engine.pod_gone(uid, now_s)
        if self.rebalancer is not None:
            self.rebalancer.pod_gone(uid, now_s)
