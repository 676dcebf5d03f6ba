"""The manager's watches: from API objects to the engine's events.

A ConfigMap with an error must be visible where administrators look. Each refusal is an Event on the ConfigMap (under
upstream's reasons), a line in the log, and a gauge.
Limits: kinds that are not installed have no objects; they are looked for again from time to time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cotenant.drivers.kube.kinds.config_map import CONFIG_MAPS, ConfigMap
from cotenant.drivers.kube.kinds.custom.autonomy import AUTONOMIES, read_autonomy
from cotenant.drivers.kube.kinds.custom.cpu_report import CPU_REPORTS, CpuReport, read_cpu_report, read_node_zones
from cotenant.drivers.kube.kinds.custom.device import DEVICES, read_devices
from cotenant.drivers.kube.kinds.custom.elastic_quota_profile import (
    QUOTA_PROFILES,
    STORED_QUOTAS,
    read_profile_node,
    read_quota_profile,
    read_stored_quota,
)
from cotenant.drivers.kube.kinds.custom.node_metric import (
    NODE_METRICS,
    NodeMetricObject,
    collect_policy,
    read_node_metric,
)
from cotenant.drivers.kube.kinds.custom.node_slo import NODE_SLOS, NodeSloObject
from cotenant.drivers.kube.kinds.custom.objective_status import OBJECTIVE_STATUSES, read_objective_status
from cotenant.drivers.kube.kinds.custom.pool_lending import POOL_LENDINGS, read_pool_lending
from cotenant.drivers.kube.kinds.managed_node import read_managed_node
from cotenant.drivers.kube.kinds.node import NODES, NodeObject
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PODS, PodObject
from cotenant.drivers.seals.seals import NO_SEALS, Seals
from cotenant.engine.manager.gpu_nodes import GpuNode, GpuNodes
from cotenant.engine.manager.instructions import NodeObjectKind
from cotenant.engine.manager.manager import Manager
from cotenant.engine.manager.node_ratios import NodeRatioKeeper, RatioNode
from cotenant.engine.manager.quota_profiles import QuotaProfiles
from cotenant.model.cluster.annotations import AMPLIFICATION_RATIO
from cotenant.model.cluster.managed import ManagedNode
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cpus.basic_info import CpuInfo
from cotenant.model.groups.quota_profile import ProfileNode
from cotenant.model.machine.node_metric import NodeMetric
from cotenant.model.machine.zones import NodeZones
from cotenant.services.kube_process.watches import ObjectHandler, Watches
from cotenant.services.offers.offer_sources import CONFIG_NAME, CONFIG_NAMESPACE, read_gpu_node

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """Where the ConfigMap is."""

    namespace: str = CONFIG_NAMESPACE
    name: str = CONFIG_NAME


class ManagerWatches:
    """Adds every watch of the manager. `refused(uid, errors)` is called when the ConfigMap's errors change."""

    def __init__(
        self,
        watches: Watches,
        manager: Manager,
        source: ConfigSource,
        now: Callable[[], float],
        refused: Callable[[str, tuple[str, ...]], None],
        profiles: QuotaProfiles,
        ratios: NodeRatioKeeper,
        gpus: GpuNodes,
        seals: Seals = NO_SEALS,
    ) -> None:
        self._manager = manager
        self._now = now
        self._refused = refused
        self._errors: tuple[str, ...] = ()
        self._uid_of: dict[str, str] = {}  # of pods, by key
        reader = PodReader(seals=seals)
        self._profiles = profiles
        self._ratios = ratios
        self._gpus = gpus
        watches.handle(
            CPU_REPORTS, ObjectHandler(_topology, self._topology_seen, manager.zones_gone, _keep), optional=True
        )
        watches.handle(
            DEVICES,
            ObjectHandler(
                read_devices,
                lambda devices: gpus.devices_seen(devices, now()),
                lambda name: gpus.devices_gone(name, now()),
                _keep,
            ),
            optional=True,
        )
        watches.handle(NODES, ObjectHandler(_node, self._node_seen, self._node_gone, _keep))
        watches.handle(
            QUOTA_PROFILES,
            ObjectHandler(
                read_quota_profile,
                lambda profile: profiles.profile_seen(profile, now()),
                lambda key: profiles.profile_gone(key, now()),
                _keep,
            ),
            optional=True,
        )
        watches.handle(
            STORED_QUOTAS,
            ObjectHandler(
                read_stored_quota,
                lambda quota: profiles.quota_seen(quota, now()),
                lambda key: profiles.quota_gone(key, now()),
                _keep,
            ),
            optional=True,
        )
        watches.handle(PODS, ObjectHandler(lambda obj: _pod(reader, obj), self._pod_seen, self._pod_gone, _keep))
        watches.handle(
            NODE_METRICS,
            ObjectHandler(_metric, self._metric_seen, lambda name: manager.metric_gone(name, now())),
            optional=True,
        )
        watches.handle(
            AUTONOMIES,
            ObjectHandler(read_autonomy, manager.autonomy_seen, manager.autonomy_gone, _keep),
            optional=True,
            until_open=True,
        )
        watches.handle(
            POOL_LENDINGS,
            ObjectHandler(
                read_pool_lending, lambda found: manager.pools.pool_seen(found, now()), manager.pools.pool_gone, _keep
            ),
            optional=True,
        )
        watches.handle(
            OBJECTIVE_STATUSES,
            ObjectHandler(
                read_objective_status,
                lambda found: manager.pools.objective_seen(found, now()),
                manager.pools.objective_gone,
                _keep,
            ),
            optional=True,
        )
        watches.handle(
            NODE_SLOS,
            ObjectHandler(
                lambda obj: obj,
                self._slo_seen,
                lambda name: manager.spec_gone(NodeObjectKind.NODE_SLO, name),
            ),
            optional=True,
        )
        watches.handle(
            CONFIG_MAPS,
            ObjectHandler(lambda obj: obj, self._config_seen, lambda key: self._config(None, "")),
            namespace=source.namespace,
            field_selector=f"metadata.name={source.name}",
        )

    def synced(self) -> None:
        """Everything has been listed: a ConfigMap that was not delivered does not exist."""
        if not self._manager.has_config:
            self._config(None, "")

    def _config_seen(self, obj: ConfigMap) -> None:
        self._config(obj.data or {}, obj.metadata.uid or "")

    def _config(self, data: Mapping[str, str] | None, uid: str) -> None:
        self._manager.config_seen(data)
        self._ratios.config_seen(data, self._now())
        errors = (*self._manager.config_errors, *self._ratios.config.refused)
        if errors != self._errors:
            self._errors = errors
            for error in errors:
                _log.warning("configuration: %s", error)
            if not errors:
                _log.info("configuration: every key is in force")
            self._refused(uid, errors if data is not None else ())

    def _topology_seen(self, seen: tuple[CpuInfo | None, NodeZones]) -> None:
        self._ratios.cpu_seen(seen[1].node, seen[0], self._now())
        self._manager.zones_seen(seen[1])

    def _node_seen(self, seen: tuple[ManagedNode, ProfileNode, RatioNode, GpuNode]) -> None:
        self._manager.node_seen(seen[0])
        self._profiles.node_seen(seen[1], self._now())
        self._ratios.node_seen(seen[2], self._now())
        self._gpus.node_seen(seen[3], self._now())

    def _node_gone(self, name: str) -> None:
        self._manager.node_gone(name)
        self._profiles.node_gone(name, self._now())
        self._ratios.node_gone(name)
        self._gpus.node_gone(name)

    def _pod_seen(self, pod: ObservedPod) -> None:
        self._uid_of[pod.pod.key] = pod.uid
        self._manager.pod_seen(pod, self._now())

    def _pod_gone(self, key: str) -> None:
        uid = self._uid_of.pop(key, None)
        if uid is not None:
            self._manager.pod_gone(uid, self._now())

    def _metric_seen(self, seen: tuple[NodeMetric, dict[str, object] | None]) -> None:
        metric, policy = seen
        self._manager.metric_seen(metric, self._now())
        self._manager.spec_seen(NodeObjectKind.NODE_METRIC, metric.node, policy)

    def _slo_seen(self, obj: NodeSloObject) -> None:
        self._manager.spec_seen(NodeObjectKind.NODE_SLO, obj.metadata.name or "", obj.spec)


def _node(obj: NodeObject) -> tuple[ManagedNode, ProfileNode, RatioNode, GpuNode]:
    node, annotations = read_managed_node(obj), obj.metadata.annotations or {}
    ratios = RatioNode(node.name, node.uid, node.labels, node.normalization, annotations.get(AMPLIFICATION_RATIO, ""))
    return node, read_profile_node(obj), ratios, read_gpu_node(obj)


def _topology(obj: CpuReport) -> tuple[CpuInfo | None, NodeZones]:
    return read_cpu_report(obj)[1], read_node_zones(obj)


def _pod(reader: PodReader, obj: PodObject) -> ObservedPod:
    return reader.pod(obj)


def _metric(obj: NodeMetricObject) -> tuple[NodeMetric, dict[str, object] | None]:
    return read_node_metric(obj), collect_policy(obj)


def _keep(key: str) -> None:
    """A node or pod that cannot be read keeps counting as it was: an error must not delete a node's objects or
    raise its amounts.
    """
