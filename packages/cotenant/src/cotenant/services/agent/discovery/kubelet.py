"""What the agent knows of its node's kubelet: from files that it may read, from its keeper, and from the kubelet
itself.

The checkpoint of the CPU manager is root's, the configuration file may be elsewhere or overruled by arguments, and only
the kubelet knows what it runs with. Three sources, the better one wins: files, then what the keeper reads as root, then
`/configz` by way of the API server, which needs the right `get nodes/proxy` and is asked only where the configuration
says so.
Limits: each is asked every half minute, and sooner while one does not answer, as a keeper that starts beside its agent;
while one is away its last answer counts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from cotenant.drivers.kubelet.configuration import config_of_configz
from cotenant.model.errors import CotenantError
from cotenant.model.kubelet.facts import KubeletFacts

EVERY_S = 30.0
FIRST_AGAIN_S = 1.0  # where one did not answer; doubled up to EVERY_S
_log = logging.getLogger(__name__)


class KubeletOfNode:
    """The facts now. Start `run` as a task where there is a keeper to ask, or the kubelet."""

    def __init__(
        self,
        files: Callable[[], KubeletFacts],
        version: Callable[[], tuple[int, int] | None] = lambda: None,
        keeper: Callable[[], Awaitable[KubeletFacts]] | None = None,
        configz: Callable[[], Awaitable[bytes]] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._files = files
        self._version = version
        self._keeper = keeper
        self._configz = configz
        self._sleep = sleep
        self._of_keeper = KubeletFacts()
        self._of_kubelet = KubeletFacts()
        self._problems: dict[str, str] = {}

    @property
    def asks(self) -> bool:
        """Whether there is someone to ask."""
        return self._keeper is not None or self._configz is not None

    def __call__(self) -> KubeletFacts:
        """As last observed."""
        found = self._files().joined(self._of_keeper).joined(self._of_kubelet)
        return replace(found, version=self._version())

    async def run(self) -> None:
        """Ask, until cancelled."""
        again_s = FIRST_AGAIN_S
        while True:
            await self.ask()
            if self._problems:
                await self._sleep(again_s)
                again_s = min(EVERY_S, 2 * again_s)
            else:
                again_s = FIRST_AGAIN_S
                await self._sleep(EVERY_S)

    async def ask(self) -> None:
        """Once. What does not answer is logged, once, and its last answer counts."""
        if self._keeper is not None:
            try:
                self._of_keeper = await self._keeper()
                self._problems.pop("keeper", None)
            except CotenantError as error:
                self._failed("keeper", f"the keeper does not say what it knows of the kubelet: {error}")
        if self._configz is not None:
            try:
                self._of_kubelet = config_of_configz(await self._configz())
                self._problems.pop("configz", None)
            except CotenantError as error:
                self._failed("configz", f"the kubelet's configz cannot be read: {error}")

    def _failed(self, source: str, problem: str) -> None:
        if self._problems.get(source) != problem:
            _log.info("%s", problem)
        self._problems[source] = problem
