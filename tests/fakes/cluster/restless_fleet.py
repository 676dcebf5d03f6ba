"""Controllers, agents and operators of a fleet in virtual time, over a bus and a store that are late and lose answers.

The processes are the product's own, each with a clock that may differ by minutes; only the runtime of containers, the
bus and the store are pretended. The world notes what must never happen: a second container of a group's appkey, a
container that is started twice.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from tests.fakes.servers.unsteady import Line, SharedValues, StoreView, UnsteadyBus

from cotenant.drivers.docker.client import InUse
from cotenant.drivers.nats.memory import MemoryBus
from cotenant.model.errors import Permanent
from cotenant.model.fleet.configuration import AgentConfiguration
from cotenant.model.fleet.containers import FleetContainer, ListedContainer
from cotenant.model.fleet.host import Registration
from cotenant.model.fleet.template import ContainerTemplate
from cotenant.services.fleet.agent.agent import FleetAgent
from cotenant.services.fleet.controller.asking import Asking
from cotenant.services.fleet.controller.awake import Awake
from cotenant.services.fleet.controller.controller import FleetController
from cotenant.services.fleet.functions import labels as names
from cotenant.services.fleet.functions.containers import ContainerFunction

_UNIX_S = 1.8e9
MAX_SKEW_S = 300.0


@dataclass(slots=True)
class _There:
    template: ContainerTemplate
    labels: Mapping[str, str]
    status: str = "created"
    started_s: float = 0.0


class PretendedRuntime:
    """Implements `ContainerRuntime`: each act happens at one moment within its duration."""

    def __init__(self, world: RestlessFleet, agent: str, random: Random) -> None:
        self._world, self._agent, self._random = world, agent, random
        self.there: dict[str, _There] = {}
        self.pull_s = 0.0  # before each container is made
        self.list_s = 0.0  # before each list
        self.checked_s = 0.0  # for which a container that has started is not healthy yet; 0: it has no check
        self._changed = asyncio.Event()

    async def close(self) -> None:
        pass

    async def capacity(self) -> tuple[int, int]:
        return 64_000, 64 << 30

    async def list(self, label: str) -> tuple[ListedContainer, ...]:
        await asyncio.sleep(self.list_s)
        await self._takes(0.02)
        return tuple(
            ListedContainer(name, name, there.template.image, there.status, "", 0 if there.status == "exited" else None,
                   there.labels)
            for name, there in self.there.items()
        )  # fmt: skip

    async def changes(self, label: str) -> AsyncIterator[str]:
        while True:
            await self._changed.wait()
            self._changed.clear()
            yield "something"

    async def inspect(self, name: str) -> FleetContainer | None:
        await self._takes(0.02)
        found = self.there.get(name)
        if found is None:
            return None
        pid = 7 if found.status == "running" else 0
        started_s, labels = found.started_s, found.labels
        health = ""
        if self.checked_s and pid:
            health = "starting" if self._world.wall(self._agent) - started_s < self.checked_s else "healthy"
        return FleetContainer(
            name, name, found.template.image, found.status, health, "", 0, "", pid, started_s, 0, False, labels=labels
        )

    async def create(
        self, name: str, template: ContainerTemplate, environment: Mapping[str, str], labels: Mapping[str, str]
    ) -> None:
        await asyncio.sleep(self.pull_s)
        await self._takes(2.0)
        if name in self.there:
            raise InUse(f"{name} is in use")
        self._world.created(labels)
        self._happens(name, _There(template, labels))
        await self._takes(0.2)

    async def start(self, name: str) -> None:
        await self._takes(0.3)
        found = self.there.get(name)
        if found is None:
            raise Permanent(f"no container {name}")
        if found.status == "created":
            self._world.starts[name] += 1
            self._happens(name, replace(found, status="running", started_s=self._world.wall(self._agent)))
        await self._takes(0.3)

    async def stop(self, name: str) -> None:
        await self._takes(1.0)
        found = self.there.get(name)
        if found is not None and found.status == "running":
            self._happens(name, replace(found, status="exited"))

    async def remove(self, name: str) -> None:
        await self._takes(0.3)
        self._happens(name, None)
        await self._takes(0.3)

    async def command(self, container: str, command: Sequence[str], columns: int, rows: int) -> None:  # type: ignore[override]
        raise Permanent("no terminals here")

    def _happens(self, name: str, there: _There | None) -> None:
        if there is None:
            self.there.pop(name, None)
        else:
            self.there[name] = there
        self._changed.set()

    async def _takes(self, seconds: float) -> None:
        await asyncio.sleep(seconds * self._random.random())


@dataclass(slots=True)
class Process:
    """A controller or an agent that runs."""

    bus: UnsteadyBus
    task: asyncio.Task[None]
    store: StoreView | None = None
    controller: FleetController | None = None
    agent: FleetAgent | None = None


class RestlessFleet:
    """Begin in a virtual loop; `folder` has what agents keep over restarts."""

    def __init__(self, folder: Path, random: Random, controllers: int = 2, agents: int = 1) -> None:
        self._folder, self._random = folder, random
        self.hub, self.shared = MemoryBus(), SharedValues()
        self.skews_s: dict[str, float] = {}
        self.violations: list[str] = []
        self.starts: Counter[str] = Counter()
        self.creations: Counter[str] = Counter()
        self.agents = tuple(f"agent-{number}" for number in range(agents))
        self.controllers = tuple(f"controller-{number}" for number in range(controllers))
        self.runtimes = {name: PretendedRuntime(self, name, Random(random.random())) for name in self.agents}
        self.processes: dict[str, Process] = {}
        for name in self.controllers + self.agents:
            self.skews_s[name] = random.choice((-MAX_SKEW_S, 0.0, MAX_SKEW_S))
            self.start(name)

    def wall(self, name: str) -> float:
        """The clock on that one's wall."""
        return _UNIX_S + asyncio.get_running_loop().time() + self.skews_s[name]

    def line(self) -> Line:
        """One more way to the server."""
        return Line(Random(self._random.random()))

    def start(self, name: str) -> None:
        if name in self.processes:
            return
        line, now = self.line(), asyncio.get_running_loop().time
        bus, stop = UnsteadyBus(self.hub, line), asyncio.Event()
        if name in self.controllers:
            store = StoreView(self.shared, line, self._random.choice((0.1, 1.0, 5.0)))
            controller = FleetController(bus, store, None, now, lambda: self.wall(name), Awake(now))
            task = asyncio.create_task(controller.run(Asking(controller).verbs(), stop))
            self.processes[name] = Process(bus, task, store, controller)
            return
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        runtime = self.runtimes[name]
        containers = ContainerFunction(name, folder, folder, lambda: self.wall(name), lambda: runtime)
        registration = Registration(name, name, "0", tags=(name,), cpu_milli=64_000, memory_bytes=64 << 30)
        agent = FleetAgent(registration, bus, (containers,), AgentConfiguration(), (), lambda: self.wall(name))
        self.processes[name] = Process(bus, asyncio.create_task(agent.run(stop)), agent=agent)

    async def kill(self, name: str) -> None:
        """As by SIGKILL."""
        process = self.processes.pop(name, None)
        if process is None:
            return
        process.bus.kill()
        if process.store is not None:
            self.shared.views.remove(process.store)
        process.task.cancel()
        with suppress(asyncio.CancelledError):
            await process.task

    def created(self, labels: Mapping[str, str]) -> None:
        """A container is made."""
        group, appkey, guid = labels[names.GROUP], labels[names.APPKEY], labels[names.GUID]
        doubles = [name for name, there in self.of_group(group).items() if there.labels[names.APPKEY] == appkey]
        if doubles:
            self.violations.append(f"{appkey} of {group} is made as {guid} beside {', '.join(doubles)}")
        self.creations[guid] += 1

    def of_group(self, group: str) -> dict[str, _There]:
        """What is really there."""
        return {
            name: there
            for runtime in self.runtimes.values()
            for name, there in runtime.there.items()
            if there.labels[names.GROUP] == group
        }

    async def end(self) -> None:
        for name in list(self.processes):
            await self.kill(name)
