"""Has the pods' programs put into the classes that policies have made, again and again.

Problem: programs start and end between two decisions of a policy, and what places them may fail for a while. Choice: every few seconds each placer
is asked beside the event loop; what fails is counted, and told in new words only. Limits: one after another, so a slow one delays the next.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from cotenant.engine.node.policies import PolicySettings
from cotenant.model.errors import CotenantError
from cotenant.model.machine.node_pod import NodePod
from cotenant.services.agent.components import Placer

EVERY_S = 2.0
_log = logging.getLogger(__name__)


class Placing:
    """All placers of a process. `failures`, by what is placed, is for metrics."""

    def __init__(
        self, placers: Sequence[Placer], pods: Callable[[], Sequence[NodePod]], policies: Callable[[], PolicySettings]
    ) -> None:
        self.failures = {placer.what: 0 for placer in placers}
        self._placers = tuple(placers)
        self._pods = pods
        self._policies = policies
        self._said: dict[str, str] = {}

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            await self.place()

    async def place(self) -> None:
        """One round."""
        for placer in self._placers:
            said = ""
            try:
                await asyncio.to_thread(placer.place, self._pods(), self._policies())
            except (CotenantError, OSError) as error:
                said = str(error)
                self.failures[placer.what] += 1
                if said != self._said.get(placer.what):
                    _log.warning("%s: %s", placer.what, said)
            self._said[placer.what] = said
