"""A fleet as the console asks it, with hosts that a test makes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from cotenant.model.errors import CotenantError
from cotenant.model.fleet.figures import ContainerFigures, HostFigures, Measured, TopPage
from cotenant.model.fleet.host import FunctionHealth, Heartbeat, HostContainer, Registration
from cotenant.model.fleet.logs import LogCursor, LogPage, ReadLogs, ShownLine
from cotenant.model.fleet.refusal import NoSuchGuid
from cotenant.model.fleet.requests import GroupRow, HostRow, Listed
from cotenant.model.fleet.states import AgentState, ContainerState
from cotenant.model.fleet.terminals import (
    OpenedTerminal,
    OpenTerminal,
    ReadTerminal,
    TerminalPage,
    WindowSize,
    WriteTerminal,
)

TRACE = "0af7651916cd43dd8448eb211c80319c"


def container(guid: str, state: ContainerState = ContainerState.READY, **more: object) -> HostContainer:
    """One container."""
    return replace(HostContainer(guid, state, image="web:1", cpu_milli=250, memory_bytes=64 << 20), **more)  # type: ignore[arg-type]


def host(
    number: int,
    containers: Sequence[HostContainer] = (),
    *,
    state: AgentState = AgentState.ALIVE,
    region: str = "",
    tags: tuple[str, ...] = (),
    name: str = "",
    faults: tuple[FunctionHealth, ...] = (),
) -> HostRow:
    """One host with a heartbeat."""
    guid = f"agent-{number:04}"
    said = Registration(
        guid, name or f"host-{number:04}", "0.9.0", region=region, tags=tags, cpu_milli=4000, memory_bytes=8 << 30
    )
    beat = Heartbeat(
        guid,
        7,
        1.8e9,
        load=0.75,
        cpu_milli=1500,
        memory_bytes=2 << 30,
        containers=tuple(containers),
        functions=(FunctionHealth("containers", True), *faults),
    )
    return HostRow(said, state, 0.4 if state is AgentState.ALIVE else 14.0, beat)


@dataclass
class FakeFleet:
    """Implements `FleetReader`. `error`: raised by every question while it is set."""

    hosts: tuple[HostRow, ...] = ()
    groups: dict[str, GroupRow] = field(default_factory=dict)
    logs: dict[str, tuple[ShownLine, ...]] = field(default_factory=dict)
    error: CotenantError | None = None
    asked: list[str] = field(default_factory=list)

    async def listed(self) -> Listed:
        self._ask("list")
        return Listed(self.hosts, tuple(replace(group, members=()) for group in self.groups.values()))

    async def group(self, name: str) -> GroupRow | None:
        self._ask(f"group {name}")
        return self.groups.get(name)

    async def measured(self, agent: str) -> TopPage:
        self._ask(f"top {agent}")
        found = next((row for row in self.hosts if row.registration.guid == agent), None)
        if found is None or found.state is AgentState.AWAY:
            return TopPage((), (f"{agent} is away",))
        there = found.beat.containers if found.beat is not None else ()
        figures = tuple(ContainerFigures(status.guid, cpu_milli=240, system_milli=40, restarts=1) for status in there)
        return TopPage(
            (Measured(agent, found.registration.hostname, 1.8e9, HostFigures(4, 1500, 2 << 30, load_1=0.75), figures),)
        )

    async def lines(self, request: ReadLogs) -> LogPage:
        self._ask(f"logs {request.guid} {request.grep}".strip())
        if request.guid not in self.logs:
            raise NoSuchGuid(f"no host of this fleet has a log of {request.guid}")
        found = [line for line in self.logs[request.guid] if request.grep in line.text]
        if request.cursor is not None:
            found = found[request.cursor.number :]
        elif request.tail is not None:
            found = found[-request.tail :]
        page = found[: request.max_lines]
        return LogPage(tuple(page), LogCursor("ring", len(page), 0), len(page) == len(found))

    async def close(self) -> None:
        self.asked.append("close")

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if self.error is not None:
            raise self.error


class FakeTerminals:
    """Implements `TerminalHost`: an echo of what is typed, line by line, in one container of every name.

    `bye` ends it with status 3; `size` says the window's.
    """

    def __init__(self) -> None:
        self.opened: list[OpenTerminal] = []
        self.written: list[WriteTerminal] = []
        self.error: CotenantError | None = None
        self._shown: dict[str, bytes] = {}
        self._ended: set[str] = set()
        self._sizes: dict[str, WindowSize] = {}
        self._changed = asyncio.Event()

    async def open_terminal(self, request: OpenTerminal) -> OpenedTerminal:
        if self.error is not None:
            raise self.error
        self.opened.append(request)
        session = f"{len(self.opened):032x}"
        self._shown[session], self._sizes[session] = b"$ ", request.size
        return OpenedTerminal(session)

    async def read_terminal(self, request: ReadTerminal) -> TerminalPage:
        if request.session not in self._shown:
            raise NoSuchGuid("this terminal is not there any more")
        with suppress(TimeoutError):
            async with asyncio.timeout(request.wait_s):
                while len(self._shown[request.session]) == request.position and request.session not in self._ended:
                    await self._changed.wait()
        is_over = request.session in self._ended
        data = self._shown[request.session][request.position :]
        return TerminalPage(request.position, data, is_over, "the command has ended" * is_over, 3 if is_over else None)

    async def write_terminal(self, request: WriteTerminal) -> None:
        self.written.append(request)
        if request.size is not None:
            self._sizes[request.session] = request.size
        self.say(request.session, request.data.replace(b"\r", b"\r\n"))
        typed = self._shown[request.session].replace(b"\r\n", b"\n").split(b"\n")[-2:]
        if request.data.endswith(b"\r"):
            size = self._sizes[request.session]
            answer = f"{size.rows} {size.columns}\r\n" if typed[0].endswith(b"size") else ""
            self.say(request.session, answer.encode() + b"$ ")
            if typed[0].endswith(b"bye"):
                self.end(request.session)
        if request.ends:
            self.end(request.session)

    def say(self, session: str, data: bytes) -> None:
        """The command writes."""
        self._shown[session] += data
        self._wake()

    def end(self, session: str) -> None:
        """The command ends."""
        self._ended.add(session)
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
