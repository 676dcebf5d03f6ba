"""A container that is being made while its controller changes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest
from tests.fakes.cluster.restless_fleet import RestlessFleet
from tests.fakes.virtual_time import run_virtually

from cotenant.model.fleet.group import ContainerStep, PlannedContainer
from cotenant.model.fleet.refusal import Fenced
from cotenant.model.fleet.requests import Fence, Make, Move, Moved, Survey, Surveyed
from cotenant.model.fleet.template import ContainerTemplate
from cotenant.services.fleet.functions.room import KEPT_S
from cotenant.services.fleet.rpc import call


def test_one_whose_image_is_pulled_for_longer_than_room_is_kept_is_found_and_undone(tmp_path: Path) -> None:
    async def play() -> None:
        world = RestlessFleet(tmp_path, Random(1), controllers=0)
        runtime, bus = world.runtimes["agent-0"], world.hub
        runtime.pull_s = KEPT_S + 60.0
        await asyncio.sleep(1)
        web = PlannedContainer("web-1", "agent-0", ContainerTemplate("web", "image"))
        making = asyncio.create_task(
            call(bus, "guid.agent-0.rpc.create", Make(Fence("shop", 1), web), Moved, 600.0, "key")
        )
        await asyncio.sleep(KEPT_S + 30.0)
        later = Fence("shop", 2)
        surveyed = await call(bus, "guid.agent-0.rpc.survey", Survey(later), Surveyed)
        assert surveyed.steps == {"web-1": ContainerStep.RESERVED}
        gone = await call(bus, "guid.agent-0.rpc.release", Move(later, "web-1"), Moved, 600.0)
        assert (gone.step, runtime.there, (await making).step) == (ContainerStep.ABSENT, {}, ContainerStep.CREATED)
        await world.end()

    run_virtually(play())


@pytest.mark.parametrize("verb", ["reserve", "create"])
def test_what_a_later_controller_was_not_told_of_is_not_made(tmp_path: Path, verb: str) -> None:
    """It looks while the agent has let the request through and has not begun."""

    async def play() -> None:
        world = RestlessFleet(tmp_path, Random(1), controllers=0)
        runtime, bus = world.runtimes["agent-0"], world.hub
        await asyncio.sleep(1)
        runtime.list_s = 5.0
        make = Make(Fence("shop", 1), PlannedContainer("web-1", "agent-0", ContainerTemplate("web", "image")))
        making = asyncio.create_task(call(bus, f"guid.agent-0.rpc.{verb}", make, Moved, 600.0, "key"))
        await asyncio.sleep(1)
        later = Survey(Fence("shop", 2))
        assert (await call(bus, "guid.agent-0.rpc.survey", later, Surveyed, 60.0)).steps == {}
        with pytest.raises(Fenced, match="belongs to a later controller"):
            await making
        assert (await call(bus, "guid.agent-0.rpc.survey", later, Surveyed, 60.0)).steps == {}
        assert runtime.there == {}
        await world.end()

    run_virtually(play())


def test_one_that_waits_to_be_started_again_is_not_ready(tmp_path: Path) -> None:
    async def play() -> None:
        world = RestlessFleet(tmp_path, Random(1), controllers=0)
        runtime, bus, fence = world.runtimes["agent-0"], world.hub, Fence("shop", 1)
        await asyncio.sleep(1)
        make = Make(fence, PlannedContainer("web-1", "agent-0", ContainerTemplate("web", "image", restart="always")))
        await call(bus, "guid.agent-0.rpc.create", make, Moved, 600.0)
        await call(bus, "guid.agent-0.rpc.start", Move(fence, "web-1"), Moved, 60.0)
        runtime.there["web-1"].status = "restarting"
        probing = asyncio.create_task(call(bus, "guid.agent-0.rpc.probe", Move(fence, "web-1"), Moved, 60.0))
        await asyncio.sleep(30.0)
        assert not probing.done()
        runtime.there["web-1"].status = "running"
        assert (await probing).step is ContainerStep.READY
        await world.end()

    run_virtually(play())
