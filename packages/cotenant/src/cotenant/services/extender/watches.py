"""The extender's watches: a cluster's nodes and bound pods, kept in the mirror.

Profiles that look at residents need all of them, and the founding fallback is better with them. Two watches, nodes and
pods that have a node and have not ended; each change goes straight into the mirror, which is what the next request
sees.
Limits: a node that cannot be read counts as unknown; pods that kube-scheduler has assumed are not seen before their
bind.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from cotenant.drivers.kube.cache.cache import Changed, MalformedObject, Notification
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.kinds.custom.elastic_quota import (
    ELASTIC_QUOTAS,
    X_ELASTIC_QUOTAS,
    read_quota,
    read_x_quota,
    x_key,
)
from cotenant.drivers.kube.kinds.node import NODES, NodeObject, read_node
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PODS, PodObject
from cotenant.drivers.seals.seals import NO_SEALS, Seals
from cotenant.engine.state.namespace_tenants import NamespaceTenants
from cotenant.model.cluster.node import HoldsNoPod, Node
from cotenant.services.extender.judge import demand_of
from cotenant.services.extender.mirror import Mirror
from cotenant.services.extender.standings import QuotaStandings
from cotenant.services.kube_process.watches import ObjectHandler, Watches

BOUND = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"

_log = logging.getLogger(__name__)


class MirrorWatches:
    """Keeps a mirror up to date."""

    def __init__(
        self, client: Client, mirror: Mirror, standings: QuotaStandings | None = None, seals: Seals = NO_SEALS
    ) -> None:
        self._mirror = mirror
        self._reader = PodReader(seals=seals)
        self._tenants = NamespaceTenants()
        self._watches = Watches(client)
        self._unusable = ""  # why the node that was read last is not used
        self._node_handler = ObjectHandler(self._read_node, mirror.node_seen, mirror.node_gone, self._node_unreadable)
        self._watches.deliver(NODES, self.take_nodes)
        self._watches.deliver(PODS, self.take_pods, field_selector=BOUND)
        if standings is not None:
            seen, gone = standings.quota_seen, standings.quota_gone
            self._watches.handle(ELASTIC_QUOTAS, ObjectHandler(read_quota, seen, gone), optional=True)
            self._watches.handle(
                X_ELASTIC_QUOTAS, ObjectHandler(read_x_quota, seen, lambda key: gone(x_key(key))), optional=True
            )

    async def run(self) -> None:
        """Watch, until cancelled. Residents count once everything is listed."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watches.run())
            await self._watches.wait_synced()
            self._mirror.sync()
            _log.info("%d nodes, %d bound pods", len(self._mirror.rows) - 1, self._mirror.residents)

    def take_nodes(self, happened: Sequence[Notification[NodeObject]]) -> None:
        """Nodes that were added, changed or removed."""
        self._watches.hand_on(self._node_handler, happened)

    def _read_node(self, obj: NodeObject) -> Node:
        try:
            return read_node(obj)
        except HoldsNoPod as error:
            self._unusable = str(error)  # `_node_unreadable` is next
            raise

    def _node_unreadable(self, name: str) -> None:
        why, self._unusable = self._unusable, ""
        if why:
            self._mirror.node_unusable(name, why)
        else:
            self._mirror.node_gone(name)

    def take_pods(self, happened: Sequence[Notification[PodObject]]) -> None:
        """Bound pods that were added, changed or removed."""
        for changed in happened:
            if isinstance(changed, MalformedObject):
                self._watches.note(changed)
            elif isinstance(changed, Changed):
                seen = None if changed.new is None else self._reader.pod(changed.new)
                if seen is None or not seen.occupies:
                    gone = changed.old or changed.new
                    uid = (gone.metadata.uid or "") if gone is not None else ""
                    self._tenants.gone(uid)
                    self._mirror.pod_gone(uid)
                else:
                    seen = self._tenants.bounded(seen)
                    self._mirror.pod_seen(seen.uid, seen.node, demand_of(seen.pod).shape)
