"""A command that waits for a controller: what it says, and how it ends."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes.servers.fleet_world import FleetWorld
from tests.fakes.servers.ports import free_port
from tests.fakes.virtual_time import run_virtually

from cotenant.drivers.nats.broker import Broker
from cotenant.drivers.nats.memory import MemoryBus
from cotenant.model.errors import InvalidInput, Transient
from cotenant.model.fleet.group import GroupOutcome
from cotenant.model.fleet.host import Heartbeat, HostContainer, Registration
from cotenant.model.fleet.refusal import NobodyAnswers, Overdue
from cotenant.model.fleet.requests import Down, GroupRow, HostRow, List, Listed, Member, Up
from cotenant.model.fleet.states import AgentState, ContainerState
from cotenant.model.fleet.template import ContainerTemplate, GroupTemplate
from cotenant.services.fleet.bringing import GroupWait, bring, bring_group
from cotenant.services.fleet.operator import Waiting, ask, connected
from cotenant.services.fleet.places import BusOptions, write_bus_file
from cotenant.services.fleet.rpc import Dispatcher, RpcVerb


def test_who_waits_for_a_controller_is_told_once_and_how_long() -> None:
    said: list[str] = []

    async def play() -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        with pytest.raises(NobodyAnswers):
            await ask(
                MemoryBus(),
                "local",
                "down",
                Down("shop"),
                GroupOutcome,
                now=loop.time,
                waiting=Waiting(20.0, said.append),
            )
        assert loop.time() - began_s == pytest.approx(20.0)

    run_virtually(play())
    assert said == ["no controller answers; waiting up to 20 s for that to change"]


def test_a_controller_that_cannot_yet_is_asked_again_and_its_reason_is_told() -> None:
    said: list[str] = []
    answers = [Transient("no host can run containers yet; starting: agent-a")] * 8

    async def down(_: Down, __: object) -> GroupOutcome:
        if answers:
            raise answers.pop()
        return GroupOutcome("shop", {})

    async def play() -> None:
        bus, loop = MemoryBus(), asyncio.get_running_loop()
        dispatcher = Dispatcher({"down": RpcVerb(Down, down)}, bus)
        await bus.subscribe("fleet.*.rpc.*", dispatcher.received)
        waiting = Waiting(5.0, said.append)
        outcome = await ask(bus, "local", "down", Down("shop"), GroupOutcome, now=loop.time, waiting=waiting)
        assert outcome == GroupOutcome("shop", {})
        await dispatcher.close()

    run_virtually(play())
    assert said == ["no host can run containers yet; starting: agent-a; waiting up to 5 s for that to change"]


def test_a_bus_that_is_lost_after_a_long_while_is_waited_for_as_any_other() -> None:
    asked: list[float] = []

    async def down(_: Down, __: object) -> GroupOutcome:
        asked.append(asyncio.get_running_loop().time())
        if len(asked) < 2:
            await asyncio.sleep(60.0)
            raise Transient("the bus went away before an answer came")
        return GroupOutcome("shop", {})

    async def play() -> None:
        bus, loop = MemoryBus(), asyncio.get_running_loop()
        dispatcher = Dispatcher({"down": RpcVerb(Down, down)}, bus)
        await bus.subscribe("fleet.*.rpc.*", dispatcher.received)
        outcome = await ask(bus, "local", "down", Down("shop"), GroupOutcome, 300.0, now=loop.time)
        assert outcome == GroupOutcome("shop", {})
        await dispatcher.close()

    run_virtually(play())
    assert asked[1] - asked[0] < 61.0


def test_how_far_a_group_is_is_told_while_it_takes_long() -> None:
    said: list[str] = []
    members = (Member("web-1", "agent-a", "web", "web"), Member("db-2", "agent-a", "db", "db"))
    row = GroupRow("shop", "up", False, "", 2, members)
    web = HostContainer("web-1", ContainerState.PENDING, group="shop", appkey="web", detail="starting")

    async def play() -> None:
        bus, loop = MemoryBus(), asyncio.get_running_loop()
        began_s = loop.time()

        async def up(_: Down, __: object) -> GroupOutcome:
            await asyncio.sleep(24.0)
            return GroupOutcome("shop", {"web": "web-1"})

        async def listed(_: List, __: object) -> Listed:
            beats = (web,) if loop.time() - began_s < 8 else (replace(web, state=ContainerState.READY, detail=""),)
            beat = Heartbeat("agent-a", 1, 0.0, containers=beats)
            host = HostRow(Registration("agent-a", "a", "1"), AgentState.ALIVE, 0.1, beat)
            reason = "" if loop.time() - began_s < 14 else "start of db: no"
            return Listed((host,), (replace(row, goal="gone" if reason else "up", reason=reason),))

        dispatcher = Dispatcher({"down": RpcVerb(Down, up), "list": RpcVerb(List, listed)}, bus)
        await bus.subscribe("fleet.*.rpc.*", dispatcher.received)
        outcome = await bring(bus, "local", "down", Down("shop"), GroupWait(5.0, 60.0), said.append)
        assert outcome.guids == {"web": "web-1"}
        await dispatcher.close()

    run_virtually(play())
    assert said == [
        "shop is on its way up; web Pending (starting), db not there",
        "shop is on its way up; web Ready, db not there",
        "shop is being removed; web Ready, db not there; start of db: no",
    ]


@pytest.mark.parametrize("answers", [False, True])
def test_how_a_command_ends_where_nobody_comes(tmp_path: Path, answers: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bus without a controller, and with one that does not end."""
    monkeypatch.delenv("COTENANT_BUS", raising=False)

    async def down(_: Down, __: object) -> GroupOutcome:
        await asyncio.Event().wait()
        raise AssertionError

    async def play() -> None:
        bus = MemoryBus()
        broker = Broker(bus, "token", 0)
        await broker.start()
        write_bus_file(tmp_path, broker.url, "token")
        dispatcher = Dispatcher({"down": RpcVerb(Down, down)}, bus)
        if answers:
            await bus.subscribe("fleet.*.rpc.*", dispatcher.received)
        try:
            await asyncio.to_thread(
                bring_group, BusOptions(state_dir=tmp_path), "down", Down("shop"), GroupWait(0.0, 0.01)
            )
        finally:
            await dispatcher.close()
            await broker.close()
            await bus.close()

    expected = Overdue if answers else Transient
    with pytest.raises(expected) as error:
        asyncio.run(play())
    assert str(error.value) == (
        "group shop is not where it is to be within 0.01 s, and it goes on; `cotenant fleet inspect shop` says how far "
        "it is, --timeout waits longer"
        if answers
        else "no controller answered within 0 s; start one (`cotenant fleet serve`), or wait longer (--wait 1m)"
    )


def test_a_group_that_is_too_large_is_refused_at_once_by_the_command_and_by_the_controller(tmp_path: Path) -> None:
    def group(kib: int) -> Up:
        texts = {"TEXT": "x" * (kib << 10)}
        return Up(
            GroupTemplate("shop", tuple(ContainerTemplate(f"c{i}", "image", environment=texts) for i in range(4)))
        )

    async def play() -> None:
        async with FleetWorld(tmp_path, ("agent-a",)) as world:
            with pytest.raises(InvalidInput, match=r"size of the request: .*: expected at most 1044480 bytes"):
                await world.ask("up", group(256), GroupOutcome)
            with pytest.raises(
                InvalidInput, match=r"size of the group: .*: expected at most 983040 bytes in all; make t"
            ):
                await world.ask("up", group(250), GroupOutcome)
            outcome = await world.ask("up", group(235), GroupOutcome)
            assert isinstance(outcome, GroupOutcome)
            assert len(outcome.guids) == 4

    asyncio.run(play())


def test_a_bus_that_is_not_there_is_named_with_what_to_do() -> None:
    options = BusOptions(f"nats://127.0.0.1:{free_port()}")
    with pytest.raises(
        Transient, match=r"no bus answers at nats://127.* within 0\.1 s; start its server \(nats-server, o"
    ):
        asyncio.run(connect_to(options))


async def connect_to(options: BusOptions) -> None:
    async with connected(options, 0.1):
        raise AssertionError


def test_waits_are_read_as_people_write_them() -> None:
    assert GroupWait.read("1m", "90s") == GroupWait(60.0, 90.0)
    for wrong in ("0s", "16m"):
        with pytest.raises(InvalidInput, match=r"--timeout: .*: expected 1s to 15m"):
            GroupWait.read("5s", wrong)
    with pytest.raises(InvalidInput, match="--wait: soon: expected a duration"):
        GroupWait.read("soon", "1m")
