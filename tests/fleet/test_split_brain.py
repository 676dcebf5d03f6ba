"""Two controllers that do not hear of one another, and one that was stopped for a while and wakes: on a real server,
nothing is started twice and nothing is lost.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fakes.servers.fleet_world import FleetWorld
from tests.fakes.servers.nats_server import NatsServer
from tests.fakes.servers.ports import free_port
from tests.fakes.waiting import soon

from cotenant.drivers.nats.client import BusAccess, connect
from cotenant.drivers.nats.contract import BusMessage
from cotenant.drivers.nats.key_value import open_bucket
from cotenant.model.errors import CotenantError
from cotenant.model.fleet.group import GroupOutcome
from cotenant.model.fleet.requests import Down, Up
from cotenant.model.fleet.template import ContainerTemplate, GroupTemplate
from cotenant.services.fleet.controller.asking import Asking
from cotenant.services.fleet.controller.controller import FleetController
from cotenant.services.fleet.rpc import call

pytestmark = pytest.mark.slow
GROUPS = tuple(
    GroupTemplate(
        f"g{k}", (ContainerTemplate(f"store{k}", "image"), ContainerTemplate(f"web{k}", "image", after=(f"store{k}",)))
    )
    for k in range(4)
)
APPKEYS = {f"{name}{k}" for k in range(4) for name in ("store", "web")}
DEAF = 'permissions: { subscribe: { deny: ["fleet.controller.*"] } }'


def test_two_that_think_each_other_dead_start_nothing_twice_and_lose_nothing(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "conf").write_text(
        f'listen: "127.0.0.1:{port}"\njetstream {{ store_dir: "{tmp_path / "jetstream"}" }}\n'
        "authorization { users: [ { user: world, password: x }\n"
        f"  {{ user: left, password: x, {DEAF} }}\n  {{ user: right, password: x, {DEAF} }} ] }}\n"
    )
    server = NatsServer(tmp_path, port, tmp_path / "conf")
    server.start()

    async def play() -> None:
        bus = await connect(BusAccess(f"nats://world:x@127.0.0.1:{port}", "world"))
        store = await open_bucket(bus, "cotenant-fleet")
        following = [asyncio.create_task(store.run())]
        async with FleetWorld(tmp_path, bus=bus, store=store) as world:
            await world.kill_controller()
            docker = world.dockers["agent-a"]
            controllers = []
            for name in ("left", "right"):
                own = await connect(BusAccess(f"nats://{name}:x@127.0.0.1:{port}", name))
                own_store = await open_bucket(own, "cotenant-fleet")
                following.append(asyncio.create_task(own_store.run()))
                controller = FleetController(own, own_store)
                controllers.append(controller)
                following.append(asyncio.create_task(controller.run(Asking(controller).verbs(), asyncio.Event())))
            for controller in controllers:
                await soon("it knows the agent", lambda known=controller: any(h.beat for h in known.registry.hosts()))
            for turn in range(1, 4):
                await settled(controllers, [asked(bus, "up", Up(group), k) for k, group in enumerate(GROUPS)])
                assert docker.running() == APPKEYS
                assert docker.starts == dict.fromkeys(APPKEYS, turn)
                assert len(docker.containers) == len(APPKEYS)
                await settled(controllers, [asked(bus, "down", Down(group.name), k) for k, group in enumerate(GROUPS)])
                assert docker.containers == {}
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)
            for controller in controllers:
                await controller.bus.close()

    try:
        asyncio.run(play())
    finally:
        server.kill()


async def asked(bus: object, verb: str, request: object, operator: int) -> object:
    try:
        return await call(bus, f"fleet.operator{operator}.rpc.{verb}", request, GroupOutcome, 60.0)  # type: ignore[arg-type]
    except CotenantError as error:  # the other one has it now: where it goes is in the store
        return error


async def settled(controllers: list[FleetController], asking: list[object]) -> None:
    await asyncio.gather(*asking)  # type: ignore[arg-type]
    for controller in controllers:
        await soon(
            "every group is where it was to be",
            lambda known=controller: all(found.record.done for found in known.stored.groups()),
        )


def test_one_that_was_stopped_acts_on_nothing_that_it_was_asked_meanwhile(server: NatsServer, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "cotenant", "fleet", "serve", "--bus", server.url]
    with (tmp_path / "log").open("wb") as log:
        stopped = subprocess.Popen([*command, "--state-dir", str(tmp_path / "state")], stdout=log, stderr=log)

    async def play() -> None:
        bus = await connect(BusAccess(server.url, "world"))
        store = await open_bucket(bus, "cotenant-fleet")
        following = asyncio.create_task(store.run())
        async with FleetWorld(tmp_path, bus=bus, store=store) as world:
            await world.kill_controller()
            docker = world.dockers["agent-a"]
            heard: list[str] = []

            async def peer(message: BusMessage) -> None:
                heard.append(message.subject)

            await bus.subscribe("fleet.controller.*", peer)
            await soon("it serves", lambda: bool(heard))
            outcome = await asked_until(bus, Up(GROUPS[0]))
            assert outcome.guids
            stopped.send_signal(signal.SIGSTOP)
            late = asyncio.create_task(call(bus, "fleet.operator.rpc.up", Up(GROUPS[1]), GroupOutcome, 1.0))
            with pytest.raises(CotenantError):  # nobody answers in time; the request waits at the one that is stopped
                await late
            second = FleetController(bus, store)
            running = asyncio.create_task(second.run(Asking(second).verbs(), asyncio.Event()))
            await soon("the second knows the agent", lambda: any(host.beat for host in second.registry.hosts()))
            await Asking(second).verbs()["down"].handle(Down("g0"), BusMessage("fleet.operator.rpc.down"))
            assert docker.containers == {}
            heard.clear()
            stopped.send_signal(signal.SIGCONT)
            await soon("it is awake", lambda: sum(subject != f"fleet.controller.{second.id}" for subject in heard) > 5)
            assert docker.containers == {}
            assert docker.starts == {"store0": 1, "web0": 1}
            outcome = await asked_until(bus, Up(GROUPS[2]))
            assert set(outcome.guids) == {"store2", "web2"}
            for task in (running, following):
                task.cancel()
            await asyncio.gather(running, following, return_exceptions=True)

    try:
        asyncio.run(play())
    finally:
        stopped.kill()
        stopped.wait()


async def asked_until(bus: object, request: Up) -> GroupOutcome:
    """The outcome, asked for again while a controller is not ready."""
    found: list[GroupOutcome] = []

    async def tried() -> bool:
        outcome = await asked(bus, "up", request, 9)
        if isinstance(outcome, GroupOutcome) and outcome.guids:
            found.append(outcome)
        return bool(found)

    await soon("it is up", tried)
    return found[0]
