"""What a controller does by itself: who is there, who gets which configuration, and whose group it takes over."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.fakes.cluster.fleet_agents import AskedFleet, played

from cotenant.drivers.nats.contract import BusMessage
from cotenant.model.errors import Transient
from cotenant.model.fleet.configuration import AgentConfiguration
from cotenant.model.fleet.group import ContainerStep, GroupGoal, GroupRecord, PlannedContainer
from cotenant.model.fleet.host import Heartbeat, Registered, Registration
from cotenant.model.fleet.requests import Describe, Down, SetConfiguration, Spread, Up
from cotenant.model.fleet.states import AgentState
from cotenant.model.fleet.template import ContainerTemplate, GroupTemplate
from cotenant.services.fleet.controller.controller import FORGOTTEN_AFTER_S, OWNER_AWAY_S
from cotenant.services.fleet.rpc import Dispatcher, RpcVerb, call, encode

SHOP = GroupTemplate("shop", (ContainerTemplate("web", "image"),))


async def told(fleet: AskedFleet, subject: str, value: object) -> None:
    await fleet.bus.publish(subject, value if isinstance(value, bytes) else encode(value))
    await asyncio.sleep(0.01)


def state(fleet: AskedFleet, guid: str) -> AgentState:
    return fleet.controller.registry.host(guid).state


async def ticked(fleet: AskedFleet, seconds: float) -> None:
    """As its loop does it."""
    for _ in range(int(seconds)):
        await asyncio.sleep(1.0)
        await fleet.controller.tick()


# ---- agents


def test_who_sends_heartbeats_and_is_not_known_is_asked_once_who_it_is(tmp_path: Path) -> None:
    async def scene(fleet: AskedFleet) -> None:
        asked: list[str] = []

        async def describe(_: Describe, message: BusMessage) -> Registration:
            asked.append(message.subject)
            await asyncio.sleep(1.0)
            return Registration("a", "host-a", "1", tags=("red",))

        dispatcher = Dispatcher({"describe": RpcVerb(Describe, describe)}, fleet.bus)
        fleet.bus.attach("guid.a.rpc.*", dispatcher.received)
        for number in (1, 2, 3):
            await told(fleet, "hb.a", Heartbeat("a", number, 1.0))
        await asyncio.sleep(2.0)
        assert asked == ["guid.a.rpc.describe"]
        assert [host.registration.guid for host in fleet.controller.registry.select(("red",))] == ["a"]
        await told(fleet, "hb.a", Heartbeat("a", 4, 1.0))
        assert fleet.controller.registry.host("a").beat is not None
        await told(fleet, "hb.b", Heartbeat("b", 1, 1.0))  # of whom nobody says anything
        assert not fleet.controller.registry.has("b")
        await dispatcher.close()

    played(tmp_path, scene)


def test_heartbeats_that_cannot_be_believed_are_counted_and_change_nothing(tmp_path: Path) -> None:
    async def scene(fleet: AskedFleet) -> None:
        fleet.add("a")
        await told(fleet, "hb.a", b"{")
        await told(fleet, "hb.a", Heartbeat("b", 9, 1.0))
        counts = fleet.controller.registry.counts
        assert (counts["unreadable heartbeats"], counts["heartbeats under another guid"]) == (1, 1)
        beat = fleet.controller.registry.host("a").beat
        assert beat is not None
        assert beat.number == 1

    played(tmp_path, scene)


def test_an_agent_registers_itself_and_says_when_it_goes(tmp_path: Path) -> None:
    async def scene(fleet: AskedFleet) -> None:
        await fleet.controller.stored.put_configuration("edge", "docker", "{}")
        own = Registration("a", "host-a", "1")
        answer = await call(fleet.bus, "fleet.register.a", own, Registered)
        assert (answer.revision > 0, answer.configuration) == (True, "{}")
        other = await call(fleet.bus, "fleet.register.b", own, Registered)  # speaks for another
        assert other == Registered()
        assert not fleet.controller.registry.has("b")
        await told(fleet, "fleet.leave.a", b"")
        assert state(fleet, "a") is AgentState.AWAY

    played(tmp_path, scene)


def test_silence_makes_an_agent_suspect_and_then_away(tmp_path: Path) -> None:
    async def scene(fleet: AskedFleet) -> None:
        fleet.add("a")
        await ticked(fleet, 2)
        assert state(fleet, "a") is AgentState.ALIVE
        await ticked(fleet, 2)
        assert state(fleet, "a") is AgentState.SUSPECT
        await ticked(fleet, 7)
        assert state(fleet, "a") is AgentState.AWAY

    played(tmp_path, scene)


# ---- configurations


async def configured(fleet: AskedFleet) -> Spread:
    return await fleet.ask("configure", SetConfiguration("edge", "docker", AgentConfiguration()), Spread)


def test_a_configuration_goes_to_all_agents_of_its_role_and_platform(tmp_path: Path) -> None:
    async def scene(fleet: AskedFleet) -> None:
        applies, refuses, broken = fleet.add("a"), fleet.add("b"), fleet.add("c")
        fleet.add("d", role="core")
        fleet.add("e", platform="kubernetes")
        away = fleet.add("f")
        fleet.controller.registry.leave("f")
        refuses.refuses = ("no such function", "too slow")
        broken.faults["configure"] = Transient("busy")
        found = await configured(fleet)
        assert (found.applied, found.refused) == (1, {"b": "no such function; too slow", "c": "busy"})
        assert found.revision == fleet.controller.stored.configuration("edge", "docker").revision
        assert applies.configurations == refuses.configurations == [found.revision]
        others = (fleet.agents["d"].configurations, fleet.agents["e"].configurations, away.configurations)
        assert others == ([], [], [])

    played(tmp_path, scene)


def test_who_has_another_revision_gets_the_stored_one(tmp_path: Path) -> None:
    async def scene(fleet: AskedFleet) -> None:
        revision = (await configured(fleet)).revision
        agent, current = fleet.add("a"), fleet.add("b")
        fleet.controller.registry.beat(Heartbeat("b", 2, 1.0, revision=revision), fleet.now_s)
        await ticked(fleet, 1)
        await asyncio.sleep(0.1)
        assert (agent.configurations, current.configurations) == ([revision], [])
        agent.slow["configure"] = 3.0
        await ticked(fleet, 2)  # its heartbeat still says the old one; it is being told already
        assert len(agent.configurations) == 1
        await asyncio.sleep(4.0)
        assert len(agent.configurations) == 2

    played(tmp_path, scene)


# ---- groups


def stored(owner: str, goal: GroupGoal = GroupGoal.UP, done: bool = False) -> GroupRecord:
    return GroupRecord("shop", (PlannedContainer("web-1", "a", SHOP.containers[0]),), goal, 7, owner, done=done)


@pytest.mark.parametrize("is_alone", [True, False])
def test_a_group_whose_controller_is_silent_is_taken_over(tmp_path: Path, is_alone: bool) -> None:
    async def scene(fleet: AskedFleet) -> None:
        agent = fleet.add("a")
        await fleet.controller.stored.put_group(stored("another"), 0)
        await told(fleet, "fleet.controller.another", b"{}")
        await fleet.controller.tick()
        taken = fleet.controller.driver("shop") is not None
        assert taken is is_alone  # another may still be at it where there may be others
        for _ in range(4):
            fleet.beat("a", "shop")
            await ticked(fleet, 1)
        await asyncio.sleep(0.5)
        record = fleet.record("shop")
        assert (record.done, record.owner, record.goal) == (True, fleet.controller.id, GroupGoal.UP)
        assert record.epoch > 7
        assert agent.steps == {"web-1": ContainerStep.READY}

    played(tmp_path, scene, is_alone=is_alone)


def test_a_group_whose_controller_is_heard_is_left_to_it(tmp_path: Path) -> None:
    async def scene(fleet: AskedFleet) -> None:
        fleet.add("a")
        await fleet.controller.stored.put_group(stored("another"), 0)
        for _ in range(20):
            await told(fleet, "fleet.controller.another", b"{}")
            await ticked(fleet, 1)
        assert fleet.record("shop").owner == "another"
        await ticked(fleet, OWNER_AWAY_S + 1)
        await asyncio.sleep(0.5)
        assert fleet.record("shop").owner == fleet.controller.id

    played(tmp_path, scene, is_alone=False)


def test_what_is_done_is_nobodys_to_take_over(tmp_path: Path) -> None:
    async def scene(fleet: AskedFleet) -> None:
        fleet.add("a")
        await fleet.controller.stored.put_group(stored("another", done=True), 0)
        await ticked(fleet, 5)
        assert fleet.record("shop").owner == "another"
        assert fleet.acts() == []

    played(tmp_path, scene)


def test_a_removed_group_is_remembered_for_a_minute(tmp_path: Path) -> None:
    async def scene(fleet: AskedFleet) -> None:
        fleet.add("a")
        await fleet.outcome("up", Up(SHOP))
        await fleet.outcome("down", Down("shop"))
        await ticked(fleet, FORGOTTEN_AFTER_S)
        assert fleet.record("shop").is_forgotten
        await ticked(fleet, 2)
        assert fleet.controller.stored.group("shop") is None

    played(tmp_path, scene)


def test_a_group_that_came_up_again_is_not_forgotten(tmp_path: Path) -> None:
    async def scene(fleet: AskedFleet) -> None:
        fleet.add("a")
        await fleet.outcome("up", Up(SHOP))
        await fleet.outcome("down", Down("shop"))
        await ticked(fleet, 30)
        fleet.controller.registry.beat(Heartbeat("a", 99, 1.0), fleet.now_s)
        await fleet.outcome("up", Up(SHOP))
        await ticked(fleet, FORGOTTEN_AFTER_S)
        assert fleet.record("shop").goal is GroupGoal.UP

    played(tmp_path, scene)
