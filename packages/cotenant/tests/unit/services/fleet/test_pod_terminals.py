"""Terminals into pods: found by the controller on any node, with the rights and the record of all terminals."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes.waiting import soon

from cotenant.drivers.nats.file_store import FileStore
from cotenant.drivers.nats.memory import MemoryBus
from cotenant.model.errors import CotenantError, InvalidInput, Transient, Unsupported
from cotenant.model.fleet.configuration import AgentConfiguration
from cotenant.model.fleet.host import Registration
from cotenant.model.fleet.pods import PodContainer, PodName
from cotenant.model.fleet.refusal import FleetForbidden, NoSuchGuid
from cotenant.model.fleet.rights import FleetFile, FleetOperator, HostEntry
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
from cotenant.services.fleet.functions.terminals.function import TerminalCommand, TerminalFunction
from cotenant.services.fleet.functions.terminals.pods import NodePods
from cotenant.services.fleet.rpc import call
from cotenant.services.running import cancelled

ON = AgentConfiguration(functions=("terminals",), heartbeat_s=0.1, pod_runtime="/run/c.sock")
RIGHTS = FleetFile(
    (HostEntry("agent-a", ("edge",)), HostEntry("agent-b", ("cloud",))),
    (FleetOperator("alice", (EXEC,)), FleetOperator("bob", ("list",)), FleetOperator("dave", (EXEC,), ("cloud",))),
)


class Once:
    """A command that says `hello` and ends with 5 once it was typed to."""

    def __init__(self) -> None:
        self.output: asyncio.Queue[bytes] = asyncio.Queue()
        self.output.put_nowait(b"hello")

    async def read(self, max_bytes: int) -> bytes:
        return await self.output.get()

    async def write(self, data: bytes) -> None:
        self.output.put_nowait(b"")

    async def resize(self, columns: int, rows: int) -> None: ...

    async def exit_code(self) -> int | None:
        return 5

    async def close(self) -> None: ...


class Pods:
    """Pods of one node, as NAMESPACE/NAME, each with a container `app`."""

    def __init__(self, *names: str) -> None:
        self.error: CotenantError | None = None
        self.there, self.socket, self.commands = [*names], "", list[tuple[str, tuple[str, ...], WindowSize]]()

    def configure(self, socket: str) -> None:
        self.socket = socket

    def close(self) -> None: ...

    async def names(self, name: PodName) -> tuple[str, ...]:
        if not self.socket:
            raise Unsupported("terminals into pods", "a runtime")
        if self.error is not None:
            raise self.error
        return tuple(
            pod for pod in self.there if name.namespace in ("", pod.split("/")[0]) and pod.endswith(f"/{name.pod}")
        )

    async def container(self, name: PodName) -> PodContainer:
        if f"{name.namespace}/{name.pod}" not in self.there:
            raise NoSuchGuid(f"no pod {name} runs on this host")
        return PodContainer(name.namespace, name.pod, name.container or "app", "c0ffee")

    async def command(self, container: PodContainer, command: Sequence[str], size: WindowSize) -> TerminalCommand:
        self.commands.append((str(container), tuple(command), size))
        return Once()


class NoContainers:
    async def command(self, guid: str, command: Sequence[str], size: WindowSize) -> TerminalCommand:
        raise AssertionError(guid)


class World:
    """Two nodes with agents, and a controller with rights."""

    def __init__(self, folder: Path, settings: AgentConfiguration = ON) -> None:
        self.bus, self.folder = MemoryBus(), folder
        self.pods = {"agent-a": Pods("shop/web-1", "shop/db-0"), "agent-b": Pods("other/web-1")}
        self.agents = [
            FleetAgent(
                Registration(guid, guid, "1"),
                self.bus,
                (TerminalFunction(NoContainers(), folder / guid, look_s=0.01, pods=pods),),
                settings,
            )
            for guid, pods in self.pods.items()
        ]
        self.controller = FleetController(
            self.bus, FileStore(folder / "store"), ControllerSettings(RIGHTS, is_alone=True)
        )

    async def open(self, guid: str, operator: str = "alice") -> str:
        request = OpenTerminal(guid, ("sh",), WindowSize(80, 24))
        return (await call(self.bus, f"fleet.{operator}.rpc.{EXEC}", request, OpenedTerminal, 30.0)).session

    async def read(self, guid: str, session: str, position: int, operator: str = "alice") -> TerminalPage:
        request = ReadTerminal(guid, session, position, 10.0)
        return await call(self.bus, f"fleet.{operator}.rpc.{READ}", request, TerminalPage, 30.0)

    async def type(self, guid: str, session: str, operator: str = "alice") -> None:
        request = WriteTerminal(guid, session, b"x")
        await call(self.bus, f"fleet.{operator}.rpc.{WRITE}", request, WrittenTerminal, 30.0)

    def journal(self, agent: str = "agent-a") -> list[dict[str, object]]:
        path = self.folder / agent / "terminals" / "journal.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def played(folder: Path, scene: Callable[[World], Awaitable[None]], settings: AgentConfiguration = ON) -> None:
    async def play() -> None:
        world = World(folder, settings)
        stop = asyncio.Event()
        running = [asyncio.create_task(world.controller.run(Asking(world.controller).verbs(), stop))]
        running += [asyncio.create_task(agent.run(stop)) for agent in world.agents]
        try:
            heard = world.controller.registry.hosts
            await soon("both are heard", lambda: sum(host.beat is not None for host in heard()) == 2)
            await scene(world)
        finally:
            await cancelled(running)

    asyncio.run(play())


@pytest.mark.parametrize(("asked", "container"), [("db-0", "app"), ("shop/db-0", "app"), ("shop/web-1/side", "side")])
def test_it_is_found_read_to_its_end_and_recorded_by_its_full_name(tmp_path: Path, asked: str, container: str) -> None:
    async def scene(world: World) -> None:
        session = await world.open(asked)
        assert (await world.read(asked, session, 0)).data == b"hello"
        await world.type(asked, session)
        world.pods["agent-a"].there.clear()  # the pod is gone, its last words are still told
        page = await world.read(asked, session, 5)
        assert (page.is_over, page.exit_code) == (True, 5)
        ((name, command, _),) = world.pods["agent-a"].commands
        assert (name, command) == (f"shop/{asked.split('/')[1] if '/' in asked else asked}/{container}", ("sh",))
        await soon("both lines are there", lambda: len(world.journal()) == 2)
        opened, ended = world.journal()
        assert (opened["guid"], opened["operator"], ended["exitCode"]) == (name, "alice", 5)

    played(tmp_path, scene)


def test_rights_are_those_of_the_node_and_are_asked_first(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        for guid in ("shop/web-1", "no/such"):  # the same answer, whether it is there or not
            with pytest.raises(FleetForbidden, match="bob may not exec"):
                await world.open(guid, "bob")
        with pytest.raises(FleetForbidden, match="dave may not exec on agent-a"):
            await world.open("shop/web-1", "dave")
        session = await world.open("other/web-1", "dave")
        with pytest.raises(NoSuchGuid, match="not there any more"):
            await world.read("other/web-1", session, 0, "alice")
        assert world.pods["agent-a"].commands == []

    played(tmp_path, scene)


def test_what_cannot_be_meant_is_said(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        with pytest.raises(
            InvalidInput, match=r"agent-a \(shop/web-1\), agent-b \(other/web-1\) have a pod of this name"
        ):
            await world.open("web-1")
        with pytest.raises(NoSuchGuid, match="no container has the guid nobody, and no host's terminals reach a pod"):
            await world.open("nobody")
        with pytest.raises(NoSuchGuid, match="no container has the guid no_pod"):
            await world.open("no_pod")
        with pytest.raises(NoSuchGuid, match="no host's terminals reach a pod shop/nobody"):
            await world.open("shop/nobody")
        with pytest.raises(InvalidInput, match="NAMESPACE/NAME/CONTAINER"):
            await world.open("a/b/c/d")

    played(tmp_path, scene)


def test_a_pod_that_came_back_on_another_node_is_found_there(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        before = await world.open("shop/db-0")
        world.pods["agent-a"].there.remove("shop/db-0")
        world.pods["agent-b"].there.append("shop/db-0")
        after = await world.open("shop/db-0")
        assert (await world.read("shop/db-0", after, 0)).data == b"hello"
        assert (await world.read("shop/db-0", before, 0)).data == b"hello"  # whoever sat there still reads its end
        assert [name for name, _, _ in world.pods["agent-b"].commands] == ["shop/db-0/app"]

    played(tmp_path, scene)


def test_a_runtime_that_does_not_answer_is_the_agent_s_fault(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        world.pods["agent-a"].error = Transient("c.sock: nobody answers")
        with pytest.raises(NoSuchGuid, match="no host's terminals reach a pod shop/web-1"):
            await world.open("shop/web-1")

        def faults() -> list[str]:
            beats = [host.beat for host in world.controller.registry.hosts() if host.beat is not None]
            return [function.fault for beat in beats for function in beat.functions if function.fault]

        await soon("it is told", lambda: faults() == ["pods: c.sock: nobody answers"])
        world.pods["agent-a"].error = None
        await world.open("shop/web-1")
        await soon("it is well again", lambda: not faults())

    played(tmp_path, scene)


def test_pods_are_off_unless_their_runtime_is_named(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        with pytest.raises(NoSuchGuid, match="no host's terminals reach a pod shop/web-1"):
            await world.open("shop/web-1")

    played(tmp_path, scene, replace(ON, pod_runtime=""))
    with pytest.raises(Unsupported, match="pod_runtime"):
        asyncio.run(NodePods().names(PodName("web-1")))
