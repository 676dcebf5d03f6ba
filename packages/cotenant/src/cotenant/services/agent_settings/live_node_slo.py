"""The node's NodeSLO, read from the cluster while the agent runs.

A manager changes nodes' strategies at any time, and an agent must keep protecting services while the API server is away
or a NodeSLO makes no sense. The object is read once a period; a changed spec goes the way of a reload (SIGHUP), which
refuses a faulty one as a whole and restarts the engine with its leases. An object that is deleted gives the file's own
configuration back; a server that does not answer changes nothing.
Limits: a change is up to a period late; a NodeSLO that was refused is tried again when it changes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import NotFound
from cotenant.drivers.kube.kinds.custom.node_slo import NODE_SLOS
from cotenant.model.errors import CotenantError

PERIOD_S = 30.0
_log = logging.getLogger(__name__)


class LiveNodeSlo:
    """`spec` is the one to be in force; None = the file's own configuration. `apply` is called after each change
    and says whether it was taken.
    """

    def __init__(self, client: Client, node: str, apply: Callable[[], Awaitable[bool]]) -> None:
        self.spec: Mapping[str, object] | None = None
        self.refused = 0
        self._client = client
        self._node = node
        self._apply = apply
        self._seen: Mapping[str, object] | None = None  # also where it was refused
        self._is_silent = False

    async def read(self) -> None:
        """Read once, and apply what changed."""
        try:
            found = await self._client.get(NODE_SLOS, "", self._node)
            spec: Mapping[str, object] | None = found.spec or {}
        except NotFound:
            spec = None
        except CotenantError as error:
            if not self._is_silent:
                _log.warning("NodeSLO %s cannot be read, the last one stays: %s", self._node, error)
            self._is_silent = True
            return
        self._is_silent = False
        if spec == self._seen:
            return
        self._seen = spec
        before, self.spec = self.spec, spec
        if not await self._apply():
            self.spec = before
            self.refused += 1

    async def run(self, period_s: float = PERIOD_S) -> None:
        """Read each period, until cancelled."""
        while True:
            await self.read()
            await asyncio.sleep(period_s)
