"""A cluster's nodes and bound pods, carried into the mirror.

Problem: profiles that look at residents need all of them, and the founding fallback is better with them. Choice: two reflectors, nodes and
pods that have a node and have not ended; each change goes straight into the mirror, which is what the next request sees. Limits: a node that
cannot be read is one of which nothing is known; pods assumed by kube-scheduler are not seen before their bind.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from cotenant.drivers.kube.cache.cache import Changed, Happening, Malformed
from cotenant.drivers.kube.cache.reflector import Reflector
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.kinds import objects
from cotenant.drivers.kube.kinds.objects import NODES, PODS
from cotenant.drivers.kube.kinds.reading import ObjectReader, read_node
from cotenant.model.errors import InvalidInput
from cotenant.services.extender.judge import ask_of
from cotenant.services.extender.mirror import Mirror

BOUND = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"

_log = logging.getLogger(__name__)


class Feed:
    """Keeps a mirror up to date."""

    def __init__(self, client: Client, mirror: Mirror) -> None:
        self._mirror = mirror
        self._reader = ObjectReader()
        self._nodes = Reflector(client, NODES, self.take_nodes)
        self._pods = Reflector(client, PODS, self.take_pods, field_selector=BOUND)

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._nodes.run())
            tasks.create_task(self._pods.run())
            await self._nodes.wait_synced()
            await self._pods.wait_synced()
            self._mirror.sync()
            _log.info("%d nodes, %d bound pods", len(self._mirror.rows) - 1, self._mirror.residents)

    def take_nodes(self, happened: Sequence[Happening[objects.NodeObject]]) -> None:
        """Nodes that came, changed or went."""
        for each in happened:
            if isinstance(each, Malformed):
                _log.warning("node %s: %s", each.key, each.why)
            elif isinstance(each, Changed):
                if each.new is None:
                    self._mirror.unlist(each.key)
                    continue
                try:
                    self._mirror.list(read_node(each.new))
                except InvalidInput as error:
                    _log.warning("%s", error)
                    self._mirror.unlist(each.key)

    def take_pods(self, happened: Sequence[Happening[objects.Pod]]) -> None:
        """Bound pods that came, changed or went."""
        for each in happened:
            if isinstance(each, Malformed):
                _log.warning("pod %s: %s", each.key, each.why)
            elif isinstance(each, Changed):
                seen = None if each.new is None else self._reader.pod(each.new)
                if seen is None or not seen.occupies:
                    gone = each.old or each.new
                    self._mirror.leave((gone.metadata.uid or "") if gone is not None else "")
                else:
                    self._mirror.assign(seen.uid, seen.node, ask_of(seen.pod).shape)
