"""The use of nodes: as NodeMetrics report it, with the pods that are moved counted where they will be.

Use of a node is that of system, applications and pods; the number of pods is that of the engine. What is about to be
moved is counted until a NodeMetric shows it, and its use is taken to be the same elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan

import numpy as np

from cotenant.engine.cluster import Cluster
from cotenant.engine.rebalancer.eviction_facts import priority_class_of
from cotenant.engine.rebalancer.settings import RebalancerSettings
from cotenant.model.arrays import Int, Mask
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.qos import PriorityClass
from cotenant.model.groups.migration import MigrationJob
from cotenant.model.machine.node_metric import MeasuredPod, NodeMetric, Use
from cotenant.model.resources import CPU_NAME, MEMORY_NAME, PODS_NAME
from cotenant.policy.rebalance.loads.pools import NodeLoads


class NodeUse:
    """What each node uses, in measured amounts and in percent of what it has before amplification."""

    def __init__(self, cluster: Cluster, settings: RebalancerSettings) -> None:
        self._cluster = cluster
        self._settings = settings
        self._metrics: dict[str, tuple[NodeMetric, float]] = {}  # with the time when it was seen
        self._raw: dict[str, Use] = {}  # raw allocatable, by node
        self._leaving: dict[str, dict[str, Use]] = {}  # pods that are moved away, by node and namespace/name
        self._arriving: dict[str, dict[str, Use]] = {}  # the same by target; the replacement's name, or the old pod's

    def metric_seen(self, metric: NodeMetric, now_s: float) -> None:
        """A node's measurement."""
        self._metrics[metric.node] = (metric, now_s)

    def metric_gone(self, node: str) -> None:
        """A node is no longer measured."""
        self._metrics.pop(node, None)

    def raw_allocatable(self, node: str, amounts: Use) -> None:
        """What the node has before amplification."""
        self._raw[node] = amounts

    def percent(self, node: str, resource: str, now_s: float) -> float | None:
        """The measured use of a node in percent of raw allocatable; None without a current measurement."""
        known = self._cluster.node(node)
        if known is None or not self._is_current(node, now_s) or resource not in (CPU_NAME, MEMORY_NAME):
            return None
        index = 0 if resource == CPU_NAME else 1
        raw = self._raw.get(node)
        size = raw[index] if raw is not None and raw[index] > 0 else known.allocatable.get(resource)
        return self.of(node)[0][index] * 100.0 / size if size > 0 else None

    def used_by(self, key: str, node: str) -> Use:
        """The measured use of a pod; nothing where it is not measured."""
        metric, _ = self._metrics.get(node, (None, 0.0))
        measured = (metric.pods or {}).get(key) if metric is not None else None
        return measured.use if measured is not None else Use()

    def count(self, key: str, node: str, target: str, used: Use) -> None:
        """Count a pod on the node where it will be."""
        self._leaving.setdefault(node, {})[key] = used
        self._arriving.setdefault(target, {})[key] = used

    def percents(self, node: str, now_s: float) -> dict[str, float]:
        """The use of a node in percent, with the moves so far counted; empty without a current measurement."""
        found = {name: self.percent(node, name, now_s) for name in (CPU_NAME, MEMORY_NAME)}
        return {name: round(value, 1) for name, value in found.items() if value is not None}

    def cooler_than(self, node: str, key: str, now_s: float) -> list[str]:
        """Nodes that would use less of their CPU than this one does, with the pod on them; all others where that is
        not measured.
        """
        here, used = self.percent(node, CPU_NAME, now_s), self.used_by(key, node)
        found = []
        for other in self._cluster.nodes():
            if other.name == node or other.unschedulable or not self.takes_part(other):
                continue
            there = self.percent(other.name, CPU_NAME, now_s)
            more = used.cpu_m * 100.0 / max(1, other.allocatable.get(CPU_NAME))
            if here is None or there is None or there + more < here:
                found.append(other.name)
        return found

    def takes_part(self, node: Node) -> bool:
        """Whether the profile selects the node."""
        selector = self._settings.node_selector
        return selector is None or selector.matches(node.labels)

    def measured_nodes(self, now_s: float) -> list[Node]:
        """The nodes that take part and have a current measurement."""
        return [node for node in self._cluster.nodes() if self.takes_part(node) and self._is_current(node.name, now_s)]

    def pods_of(self, node: str) -> Mapping[str, MeasuredPod]:
        """The measured pods of a node that has a measurement, by namespace/name."""
        return self._metrics[node][0].pods or {}

    def _is_current(self, node: str, now_s: float) -> bool:
        metric, seen_s = self._metrics.get(node, (None, 0.0))
        if metric is None or isnan(metric.age_s) or metric.use is None:
            return False
        return metric.age_s + (now_s - seen_s) <= self._settings.expires_s

    def is_overloaded_somewhere(self, loads: NodeLoads) -> bool:
        """Whether any use is above the lowest high threshold: otherwise no pod is considered, and nothing needs to
        be simulated.
        """
        for pool in self._settings.pools:
            if pool.percentages.deviation:
                return True
            given = pool.percentages.completed()
            for usage, high in ((loads.usage, given.high), (loads.prod, given.prod_high)):
                limit = np.array([high.get(name, 100.0) for name in loads.resources])
                if (usage * 100.0 > limit * loads.allocatable).any():
                    return True
        return False

    def loads(self, nodes: Sequence[Node]) -> NodeLoads:
        """What measured nodes have and use, of the resources that thresholds name."""
        names = sorted({name for pool in self._settings.pools for name in pool.percentages.names})
        cpu, memory, pods = (names.index(name) if name in names else -1 for name in (CPU_NAME, MEMORY_NAME, PODS_NAME))
        allocatable: Int = np.zeros((len(nodes), len(names)), dtype=np.int64)
        usage, prod = np.zeros_like(allocatable), np.zeros_like(allocatable)
        for row, node in enumerate(nodes):
            allocatable[row] = [node.allocatable.get(name) for name in names]
            used, used_by_prod = self.of(node.name)
            raw = self._raw.get(node.name)
            for column, index in ((cpu, 0), (memory, 1)):
                if column >= 0:
                    usage[row, column], prod[row, column] = used[index], used_by_prod[index]
                    if raw is not None and raw[index] > 0:
                        allocatable[row, column] = raw[index]
            if pods >= 0:
                residents = self._cluster.pods_on(node.name)
                usage[row, pods] = len(residents)
                prod[row, pods] = sum(priority_class_of(entry) is PriorityClass.PROD for entry in residents)
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

    def of(self, node: str) -> tuple[Use, Use]:
        """Use of a node, and of its production pods."""
        metric, _ = self._metrics[node]
        assert metric.use is not None
        prod_cpu_m = prod_bytes = cpu_m = memory_bytes = 0
        leaving, arriving = self._leaving.get(node, {}), self._arriving.get(node, {})
        shown = metric.pods or {}
        for key, used in arriving.items():
            if key not in shown:
                cpu_m, memory_bytes = cpu_m + used.cpu_m, memory_bytes + used.memory_bytes
        for key, pod in shown.items():
            if key in leaving:
                continue
            cpu_m += pod.use.cpu_m
            memory_bytes += pod.use.memory_bytes
            kind = pod.priority_class
            if kind is PriorityClass.NONE and (entry := self._cluster.find(key)) is not None:
                kind = priority_class_of(entry)
            if kind is PriorityClass.PROD:
                prod_cpu_m += pod.use.cpu_m
                prod_bytes += pod.use.memory_bytes
        prod = Use(prod_cpu_m, prod_bytes)
        if metric.pods is None or metric.system is None:
            gone = [used for key, used in leaving.items() if key in shown]
            cpu_m = metric.use.cpu_m + sum(used.cpu_m for key, used in arriving.items() if key not in shown)
            memory_bytes = metric.use.memory_bytes + sum(
                u.memory_bytes for key, u in arriving.items() if key not in shown
            )
            away_m, away_bytes = sum(used.cpu_m for used in gone), sum(used.memory_bytes for used in gone)
            return Use(max(0, cpu_m - away_m), max(0, memory_bytes - away_bytes)), prod
        total = Use(cpu_m, memory_bytes).plus(metric.system)
        for application in metric.applications:
            total = total.plus(application.use)
        return total, prod

    def expect(self, jobs: Sequence[MigrationJob]) -> None:
        """Count the pods of these moves where they will be."""
        self._leaving, self._arriving = {}, {}
        for job in jobs:
            note = job.note
            if note is None:
                continue
            used = Use(note.used.get(CPU_NAME, 0), note.used.get(MEMORY_NAME, 0))
            key = job.new_pod.key if job.new_pod is not None else job.pod.key
            self._leaving.setdefault(note.node, {})[job.pod.key] = used
            self._arriving.setdefault(note.target, {})[key] = used
