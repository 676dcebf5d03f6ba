"""A fleet as a console asks it: over one connection that is made when the first question comes, by verbs that read.

Where the bus is, is looked up anew for each connection: an embedded fleet that was started again has another port and
token.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TypeVar

from cotenant.drivers.nats.client import connect
from cotenant.drivers.nats.contract import Bus
from cotenant.model.errors import Permanent
from cotenant.model.fleet.figures import Top, TopPage
from cotenant.model.fleet.logs import LogPage, ReadLogs
from cotenant.model.fleet.refusal import NobodyAnswers
from cotenant.model.fleet.requests import GroupRow, List, Listed
from cotenant.model.fleet.terminals import (
    EXEC,
    READ,
    WRITE,
    OpenedTerminal,
    OpenTerminal,
    ReadTerminal,
    TerminalPage,
    WriteTerminal,
    WrittenTerminal,
)
from cotenant.services.fleet.operator import ask
from cotenant.services.fleet.places import BusOptions, access_of
from cotenant.services.fleet.rpc import call

T = TypeVar("T")
VERBS = ("list", "top", "logs")  # an operator of the fleet's file needs these, and no more
_OPEN_S = 25.0
_CONNECT_S = 3.0
_ANSWER_S = 10.0


class FleetViewer:
    """Implements the console's `FleetReader` and `TerminalHost`."""

    def __init__(self, options: BusOptions) -> None:
        self._options = options
        self._operator = options.name
        self._bus: Bus | None = None
        self._connecting = asyncio.Lock()

    async def listed(self) -> Listed:
        """All pages of hosts, and groups."""
        page = await self._ask("list", List(), Listed)
        hosts = page.hosts
        while page.next_start is not None:
            page = await self._ask("list", List(start=page.next_start), Listed)
            hosts += page.hosts
        return Listed(hosts, page.groups)

    async def group(self, name: str) -> GroupRow | None:
        """A stored group with its members."""
        request = List(group=name, name=" ")  # no host has this name: only the group is wanted
        return next(iter((await self._ask("list", request, Listed)).groups), None)

    async def measured(self, agent: str) -> TopPage:
        """Figures of one host."""
        return await self._ask("top", Top(host=agent), TopPage)

    async def lines(self, request: ReadLogs) -> LogPage:
        """A page of a log. It is never waited for: a viewer asks again."""
        return await self._ask("logs", replace(request, wait_s=0.0), LogPage)

    async def open_terminal(self, request: OpenTerminal) -> OpenedTerminal:
        """Run a command with a terminal. The operator needs the verb `exec`, as for the two below."""
        bus = await self._connected()
        return await ask(bus, self._operator, EXEC, request, OpenedTerminal, _OPEN_S)

    async def read_terminal(self, request: ReadTerminal) -> TerminalPage:
        """What it shows."""
        bus = await self._connected()
        return await ask(bus, self._operator, READ, request, TerminalPage, request.wait_s + _ANSWER_S)

    async def write_terminal(self, request: WriteTerminal) -> None:
        """Type."""
        bus = await self._connected()
        await ask(bus, self._operator, WRITE, request, WrittenTerminal, _ANSWER_S)

    async def close(self) -> None:
        """End the connection."""
        bus, self._bus = self._bus, None
        if bus is not None:
            await bus.close()

    async def _ask(self, verb: str, request: object, form: type[T]) -> T:
        if verb not in VERBS:
            raise Permanent(f"a console may not {verb}")
        bus = await self._connected()
        try:
            return await call(bus, f"fleet.{self._operator}.rpc.{verb}", request, form, _ANSWER_S)
        except NobodyAnswers:
            if not bus.is_connected:
                await self.close()
            raise

    async def _connected(self) -> Bus:
        async with self._connecting:
            if self._bus is not None and not self._bus.is_connected:
                await self.close()
            if self._bus is None:
                access = access_of(self._options)
                self._operator = access.name
                self._bus = await connect(access, within_s=_CONNECT_S)
            return self._bus
