"""NodeMetric as the node's agent writes it: what the node and its pods use.

The names and the form that co-location users' tools already read (slo.koordinator.sh/v1alpha1), written as a status
patch, so that fields of others stay.
Limits: only what this agent measures; devices are left out, but for a pod's share of its cards.
Source: Koordinator, apis/slo/v1alpha1 (NodeMetric).
"""

from __future__ import annotations

from msgspec import field

from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind
from cotenant.drivers.kube.kinds.parts import ObjectMeta
from cotenant.model.machine.node_metric import NO_SIGNALS, PodSignals, ReportedHistory, UseSpread


class ResourceMap(ApiStruct, frozen=True):
    """ResourceMap: quantities as text, by the resource's name."""

    resources: dict[str, str] = field(default_factory=dict)


class AggregatedUsage(ApiStruct, frozen=True):
    """Use over one window; `usage` by avg, p50, p90, p95, p99."""

    usage: dict[str, ResourceMap]
    duration: str  # as Go writes it: 5m0s


class NodeMetricInfo(ApiStruct, frozen=True, omit_defaults=False):
    """The node's own part."""

    node_usage: ResourceMap
    aggregated_node_usages: tuple[AggregatedUsage, ...] = ()
    system_usage: ResourceMap = ResourceMap()
    aggregated_system_usages: tuple[AggregatedUsage, ...] = ()


class UseSpreadInfo(ApiStruct, frozen=True, omit_defaults=False):
    """Milli-CPU or bytes."""

    mean: float
    deviation: float
    highest: float


class UseHistoryInfo(ApiStruct, frozen=True, omit_defaults=False):
    """What was measured of the pod so far: `model.machine.node_metric.ReportedHistory`."""

    samples: int
    weight: float
    cpu: UseSpreadInfo
    memory: UseSpreadInfo


class PodSignalsInfo(ApiStruct, frozen=True):
    """What the pod suffers from its neighbours, and the history of its use; read back by this project's scheduler
    (node_metric.py).
    """

    latency_p99_ms: float | None = field(default=None, name="latencyP99Ms")
    cycles_per_instruction: float | None = None
    wait_per_cpu: float | None = None
    memory_stall: float | None = None
    disk_stall: float | None = None
    disk_use: float | None = None
    network_use: float | None = None
    disk_bps: int | None = field(default=None, name="diskBytesPerSecond")
    network_bps: int | None = field(default=None, name="networkBytesPerSecond")
    gpu_sm: float | None = None
    gpu_bandwidth: float | None = field(default=None, name="gpuMemoryBandwidth")
    use_history: UseHistoryInfo | None = None


class Extensions(ApiStruct, frozen=True):
    """ExtensionsMap: by the name of who extends."""

    cotenant: PodSignalsInfo


class PodMetricInfo(ApiStruct, frozen=True):
    """One pod."""

    namespace: str
    name: str
    pod_usage: ResourceMap
    priority: str = ""  # koord-prod, koord-mid, koord-batch, koord-free
    qos: str = ""
    extensions: Extensions | None = None


def extensions_of(signals: PodSignals, history: ReportedHistory | None) -> Extensions | None:
    """What this project's agent adds to a pod's entry; None where there is nothing."""
    if signals == NO_SIGNALS and history is None:
        return None
    return Extensions(
        PodSignalsInfo(
            signals.latency_p99_ms,
            signals.cycles_per_instruction,
            signals.wait_per_cpu,
            signals.memory_stall,
            signals.disk_stall,
            signals.disk_use,
            signals.network_use,
            signals.disk_bps,
            signals.network_bps,
            signals.gpu_sm,
            signals.gpu_bandwidth,
            None if history is None else _history(history),
        )
    )


def _history(history: ReportedHistory) -> UseHistoryInfo:
    """Rounded to a tenth of a milli-CPU, to bytes, and to thousandths of a sample."""

    def spread(use: UseSpread, digits: int) -> UseSpreadInfo:
        return UseSpreadInfo(*(round(value, digits) for value in use))

    weight = min(float(history.samples), round(history.weight, 3))
    return UseHistoryInfo(history.samples, weight, spread(history.cpu, 1), spread(history.memory, 0))


class HostApplicationMetricInfo(ApiStruct, frozen=True):
    """A program beside Kubernetes."""

    name: str
    usage: ResourceMap
    priority: str = ""
    qos: str = ""


class ReclaimableMetric(ApiStruct, frozen=True):
    """What prod pods are predicted not to use of their requests."""

    resource: ResourceMap


class NodeMetricStatus(ApiStruct, frozen=True, omit_defaults=False):
    """What the agent writes; empty lists are written too, so that earlier entries are removed."""

    update_time: str
    node_metric: NodeMetricInfo
    pods_metric: tuple[PodMetricInfo, ...] = ()
    host_application_metric: tuple[HostApplicationMetricInfo, ...] = ()
    prod_reclaimable_metric: ReclaimableMetric | None = None  # null removes an earlier one


class AggregatePolicy(ApiStruct, frozen=True):
    """Over which windows to aggregate."""

    durations: tuple[str, ...] | None = None


class CollectPolicy(ApiStruct, frozen=True):
    """How the cluster's administrator wants it."""

    aggregate_duration_seconds: int | None = None
    report_interval_seconds: int | None = None
    node_aggregate_policy: AggregatePolicy | None = None


class NodeMetricSpec(ApiStruct, frozen=True):
    """The spec, of which a manager is the author."""

    metric_collect_policy: CollectPolicy | None = None


class OwnNodeMetric(ApiStruct, frozen=True):
    """slo.koordinator.sh/v1alpha1 NodeMetric, without its status: that is written, never read."""

    api_version: str = ""  # set on creation: a server refuses a custom object without it
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeMetricSpec | None = None


OWN_NODE_METRICS = Kind("NodeMetric", "slo.koordinator.sh", "v1alpha1", "nodemetrics", False, OwnNodeMetric)
