"""What a controller asks agents for its operators: figures of hosts in pages, logs by name, each within the rights."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import pytest

from cotenant.drivers.nats.contract import BusMessage
from cotenant.drivers.nats.file_store import FileStore
from cotenant.drivers.nats.memory import MemoryBus
from cotenant.model.errors import InvalidInput, Transient
from cotenant.model.fleet.figures import ContainerFigures, HostFigures, Measure, Measured, Top, TopPage
from cotenant.model.fleet.host import Heartbeat, HostContainer, Registration
from cotenant.model.fleet.logs import FindLogs, FoundLogs, LogPage, ReadLogs, ShownLine
from cotenant.model.fleet.refusal import FleetForbidden, NoSuchGuid
from cotenant.model.fleet.requests import Limit, Limited
from cotenant.model.fleet.rights import FleetFile, FleetOperator, HostEntry
from cotenant.model.fleet.states import ContainerState
from cotenant.services.fleet.controller.asking import Asking
from cotenant.services.fleet.controller.controller import ControllerSettings, FleetController
from cotenant.services.fleet.rpc import Dispatcher, RpcVerb, call

T = TypeVar("T")
FIGURES = HostFigures(cpus=4, cpu_milli=1500)
CONTAINERS = (ContainerFigures("web-1", "shop"), ContainerFigures("db-1", "data"))


@dataclass
class World:
    """A controller without a clock of its own, and agents that answer at once."""

    folder: Path
    rights: FleetFile | None = None
    now_s: float = 100.0
    asked: list[str] = field(default_factory=list)  # agent and verb
    pods: dict[str, tuple[str, ...]] = field(default_factory=dict)  # agent -> the pods whose logs it has
    silent: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.bus = MemoryBus()
        settings = ControllerSettings(self.rights, is_alone=True)
        self.controller = FleetController(self.bus, FileStore(self.folder / "store"), settings, now=lambda: self.now_s)
        self._answering = [Dispatcher(Asking(self.controller).verbs(), self.bus)]
        self.bus.attach("fleet.*.rpc.*", self._answering[0].received)

    def add(self, guid: str, *tags: str, containers: tuple[str, ...] = ()) -> None:
        """An agent that sends heartbeats and answers."""
        registration = Registration(guid, f"host-{guid}", "1", tags=tags, capabilities=("find-logs",))
        registry = self.controller.registry
        registry.register(registration, self.now_s)
        status = tuple(HostContainer(name, ContainerState.READY) for name in containers)
        registry.beat(Heartbeat(guid, 1, self.now_s, 1.0, containers=status), self.now_s)

        async def measured(_: Measure, message: BusMessage) -> Measured:
            self._note(guid, message)
            return Measured(guid, f"host-{guid}", self.now_s, FIGURES, CONTAINERS)

        async def found(request: FindLogs, message: BusMessage) -> FoundLogs:
            self._note(guid, message)
            return FoundLogs(tuple(name for name in self.pods.get(guid, ()) if name == request.name))

        async def read(request: ReadLogs, message: BusMessage) -> LogPage:
            self._note(guid, message)
            return LogPage((ShownLine(0, "stdout", f"{request.guid} on {guid}"),), None, True)

        async def limited(request: Limit, message: BusMessage) -> Limited:
            self._note(guid, message)
            return Limited(())

        verbs = {
            "measure": RpcVerb(Measure, measured),
            "find-logs": RpcVerb(FindLogs, found),
            "logs": RpcVerb(ReadLogs, read),
            "limit": RpcVerb(Limit, limited),
            "experiment": RpcVerb(Limit, limited),
        }
        self._answering.append(Dispatcher(verbs, self.bus))
        self.bus.attach(f"guid.{guid}.rpc.*", self._answering[-1].received)

    def _note(self, guid: str, message: BusMessage) -> None:
        if guid in self.silent:
            raise Transient("too busy")
        self.asked.append(f"{guid} {message.subject.rpartition('.')[2]}")

    async def ask(self, verb: str, request: object, form: type[T], operator: str = "local") -> T:
        return await call(self.bus, f"fleet.{operator}.rpc.{verb}", request, form, 30.0)

    async def top(self, operator: str = "local", **fields: object) -> TopPage:
        return await self.ask("top", Top(**fields), TopPage, operator)  # type: ignore[arg-type]

    async def log(self, name: str, operator: str = "local") -> str:
        page = await self.ask("logs", ReadLogs(name), LogPage, operator)
        return page.lines[0].text

    async def close(self) -> None:
        for dispatcher in self._answering:
            await dispatcher.close()
        await self.bus.close()


def played(folder: Path, scene: Callable[[World], Awaitable[None]], rights: FleetFile | None = None) -> None:
    async def play() -> None:
        world = World(folder, rights)
        try:
            await scene(world)
        finally:
            await world.close()

    asyncio.run(play())


def test_figures_come_of_each_host_that_answers_and_the_others_are_named(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        for guid in ("b", "a", "c", "d"):
            world.add(guid, "edge" if guid != "d" else "cloud")
        world.controller.registry.leave("b")
        world.silent.add("c")
        page = await world.top(tags=("edge",))
        assert page.hosts == (Measured("a", "host-a", 100.0, FIGURES, CONTAINERS),)
        assert page.unmeasured == ("b is away", "c: too busy")
        assert page.next_start is None
        assert world.asked == ["a measure"]  # who is away is not asked
        assert [host.guid for host in (await world.top(host="host-d")).hosts] == ["d"]

    played(tmp_path, scene)


def test_of_a_group_only_its_containers_and_only_hosts_with_one_are_shown(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        world.add("a")
        page = await world.top(group="shop")
        assert [figures.guid for figures in page.hosts[0].containers] == ["web-1"]
        assert (await world.top(group="other")).hosts == ()

    played(tmp_path, scene)


@pytest.mark.parametrize("count", [31, 32, 33, 64, 70])
def test_pages_have_each_host_once_in_order(tmp_path: Path, count: int) -> None:
    async def scene(world: World) -> None:
        for number in reversed(range(count)):
            world.add(f"a{number:02}")
        seen: list[str] = []
        start: int | None = 0
        sizes = []
        while start is not None:
            page = await world.top(start=start)
            sizes.append(len(page.hosts))
            seen += [host.guid for host in page.hosts]
            start = page.next_start
        assert seen == [f"a{number:02}" for number in range(count)]
        assert max(sizes) <= 32
        assert min(sizes) > 0

    played(tmp_path, scene)


RIGHTS = FleetFile(
    (HostEntry("a", ("edge",)), HostEntry("b", ("cloud",))),
    (
        FleetOperator("alice", ("top", "logs", "limit"), ("edge",)),
        FleetOperator("bob", ("list",), ("edge", "cloud")),
        FleetOperator("carol", ("logs", "experiment"), ("cloud",)),
    ),
)


def test_an_operator_sees_the_figures_of_hosts_that_it_has_a_right_to(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        world.add("a", "edge")
        world.add("b", "cloud")
        assert [host.guid for host in (await world.top("alice")).hosts] == ["a"]
        with pytest.raises(FleetForbidden, match="bob may not top"):
            await world.top("bob")
        assert world.asked == ["a measure"]

    played(tmp_path, scene, RIGHTS)


def test_a_log_is_read_of_the_one_agent_that_has_it_and_found_again_without_asking(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        world.add("a", containers=("web-1",))
        world.add("b")
        world.pods = {"b": ("shop/cart",)}
        assert await world.log("web-1") == "web-1 on a"
        assert world.asked == ["a logs"]  # a container's agent is known
        assert await world.log("shop/cart") == "shop/cart on b"
        assert sorted(world.asked[1:3]) == ["a find-logs", "b find-logs"]
        world.asked.clear()
        world.now_s += 59.0
        assert await world.log("shop/cart") == "shop/cart on b"
        assert world.asked == ["b logs"]
        world.asked.clear()
        world.now_s += 1.0  # a minute after it was found
        world.pods = {"a": ("shop/cart",)}
        assert await world.log("shop/cart") == "shop/cart on a"
        assert len(world.asked) == 3

    played(tmp_path, scene)


def test_a_log_that_nobody_has_or_two_have_is_refused(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        world.add("a")
        world.add("b")
        world.add("c")
        world.silent.add("c")  # whoever does not answer has it not
        with pytest.raises(NoSuchGuid, match="no host of this fleet has a log of shop/cart"):
            await world.log("shop/cart")
        world.pods = {"a": ("shop/cart",), "b": ("shop/cart",)}
        with pytest.raises(InvalidInput, match="a, b have a log of this name"):
            await world.log("shop/cart")
        with pytest.raises(InvalidInput, match="this is an agent's"):
            await world.log("a")
        world.controller.registry.leave("a")
        assert await world.log("shop/cart") == "shop/cart on b"  # who is away is not asked

    played(tmp_path, scene)


def test_the_right_to_a_log_is_asked_before_and_after_it_is_found(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        world.add("a", "edge", containers=("web-1",))
        world.add("b", "cloud", containers=("db-1",))
        assert await world.log("web-1", "alice") == "web-1 on a"
        with pytest.raises(FleetForbidden):
            await world.log("db-1", "alice")
        assert await world.log("db-1", "carol") == "db-1 on b"
        world.asked.clear()
        with pytest.raises(FleetForbidden):
            await world.log("shop/cart", "bob")
        assert world.asked == []

    played(tmp_path, scene, RIGHTS)


def test_limits_go_to_the_containers_agent_by_their_own_rights(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        world.add("a", "edge", containers=("web-1",))
        world.add("b", "cloud", containers=("db-1",))
        request = Limit("web-1", {"cpu.max": "100000 100000"})
        await world.ask("limit", request, Limited, "alice")
        await world.ask("experiment", replace(request, guid="db-1"), Limited, "carol")
        assert world.asked == ["a limit", "b experiment"]
        for verb, guid, operator in (("limit", "db-1", "alice"), ("experiment", "web-1", "alice")):
            with pytest.raises(FleetForbidden):
                await world.ask(verb, replace(request, guid=guid), Limited, operator)
        with pytest.raises(InvalidInput, match="this is an agent's"):
            await world.ask("limit", replace(request, guid="a"), Limited, "alice")
        assert len(world.asked) == 2

    played(tmp_path, scene, RIGHTS)
