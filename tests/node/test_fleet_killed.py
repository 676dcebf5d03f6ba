"""kill -9 of the agent or of the controller at every step of a group's way, on a real Docker daemon and a real
nats-server: nothing is started twice, nothing is left, and what was begun is brought to its end or taken back.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from tests.fakes.servers.bus_fleet import AGENT, CONTROLLER, STORED, BusFleet
from tests.fakes.servers.docker_fleet import IMAGE, Docker
from tests.fakes.servers.nats_server import NatsServer
from tests.fakes.servers.ports import free_port
from tests.fakes.waiting import soon

from cotenant.drivers.nats.contract import BusMessage
from cotenant.model.fleet.group import GroupGoal, GroupRecord
from cotenant.model.fleet.requests import Down, Restart, Up
from cotenant.model.fleet.template import ContainerTemplate, GroupTemplate

pytestmark = pytest.mark.slow
APPKEYS = ("store", "web", "proxy")
ONCE, TWICE = dict.fromkeys(APPKEYS, 1), dict.fromkeys(APPKEYS, 2)
# a record of which state is stored, or the which-th request of a verb
UP = ("plan", "reserve 1", "reserve 3", "create 1", "create 3", "start 1", "start 2", "start 3", "probe 1", "ready")
UNDONE = ("gone", "stop 1", "stop 2", "remove 1", "remove 3", "empty")
AGAIN = ("again", "stop 2", "remove 3", "reserve 1", "create 2", "start 2", "probe 3", "ready")
PARTS = (CONTROLLER, AGENT)


def template(name: str, *, fails: bool = False) -> GroupTemplate:
    """A chain; those that end by no SIGTERM are stopped for a while."""
    slow = ("sh", "-c", "trap '' TERM; while true; do /busybox sleep 0.1; done")
    usual = {"store": ("sleep", "1000"), "web": slow, "proxy": ("false",) if fails else ("sleep", "1000")}
    return GroupTemplate(
        name,
        tuple(
            ContainerTemplate(appkey, IMAGE, usual[appkey], network="host", stop_grace_s=1, after=APPKEYS[at - 1 : at])
            for at, appkey in enumerate(APPKEYS)
        ),
    )


def due(point: str, group: str) -> Callable[[BusMessage], bool]:
    """Whether a message is that point of the group's way."""
    verb, _, which = point.partition(" ")
    left = [int(which or 1)]

    def is_due(message: BusMessage) -> bool:
        if message.subject.startswith(STORED):
            return message.subject == STORED + group and _state(message.data) == verb
        if which and message.subject.rpartition(".")[2] == verb and f'"{group}"'.encode() in message.data:
            left[0] -= 1
            return left[0] == 0
        return False

    return is_due


def _state(data: bytes) -> str:
    record = msgspec.json.decode(data, type=GroupRecord) if data else None
    if record is None:
        return ""
    if record.done:
        return "ready" if record.goal is GroupGoal.UP else "empty"
    return {GroupGoal.UP: "plan", GroupGoal.GONE: "gone", GroupGoal.AGAIN: "again"}[record.goal]


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def fleet(docker: Docker, loop: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BusFleet]:
    folder: Path = tmp_path_factory.mktemp("fleet")
    server = NatsServer(folder, free_port())
    server.start()
    started = BusFleet(docker, server, folder, f"agent-{os.getpid():x}-killed")
    loop.run(started.begin())
    yield started
    loop.run(started.end())
    server.kill()


async def killed(fleet: BusFleet, part: str, point: str, group: str, verb: str, request: object) -> GroupRecord:
    """Ask, kill at that point, start again; the record once it is done and the operator has been told."""
    fleet.kill_when(part, due(point, group))
    asked = asyncio.create_task(fleet.ask(verb, request))
    await soon(f"{part} is killed at {point}", lambda: fleet.was_killed() or asked.done())
    assert fleet.was_killed(), f"not at {point}, but: {await asked}"
    fleet.start(part)
    found: list[GroupRecord] = []

    async def is_done() -> bool:
        record = await fleet.record(group)
        found[:] = [record] if record is not None else []
        return record is not None and record.done

    await soon("the group is where it was to be", is_done, within_s=120.0)
    outcome = await asked
    assert set(outcome.guids) == (set(APPKEYS) if found[0].goal is GroupGoal.UP else set())
    return found[0]


async def none_left(fleet: BusFleet, group: str) -> None:
    async def is_none() -> bool:
        return not await fleet.containers(group)

    await soon("nothing is left", is_none)


async def all_run(fleet: BusFleet, group: str) -> None:
    found = await fleet.containers(group)
    assert sorted(entry["Labels"]["cotenant.io/appkey"] for entry in found) == sorted(APPKEYS)
    assert {entry["State"] for entry in found} == {"running"}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("point", UP)
def test_over_an_up(loop: asyncio.Runner, fleet: BusFleet, point: str, part: str) -> None:
    group = f"up-{part}-{point.replace(' ', '')}"

    async def play() -> None:
        record = await killed(fleet, part, point, group, "up", Up(template(group)))
        if record.goal is GroupGoal.UP:
            await all_run(fleet, group)
            assert await fleet.starts(group) == ONCE
        else:  # the agent came too late for a controller that waited for it
            assert part == AGENT, record.reason
            assert max((await fleet.starts(group)).values(), default=0) <= 1
        await fleet.ask("down", Down(group))
        await none_left(fleet, group)

    loop.run(play())


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("point", UNDONE)
def test_over_an_undo(loop: asyncio.Runner, fleet: BusFleet, point: str, part: str) -> None:
    group = f"undo-{part}-{point.replace(' ', '')}"

    async def play() -> None:
        record = await killed(fleet, part, point, group, "up", Up(template(group, fails=True)))
        assert record.goal is GroupGoal.GONE
        assert "proxy" in record.reason
        await none_left(fleet, group)
        assert await fleet.starts(group) == ONCE

    loop.run(play())


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("point", UNDONE)
def test_over_a_down(loop: asyncio.Runner, fleet: BusFleet, point: str, part: str) -> None:
    group = f"down-{part}-{point.replace(' ', '')}"

    async def play() -> None:
        await fleet.ask("up", Up(template(group)))
        await all_run(fleet, group)
        record = await killed(fleet, part, point, group, "down", Down(group))
        assert record.goal is GroupGoal.GONE
        await none_left(fleet, group)
        assert await fleet.starts(group) == ONCE

    loop.run(play())


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("point", AGAIN)
def test_over_a_restart(loop: asyncio.Runner, fleet: BusFleet, point: str, part: str) -> None:
    group = f"again-{part}-{point.replace(' ', '')}"

    async def play() -> None:
        await fleet.ask("up", Up(template(group)))
        await all_run(fleet, group)
        record = await killed(fleet, part, point, group, "restart", Restart(group))
        if record.goal is GroupGoal.UP:
            await all_run(fleet, group)
            assert await fleet.starts(group) == TWICE
        else:
            assert part == AGENT, record.reason
            assert max((await fleet.starts(group)).values(), default=0) <= 2
        await fleet.ask("down", Down(group))
        await none_left(fleet, group)

    loop.run(play())
