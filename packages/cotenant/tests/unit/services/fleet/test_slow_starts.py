"""Containers that take minutes to be ready, in virtual time: they are waited for, and not once they are to go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import pytest
from tests.fakes.cluster.restless_fleet import RestlessFleet
from tests.fakes.virtual_time import run_virtually

from cotenant.model.fleet.group import GroupOutcome
from cotenant.model.fleet.requests import Down, Up
from cotenant.model.fleet.template import ContainerTemplate, GroupTemplate, HealthCheck
from cotenant.services.fleet.controller.driving import Deadlines
from cotenant.services.fleet.operator import ask

Ask = Callable[[str, object], Awaitable[GroupOutcome]]
PATIENT = HealthCheck(("CMD", "true"), interval_s=5.0, timeout_s=5.0, start_period_s=240.0)


def group(health: HealthCheck | None) -> GroupTemplate:
    store = ContainerTemplate("store", "image", health=health)
    return GroupTemplate("shop", (store, ContainerTemplate("web", "image", after=("store",))))


def played(folder: Path, checked_s: float, scene: Callable[[RestlessFleet, Ask], Awaitable[None]]) -> None:
    async def play() -> None:
        world = RestlessFleet(folder, Random(1), controllers=1)
        world.runtimes["agent-0"].checked_s = checked_s
        loop = asyncio.get_running_loop()
        await asyncio.sleep(5)

        async def asked(verb: str, request: object) -> GroupOutcome:
            return await ask(world.hub, "local", verb, request, GroupOutcome, 900.0, loop.time, anew_s=5.0)

        await scene(world, asked)
        await world.end()
        assert world.violations == []

    run_virtually(play())


@pytest.mark.parametrize(("checked_s", "health"), [(200.0, PATIENT), (100.0, None)])
def test_one_that_takes_minutes_to_be_healthy_is_waited_for(
    tmp_path: Path, checked_s: float, health: HealthCheck | None
) -> None:
    """By the file's health check, and by the image's, which only the runtime knows."""

    async def scene(world: RestlessFleet, asked: Ask) -> None:
        outcome = await asked("up", Up(group(health)))
        assert (set(outcome.guids), outcome.reason) == ({"store", "web"}, "")

    played(tmp_path, checked_s, scene)


def test_one_that_is_never_ready_is_undone_and_says_how_long_it_had(tmp_path: Path) -> None:
    async def scene(world: RestlessFleet, asked: Ask) -> None:
        outcome = await asked("up", Up(group(PATIENT)))
        assert outcome.guids == {}
        assert outcome.reason.endswith("on agent-0: it was not ready within 340 s")
        assert world.of_group("shop") == {}

    played(tmp_path, 2000.0, scene)


def test_one_that_is_asked_to_go_is_not_waited_for(tmp_path: Path) -> None:
    async def scene(world: RestlessFleet, asked: Ask) -> None:
        loop = asyncio.get_running_loop()
        coming = asyncio.create_task(asked("up", Up(group(PATIENT))))
        await asyncio.sleep(20)
        began_s = loop.time()
        gone = await asked("down", Down("shop"))
        assert gone.left == ()
        assert loop.time() - began_s < 10.0
        assert world.of_group("shop") == {}
        assert (await coming).reason == "asked to go down"

    played(tmp_path, 1000.0, scene)


def test_how_long_a_probe_may_take() -> None:
    deadlines = Deadlines()

    def probe_s(health: HealthCheck | None) -> float:
        return deadlines.probe_s(ContainerTemplate("web", "image", health=health))

    assert probe_s(None) == probe_s(HealthCheck(("NONE",))) == 300.0
    assert probe_s(HealthCheck(("CMD", "true"))) == 60.0 + 4 * 60.0
    assert probe_s(PATIENT) == 60.0 + 240.0 + 4 * 10.0
    assert probe_s(HealthCheck(("CMD", "true"), start_period_s=3600.0)) == 900.0
