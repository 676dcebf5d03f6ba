"""A fleet's controller and pretended agents in virtual time: containers are steps, and each request is done at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from tests.fakes.virtual_time import run_virtually

from cotenant.drivers.nats.contract import BusMessage
from cotenant.drivers.nats.file_store import FileStore
from cotenant.drivers.nats.memory import MemoryBus
from cotenant.model.errors import CotenantError, InvalidInput
from cotenant.model.fleet.group import ContainerStep, GroupOutcome, GroupRecord
from cotenant.model.fleet.host import Heartbeat, HostContainer, Registration
from cotenant.model.fleet.refusal import Fenced
from cotenant.model.fleet.requests import (
    Configure,
    Configured,
    Fence,
    Inspect,
    Inspected,
    Make,
    Move,
    Moved,
    Survey,
    Surveyed,
)
from cotenant.model.fleet.rights import FleetFile
from cotenant.model.fleet.states import ContainerState
from cotenant.services.fleet.controller.asking import Asking
from cotenant.services.fleet.controller.controller import ControllerSettings, FleetController
from cotenant.services.fleet.rpc import Dispatcher, RpcVerb, call

T = TypeVar("T")
WALL_S = 1_000_000.0
_REACHES = {
    "reserve": ContainerStep.RESERVED,
    "create": ContainerStep.CREATED,
    "start": ContainerStep.RUNNING,
    "probe": ContainerStep.READY,
    "stop": ContainerStep.ENDED,
    "remove": ContainerStep.ABSENT,
    "release": ContainerStep.ABSENT,
}


class PretendedAgent:
    """One agent. What fails is said by `faults`: verb -> the error."""

    def __init__(self, guid: str, bus: MemoryBus, did: list[str]) -> None:
        self.guid = guid
        self.steps: dict[str, ContainerStep] = {}  # of its containers
        self.names: dict[str, str] = {}  # guid -> appkey
        self.epochs: dict[str, int] = {}  # the highest seen, by group
        self.faults: dict[str, CotenantError] = {}
        self.slow: dict[str, float] = {}  # verb -> seconds that it takes
        self.configurations: list[int] = []
        self.refuses: tuple[str, ...] = ()  # why it takes no configuration
        self._did = did
        forms: dict[str, tuple[type, Callable[[Any, str], object]]] = {
            verb: (Make if verb in ("reserve", "create") else Move, self._moved) for verb in _REACHES
        }
        forms |= {
            "survey": (Survey, self._surveyed),
            "inspect": (Inspect, self._inspected),
            "configure": (Configure, self._configured),
        }
        self._dispatcher = Dispatcher({verb: RpcVerb(form, self._at(act)) for verb, (form, act) in forms.items()}, bus)
        self._subscription = bus.attach(f"guid.{guid}.rpc.*", self._dispatcher.received)

    def _at(self, act: Callable[[Any, str], object]) -> Callable[[Any, BusMessage], Awaitable[object]]:
        async def handle(request: Any, message: BusMessage) -> object:
            verb = message.subject.rpartition(".")[2]
            await asyncio.sleep(self.slow.get(verb, 0.0))
            if verb in self.faults:
                raise self.faults[verb]
            return act(request, verb)

        return handle

    def _pass(self, fence: Fence) -> None:
        seen = self.epochs.get(fence.group, 0)
        if fence.epoch < seen:
            raise Fenced(f"epoch {seen} was seen", seen)
        self.epochs[fence.group] = fence.epoch

    def _moved(self, request: Make | Move, verb: str) -> Moved:
        self._pass(request.fence)
        guid = request.container.guid if isinstance(request, Make) else request.guid
        if isinstance(request, Make):
            self.names[guid] = request.container.template.appkey
        self._did.append(f"{self.guid} {verb} {self.names.get(guid, guid)}")
        self.steps[guid] = _REACHES[verb]
        return Moved(self.steps[guid])

    def _surveyed(self, request: Survey, _: str) -> Surveyed:
        self._pass(request.fence)
        return Surveyed({guid: step for guid, step in self.steps.items() if step is not ContainerStep.ABSENT})

    def _inspected(self, request: Inspect, _: str) -> Inspected:
        return Inspected(None, {"asked about": request.guid or "the agent itself"})

    def _configured(self, request: Configure, _: str) -> Configured:
        self.configurations.append(request.revision)
        return Configured(request.revision, self.refuses)

    async def close(self) -> None:
        await self._subscription.unsubscribe()
        await self._dispatcher.close()


class AskedFleet:
    """A controller that answers, and agents; `did`: what agents were told, in order."""

    def __init__(self, folder: Path, rights: FleetFile | None = None, is_alone: bool = True) -> None:
        self._loop = asyncio.get_running_loop()
        self.bus = MemoryBus()
        self.store = FileStore(folder / "store")
        self.did: list[str] = []
        self.agents: dict[str, PretendedAgent] = {}
        settings = ControllerSettings(rights, is_alone=is_alone)
        self.controller = FleetController(
            self.bus, self.store, settings, now=self._loop.time, wall=lambda: WALL_S + self._loop.time()
        )

    @property
    def now_s(self) -> float:
        return self._loop.time()

    def add(self, guid: str, *tags: str, **said: Any) -> PretendedAgent:
        """An agent that sent a heartbeat a moment ago."""
        registry = self.controller.registry
        registration = Registration(guid, f"host-{guid}", "1", tags=tags, cpu_milli=4000, memory_bytes=8 << 30, **said)
        registry.register(registration, self.now_s)
        registry.beat(Heartbeat(guid, 1, 1.0), self.now_s)
        self.agents[guid] = PretendedAgent(guid, self.bus, self.did)
        return self.agents[guid]

    def beat(self, guid: str, group: str, *containers: str) -> None:
        """A heartbeat that names containers of a group, by guid."""
        status = tuple(HostContainer(name, ContainerState.READY, "image", group, f"app-{name}") for name in containers)
        number = int(self.now_s * 1000)
        self.controller.registry.beat(Heartbeat(guid, number, 1.0, containers=status), self.now_s)

    async def ask(self, verb: str, request: object, form: type[T], operator: str = "ada", key: str = "") -> T:
        return await call(self.bus, f"fleet.{operator}.rpc.{verb}", request, form, 600.0, key)

    async def outcome(self, verb: str, request: object, key: str = "") -> GroupOutcome:
        return await self.ask(verb, request, GroupOutcome, key=key)

    def record(self, name: str) -> GroupRecord:
        found = self.controller.stored.group(name)
        if found is None:
            raise InvalidInput("name", name, "a stored group")
        return found.record

    def acts(self) -> list[str]:
        """What agents were told since the last call."""
        done, self.did[:] = list(self.did), []
        return done

    async def serve(self) -> None:
        await self.controller.serve(Asking(self.controller).verbs())

    async def close(self) -> None:
        await self.controller.close()
        for agent in self.agents.values():
            await agent.close()
        await self.bus.close()
        self.store.close()


def played(
    folder: Path,
    scene: Callable[[AskedFleet], Awaitable[None]],
    rights: FleetFile | None = None,
    is_alone: bool = True,
) -> None:
    """One scene, from the beginning to its end."""

    async def play() -> None:
        fleet = AskedFleet(folder, rights, is_alone)
        try:
            await fleet.serve()
            await scene(fleet)
        finally:
            await fleet.close()

    run_virtually(play())
