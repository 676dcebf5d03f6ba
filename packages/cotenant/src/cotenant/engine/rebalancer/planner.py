"""One round of planning: from measured nodes and placed pods to moves with reasons and expected effect.

A move must be allowed (filters, limits, budgets), must help (LowNodeLoad's thresholds) and must be possible (the
scheduler places the pod). `LowNodeLoad` proposes candidates in order; for each, this planner asks the limits with the
moves chosen so far counted, then simulates the placement on the scheduling engine (landing.py). What does not move is
kept with the reason. One round at a time; nodes without a current NodeMetric take no part (node_use.py); budgets are
those of the last status of each PodDisruptionBudget.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import isnan

import numpy as np

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.rebalancer.choosing import Rate, RoundChoice, UnharmedChoice
from cotenant.engine.rebalancer.eviction_facts import eviction_facts, priority_class_of
from cotenant.engine.rebalancer.kind_context import KindContext
from cotenant.engine.rebalancer.landing import LandingSimulator, is_copy
from cotenant.engine.rebalancer.missed import relieve
from cotenant.engine.rebalancer.node_use import NodeUse
from cotenant.engine.rebalancer.plan import KeptPod, MovePlan, PlannedMove, PoolPlan
from cotenant.engine.rebalancer.repairs import repair_violations
from cotenant.engine.rebalancer.room import STATIC, make_room, pack
from cotenant.engine.rebalancer.round_limits import RoundLimits, controller, surges
from cotenant.engine.rebalancer.settings import RebalancerSettings
from cotenant.model.cluster.eviction import EvictionNotes
from cotenant.model.cluster.node import Node
from cotenant.model.groups.migration import MigrationJob
from cotenant.model.machine.node_metric import NodeMetric, Use
from cotenant.model.resources import CPU_NAME, MEMORY_NAME, PODS_NAME
from cotenant.policy.rebalance.allowance import MoveAllowance
from cotenant.policy.rebalance.loads.low_node_load import LowNodeLoad, RoundResult
from cotenant.policy.rebalance.loads.order import LoadPod
from cotenant.policy.rebalance.loads.pools import NodeLoads
from cotenant.policy.rebalance.loads.thresholds import NodeClass
from cotenant.policy.rebalance.migration.evictable import EvictionFacts
from cotenant.policy.rebalance.objectives import Misses
from cotenant.policy.rebalance.standings import Standings

_RECEIVING = (NodeClass.LOW, NodeClass.BOTH_LOW)


class Planner:
    """Plans rounds over an engine of its own. `notes_of` gives a pod's eviction notes by namespace/name; called for
    few pods.
    """

    def __init__(
        self, cluster: Cluster, settings: RebalancerSettings, notes_of: Callable[[str], EvictionNotes]
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._notes_of = notes_of
        self._policy = LowNodeLoad(
            settings.pools,
            number_of_nodes=settings.number_of_nodes,
            node_fit=settings.node_fit,
            min_relief_percent=settings.min_relief_percent,
        )
        self.use = NodeUse(cluster, settings)
        self._replicas: dict[str, int] = {}  # of controllers, by UID
        self._kept: dict[str, str] = {}  # reasons against pods in this round, by UID
        self._rate: Rate = lambda workload, replicas, more: ""
        objectives = settings.kinds.objectives
        self._misses = Misses(objectives.misses) if objectives is not None else None
        share = objectives.hour_share if objectives is not None else None
        self._allowance = MoveAllowance(share) if share is not None else None
        self.standings = Standings()  # of ServiceObjectives
        self._moved: Collection[str] = ()  # UIDs of pods that other kinds move in this round
        self._done: Collection[str] = ()  # kinds of moves that were made lately
        self._begun: Collection[str] = ()  # moves for objectives, as far back as is known
        self._now_s = 0.0  # of the round or the simulation
        self._entries: dict[str, PodInfo] = {}  # pods that were considered in this round, by UID

    # ---- facts

    def metric_seen(self, metric: NodeMetric, now_s: float) -> None:
        """A node's measurement."""
        self.use.metric_seen(metric, now_s)
        if self._misses is not None and not isnan(metric.age_s):
            uids, ratios = [], []
            for key, measured in (metric.pods or {}).items():
                p99_ms = measured.signals.latency_p99_ms
                entry = self._cluster.find(key) if p99_ms is not None else None
                if entry is not None and entry.node == metric.node and entry.seen.pod.objective_p99_ms is not None:
                    assert p99_ms is not None
                    uids.append(entry.seen.uid)
                    ratios.append(p99_ms / entry.seen.pod.objective_p99_ms)
            self._misses.windows(uids, ratios, now_s - metric.age_s)

    def workload_seen(self, uid: str, replicas: int) -> None:
        """A controller of pods, with the number of pods that it wants."""
        self._replicas[uid] = replicas

    # ---- a round

    @property
    def cluster(self) -> Cluster:
        """The engine that rounds are simulated in."""
        return self._cluster

    @property
    def replicas(self) -> Mapping[str, int]:
        """The number of pods that each controller wants, by UID."""
        return self._replicas

    def last_window(self, uid: str) -> tuple[float, float] | None:
        """p99 over objective of a pod's last window and when it was measured; None where it is not followed."""
        return self._misses.last(uid) if self._misses is not None else None

    def must_leave(self, entry: PodInfo) -> bool:
        """Whether the node is not empty while the pod is on it: not a static pod, nor one of a DaemonSet."""
        return self._settings.filter.refuses(self._facts(entry, self._notes_of(entry.seen.pod.key))) not in STATIC

    def plan_beside(
        self,
        now_s: float,
        moving: Sequence[MigrationJob] = (),
        ended: Sequence[MigrationJob] = (),
        kept: Mapping[str, str] | None = None,
        rate: Rate = lambda workload, replicas, more: "",
        done: Collection[str] = (),
        begun: Collection[str] = (),
    ) -> MovePlan:
        """As `plan`; the engine is restored afterwards.

        `moving`: moves under way, which count for the limits. `ended`: moves that ended lately, which a measurement may
        not show yet. `kept`: reasons against pods, by UID. `rate`: why a workload (UID, replicas, moves of it in this
        round so far) may not be moved again yet; empty = it may. `done`: kinds of moves (`kind_of`) that were made
        lately. `begun`: names of the moves for objectives that are known, which count for their allowance.
        """
        try:
            self._kept, self._rate, self._done, self._begun = dict(kept or {}), rate, done, begun
            self.use.expect((*moving, *ended))
            measured = self.use.measured_nodes(now_s)
            loads = self.use.loads(measured)
            if not (self._settings.kinds or self.use.is_overloaded_somewhere(loads)):
                return self._plan(now_s, moving, measured, loads)  # nothing is simulated
            with self._cluster.tentative(now_s):
                return self._plan(now_s, moving, measured, loads)
        finally:
            self._kept, self._rate = {}, lambda workload, replicas, more: ""
            self._done = self._begun = ()
            self.use.expect(())

    @contextmanager
    def simulating(
        self, now_s: float, moving: Sequence[MigrationJob], kept: Mapping[str, str]
    ) -> Iterator[tuple[RoundChoice, KindContext]]:
        """Simulate single moves, with those under way and reasons against pods (by UID) counted; the engine and the
        planner are as before on exit.
        """
        try:
            self._kept = dict(kept)
            self.use.expect(moving)
            with self._cluster.tentative(now_s):
                yield self._answers(now_s, moving)
        finally:
            self._kept = {}
            self._entries.clear()
            self.use.expect(())

    def _answers(self, now_s: float, moving: Sequence[MigrationJob]) -> tuple[RoundChoice, KindContext]:
        """The choice of one round with the moves under way counted, and what other kinds of moves share."""
        self._now_s = now_s
        self._entries.clear()
        limits = RoundLimits(self._cluster, self._settings, self._replicas, self._notes_of)
        for job in moving:
            limits.moving(job, job.note.workload if job.note is not None else "")
        simulator = LandingSimulator(self._cluster, now_s)
        choice = RoundChoice(self._cluster, limits, simulator, self._entries, self._replicas, self._rate)
        return choice, KindContext(choice, self._never, self._notes_of, self.use.takes_part, now_s)

    def plan(self, now_s: float, moving: Sequence[MigrationJob] = ()) -> MovePlan:
        """The moves of the next round. The engine is left as it would be after them."""
        measured = self.use.measured_nodes(now_s)
        return self._plan(now_s, moving, measured, self.use.loads(measured))

    def _plan(self, now_s: float, moving: Sequence[MigrationJob], measured: list[Node], loads: NodeLoads) -> MovePlan:
        """As `plan`. `measured`: the nodes that take part and have a current measurement, `loads` theirs before
        anything is simulated.
        """
        cluster = self._cluster
        nodes = [node for node in cluster.nodes() if self.use.takes_part(node)]
        pods = len(cluster.assigned())
        choice, context = self._answers(now_s, moving)
        simulator = choice.simulator
        kinds = self._settings.kinds
        placed_first = simulator.place_waiting() if kinds or self.use.is_overloaded_somewhere(loads) else 0
        if kinds.repairs:
            repair_violations(context, kinds)
        if kinds.objectives is not None and self._misses is not None:
            every = {entry.seen.uid: entry for entry in cluster.every_pod()}
            self._misses.keep(every)
            left = self._allowed(every.values(), now_s)
            relieve(context, kinds.objectives, self._misses, self.standings, self._settings.expires_s, self._done, left)
        moves = self._others(context, 0, now_s)
        loads = self.use.loads(measured) if moves else loads
        self._moved = context.moved
        result = self._policy.round(loads, self._load_pods, UnharmedChoice(choice), now_s)
        own = self._moves(loads, result, choice)
        context.moved.update(move.uid for move in own)
        for move in own:
            used = Use(move.used.get(CPU_NAME, 0), move.used.get(MEMORY_NAME, 0))
            self.use.count(move.pod, move.node, move.target, used)
        simulator.reopen()
        number = len(context.moves)
        if kinds.defragmentation is not None:
            make_room(context, kinds.defragmentation)
        if kinds.packing is not None:
            pack(context, kinds.packing)
        last = self._others(context, number, now_s)
        simulator.reopen()
        return MovePlan(
            (*moves, *own, *last),
            (*(KeptPod(kept.pod.key, kept.node, kept.reason) for kept in result.kept), *context.kept),
            tuple(
                PoolPlan(
                    pool.name,
                    len(pool.considered),
                    pool.sources,
                    pool.left_over,
                    sum(node_class in _RECEIVING for node_class in pool.classes),
                    pool.note,
                )
                for pool in result.pools
            ),
            len(nodes),
            pods,
            tuple(sorted({node.name for node in nodes} - {node.name for node in measured})),
            placed_first,
            self._settings.not_applied,
            tuple(context.kinds),
            tuple(context.rooms),
        )

    def _allowed(self, pods: Collection[PodInfo], now_s: float) -> int | None:
        """How many pods may be moved for objectives now; None = no limit."""
        if self._allowance is None:
            return None
        created = [pod.seen.created_s for pod in pods if pod.seen.pod.objective_p99_ms is not None]
        return self._allowance.left(created, self._begun, now_s)

    def _others(self, context: KindContext, first: int, now_s: float) -> tuple[PlannedMove, ...]:
        """The moves of the other kinds from number `first` on, with the use of both nodes before and after each."""
        found = []
        for move in context.moves[first:]:
            entry = self._entries[move.pod.uid]
            used = self.use.used_by(move.pod.key, move.node)
            before, target_before = self.use.percents(move.node, now_s), self.use.percents(move.target, now_s)
            self.use.count(move.pod.key, move.node, move.target, used)
            owner = controller(entry)
            found.append(
                PlannedMove(
                    pod=move.pod.key,
                    uid=move.pod.uid,
                    owner=f"{owner.kind}/{owner.name}" if owner is not None else "",
                    node=move.node,
                    target=move.target,
                    pool="",
                    scope="",
                    reason=move.reason,
                    over=(),
                    used={CPU_NAME: used.cpu_m, MEMORY_NAME: used.memory_bytes},
                    node_before=before,
                    node_after=self.use.percents(move.node, now_s),
                    target_before=target_before,
                    target_after=self.use.percents(move.target, now_s),
                    trigger=move.trigger,
                    about=move.about,
                    effect=context.choice.effects.get(move.pod.uid),
                    aim=move.aim,
                )
            )
        return tuple(found)

    def _never(self, entry: PodInfo, notes: EvictionNotes) -> str:
        """Why a pod may never move, for the kinds that have their own scope."""
        seen = entry.seen
        return self._kept.get(seen.uid) or self._settings.filter.refuses(self._facts(entry, notes))

    def _facts(self, entry: PodInfo, notes: EvictionNotes) -> EvictionFacts:
        return eviction_facts(
            entry,
            notes,
            self._replicas,
            self._cluster.node(entry.node),
            self._now_s,
            surges(entry, self._settings, self._replicas),
        )

    def _load_pods(self, node: str) -> list[LoadPod]:
        """The pods of an overloaded node, with the reason why each may not move."""
        measured = self.use.pods_of(node)
        found = []
        for entry in sorted(self._cluster.pods_on(node), key=lambda pod_info: pod_info.seen.pod.key):
            seen = entry.seen
            if seen.reservation or is_copy(seen.uid):
                continue
            self._entries[seen.uid] = entry
            notes = self._notes_of(seen.pod.key)
            use = measured.get(seen.pod.key)
            found.append(
                LoadPod(
                    seen.pod.key,
                    seen.uid,
                    None if use is None else {CPU_NAME: use.use.cpu_m, MEMORY_NAME: use.use.memory_bytes},
                    priority_class_of(entry),
                    seen.pod.priority,
                    notes.kubernetes_qos,
                    seen.pod.qos,
                    notes.deletion_cost,
                    notes.eviction_cost,
                    seen.created_s,
                    self._refused(entry, notes),
                )
            )
        return found

    def _refused(self, entry: PodInfo, notes: EvictionNotes) -> str:
        """Why the pod may never move."""
        settings, seen = self._settings, entry.seen
        namespace = seen.pod.namespace
        if (settings.include and namespace not in settings.include) or namespace in settings.exclude:
            return f"namespace {namespace} is excluded"
        if settings.pod_selectors and not any(selector.matches(seen.pod.labels) for selector in settings.pod_selectors):
            return "no podSelector selects it"
        if seen.uid in self._kept:
            return self._kept[seen.uid]
        if seen.uid in self._moved:
            return "it moves already"
        return settings.filter.refuses(self._facts(entry, notes))

    def _moves(self, loads: NodeLoads, result: RoundResult, choice: RoundChoice) -> tuple[PlannedMove, ...]:
        """The moves with the use of both nodes before and after each."""
        row = {name: at for at, name in enumerate(loads.names)}
        usage = loads.usage.copy()
        compared = [at for at, name in enumerate(loads.resources) if name != PODS_NAME]

        def percent(node: str) -> dict[str, float]:
            at = row[node]
            size = np.maximum(loads.allocatable[at], 1)
            return {loads.resources[i]: round(float(usage[at, i] * 100.0 / size[i]), 1) for i in compared}

        found = []
        for move in result.moves:
            amounts = np.array([1 if name == PODS_NAME else move.used.get(name, 0) for name in loads.resources])
            before, target_before = percent(move.node), percent(move.target)
            usage[row[move.node]] -= amounts
            usage[row[move.target]] += amounts
            owner = controller(self._entries[move.pod.uid])
            found.append(
                PlannedMove(
                    move.pod.key,
                    move.pod.uid,
                    f"{owner.kind}/{owner.name}" if owner is not None else "",
                    move.node,
                    move.target,
                    move.pool,
                    str(move.scope),
                    ", ".join(map(str, move.excess)),
                    tuple(
                        excess.resource
                        for excess in sorted(move.excess, key=lambda one: one.threshold_percent - one.used_percent)
                        if excess.resource != PODS_NAME
                    ),
                    move.used,
                    before,
                    percent(move.node),
                    target_before,
                    percent(move.target),
                    effect=choice.effects.get(move.pod.uid),
                )
            )
        return tuple(found)
