"""Custom kinds that a scheduler reads: how each is read, and whom it is told to.

Problem: PodGroups, quotas, reservations, devices, topologies and metrics come the same way (list, watch, read, tell), may not be installed, and one
bad object must not stop the others. Choice: a line of data a kind; a kind that the server does not know has no objects; an object that cannot be read
is as good as gone, is counted, and is said in the log. Limits: what is wrong with it is told on the object itself only where its status has
room for that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from cotenant.drivers.kube.cache.cache import Changed, Happening, HasMeta, Malformed
from cotenant.drivers.kube.kinds.device import DEVICES, read_devices
from cotenant.drivers.kube.kinds.elastic_quota import ELASTIC_QUOTAS, read_quota
from cotenant.drivers.kube.kinds.node_metric import READ_NODE_METRICS, read_node_metric
from cotenant.drivers.kube.kinds.node_resource_topology import NODE_TOPOLOGIES, read_node_topology
from cotenant.drivers.kube.kinds.objects import Kind
from cotenant.drivers.kube.kinds.pod_group import POD_GROUPS, read_pod_group
from cotenant.drivers.kube.kinds.reservation import RESERVATIONS, ReservationReader
from cotenant.engine.registry import PluginRegistry
from cotenant.model.errors import InvalidInput

T = TypeVar("T", bound=HasMeta)
V = TypeVar("V")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Extension(Generic[T, V]):
    """One kind. `seen(value, now_s)` and `gone(key, now_s)` tell the engine; `read` raises `InvalidInput`."""

    kind: Kind[T]
    read: Callable[[T], V]
    seen: Callable[[V, float], None]
    gone: Callable[[str, float], None]

    def deliver(self, happened: Sequence[Happening[T]], now_s: float, count: Callable[[str], None]) -> None:
        """Tell the engine what happened; `count` is told the kind of every object that cannot be read."""
        for each in happened:
            if isinstance(each, Malformed):
                _log.warning("%s %s cannot be read: %s", each.kind, each.key or "without a name", each.why)
                count(each.kind)
                if each.key:
                    self.gone(each.key, now_s)
            elif isinstance(each, Changed):
                if each.new is None:
                    self.gone(each.key, now_s)
                    continue
                try:
                    value = self.read(each.new)
                except InvalidInput as error:
                    _log.warning("%s %s is not used: %s", each.kind, each.key, error)
                    count(each.kind)
                    self.gone(each.key, now_s)
                    continue
                self.seen(value, now_s)


def _loads(roster: PluginRegistry) -> tuple[Extension[Any, Any], ...]:
    """What nodes use: asked for only where it counts."""
    load = roster.load_aware
    if not load.is_on:
        return ()
    return (Extension(READ_NODE_METRICS, read_node_metric, load.metric_seen, load.metric_gone),)


def extensions(roster: PluginRegistry) -> tuple[Extension[Any, Any], ...]:
    """Every custom kind that the engine's plugins read."""
    return (
        Extension(NODE_TOPOLOGIES, read_node_topology, roster.cpus.topology_seen, roster.cpus.topology_gone),
        Extension(DEVICES, read_devices, roster.devices.seen, roster.devices.gone),
        Extension(ELASTIC_QUOTAS, read_quota, roster.quotas.quota_seen, roster.quotas.quota_gone),
        Extension(RESERVATIONS, ReservationReader().read, roster.reservations.seen, roster.reservations.gone),
        *_loads(roster),
        Extension(POD_GROUPS, read_pod_group, roster.gangs.pod_group_seen, roster.gangs.pod_group_gone),
    )
