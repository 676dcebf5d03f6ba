"""What the console asks a fleet. A `FleetReader` changes nothing; terminals are switched on apart."""

from __future__ import annotations

from typing import Protocol

from cotenant.model.fleet.figures import TopPage
from cotenant.model.fleet.logs import LogPage, ReadLogs
from cotenant.model.fleet.requests import GroupRow, Listed
from cotenant.model.fleet.terminals import OpenedTerminal, OpenTerminal, ReadTerminal, TerminalPage, WriteTerminal


class FleetReader(Protocol):
    """A fleet's controller, asked with the right to read. Every question may raise `CotenantError`."""

    async def listed(self) -> Listed:
        """All hosts with their containers, and all groups."""
        ...

    async def group(self, name: str) -> GroupRow | None:
        """A stored group with its members; None where none of this name is stored."""
        ...

    async def measured(self, agent: str) -> TopPage:
        """Figures of one host and its containers."""
        ...

    async def lines(self, request: ReadLogs) -> LogPage:
        """A page of a container's or pod's log."""
        ...

    async def close(self) -> None:
        """End the connection."""
        ...


class TerminalHost(Protocol):
    """A fleet's controller, asked with the right `exec`. Every question may raise `CotenantError`."""

    async def open_terminal(self, request: OpenTerminal) -> OpenedTerminal:
        """Run a command with a terminal in a container."""
        ...

    async def read_terminal(self, request: ReadTerminal) -> TerminalPage:
        """What it shows from a position on."""
        ...

    async def write_terminal(self, request: WriteTerminal) -> None:
        """Type, resize, hang up."""
        ...
