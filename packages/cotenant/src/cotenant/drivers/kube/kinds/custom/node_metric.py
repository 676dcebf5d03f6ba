"""NodeMetric as a scheduler reads it.

The object is written by agents of several vendors and versions, and its time is of another machine's clock. A struct of
the fields that are used, read into `model.node_metric.NodeMetric` with its age by this machine's clock; a time in the
future counts as now. One amount that cannot be read makes the object unreadable: half a metric would look like an idle
node.
Limits: devices and NUMA figures are not read. The object that this project's agent writes is in node_metric_writing.py.
Source: Koordinator, apis/slo/v1alpha1 (NodeMetric).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from math import inf, nan

from msgspec import field, to_builtins

from cotenant.drivers.kube.kinds.durations import whole_seconds
from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind, Quantities, Time
from cotenant.drivers.kube.kinds.parts import ObjectMeta
from cotenant.model.cluster.qos import class_of_label
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_metric import (
    NO_SIGNALS,
    REPORT_INTERVAL_S,
    HostApplication,
    MeasuredPod,
    NodeMetric,
    PodSignals,
    ReportedHistory,
    Statistic,
    Use,
    UseSpread,
    UseWindow,
)
from cotenant.model.resources import CPU_NAME, MEMORY_NAME, parse_amount

_STATISTICS = {statistic.value: statistic for statistic in Statistic}


class MeasuredResources(ApiStruct, frozen=True):
    """ResourceMap."""

    resources: Quantities = None


class Aggregated(ApiStruct, frozen=True):
    """AggregatedUsage."""

    usage: dict[str, MeasuredResources | None] | None = None
    duration: str | None = None


class NodeUsageInfo(ApiStruct, frozen=True):
    """NodeMetricInfo."""

    node_usage: MeasuredResources | None = None
    aggregated_node_usages: tuple[Aggregated, ...] | None = None
    system_usage: MeasuredResources | None = None


class SpreadPart(ApiStruct, frozen=True):
    """Milli-CPU or bytes."""

    mean: float = -1.0
    deviation: float = -1.0
    highest: float = -1.0


class HistoryPart(ApiStruct, frozen=True):
    """See `model.machine.node_metric.ReportedHistory`; what is missing makes it unusable."""

    samples: int = 0
    weight: float = 0.0
    cpu: SpreadPart = SpreadPart()
    memory: SpreadPart = SpreadPart()


class SignalsPart(ApiStruct, frozen=True):
    """What this project's agent adds: see `model.machine.node_metric.PodSignals` and `ReportedHistory`."""

    latency_p99_ms: float | None = field(default=None, name="latencyP99Ms")
    cycles_per_instruction: float | None = None
    wait_per_cpu: float | None = None
    memory_stall: float | None = None
    disk_stall: float | None = None
    disk_use: float | None = None
    network_use: float | None = None
    disk_bps: float | None = field(default=None, name="diskBytesPerSecond")
    network_bps: float | None = field(default=None, name="networkBytesPerSecond")
    gpu_sm: float | None = None
    gpu_bandwidth: float | None = field(default=None, name="gpuMemoryBandwidth")
    use_history: HistoryPart | None = None


class ExtensionsPart(ApiStruct, frozen=True):
    """ExtensionsMap: free-form; other extensions are ignored."""

    cotenant: SignalsPart | None = None


class PodPart(ApiStruct, frozen=True):
    """PodMetricInfo."""

    name: str = ""
    namespace: str = ""
    pod_usage: MeasuredResources | None = None
    priority: str | None = None
    extensions: ExtensionsPart | None = None


class ApplicationPart(ApiStruct, frozen=True):
    """HostApplicationMetricInfo."""

    name: str = ""
    usage: MeasuredResources | None = None
    priority: str | None = None


class ReclaimablePart(ApiStruct, frozen=True):
    """ReclaimableMetric."""

    resource: MeasuredResources | None = None


class MetricStatus(ApiStruct, frozen=True):
    """NodeMetricStatus."""

    update_time: Time | None = None
    node_metric: NodeUsageInfo | None = None
    pods_metric: tuple[PodPart, ...] | None = None
    host_application_metric: tuple[ApplicationPart, ...] | None = None
    prod_reclaimable_metric: ReclaimablePart | None = None


class CollectInterval(ApiStruct, frozen=True):
    """CollectPolicy; the age limit of a metric follows from the interval."""

    report_interval_seconds: int | None = None
    aggregate_duration_seconds: int | None = None
    node_aggregate_policy: dict[str, object] | None = None
    node_memory_collect_policy: str | None = None


class MetricSpec(ApiStruct, frozen=True):
    """NodeMetricSpec."""

    metric_collect_policy: CollectInterval | None = field(default=None)


class NodeMetricObject(ApiStruct, frozen=True):
    """slo.koordinator.sh/v1alpha1 NodeMetric."""

    metadata: ObjectMeta = ObjectMeta()
    spec: MetricSpec | None = None
    status: MetricStatus | None = None


NODE_METRICS = Kind("NodeMetric", "slo.koordinator.sh", "v1alpha1", "nodemetrics", False, NodeMetricObject)


def read_node_metric(obj: NodeMetricObject, wall: Callable[[], float] = time.time) -> NodeMetric:
    """The metric, as old as it is by this clock. Raises `InvalidInput`."""
    name, status = obj.metadata.name or "", obj.status or MetricStatus()
    where = f"NodeMetric {name}"
    policy = obj.spec.metric_collect_policy if obj.spec is not None else None
    interval_s = policy.report_interval_seconds if policy is not None else None
    part = status.node_metric or NodeUsageInfo()
    return NodeMetric(
        node=name,
        age_s=nan if status.update_time is None else max(0.0, wall() - status.update_time.timestamp()),
        interval_s=interval_s if interval_s is not None and interval_s > 0 else REPORT_INTERVAL_S,
        use=_use(part.node_usage, f"{where}: nodeUsage"),
        windows=tuple(
            _window(usage, f"{where}: aggregatedNodeUsages[{i}]")
            for i, usage in enumerate(part.aggregated_node_usages or ())
        ),
        pods={
            f"{pod_part.namespace}/{pod_part.name}": MeasuredPod(
                use, class_of_label(pod_part.priority), _signals(pod_part.extensions), _history(pod_part.extensions)
            )
            for i, pod_part in enumerate(status.pods_metric or ())
            if (use := _use(pod_part.pod_usage, f"{where}: podsMetric[{i}]")) is not None
        },
        system=_use(part.system_usage, f"{where}: systemUsage"),
        applications=tuple(
            HostApplication(use, class_of_label(entry.priority), entry.name)
            for i, entry in enumerate(status.host_application_metric or ())
            if (use := _use(entry.usage, f"{where}: hostApplicationMetric[{i}]")) is not None
        ),
        prod_reclaimable=_use(
            status.prod_reclaimable_metric.resource if status.prod_reclaimable_metric is not None else None,
            f"{where}: prodReclaimableMetric",
        ),
        updated_s=nan if status.update_time is None else status.update_time.timestamp(),
    )


def collect_policy(obj: NodeMetricObject) -> dict[str, object] | None:
    """spec.metricCollectPolicy as a manager wrote it; None where there is none."""
    policy = obj.spec.metric_collect_policy if obj.spec is not None else None
    found: dict[str, object] | None = None if policy is None else to_builtins(policy)
    return found


def _signals(written: ExtensionsPart | None) -> PodSignals:
    found = written.cotenant if written is not None else None
    if found is None:
        return NO_SIGNALS
    return PodSignals(
        found.latency_p99_ms,
        found.cycles_per_instruction,
        found.wait_per_cpu,
        _share(found.memory_stall),
        _share(found.disk_stall),
        _share(found.disk_use),
        _share(found.network_use),
        _rate(found.disk_bps),
        _rate(found.network_bps),
        _share(found.gpu_sm),
        _share(found.gpu_bandwidth),
    )


def _share(written: float | None) -> float | None:
    """A share of time or of capacity; what cannot be one counts as not measured."""
    return written if written is not None and 0.0 <= written <= 1.0 else None


def _rate(written: float | None) -> int | None:
    return int(written) if written is not None and 0.0 <= written < inf else None


def _history(written: ExtensionsPart | None) -> ReportedHistory | None:
    """The history that the agent reports; None where there is none, or where it cannot be one."""
    found = written.cotenant.use_history if written is not None and written.cotenant is not None else None
    if found is None:
        return None
    cpu, memory = (
        UseSpread(spread_part.mean, spread_part.deviation, spread_part.highest)
        for spread_part in (found.cpu, found.memory)
    )
    try:
        return ReportedHistory(found.samples, found.weight, cpu, memory)
    except InvalidInput:
        return None


def _window(written: Aggregated, where: str) -> UseWindow:
    use: dict[Statistic, Use] = {}
    for name, resources in (written.usage or {}).items():
        statistic, found = _STATISTICS.get(name), _use(resources, f"{where}.usage.{name}")
        if statistic is not None and found is not None:
            use[statistic] = found
    return UseWindow(_seconds(written.duration, f"{where}.duration"), use)


def _use(written: MeasuredResources | None, where: str) -> Use | None:
    """Both amounts; None where neither is given."""
    amounts: Mapping[str, str | int | float] = (written.resources if written is not None else None) or {}
    if CPU_NAME not in amounts and MEMORY_NAME not in amounts:
        return None
    return Use(
        *(parse_amount(name, amounts.get(name, 0), f"{where}.resources.{name}") for name in (CPU_NAME, MEMORY_NAME))
    )


def _seconds(text: str | None, where: str) -> int:
    found = whole_seconds(text or "")
    if found is None:
        raise InvalidInput(where, text, 'a duration such as "5m0s"')
    return found
