"""Looks at what groups wait for besides a CPU, every five seconds as the kernel does for its own load average.

Load averages of scrapes would be of a few looks a minute, and a condition would depend on who scrapes. A look runs in a
thread: it asks the kernel for every group.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from cotenant.engine.node.problems import NodeProblem
from cotenant.model.errors import CotenantError
from cotenant.services.nodeview.stalls import StallWatch

LOOK_S = 5.0
_log = logging.getLogger(__name__)


class StallLooks:
    """`told`: receives the conditions after each look."""

    def __init__(
        self,
        watch: StallWatch,
        told: Callable[[tuple[NodeProblem, ...]], Awaitable[object]] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._watch = watch
        self._told = told
        self._sleep = sleep
        self._problem = ""

    async def run(self) -> None:
        """Look, until cancelled. What the kernel refuses is logged once and asked for again."""
        while True:
            await self.look()
            await self._sleep(LOOK_S)

    async def look(self) -> None:
        """Once."""
        try:
            view = await asyncio.to_thread(self._watch.view)
        except CotenantError as error:
            if str(error) != self._problem:
                _log.warning("waits for block I/O and memory cannot be read: %s", error)
            self._problem = str(error)
            return
        self._problem = ""
        if self._told is not None:
            await self._told(view.problems)
