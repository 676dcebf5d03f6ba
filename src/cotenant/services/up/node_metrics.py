"""NodeMetrics of the simulated nodes, as a node's agent writes them, for the manager of a local cluster.

Problem: a manager lends by what agents measure, and simulated nodes have no agent. Choice: the simulated world's present use of each node and pod, patched into the status of the NodeMetric that the manager has made for
the node, once a period: ten simulated minutes, but between one and ten seconds. Limits: system use is zero, no percentiles; a write that is refused is tried again a period later. Where a manager is not asked for, nothing is written.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

import msgspec

from cotenant.drivers.kube.kinds.custom.node_metric import NODE_METRICS
from cotenant.drivers.kube.kinds.custom.node_metric_writing import (
    NodeMetricInfo,
    NodeMetricStatus,
    PodMetricInfo,
    ResourceMap,
)
from cotenant.local.apiserver.contract import MERGE, ApiError
from cotenant.local.apiserver.verbs.api import Api
from cotenant.local.controllers.runtime.actions import PODS
from cotenant.local.controllers.runtime.informer import Informers
from cotenant.local.controllers.views.core import Pod
from cotenant.local.nodes.kubelets import Kubelets
from cotenant.local.nodes.usage import FleetUsage
from cotenant.model.cluster.labels import PRIORITY_CLASS, QOS_CLASS
from cotenant.model.quantities import format_bytes, format_milli

LEAST_PERIOD_S, PERIOD_S, SIMULATED_PERIOD_S = 1.0, 10.0, 600.0
_log = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode


def period_s(speed: float) -> float:
    """Seconds between two measurements where `speed` simulated seconds pass a second."""
    return min(PERIOD_S, max(LEAST_PERIOD_S, SIMULATED_PERIOD_S / speed))


class SimulatedNodeMetrics:
    """Writes the status of every simulated node's NodeMetric; `start` and `stop` it."""

    def __init__(self, api: Api, informers: Informers, kubelets: Kubelets, period_s: float = PERIOD_S) -> None:
        self.written = 0
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
        """Once, for every node that is powered on and has a NodeMetric."""
        pods: dict[str, list[PodMetricInfo]] = {}
        for node, info in self._pods():
            pods.setdefault(node, []).append(info)
        for measured in list(FleetUsage(self._informers, self._kubelets).nodes()):
            use = measured.usage[""]
            status = NodeMetricStatus(
                update_time=now.strftime("%Y-%m-%dT%H:%M:%SZ"),
                node_metric=NodeMetricInfo(
                    node_usage=_resources(use.cpu_cores, use.memory_bytes), system_usage=_resources(0.0, 0.0)
                ),
                pods_metric=tuple(pods.get(measured.name, ())),
            )
            target = self._api.target(NODE_METRICS.group, NODE_METRICS.plural, "", measured.name, "status")
            try:
                await self._api.patch(target, _encode({"status": status}), MERGE)
                self.written += 1
            except ApiError as error:
                if error.code != 404:  # the manager has not made it yet
                    _log.warning("NodeMetric %s: %s", measured.name, error)
            await asyncio.sleep(0)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._period_s)
            await self.write(datetime.now(UTC))

    def _pods(self) -> Iterator[tuple[str, PodMetricInfo]]:
        pods: list[Pod] = list(self._informers.store(PODS))
        for pod in pods:
            used = self._kubelets.world.pod_usage(pod.metadata.uid)
            if used is not None and pod.spec.node_name:
                labels: Mapping[str, str] = pod.metadata.labels
                yield (
                    pod.spec.node_name,
                    PodMetricInfo(
                        namespace=pod.metadata.namespace,
                        name=pod.metadata.name,
                        pod_usage=_resources(*used),
                        priority=labels.get(PRIORITY_CLASS, ""),
                        qos=labels.get(QOS_CLASS, ""),
                    ),
                )


def _resources(cores: float, memory: float) -> ResourceMap:
    return ResourceMap({"cpu": format_milli(round(cores * 1000)), "memory": format_bytes(round(memory))})
