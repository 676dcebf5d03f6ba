"""Terminals by a controller and an agent: the right, whose they are, their record, their ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest
from tests.fakes.waiting import soon

from cotenant.drivers.nats.file_store import FileStore
from cotenant.drivers.nats.memory import MemoryBus
from cotenant.engine.fleet.terminal import TerminalLimits
from cotenant.model.errors import InvalidInput, Permanent, Unsupported
from cotenant.model.fleet.configuration import AgentConfiguration
from cotenant.model.fleet.host import HostContainer, Registration
from cotenant.model.fleet.refusal import FleetForbidden, NoSuchGuid
from cotenant.model.fleet.rights import FleetFile, FleetOperator, HostEntry
from cotenant.model.fleet.states import ContainerState
from cotenant.model.fleet.terminals import (
    EXEC,
    READ,
    WRITE,
    OpenedTerminal,
    OpenTerminal,
    ReadTerminal,
    TerminalPage,
    WindowSize,
    WriteTerminal,
    WrittenTerminal,
)
from cotenant.services.fleet.agent.agent import FleetAgent
from cotenant.services.fleet.controller.asking import Asking
from cotenant.services.fleet.controller.controller import ControllerSettings, FleetController
from cotenant.services.fleet.functions.contract import Beat
from cotenant.services.fleet.functions.terminals.function import MAX_TERMINALS, TerminalCommand, TerminalFunction
from cotenant.services.fleet.functions.terminals.records import RecordLimits, TerminalRecords
from cotenant.services.fleet.rpc import call
from cotenant.services.running import cancelled

T = TypeVar("T")
ON = AgentConfiguration(functions=("terminals",), heartbeat_s=0.1)
RIGHTS = FleetFile(
    (HostEntry("agent-a", ("edge",)),),
    (
        FleetOperator("alice", (EXEC,), ("edge",)),
        FleetOperator("carol", (EXEC,), ("edge",)),
        FleetOperator("bob", ("list", "up"), ("edge",)),
        FleetOperator("dave", (EXEC,), ("cloud",)),
    ),
)


class Echo:
    """A command that says what was typed; `^D` ends it."""

    def __init__(self) -> None:
        self.output: asyncio.Queue[bytes] = asyncio.Queue()
        self.sizes: list[tuple[int, int]] = []
        self.is_closed = False
        self.code: int | None = 0
        self._rest = b""

    async def read(self, max_bytes: int) -> bytes:
        data = self._rest or await self.output.get()
        self._rest = data[max_bytes:]
        return data[:max_bytes]

    async def write(self, data: bytes) -> None:
        self.output.put_nowait(b"" if data == b"\x04" else data)

    async def resize(self, columns: int, rows: int) -> None:
        self.sizes.append((columns, rows))

    async def exit_code(self) -> int | None:
        return self.code

    async def close(self) -> None:
        self.is_closed = True


class Containers:
    """One container, `web-1`; also the function that tells of it in heartbeats."""

    name, fault, verbs = "containers", "", {}

    def __init__(self) -> None:
        self.lines: list[Echo] = []

    async def command(self, guid: str, command: Sequence[str], size: WindowSize) -> TerminalCommand:
        if guid != "web-1":
            raise NoSuchGuid("no such container")
        self.lines.append(Echo())
        return self.lines[-1]

    def configure(self, configuration: AgentConfiguration) -> None: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def add_to(self, beat: Beat) -> None:
        beat.containers["web-1"] = HostContainer("web-1", ContainerState.READY, group="shop")


class World:
    """A controller with rights, and an agent."""

    def __init__(self, folder: Path, limits: TerminalLimits | None = None, records: RecordLimits | None = None) -> None:
        self.bus, self.folder = MemoryBus(), folder
        self.now_s = 1000.0
        self.containers = Containers()
        self.function = TerminalFunction(
            self.containers,
            folder,
            limits,
            TerminalRecords(folder / "terminals", records),
            lambda: self.now_s,
            look_s=0.01,
        )
        settings = replace(ON, functions=("containers", "terminals"))
        registration = Registration("agent-a", "a", "1")
        self.agent = FleetAgent(registration, self.bus, (self.containers, self.function), settings)
        self.controller = FleetController(
            self.bus, FileStore(folder / "store"), ControllerSettings(RIGHTS, is_alone=True)
        )

    async def ask(self, operator: str, verb: str, request: object, form: type[T], key: str = "") -> T:
        return await call(self.bus, f"fleet.{operator}.rpc.{verb}", request, form, 30.0, key)

    async def open(self, operator: str = "alice", guid: str = "web-1", key: str = "") -> str:
        opening = OpenTerminal(guid, ("sh",), WindowSize(80, 24), "someone", operator="mallory")
        return (await self.ask(operator, EXEC, opening, OpenedTerminal, key)).session

    async def read(self, session: str, position: int, operator: str = "alice", wait_s: float = 10.0) -> TerminalPage:
        return await self.ask(operator, READ, ReadTerminal("web-1", session, position, wait_s), TerminalPage)

    async def type(self, session: str, data: bytes, operator: str = "alice", key: str = "") -> None:
        await self.ask(operator, WRITE, WriteTerminal("web-1", session, data), WrittenTerminal, key)

    def journal(self) -> list[dict[str, object]]:
        path = self.folder / "terminals" / "journal.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def played(folder: Path, scene: Callable[[World], Awaitable[None]], **limits: object) -> None:
    async def play() -> None:
        world = World(folder, **limits)  # type: ignore[arg-type]
        stop = asyncio.Event()
        running = [
            asyncio.create_task(world.controller.run(Asking(world.controller).verbs(), stop)),
            asyncio.create_task(world.agent.run(stop)),
        ]
        try:
            await soon("the container is known", lambda: bool(world.controller.registry.of_group("shop")))
            await scene(world)
        finally:
            await cancelled(running)

    asyncio.run(play())


def test_keys_go_in_output_comes_out_and_both_are_recorded(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        session = await world.open()
        await world.type(session, b"uptime\r")
        assert await world.read(session, 0) == TerminalPage(0, b"uptime\r")
        await world.ask("alice", WRITE, WriteTerminal("web-1", session, size=WindowSize(100, 30)), WrittenTerminal)
        assert world.containers.lines[0].sizes == [(100, 30)]
        world.containers.lines[0].code = 3
        await world.type(session, b"\x04")
        page = await world.read(session, 7)
        assert (page.data, page.is_over, page.why, page.exit_code) == (b"", True, "the command has ended", 3)
        await soon("it is closed", lambda: len(world.journal()) == 2)
        opened, ended = world.journal()
        assert (opened["operator"], opened["viewer"], opened["guid"]) == ("alice", "someone", "web-1")
        assert (ended["why"], ended["exitCode"], ended["outputBytes"]) == ("the command has ended", 3, 7)
        _, *events = (tmp_path / "terminals" / f"{session}.cast").read_text().splitlines()
        assert [json.loads(event)[1:] for event in events] == [["o", "uptime\r"], ["r", "100x30"]]
        assert world.containers.lines[0].is_closed
        with pytest.raises(NoSuchGuid, match="has ended"):
            await world.type(session, b"more")

    played(tmp_path, scene)


def test_who_has_no_right_gets_none_and_nobody_gets_anothers(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        for guid in ("web-1", "no-such-1"):  # the same answer, whether it is there or not
            with pytest.raises(FleetForbidden, match="bob may not exec; granted are list, up"):
                await world.open("bob", guid)
        with pytest.raises(FleetForbidden, match="none of the tags"):
            await world.open("dave")
        assert world.journal() == []
        session = await world.open()
        for operator, error in (("carol", NoSuchGuid), ("bob", FleetForbidden), ("dave", FleetForbidden)):
            with pytest.raises(error):
                await world.type(session, b"x", operator)
            with pytest.raises(error):
                await world.read(session, 0, operator)
        with pytest.raises(InvalidInput, match="this is an agent's"):
            await world.open("alice", "agent-a")
        assert world.containers.lines[0].output.empty()

    played(tmp_path, scene)


def test_a_repeated_request_acts_once(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        assert await world.open(key="k1") == await world.open(key="k1")
        session = await world.open(key="k2")
        await world.type(session, b"once", key="k3")
        await world.type(session, b"once", key="k3")
        await world.type(session, b" more", key="k4")
        seen = b""
        while len(seen) < 9:
            seen += (await world.read(session, len(seen))).data
        assert seen == b"once more"
        assert len(world.containers.lines) == 2

    played(tmp_path, scene)


def test_a_reader_that_is_behind_holds_the_command_up(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        session = await world.open()
        line = world.containers.lines[0]
        for _ in range(10):
            line.output.put_nowait(b"x" * 100)
        await soon("it is full", lambda: line.output.qsize() == 7)
        seen = 0
        while seen < 1000:
            seen += len((await world.read(session, seen)).data)
        assert line.output.empty()

    played(tmp_path, scene, limits=TerminalLimits(unread_bytes=250))


def test_it_ends_without_a_reader_without_keys_and_when_its_recording_is_full(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        abandoned, idle, loud = [await world.open() for _ in range(3)]
        world.now_s += 6
        for session in (idle, loud):
            await world.type(session, b"x" * 400)
            await world.read(session, 0)
        world.now_s += 6
        await soon("nobody reads the first", lambda: _why(world, abandoned) == "nobody reads it any more")
        await world.type(loud, b"y")
        page = await world.read(loud, 400)
        assert (page.data, page.why) == (b"", "its recording is full: open another")
        for _ in range(3):
            await world.read(idle, 400, wait_s=0.0)
            world.now_s += 4
        await soon("no key for the second", lambda: _why(world, idle) == "no key was pressed for 0.25 min")
        assert all(line.is_closed for line in world.containers.lines)

    limits = TerminalLimits(idle_s=15.0, unread_s=10.0)
    played(tmp_path, scene, limits=limits, records=RecordLimits(max_bytes=450))


def test_none_is_opened_where_it_cannot_be_recorded_and_no_more_than_so_many(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        (tmp_path / "terminals").write_text("a file in the way")
        with pytest.raises(Permanent, match="cannot be recorded"):
            await world.open()
        assert world.containers.lines == []
        (tmp_path / "terminals").unlink()
        for _ in range(MAX_TERMINALS):
            await world.open()
        with pytest.raises(Exception, match=f"{MAX_TERMINALS} terminals are open"):
            await world.open()

    played(tmp_path, scene)


def test_it_is_off_unless_named_and_ends_when_it_is_switched_off(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        session = await world.open()
        off = replace(world.agent.configuration, functions=("containers",))
        await world.controller.stored.put_configuration(
            "edge", "docker", json.dumps({"functions": list(off.functions)})
        )
        await soon("it is closed", lambda: _why(world, session) == "the agent ended")
        with pytest.raises(Unsupported, match="configuration switches off"):
            await world.open()

    assert "terminals" not in AgentConfiguration().functions
    played(tmp_path, scene)


def test_the_oldest_recordings_go(tmp_path: Path) -> None:
    records = TerminalRecords(tmp_path, RecordLimits(max_bytes=300, max_total_bytes=1000, max_journal_bytes=1000))
    for number in range(12):
        session = f"{number:032x}"
        recording = records.begin(session, OpenTerminal("web-1"), float(number))
        recording.output(b"\xe2\x82", float(number))
        recording.output(b"\xac" * 1 + b"x" * 200, number + 0.5)
        recording.close()
    left = sorted(path.name for path in tmp_path.glob("*.cast"))
    assert 2 <= len(left) <= 3
    assert left[-1] == f"{11:032x}.cast"
    assert json.loads((tmp_path / left[-1]).read_text().splitlines()[1]) == [0.5, "o", "\u20ac" + "x" * 200]
    assert (tmp_path / "journal.1.jsonl").exists()
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.iterdir())


def _why(world: World, session: str) -> object:
    ends = [line for line in world.journal() if line["what"] == "ended" and line["session"] == session]
    return ends[0]["why"] if ends else ""
