"""Commands with a terminal in containers of a CRI runtime, whoever made these."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from cotenant.drivers.cri.client import CriClient
from cotenant.drivers.cri.exec import CriExec, beside, open_cri_exec
from cotenant.drivers.cri.messages import SERVICE
from cotenant.model.errors import Permanent, Transient

_EXEC_S, _VERSION_S = 30.0, 5.0


class CriCommands:
    """Of one runtime; `client` must know the messages of `making`."""

    def __init__(self, client: CriClient) -> None:
        self._client = client
        self._opening = asyncio.Lock()  # one after another: each is looked for among the processes that are new

    async def open(self, container: str, command: Sequence[str], columns: int, rows: int) -> CriExec:
        """Run one in the container with this id. Raises `Vanished`, `Permanent` where the runtime refuses,
        `Transient`.
        """
        fields = {"container_id": container, "cmd": list(command), "tty": True, "stdin": True, "stdout": True}
        async with self._opening:
            first = (await asyncio.to_thread(self._client.limits, container)).pid or 0
            before = await asyncio.to_thread(beside, first)
            try:
                answer = await asyncio.to_thread(partial(self._client.call, "Exec", SERVICE, _EXEC_S, **fields))
            except Transient as error:
                await asyncio.to_thread(partial(self._client.call, "Version", SERVICE, _VERSION_S))
                raise Permanent(str(error)) from error  # the runtime is there: it refused
            opened = await open_cri_exec(str(answer.url), columns, rows)
            await opened.find_process(first, before, command)
            return opened
