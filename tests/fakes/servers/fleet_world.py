"""A fleet in one process: a bus, a store, agents over fake Docker daemons, and controllers that a test can drop."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, suppress
from pathlib import Path

from tests.fakes.servers.fake_docker import FakeDocker
from tests.fakes.waiting import soon

from cotenant.drivers.nats.contract import Bus, KeyValueStore
from cotenant.drivers.nats.file_store import FileStore
from cotenant.drivers.nats.memory import MemoryBus
from cotenant.model.errors import Transient
from cotenant.model.fleet.configuration import AgentConfiguration
from cotenant.model.fleet.host import Registration
from cotenant.model.fleet.rights import FleetFile
from cotenant.services.fleet.agent.agent import FleetAgent
from cotenant.services.fleet.controller.asking import Asking
from cotenant.services.fleet.controller.controller import ControllerSettings, FleetController
from cotenant.services.fleet.functions.containers import ContainerFunction
from cotenant.services.fleet.rpc import call

LOCAL = AgentConfiguration(heartbeat_s=0.1)  # of each agent


class FleetWorld:
    """Use as an async context manager."""

    def __init__(
        self,
        folder: Path,
        hosts: tuple[str, ...] = ("agent-a",),
        rights: FleetFile | None = None,
        bus: Bus | None = None,
        store: KeyValueStore | None = None,
    ) -> None:
        self.folder = folder
        self.hosts = hosts
        self.rights = rights
        self.bus = bus or MemoryBus()
        self.dockers: dict[str, FakeDocker] = {}
        self.agents: dict[str, tuple[FleetAgent, asyncio.Task[None]]] = {}
        self._own_store = FileStore(folder / "store") if store is None else None
        self.store: KeyValueStore = store or self._own_store  # type: ignore[assignment]
        self.controller: FleetController | None = None
        self._opened = AsyncExitStack()
        self._running: asyncio.Task[None] | None = None

    async def __aenter__(self) -> FleetWorld:
        for guid in self.hosts:
            await self._open_docker(guid)
        await self.start_controller()
        for guid in self.hosts:
            await self.start_agent(guid)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.kill_controller()
        for guid in list(self.agents):
            await self.kill_agent(guid)
        await self.bus.close()
        if self._own_store is not None:
            self._own_store.close()
        await self._opened.aclose()

    async def start_controller(self, alone: bool = True) -> FleetController:
        self.controller = FleetController(self.bus, self.store, ControllerSettings(self.rights, is_alone=alone))
        run = self.controller.run(Asking(self.controller).verbs(), asyncio.Event())
        self._running = asyncio.create_task(run)
        await asyncio.sleep(0)
        return self.controller

    async def kill_controller(self) -> None:
        """As by SIGKILL: what was asked of agents may still be done."""
        if self._running is not None:
            self._running.cancel()
            with suppress(asyncio.CancelledError):
                await self._running
        self._running = None

    async def start_host(self, guid: str, bus: Bus) -> FleetAgent:
        """One more host, with a connection of its own."""
        await self._open_docker(guid)
        return await self.start_agent(guid, bus)

    async def _open_docker(self, guid: str) -> None:
        docker = FakeDocker(self.folder / f"{guid}.sock")
        self.dockers[guid] = await self._opened.enter_async_context(docker)

    async def start_agent(self, guid: str, bus: Bus | None = None) -> FleetAgent:
        state_dir = self.folder / guid
        state_dir.mkdir(exist_ok=True)
        containers = ContainerFunction(guid, self.dockers[guid].socket, state_dir)
        registration = Registration(guid, f"host-{guid}", "0", tags=(guid,), cpu_milli=4000, memory_bytes=8 << 30)
        began_s = time.time()
        agent = FleetAgent(registration, bus or self.bus, (containers,), LOCAL)
        self.agents[guid] = (agent, asyncio.create_task(agent.run(asyncio.Event())))
        if self.controller is not None and self._running is not None:
            await soon(f"{guid} sends heartbeats", lambda: self._is_heard(guid, began_s))
        return agent

    async def kill_agent(self, guid: str) -> None:
        _, task = self.agents.pop(guid)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    def _is_heard(self, guid: str, since_s: float) -> bool:
        assert self.controller is not None
        hosts = {host.registration.guid: host for host in self.controller.registry.hosts()}
        beat = hosts[guid].beat if guid in hosts else None
        if beat is None or beat.started_s < since_s:
            return False
        return all(function.is_on for function in beat.functions if function.name == "containers")

    async def ask(self, verb: str, request: object, form: type, operator: str = "local", key: str = "") -> object:
        """Ask a controller; again, as all who ask do, where it says that this process stood still until just now."""

        async def answered() -> tuple[object, ...]:
            try:
                return (await call(self.bus, f"fleet.{operator}.rpc.{verb}", request, form, 60.0, key),)
            except Transient as error:
                if "this controller was stopped" not in str(error):
                    raise
                return ()

        return (await soon(f"{verb} is answered", answered))[0]
