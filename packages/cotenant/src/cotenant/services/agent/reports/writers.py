"""The objects that the agent writes into its cluster: NodeMetric, NodeResourceTopology, Device. Each has a writer and a
loop.

Each object is optional, and its writer needs an HTTP client, which an agent without a cluster must not load. A writer
is made where the configuration asks for it and there is a client; its module is imported only then.
Limits: the set is fixed at the start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cotenant.engine.node.gpu_limits import ShareVerdict
from cotenant.engine.node.report import NodeUsage
from cotenant.model.kubelet.facts import KubeletFacts
from cotenant.model.machine.counters import GpuCounters
from cotenant.model.machine.node_metric import Use
from cotenant.model.machine.node_pod import NodePod
from cotenant.services.agent.reports.lent_gpus import LentGpus
from cotenant.services.agent_settings.config import ClusterAccess

if TYPE_CHECKING:  # an HTTP client comes with these
    from cotenant.drivers.kube.client.client import Client
    from cotenant.services.agent.reports.devices import DeviceWriter
    from cotenant.services.agent.reports.nodemetric import NodeMetricWriter
    from cotenant.services.agent.reports.prediction import Prediction
    from cotenant.services.agent.reports.topology import NodeTopologyWriter


@dataclass(frozen=True, slots=True)
class ObjectWriters:
    """The writers; None: that object is not written."""

    node_metric: NodeMetricWriter | None = None
    node_topology: NodeTopologyWriter | None = None
    devices: DeviceWriter | None = None
    prediction: Prediction | None = None  # part of the NodeMetric

    def work(self) -> dict[str, Coroutine[object, object, None]]:
        """The loops by the kind of the object."""
        work: dict[str, Coroutine[object, object, None]] = {}
        if self.node_metric is not None:
            work["NodeMetric"] = _write_node_metric(self.node_metric)
        if self.prediction is not None:
            work["prediction"] = self.prediction.run()
        if self.node_topology is not None:
            work["NodeResourceTopology"] = self.node_topology.run()
        if self.devices is not None:
            work["Device"] = _write_devices(self.devices)
        return work


def writers_of(
    cluster: ClusterAccess | None,
    client: Client | None,
    node: str,
    *,
    usage: Callable[[Sequence[int]], NodeUsage | None],
    wall: Callable[[], float],
    pods: Callable[[], Sequence[NodePod]],
    reserved_cpus: Callable[[], Sequence[int]],
    gpus: Callable[[], Sequence[GpuCounters]],
    allocatable: Callable[[], Use | None],
    monotonic: Callable[[], float],
    kubelet: Callable[[], KubeletFacts],
    shares: Callable[[Sequence[GpuCounters]], ShareVerdict],
    lent: Callable[[], LentGpus | None] = lambda: None,
    network: Callable[[NodePod], tuple[int, int] | None] = lambda pod: None,
    uplink_bps: int | None = None,
) -> ObjectWriters:
    """The writers that the configuration asks for. The functions give what the objects are made of, when it is
    needed.
    """
    if client is None or cluster is None:
        return ObjectWriters()
    node_metric: NodeMetricWriter | None = None
    node_topology: NodeTopologyWriter | None = None
    devices: DeviceWriter | None = None
    prediction: Prediction | None = None
    if cluster.node_metric:
        from cotenant.services.agent.reports.nodemetric import NodeMetricWriter

        if cluster.prediction:
            prediction = _prediction(cluster, usage, pods, allocatable, monotonic)
        reclaimable = prediction.reclaimable if prediction is not None else lambda: None
        node_metric = NodeMetricWriter(
            client, node, usage, wall, cluster.node_metric_period_s, reclaimable, network, uplink_bps
        )
    if cluster.node_topology:
        from cotenant.services.agent.reports.topology import NodeTopologyWriter

        node_topology = NodeTopologyWriter(client, node, pods, reserved_cpus, kubelet=kubelet)
    if cluster.devices:
        from cotenant.services.agent.reports.devices import DeviceWriter

        devices = DeviceWriter(client, node, gpus, shares=shares, lent=lent)
    return ObjectWriters(node_metric, node_topology, devices, prediction)


def _prediction(
    cluster: ClusterAccess,
    usage: Callable[[Sequence[int]], NodeUsage | None],
    pods: Callable[[], Sequence[NodePod]],
    allocatable: Callable[[], Use | None],
    monotonic: Callable[[], float],
) -> Prediction:
    # NumPy comes with these, of some 10 MiB
    from cotenant.engine.node.prediction import ProdPrediction
    from cotenant.policy.overcommit.reclaimable import ReclaimableConfig
    from cotenant.services.agent.reports.prediction import Prediction

    config = ReclaimableConfig(cluster.prediction_cold_start_h * 3600.0, cluster.prediction_margin_percent)
    return Prediction(ProdPrediction(config), cluster.prediction_file, usage, pods, allocatable, monotonic)


async def _write_node_metric(writer: NodeMetricWriter) -> None:
    while True:
        await asyncio.sleep(writer.period_s)
        await writer.write()


async def _write_devices(writer: DeviceWriter) -> None:
    while True:
        await asyncio.sleep(writer.period_s)
        await writer.write()
