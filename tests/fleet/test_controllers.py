"""Two controllers on one real bus and store: who is asked does not matter, and one goes on where the other died."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.fakes.servers.fleet_world import FleetWorld
from tests.fakes.servers.nats_server import NatsServer
from tests.fakes.waiting import soon

from cotenant.drivers.nats.client import BusAccess, connect
from cotenant.drivers.nats.contract import BusMessage
from cotenant.drivers.nats.key_value import open_bucket
from cotenant.model.fleet.group import GroupGoal, GroupOutcome
from cotenant.model.fleet.requests import Down, Up
from cotenant.model.fleet.template import ContainerTemplate, GroupTemplate
from cotenant.services.fleet.controller.asking import Asking
from cotenant.services.fleet.controller.controller import FleetController
from cotenant.services.fleet.rpc import call

pytestmark = pytest.mark.slow
SHOP = GroupTemplate("shop", (ContainerTemplate("store", "image"), ContainerTemplate("web", "image", after=("store",))))


async def started(server: NatsServer, name: str) -> tuple[FleetController, asyncio.Task[None], asyncio.Task[None]]:
    bus = await connect(BusAccess(server.url, name))
    store = await open_bucket(bus, "cotenant-fleet")
    controller = FleetController(bus, store)
    following = asyncio.create_task(store.run())
    return controller, asyncio.create_task(controller.run(Asking(controller).verbs(), asyncio.Event())), following


def test_one_goes_on_where_the_other_was_killed(server: NatsServer, tmp_path: Path) -> None:
    async def play() -> None:
        bus = await connect(BusAccess(server.url, "world"))
        store = await open_bucket(bus, "cotenant-fleet")
        async with FleetWorld(tmp_path, bus=bus, store=store) as world:
            docker = world.dockers["agent-a"]
            asked = asyncio.create_task(world.ask("up", Up(SHOP), GroupOutcome))
            await soon("the first runs", lambda: docker.starts["store"] == 1)
            second, running, following = await started(server, "second")
            await world.kill_controller()
            asked.cancel()
            await soon(
                "the second brought it up",
                lambda: (
                    [(group.record.goal, group.record.done) for group in second.stored.groups()]
                    == [(GroupGoal.UP, True)]
                ),
            )
            assert docker.starts == {"store": 1, "web": 1}
            assert len(docker.containers) == 2
            running.cancel()
            following.cancel()
            await asyncio.gather(running, following, return_exceptions=True)
            await second.bus.close()

    asyncio.run(play())


def test_both_are_asked_for_the_same_group_at_once_and_then_to_remove_it(server: NatsServer, tmp_path: Path) -> None:
    async def play() -> None:
        bus = await connect(BusAccess(server.url, "world"))
        store = await open_bucket(bus, "cotenant-fleet")
        following = asyncio.create_task(store.run())
        async with FleetWorld(tmp_path, bus=bus, store=store) as world:
            docker = world.dockers["agent-a"]
            second, running, also = await started(server, "second")
            await soon("both know the agent", lambda: any(host.beat for host in second.registry.hosts()))
            subjects = [f"fleet.operator{i}.rpc.up" for i in range(6)]
            outcomes = await asyncio.gather(
                *(call(bus, subject, Up(SHOP), GroupOutcome, 60.0) for subject in subjects), return_exceptions=True
            )
            assert any(isinstance(outcome, GroupOutcome) and outcome.guids for outcome in outcomes), outcomes
            assert docker.starts == {"store": 1, "web": 1}
            assert len(docker.containers) == 2
            await call(bus, "fleet.operator.rpc.down", Down("shop"), GroupOutcome, 60.0)
            assert docker.containers == {}
            for task in (running, also, following):
                task.cancel()
            await asyncio.gather(running, also, following, return_exceptions=True)
            await second.bus.close()

    asyncio.run(play())


def test_what_another_did_and_was_not_heard_of_yet_counts(server: NatsServer, tmp_path: Path) -> None:
    async def play() -> None:
        bus = await connect(BusAccess(server.url, "world"))
        store = await open_bucket(bus, "cotenant-fleet")
        async with FleetWorld(tmp_path, bus=bus, store=store) as world:
            docker = world.dockers["agent-a"]
            second, running, following = await started(server, "second")
            following.cancel()  # it hears of no change from now on
            await soon("both know the agent", lambda: any(host.beat for host in second.registry.hosts()))
            late = Asking(second).verbs()
            assert world.controller is not None
            first = Asking(world.controller).verbs()
            for turn in (1, 2):
                await first["up"].handle(Up(SHOP), BusMessage("fleet.operator.rpc.up"))
                again = await late["up"].handle(Up(SHOP), BusMessage("fleet.operator.rpc.up"))
                assert isinstance(again, GroupOutcome)
                assert set(again.guids) == {"store", "web"}
                assert docker.starts == {"store": turn, "web": turn}
                await late["down"].handle(Down("shop"), BusMessage("fleet.operator.rpc.down"))
                assert docker.containers == {}
            running.cancel()
            await asyncio.gather(running, following, return_exceptions=True)
            await second.bus.close()

    asyncio.run(play())
