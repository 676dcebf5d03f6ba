"""A fleet as the console asks it, with hosts that a test makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from cotenant.model.errors import CotenantError
from cotenant.model.fleet.figures import ContainerFigures, HostFigures, Measured, TopPage
from cotenant.model.fleet.host import ContainerStatus, FunctionHealth, Heartbeat, Registration
from cotenant.model.fleet.logs import LogCursor, LogLine, LogPage, ReadLogs
from cotenant.model.fleet.refusal import NoSuchGuid
from cotenant.model.fleet.requests import GroupRow, HostRow, Listed
from cotenant.model.fleet.states import AgentState, ContainerState

TRACE = "0af7651916cd43dd8448eb211c80319c"


def container(guid: str, state: ContainerState = ContainerState.READY, **more: object) -> ContainerStatus:
    """One container."""
    return replace(ContainerStatus(guid, state, image="web:1", cpu_milli=250, memory_bytes=64 << 20), **more)  # type: ignore[arg-type]


def host(
    number: int,
    containers: Sequence[ContainerStatus] = (),
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
    logs: dict[str, tuple[LogLine, ...]] = field(default_factory=dict)
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
