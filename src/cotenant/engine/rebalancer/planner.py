"""One round of planning: from measured nodes and placed pods to moves with reasons and expected effect.

Problem: a move must be allowed (filters, limits, budgets), must help (LowNodeLoad's thresholds) and must be possible (the scheduler places the pod). Choice: `LowNodeLoad` proposes
candidates in order; for each, this planner asks the limits with the moves chosen so far counted, then simulates the placement on the scheduling engine (landing.py). What does not move is kept with the
reason. Use of a node is that of system, applications and pods as its NodeMetric reports them; the number of pods is that of the engine. Limits: one round
at a time; nodes without a current NodeMetric take no part; the use of a moved pod is taken to be the same elsewhere; budgets are those of the last status of each PodDisruptionBudget.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isnan

import numpy as np

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.rebalancer.landing import LandingSimulator, is_copy
from cotenant.engine.rebalancer.plan import KeptPod, Plan, PlannedMove, PoolPlan
from cotenant.engine.rebalancer.round_limits import RoundLimits, controller
from cotenant.engine.rebalancer.settings import RebalancerSettings
from cotenant.model.arrays import Int, Mask
from cotenant.model.cluster.eviction import EvictionNotes
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.qos import PriorityClass, effective_class
from cotenant.model.machine.node_metric import NodeMetric, Use
from cotenant.model.resources import CPU_NAME, MEMORY_NAME, PODS_NAME
from cotenant.policy.rebalance.loads.low_node_load import Landing, LowNodeLoad, RoundResult
from cotenant.policy.rebalance.loads.order import LoadPod
from cotenant.policy.rebalance.loads.pools import NodeLoads
from cotenant.policy.rebalance.loads.thresholds import NodeClass
from cotenant.policy.rebalance.migration.evictable import EvictionFacts

_RECEIVING = (NodeClass.LOW, NodeClass.BOTH_LOW)


class Planner:
    """Plans rounds over an engine of its own. `notes_of` gives a pod's eviction notes by namespace/name; called for few pods."""

    def __init__(
        self, cluster: Cluster, settings: RebalancerSettings, notes_of: Callable[[str], EvictionNotes]
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._notes_of = notes_of
        self._policy = LowNodeLoad(settings.pools, number_of_nodes=settings.number_of_nodes, node_fit=settings.node_fit)
        self._metrics: dict[str, tuple[NodeMetric, float]] = {}  # with the time when it was seen
        self._replicas: dict[str, int] = {}  # of controllers, by UID
        self._raw: dict[str, Use] = {}  # raw allocatable, by node
        self._entries: dict[str, PodInfo] = {}  # pods that were considered in this round, by UID

    # ---- facts

    def metric_seen(self, metric: NodeMetric, now_s: float) -> None:
        """A node's measurement."""
        self._metrics[metric.node] = (metric, now_s)

    def metric_gone(self, node: str) -> None:
        """A node is no longer measured."""
        self._metrics.pop(node, None)

    def workload_seen(self, uid: str, replicas: int) -> None:
        """A controller of pods, with the number of pods that it wants."""
        self._replicas[uid] = replicas

    def raw_allocatable(self, node: str, amounts: Use) -> None:
        """What the node has before amplification."""
        self._raw[node] = amounts

    # ---- a round

    def plan(self, now_s: float) -> Plan:
        """The moves of the next round. The engine is left as it would be after them."""
        cluster = self._cluster
        nodes = [node for node in cluster.nodes() if self._takes_part(node)]
        measured = [node for node in nodes if self._is_current(node.name, now_s)]
        simulator = LandingSimulator(cluster, now_s)
        pods = len(cluster.assigned())
        loads = self._loads(measured)
        self._entries.clear()
        choice = _Choice(RoundLimits(cluster, self._settings, self._replicas, self._notes_of), simulator, self._entries)
        placed_first = simulator.settle() if self._is_overloaded_somewhere(loads) else 0
        result = self._policy.round(loads, self._load_pods, choice, now_s)
        simulator.reopen()
        return Plan(
            self._moves(loads, result),
            tuple(KeptPod(each.pod.key, each.node, each.reason) for each in result.kept),
            tuple(
                PoolPlan(
                    pool.name,
                    len(pool.considered),
                    pool.sources,
                    pool.left_over,
                    sum(each in _RECEIVING for each in pool.classes),
                    pool.note,
                )
                for pool in result.pools
            ),
            len(nodes),
            pods,
            tuple(sorted({node.name for node in nodes} - {node.name for node in measured})),
            placed_first,
            self._settings.not_applied,
        )

    def _takes_part(self, node: Node) -> bool:
        selector = self._settings.node_selector
        return selector is None or selector.matches(node.labels)

    def _is_current(self, node: str, now_s: float) -> bool:
        metric, seen_s = self._metrics.get(node, (None, 0.0))
        if metric is None or isnan(metric.age_s) or metric.use is None:
            return False
        return metric.age_s + (now_s - seen_s) <= self._settings.expires_s

    def _is_overloaded_somewhere(self, loads: NodeLoads) -> bool:
        """Whether any use is above the lowest high threshold: otherwise no pod is considered, and nothing needs to be simulated."""
        for pool in self._settings.pools:
            if pool.percentages.deviation:
                return True
            given = pool.percentages.completed()
            for usage, high in ((loads.usage, given.high), (loads.prod, given.prod_high)):
                limit = np.array([high.get(name, 100.0) for name in loads.resources])
                if (usage * 100.0 > limit * loads.allocatable).any():
                    return True
        return False

    def _loads(self, nodes: Sequence[Node]) -> NodeLoads:
        names = sorted({name for pool in self._settings.pools for name in pool.percentages.names})
        cpu, memory, pods = (names.index(name) if name in names else -1 for name in (CPU_NAME, MEMORY_NAME, PODS_NAME))
        allocatable: Int = np.zeros((len(nodes), len(names)), dtype=np.int64)
        usage, prod = np.zeros_like(allocatable), np.zeros_like(allocatable)
        for row, node in enumerate(nodes):
            allocatable[row] = [node.allocatable.get(name) for name in names]
            used, used_by_prod = self._use(node.name)
            raw = self._raw.get(node.name)
            for column, index in ((cpu, 0), (memory, 1)):
                if column >= 0:
                    usage[row, column], prod[row, column] = used[index], used_by_prod[index]
                    if raw is not None and raw[index] > 0:
                        allocatable[row, column] = raw[index]
            if pods >= 0:
                residents = self._cluster.pods_on(node.name)
                usage[row, pods] = len(residents)
                prod[row, pods] = sum(_class_of(entry) is PriorityClass.PROD for entry in residents)
        cordoned: Mask = np.array([node.unschedulable for node in nodes], dtype=np.bool_)
        return NodeLoads(
            tuple(node.name for node in nodes),
            tuple(node.labels for node in nodes),
            tuple(names),
            allocatable,
            usage,
            prod,
            cordoned,
        )

    def _use(self, node: str) -> tuple[Use, Use]:
        """Use of a node, and of its production pods."""
        metric, _ = self._metrics[node]
        assert metric.use is not None
        prod_cpu_m = prod_bytes = cpu_m = memory_bytes = 0
        for key, pod in (metric.pods or {}).items():
            cpu_m += pod.use.cpu_m
            memory_bytes += pod.use.memory_bytes
            kind = pod.priority_class
            if kind is PriorityClass.NONE and (entry := self._cluster.find(key)) is not None:
                kind = _class_of(entry)
            if kind is PriorityClass.PROD:
                prod_cpu_m += pod.use.cpu_m
                prod_bytes += pod.use.memory_bytes
        prod = Use(prod_cpu_m, prod_bytes)
        if metric.pods is None or metric.system is None:
            return metric.use, prod
        total = Use(cpu_m, memory_bytes).plus(metric.system)
        for application in metric.applications:
            total = total.plus(application.use)
        return total, prod

    def _load_pods(self, node: str) -> list[LoadPod]:
        """The pods of an overloaded node, with the reason why each may not move."""
        metric, _ = self._metrics[node]
        measured = metric.pods or {}
        found = []
        for entry in self._cluster.pods_on(node):
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
                    _class_of(entry),
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
        if settings.pod_selectors and not any(each.matches(seen.pod.labels) for each in settings.pod_selectors):
            return "no podSelector selects it"
        owner = controller(entry)
        facts = EvictionFacts(
            namespace,
            seen.pod.labels,
            seen.pod.priority,
            owner.kind if owner is not None else "",
            is_static=notes.is_static,
            terminating=seen.terminating,
            finished=seen.phase.is_final,
            has_local_storage=notes.has_local_storage,
            has_claims=notes.has_claims,
            eviction_cost=notes.eviction_cost,
            forced=notes.forced,
            replicas=self._replicas.get(owner.uid) if owner is not None else None,
        )
        return settings.filter.refuses(facts)

    def _moves(self, loads: NodeLoads, result: RoundResult) -> tuple[PlannedMove, ...]:
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
                        each.resource
                        for each in sorted(move.excess, key=lambda one: one.threshold_percent - one.used_percent)
                        if each.resource != PODS_NAME
                    ),
                    move.used,
                    before,
                    percent(move.node),
                    target_before,
                    percent(move.target),
                )
            )
        return tuple(found)


class _Choice:
    """Answers of one round: limits with the moves so far counted, and placements."""

    def __init__(self, limits: RoundLimits, simulator: LandingSimulator, entries: Mapping[str, PodInfo]) -> None:
        self._limits, self._simulator, self._entries = limits, simulator, entries

    def admit(self, pod: LoadPod, node: str) -> str:
        """See `Choice`."""
        return self._limits.refuses(self._entries[pod.uid], node)

    def land(self, pod: LoadPod, node: str, targets: Sequence[str]) -> Landing:
        """See `Choice`."""
        found = self._simulator.land(self._entries[pod.uid], targets)
        if found.node:
            self._limits.moved(self._entries[pod.uid], node)
        return found


def _class_of(entry: PodInfo) -> PriorityClass:
    return effective_class(entry.seen.pod.priority_class, entry.seen.pod.qos)
