"""The controller's process; with a bus and an agent of its own (`--embedded`) a fleet of one host in one process."""

from __future__ import annotations

import asyncio
import logging
import secrets
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from cotenant.drivers.nats.broker import Broker
from cotenant.drivers.nats.client import connect
from cotenant.drivers.nats.contract import Bus, KeyValueStore
from cotenant.drivers.nats.file_store import FileStore
from cotenant.drivers.nats.key_value import open_bucket
from cotenant.drivers.nats.memory import MemoryBus
from cotenant.services.fleet.agent_main import AgentOptions, made_agent
from cotenant.services.fleet.controller.asking import Asking
from cotenant.services.fleet.controller.controller import ControllerSettings, FleetController
from cotenant.services.fleet.controller.driving import no_credentials
from cotenant.services.fleet.fleet_file import issuer, read_fleet_file
from cotenant.services.fleet.places import BusOptions, access_of, fleet_state_dir, write_bus_file
from cotenant.services.logs import log_to_stderr
from cotenant.services.running import TaskSet, run_until_signal

_log = logging.getLogger(__name__)
BUCKET = "cotenant-fleet"


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """`rights`: the fleet's file. `program_key`: by which containers get credentials."""

    bus: BusOptions
    rights: Path | None = None
    log_level: str = "info"
    log_format: str = "text"
    program_key: Path | None = None


@dataclass(frozen=True, slots=True)
class EmbeddedOptions:
    """A fleet of this host alone."""

    agent: AgentOptions
    port: int = 0
    log_level: str = "info"
    log_format: str = "text"


def run(options: ServeOptions) -> int:
    """A controller on a NATS server, until a signal."""
    log_to_stderr(options.log_level, options.log_format)
    rights = read_fleet_file(options.rights) if options.rights is not None else None
    issue = issuer(options.program_key) if options.program_key is not None else no_credentials
    named = BusOptions(
        options.bus.url, options.bus.key, options.bus.ca, options.bus.name or "controller", options.bus.state_dir
    )
    access = access_of(named)

    async def main(stop: asyncio.Event) -> None:
        bus = await connect(access, within_s=30.0)
        tasks = TaskSet()
        try:
            store = await open_bucket(bus, BUCKET)
            tasks.start("store", store.run())
            await _control(bus, store, ControllerSettings(rights, issue=issue), stop)
        finally:
            await tasks.cancel()
            await bus.close()

    run_until_signal(main)
    return 0


def run_embedded(options: EmbeddedOptions) -> int:
    """A controller, an agent and their bus in this process, until a signal."""
    log_to_stderr(options.log_level, options.log_format)
    run_until_signal(lambda stop: serve_embedded(options, stop))
    return 0


async def serve_embedded(options: EmbeddedOptions, stop: asyncio.Event) -> None:
    """Until `stop`. The folder's lock makes it the only one."""
    state_dir = fleet_state_dir(options.agent.state_dir)
    async with AsyncExitStack() as opened:
        store = FileStore(state_dir / "store")
        opened.callback(store.close)
        bus, token = MemoryBus(), secrets.token_urlsafe(32)
        opened.push_async_callback(bus.close)
        broker = Broker(bus, token, options.port)
        await broker.start()
        opened.push_async_callback(broker.close)
        path = write_bus_file(state_dir, broker.url, token)
        opened.callback(path.unlink, missing_ok=True)
        _log.info("the fleet of this machine is at %s; its token is in %s", broker.url, path)
        controlling = TaskSet()
        controlling.start("controller", _control(bus, store, ControllerSettings(is_alone=True), stop))
        opened.push_async_callback(controlling.cancel)
        agent = made_agent(options.agent, bus, mount_paths=("/",))  # who has the token is who runs this
        controlling.start("agent", agent.run(stop))
        await controlling.wait(stop)


async def _control(bus: Bus, store: KeyValueStore, settings: ControllerSettings, stop: asyncio.Event) -> None:
    controller = FleetController(bus, store, settings)
    _log.info("controller %s", controller.id)
    await controller.run(Asking(controller).verbs(), stop)
