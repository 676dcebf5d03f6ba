"""The custom kinds that a scheduler reads, one line each.

PodGroups, quotas, reservations, devices, topologies and metrics come the same way (list, watch, read, report to a
plugin) and may not be installed. A `CustomKind` names the kind, its reading and the plugin's methods. An object that
cannot be read counts as gone, is counted and logged (services/kube_process/watches.py).
Limits: what is wrong with an object is written on it only where its status has a field for that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

from cotenant.drivers.kube.cache.cache import ApiObject
from cotenant.drivers.kube.kinds.custom.cluster_network_topology import NETWORK_TOPOLOGIES, read_network_topology
from cotenant.drivers.kube.kinds.custom.device import DEVICES, read_devices
from cotenant.drivers.kube.kinds.custom.elastic_quota import (
    ELASTIC_QUOTAS,
    X_ELASTIC_QUOTAS,
    read_quota,
    read_x_quota,
    x_key,
)
from cotenant.drivers.kube.kinds.custom.node_metric import NODE_METRICS, read_node_metric
from cotenant.drivers.kube.kinds.custom.node_resource_topology import NODE_TOPOLOGIES, read_node_topology
from cotenant.drivers.kube.kinds.custom.pod_group import POD_GROUPS, X_POD_GROUPS, read_pod_group
from cotenant.drivers.kube.kinds.custom.reservation import RESERVATIONS, ReservationReader
from cotenant.drivers.kube.kinds.custom.workload_pod_group import (
    ALPHA2_POD_GROUPS,
    ALPHA3_POD_GROUPS,
    BETA_POD_GROUPS,
    COMPOSITE_POD_GROUPS,
    read_composite_pod_group,
    read_workload_pod_group,
)
from cotenant.drivers.kube.kinds.custom.workload_profile import WORKLOAD_PROFILES, read_workload_profile
from cotenant.drivers.kube.kinds.kind import Kind
from cotenant.engine.cluster import Cluster
from cotenant.model.groups.gang import X_GROUP
from cotenant.model.machine.node_metric import NodeMetric
from cotenant.services.kube_process.watches import ObjectHandler
from cotenant.services.scheduling.workload_groups import WorkloadGroups

T = TypeVar("T", bound=ApiObject)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class CustomKind(Generic[T, V]):
    """One kind. `seen(value, now_s)` and `gone(key, now_s)` are the plugin's; `read` raises `InvalidInput`."""

    kind: Kind[T]
    read: Callable[[T], V]
    seen: Callable[[V, float], None]
    gone: Callable[[str, float], None]

    def handler(self, now: Callable[[], float]) -> ObjectHandler[T, V]:
        """For `Watches.handle`."""
        return ObjectHandler(self.read, lambda value: self.seen(value, now()), lambda key: self.gone(key, now()))


AnyCustomKind: TypeAlias = CustomKind[Any, Any]  # whatever its objects are read as


def custom_kinds(cluster: Cluster) -> tuple[AnyCustomKind, ...]:
    """Every custom kind that the engine and its plugins read, beside those of the Workload API."""
    plugins = cluster.plugins
    return (
        CustomKind(NODE_TOPOLOGIES, read_node_topology, plugins.cpus.topology_seen, plugins.cpus.topology_gone),
        CustomKind(DEVICES, read_devices, plugins.devices.seen, plugins.devices.gone),
        CustomKind(ELASTIC_QUOTAS, read_quota, plugins.quotas.quota_seen, plugins.quotas.quota_gone),
        CustomKind(
            X_ELASTIC_QUOTAS,
            read_x_quota,
            plugins.quotas.quota_seen,
            lambda key, now_s: plugins.quotas.quota_gone(x_key(key), now_s),
        ),
        CustomKind(RESERVATIONS, ReservationReader().read, plugins.reservations.seen, plugins.reservations.gone),
        *_metrics(cluster),
        *_workload_profiles(cluster),
        CustomKind(
            NETWORK_TOPOLOGIES,
            read_network_topology,
            plugins.gangs.network_topology_seen,
            plugins.gangs.network_topology_gone,
        ),
        CustomKind(POD_GROUPS, read_pod_group, plugins.gangs.pod_group_seen, plugins.gangs.pod_group_gone),
        CustomKind(
            X_POD_GROUPS,
            partial(read_pod_group, api_group=X_GROUP),
            plugins.gangs.pod_group_seen,
            partial(plugins.gangs.pod_group_gone, api_group=X_GROUP),
        ),
    )


def group_kinds(groups: WorkloadGroups) -> tuple[AnyCustomKind, ...]:
    """The kinds of the Workload API, each PodGroup in every version that is read."""
    seen, gone = groups.seen, groups.gone
    return (
        CustomKind(BETA_POD_GROUPS, read_workload_pod_group, seen, partial(gone, version=BETA_POD_GROUPS.version)),
        CustomKind(
            ALPHA3_POD_GROUPS,
            partial(read_workload_pod_group, version=ALPHA3_POD_GROUPS.version),
            seen,
            partial(gone, version=ALPHA3_POD_GROUPS.version),
        ),
        CustomKind(
            ALPHA2_POD_GROUPS,
            partial(read_workload_pod_group, version=ALPHA2_POD_GROUPS.version),
            seen,
            partial(gone, version=ALPHA2_POD_GROUPS.version),
        ),
        CustomKind(COMPOSITE_POD_GROUPS, read_composite_pod_group, groups.composite_seen, groups.composite_gone),
    )


def _workload_profiles(cluster: Cluster) -> tuple[AnyCustomKind, ...]:
    """WorkloadProfiles are watched where measurements of pods are read."""
    if not cluster.profile.reads_metrics:
        return ()
    return (
        CustomKind(
            WORKLOAD_PROFILES, read_workload_profile, cluster.workload_profile_seen, cluster.workload_profile_gone
        ),
    )


def _metrics(cluster: Cluster) -> tuple[AnyCustomKind, ...]:
    """NodeMetrics are watched where the load of nodes counts, or estimates, predictions or needs of GPUs follow what
    pods are measured to use.
    """
    load, use = cluster.plugins.load_aware, cluster.plugins.predicted_use
    needs = cluster.plugins.devices.settings.neighbours > 0
    if not (load.is_on or use.is_on or needs or cluster.profile.reads_metrics):
        return ()

    def seen(metric: NodeMetric, now_s: float) -> None:
        if load.is_on:
            load.metric_seen(metric, now_s)
        use.metric_seen(metric, now_s)
        cluster.metric_seen(metric, now_s)
        cluster.plugins.devices.metric_seen(metric)

    def gone(node: str, now_s: float) -> None:
        if load.is_on:
            load.metric_gone(node, now_s)
        use.metric_gone(node, now_s)

    return (CustomKind(NODE_METRICS, read_node_metric, seen, gone),)
