"""Puts the pods' programs into the classes that policies have created, periodically.

Programs start and end between two decisions of a policy, and placing them may fail for a while. Every few seconds each
placer is called outside the event loop; failures are counted, and logged when their text changes.
Limits: one after another, so a slow one delays the next.
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


class ClassPlacement:
    """All placers of a process. `failures`, by kind, is for metrics."""

    def __init__(
        self, placers: Sequence[Placer], pods: Callable[[], Sequence[NodePod]], policies: Callable[[], PolicySettings]
    ) -> None:
        self.failures = {placer.what: 0 for placer in placers}
        self._placers = tuple(placers)
        self._pods = pods
        self._policies = policies
        self._last_errors: dict[str, str] = {}

    async def run(self) -> None:
        """Place periodically, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            await self.place()

    async def place(self) -> None:
        """Call each placer once."""
        for placer in self._placers:
            error_text = ""
            try:
                await asyncio.to_thread(placer.place, self._pods(), self._policies())
            except (CotenantError, OSError) as error:
                error_text = str(error)
                self.failures[placer.what] += 1
                if error_text != self._last_errors.get(placer.what):
                    _log.warning("%s: %s", placer.what, error_text)
            self._last_errors[placer.what] = error_text
