"""NodeMetrics of the simulated nodes, as a node's agent writes them, for the manager of a local cluster.

A manager lends by what agents measure, and simulated nodes have no agent. The simulated world's present use of each
node and pod, patched into the status of the NodeMetric that the manager has made for the node, once a period: two
simulated minutes, but between one and ten seconds, and no more than `WRITES_PER_SECOND` where that allows; with each
service's p99, the histories of pods, and the prediction of what prod pods will not use, trained over simulated time, as
an agent adds them.
Limits: system use is zero, no percentiles; a write that is refused is tried again a period later. Without a manager the
NodeMetrics are made here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec

from cotenant.drivers.kube.kinds.custom.node_metric import NODE_METRICS
from cotenant.drivers.kube.kinds.custom.node_metric_writing import (
    NodeMetricInfo,
    NodeMetricStatus,
    PodMetricInfo,
    ReclaimableMetric,
    ResourceMap,
    extensions_of,
)
from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant.engine.node.prediction import BELOW_PROD
from cotenant.model.cluster.labels import PRIORITY_CLASS, QOS_CLASS
from cotenant.model.cluster.qos import class_of_label, effective_class, qos_of_label
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_metric import NO_USE, PodSignals, ReportedHistory, Use
from cotenant.model.quantities import format_bytes, format_milli
from cotenant.model.resources import CPU_NAME, MEMORY_NAME, NOTHING, Amounts
from cotenant.policy.overcommit.predicted_use import PodHistories
from cotenant.policy.overcommit.reclaimable import Histories, ProdPod, ReclaimableConfig, reclaimable, trained
from cotenant_local.apiserver.contract import MERGE
from cotenant_local.apiserver.verbs.api import Api
from cotenant_local.controllers.runtime.actions import NODES, PODS
from cotenant_local.controllers.runtime.informer import Informers
from cotenant_local.controllers.views.nodes import NodeObjectView
from cotenant_local.controllers.views.pods import PodObjectView
from cotenant_local.nodes.kubelets import Kubelets
from cotenant_local.nodes.usage import FleetUsage

MIN_PERIOD_S, PERIOD_S, SIMULATED_PERIOD_S = 1.0, 10.0, 120.0
WRITES_PER_SECOND = 60.0
_log = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode
_CONFIG = ReclaimableConfig()
_HEAD = {"apiVersion": NODE_METRICS.api_version, "kind": NODE_METRICS.name}


def period_s(speed: float, nodes: int) -> float:
    """Seconds between two measurements where `speed` simulated seconds pass a second."""
    return min(PERIOD_S, max(MIN_PERIOD_S, nodes / WRITES_PER_SECOND, SIMULATED_PERIOD_S / speed))


class SimulatedNodeMetrics:
    """Writes the status of every simulated node's NodeMetric; `start` and `stop` it."""

    def __init__(
        self,
        api: Api,
        informers: Informers,
        kubelets: Kubelets,
        period_s: float = PERIOD_S,
        speed: float = 1.0,
        has_manager: bool = True,
    ) -> None:
        """`speed`: simulated seconds a second. Without a manager the objects are made here."""
        self._has_manager = has_manager
        self.written = 0
        self._speed = speed
        self._agents: dict[str, _Agent] = {}  # by node
        self._api = api
        self._informers = informers
        self._kubelets = kubelets
        self._period_s = period_s
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to write."""
        self._task = asyncio.create_task(self._run(), name="NodeMetrics of simulated nodes")

    async def stop(self) -> None:
        """End."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def write(self, now: datetime) -> None:
        """Once, for every node that is powered on."""
        pods: dict[str, list[_MeasuredPod]] = {}
        for node, pod in self._pods():
            pods.setdefault(node, []).append(pod)
        nodes = list(FleetUsage(self._informers, self._kubelets).nodes())
        known = {node.metadata.name: node for node in self._informers.store(NODES)}
        self._agents = {entry.name: self._agents.get(entry.name) or _Agent() for entry in nodes}
        for measured in nodes:
            use, here = measured.usage[""], pods.get(measured.name, [])
            agent = self._agents[measured.name]
            histories = agent.histories.measured({pod.uid: pod.use for pod in here}, now.timestamp())
            predicted = agent.trained(here, _allocatable(known.get(measured.name)), self._period_s * self._speed)
            status = NodeMetricStatus(
                update_time=now.strftime("%Y-%m-%dT%H:%M:%SZ"),
                node_metric=NodeMetricInfo(
                    node_usage=_resources(use.cpu_cores, use.memory_bytes), system_usage=_resources(0.0, 0.0)
                ),
                pods_metric=tuple(pod.written(histories[pod.uid]) for pod in here),
                prod_reclaimable_metric=None if predicted is None else ReclaimableMetric(_written(predicted)),
            )
            await self._patch(measured.name, status)
            await asyncio.sleep(0)

    async def _patch(self, name: str, status: NodeMetricStatus) -> None:
        kind = (NODE_METRICS.group, NODE_METRICS.plural)
        try:
            await self._api.patch(self._api.target(*kind, "", name, "status"), _encode({"status": status}), MERGE)
            self.written += 1
        except ApiError as error:
            if error.code != 404:
                _log.warning("NodeMetric %s: %s", name, error)
            elif not self._has_manager:  # else it has not made it yet
                await self._api.create(self._api.target(*kind), {**_HEAD, "metadata": {"name": name}})

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._period_s)
            await self.write(datetime.now(UTC))

    def _pods(self) -> Iterator[tuple[str, _MeasuredPod]]:
        pods: list[PodObjectView] = list(self._informers.store(PODS))
        for pod in pods:
            used = self._kubelets.world.pod_usage(pod.metadata.uid)
            seen = self._kubelets.world.usage(pod.metadata.uid)
            if used is not None and seen is not None and pod.spec.node_name:
                use = Use(round(used[0] * 1000), round(used[1]))
                yield pod.spec.node_name, _MeasuredPod(pod.metadata.uid, use, pod, seen.p99_ms)


@dataclass(frozen=True, slots=True)
class _MeasuredPod:
    uid: str
    use: Use
    pod: PodObjectView
    latency_p99_ms: float | None = None

    def written(self, history: ReportedHistory) -> PodMetricInfo:
        meta = self.pod.metadata
        return PodMetricInfo(
            namespace=meta.namespace,
            name=meta.name,
            pod_usage=_written(self.use),
            priority=meta.labels.get(PRIORITY_CLASS, ""),
            qos=meta.labels.get(QOS_CLASS, ""),
            extensions=extensions_of(PodSignals(self.latency_p99_ms), history),
        )

    def of_prod(self) -> ProdPod | None:
        """What its unused request may be lent by; None where it is of a lower class, by its labels."""
        labels = self.pod.metadata.labels
        raw, qos = class_of_label(labels.get(PRIORITY_CLASS)), qos_of_label(labels.get(QOS_CLASS))
        if effective_class(raw, qos) in BELOW_PROD:
            return None
        total = NO_USE
        for container in self.pod.spec.containers:
            with suppress(InvalidInput):
                requests = Amounts.parse(container.resources.requests)
                total = total.plus(Use(requests.get(CPU_NAME), requests.get(MEMORY_NAME)))
        return ProdPod(self.uid, total, self.use)


@dataclass(slots=True)
class _Agent:
    """What the agent of one node would remember."""

    histories: PodHistories = field(default_factory=PodHistories)
    prod: Histories = field(default_factory=Histories)

    def trained(self, pods: Sequence[_MeasuredPod], allocatable: Use, elapsed_s: float) -> Use | None:
        """Add a measurement; what prod pods are predicted not to use."""
        prod = [found for pod in pods if (found := pod.of_prod()) is not None]
        self.prod = trained(self.prod, prod, NO_USE, elapsed_s, _CONFIG)
        predicted = reclaimable(self.prod, prod, allocatable, _CONFIG)
        return None if predicted is None else predicted.value


def _allocatable(node: NodeObjectView | None) -> Use:
    try:
        amounts = Amounts.parse(node.status.allocatable) if node is not None else NOTHING
    except InvalidInput:
        amounts = NOTHING
    return Use(amounts.get(CPU_NAME), amounts.get(MEMORY_NAME))


def _written(use: Use) -> ResourceMap:
    return ResourceMap({"cpu": format_milli(use.cpu_m), "memory": format_bytes(use.memory_bytes)})


def _resources(cores: float, memory: float) -> ResourceMap:
    return _written(Use(round(cores * 1000), round(memory)))
