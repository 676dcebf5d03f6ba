"""Writes this node's NodeMetric: the use of the node, its system and its pods.

Managers and schedulers that co-location users already run read NodeMetric, with their own windows and period, and an
API server may be unavailable for hours. The object's own spec gives the period and the windows; it is created where it
does not exist, and its status is patched. What cannot be written now is written a period later, with the figures of
then. Each pod's entry has the history of its use, so that a scheduler that starts need not learn it again.
Limits: the histories are those of this process; no devices; where the kind is not installed, that is logged once and
retried each period.
Source: Koordinator, NodeMetric (windows 5, 10 and 30 minutes, averages over 5 minutes, every 60 s).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING

from cotenant.drivers.kube.client.client import MERGE_PATCH, Client
from cotenant.drivers.kube.client.errors import AlreadyExists, NotFound
from cotenant.drivers.kube.kinds.custom.node_metric_writing import (
    OWN_NODE_METRICS,
    AggregatedUsage,
    CollectPolicy,
    HostApplicationMetricInfo,
    NodeMetricInfo,
    NodeMetricStatus,
    OwnNodeMetric,
    PodMetricInfo,
    ReclaimableMetric,
    ResourceMap,
    extensions_of,
)
from cotenant.drivers.kube.kinds.durations import whole_seconds
from cotenant.drivers.kube.kinds.parts import ObjectMeta
from cotenant.engine.node.pod_networks import PodNetworks
from cotenant.engine.node.report import Aggregate, NodeUsage, PodAverage
from cotenant.model.machine.node_metric import ReportedHistory, Use
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.quantities import format_bytes, format_milli
from cotenant.policy.overcommit.predicted_use import PodHistories
from cotenant.services.agent.reports.object_writer import ObjectWriter

if TYPE_CHECKING:  # NumPy comes with it
    from cotenant.policy.overcommit.reclaimable import Reclaimable

AVERAGE_S = 300
WINDOWS_S = (300, 600, 1800)
MAX_WINDOWS = 8
LONGEST_WINDOW_S = 86_400
SHORTEST_PERIOD_S, LONGEST_PERIOD_S = 5.0, 3600.0
_SECOND_US = 1_000_000


class NodeMetricWriter(ObjectWriter):
    """Writes the NodeMetric of one node, with the period of the object's spec, where it has one."""

    def __init__(
        self,
        client: Client,
        node: str,
        usage: Callable[[Sequence[int]], NodeUsage | None],
        wall: Callable[[], float],
        period_s: float,
        reclaimable: Callable[[], Reclaimable | None] = lambda: None,
        network: Callable[[NodePod], tuple[int, int] | None] = lambda pod: None,
        uplink_bps: int | None = None,
    ) -> None:
        """`network`: bytes that a pod has received and sent; `uplink_bps`: bytes per second of the uplink."""
        super().__init__(OWN_NODE_METRICS.name, client, node, period_s)
        self._usage = usage
        self._wall = wall
        self._usual_s = period_s
        self._reclaimable = reclaimable
        self._histories = PodHistories()
        self._network, self._networks = network, PodNetworks(uplink_bps)

    async def _update(self) -> bool | None:
        policy = await self._policy()
        usage = self._usage(tuple(window_s * _SECOND_US for window_s in windows_s(policy)))
        if usage is None:
            return None
        predicted = self._reclaimable()
        wall_s = self._wall()
        histories = self._histories.measured(
            {
                pod.pod.uid: Use(pod.cpu_m, pod.memory_bytes)
                for pod in usage.pods
                if pod.cpu_m is not None and pod.memory_bytes is not None
            },
            wall_s,
        )
        counters = {pod.pod.uid: found for pod in usage.pods if (found := self._network(pod.pod)) is not None}
        moved = self._networks.measured(counters, usage.at_us / _SECOND_US)
        usage = replace(
            usage,
            pods=tuple(
                replace(pod, signals=moved[pod.pod.uid].added(pod.signals)) if pod.pod.uid in moved else pod
                for pod in usage.pods
            ),
        )
        body = {"status": status_of(usage, wall_s, None if predicted is None else predicted.value, histories)}
        await self._client.patch(OWN_NODE_METRICS, "", self._node, body, content_type=MERGE_PATCH, subresource="status")
        return True

    async def _policy(self) -> CollectPolicy:
        try:
            found = await self._client.get(OWN_NODE_METRICS, "", self._node)
        except NotFound:
            try:
                new = OwnNodeMetric(
                    api_version=OWN_NODE_METRICS.api_version,
                    kind=OWN_NODE_METRICS.name,
                    metadata=ObjectMeta(name=self._node),
                )
                found = await self._client.create(OWN_NODE_METRICS, "", new)
            except AlreadyExists:  # made by a manager at this moment
                found = await self._client.get(OWN_NODE_METRICS, "", self._node)
        policy = (found.spec.metric_collect_policy if found.spec else None) or CollectPolicy()
        interval_s = policy.report_interval_seconds
        self.period_s = (
            self._usual_s if interval_s is None else min(LONGEST_PERIOD_S, max(SHORTEST_PERIOD_S, float(interval_s)))
        )
        return policy


def windows_s(policy: CollectPolicy) -> tuple[int, ...]:
    """The windows to aggregate over; the first is the one of the averages. What cannot be read of them is left out."""
    average_s = policy.aggregate_duration_seconds or 0
    asked = policy.node_aggregate_policy.durations if policy.node_aggregate_policy else None
    windows = WINDOWS_S if asked is None else tuple(filter(None, map(duration_s, asked)))
    first_s = average_s if 0 < average_s <= LONGEST_WINDOW_S else AVERAGE_S
    return (first_s, *windows[:MAX_WINDOWS])


def duration_s(text: str) -> int:
    """Whole seconds of a duration as Go writes it (`1h30m0s`); 0 where it is malformed or too long."""
    total = whole_seconds(text) or 0
    return total if total <= LONGEST_WINDOW_S else 0


def status_of(
    usage: NodeUsage,
    wall_s: float,
    reclaimable: Use | None = None,
    histories: Mapping[str, ReportedHistory] = MappingProxyType({}),
) -> NodeMetricStatus:
    """The status for what is used, what prod pods are predicted not to use of their requests, and the histories of
    pods by UID.
    """
    return NodeMetricStatus(
        update_time=datetime.fromtimestamp(wall_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        node_metric=NodeMetricInfo(
            node_usage=_resources(usage.cpu_m, usage.memory_bytes),
            aggregated_node_usages=_aggregated(usage.node[1:]),
            system_usage=_resources(usage.system_cpu_m, usage.system_memory_bytes),
            aggregated_system_usages=_aggregated(usage.system[1:]),
        ),
        pods_metric=tuple(
            PodMetricInfo(
                namespace=pod.pod.namespace,
                name=pod.pod.name,
                pod_usage=_resources(pod.cpu_m, pod.memory_bytes),
                priority=pod.pod.priority_class.label,
                qos=pod.pod.qos.value,
                extensions=extensions_of(pod.signals, histories.get(pod.pod.uid)),
            )
            for pod in usage.pods
            if _is_known(pod)
        ),
        host_application_metric=tuple(
            HostApplicationMetricInfo(
                name=application.pod.key,
                usage=_resources(application.cpu_m, application.memory_bytes),
                priority=application.pod.priority_class.label,
                qos=application.pod.qos.value,
            )
            for application in usage.applications
            if _is_known(application)
        ),
        prod_reclaimable_metric=None if reclaimable is None else ReclaimableMetric(_resources(*reclaimable)),
    )


def _is_known(pod_usage: PodAverage) -> bool:
    return pod_usage.cpu_m is not None or pod_usage.memory_bytes is not None


def _aggregated(aggregates: Sequence[Aggregate]) -> tuple[AggregatedUsage, ...]:
    """One entry a window of which anything is known."""
    found = []
    for aggregate in aggregates:
        usage: dict[str, ResourceMap] = {}
        for name, read in (("avg", "average"), ("p50", "p50"), ("p90", "p90"), ("p95", "p95"), ("p99", "p99")):
            cpu_m = None if aggregate.cpu_m is None else getattr(aggregate.cpu_m, read)
            memory_bytes = None if aggregate.memory_bytes is None else getattr(aggregate.memory_bytes, read)
            if cpu_m is not None or memory_bytes is not None:
                usage[name] = _resources(cpu_m, memory_bytes)
        if usage:
            found.append(AggregatedUsage(usage=usage, duration=_go(aggregate.window_us // _SECOND_US)))
    return tuple(found)


def _resources(cpu_m: int | None, memory_bytes: int | None) -> ResourceMap:
    found = {}
    if cpu_m is not None:
        found["cpu"] = format_milli(cpu_m)
    if memory_bytes is not None:
        found["memory"] = format_bytes(memory_bytes)
    return ResourceMap(resources=found)


def _go(seconds: int) -> str:
    hours, rest = divmod(seconds, 3600)
    minutes, rest = divmod(rest, 60)
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
