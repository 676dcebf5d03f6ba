"""An agent and a controller: registration, configuration, functions switched on and off, lists."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes.servers.fleet_world import LOCAL, FleetWorld
from tests.fakes.waiting import soon

from cotenant.drivers.nats.contract import MAX_PAYLOAD
from cotenant.drivers.nats.memory import MemoryBus
from cotenant.model.errors import InvalidInput, Permanent, Transient, Unsupported
from cotenant.model.fleet.configuration import AgentConfiguration
from cotenant.model.fleet.group import GroupOutcome
from cotenant.model.fleet.host import FunctionHealth, Heartbeat, Registration
from cotenant.model.fleet.requests import (
    Fence,
    Inspect,
    Inspected,
    List,
    Listed,
    SetConfiguration,
    Spread,
    Survey,
    Surveyed,
    Up,
)
from cotenant.model.fleet.states import AgentState
from cotenant.model.fleet.template import ContainerTemplate, GroupTemplate
from cotenant.services.fleet.agent.agent import FleetAgent
from cotenant.services.fleet.agent.switches import Switches
from cotenant.services.fleet.agent_main import configuration_of, read_agent_file
from cotenant.services.fleet.rpc import call, encode

CONTAINERS_OFF = AgentConfiguration(functions=("figures",), environment={"A": "1"})


def played(scene: Callable[[FleetWorld], Awaitable[None]], folder: Path, *hosts: str) -> None:
    async def play() -> None:
        async with FleetWorld(folder, hosts or ("agent-a",)) as world:
            await scene(world)

    asyncio.run(play())


async def configured(world: FleetWorld, configuration: AgentConfiguration) -> Spread:
    answer = await world.ask("configure", SetConfiguration("edge", "docker", configuration), Spread)
    assert isinstance(answer, Spread)
    return answer


def health(world: FleetWorld) -> tuple[FunctionHealth, ...]:
    assert world.controller is not None
    beat = world.controller.registry.host("agent-a").beat
    return beat.functions if beat is not None else ()


@pytest.mark.slow
def test_functions_go_off_and_on_while_the_agent_runs(tmp_path: Path) -> None:
    async def scene(world: FleetWorld) -> None:
        assert await configured(world, CONTAINERS_OFF) == Spread(1, 1)
        survey = Survey(Fence("shop", 1))
        with pytest.raises(Unsupported, match="configuration switches off"):
            await call(world.bus, "guid.agent-a.rpc.survey", survey, Surveyed, 60.0)
        await soon("heartbeats say so", lambda: health(world) == (FunctionHealth("containers", False),))
        with pytest.raises(Permanent, match="agent-a: its configuration switches containers off"):
            await world.ask("up", Up(GroupTemplate("one", (ContainerTemplate("web", "image"),))), GroupOutcome)
        assert await configured(world, AgentConfiguration()) == Spread(2, 1)
        await soon("heartbeats say so", lambda: health(world) == (FunctionHealth("containers", True),))
        assert (await call(world.bus, "guid.agent-a.rpc.survey", survey, Surveyed, 60.0)).steps == {}

    played(scene, tmp_path)


def test_an_agent_that_has_just_begun_is_waited_for_and_not_called_switched_off(tmp_path: Path) -> None:
    async def scene(world: FleetWorld) -> None:
        assert world.controller is not None
        registry = world.controller.registry
        beat = registry.host("agent-a").beat
        assert beat is not None
        starting = FunctionHealth("containers", False, is_starting=True)
        first = replace(beat, number=beat.number + 1000, functions=(starting,))  # later ones of the agent are older
        assert registry.beat(first, world.controller.now())
        with pytest.raises(Transient, match="no host can run containers yet; starting: agent-a"):
            await world.ask("up", Up(GroupTemplate("one", (ContainerTemplate("web", "image"),))), GroupOutcome)

    played(scene, tmp_path)


def test_a_function_is_starting_from_when_it_is_asked_for_until_it_runs_or_cannot() -> None:
    class Slow:
        """A function whose start fails until it is let."""

        name, verbs, fault, may_start = "containers", {}, "", False

        def configure(self, configuration: AgentConfiguration) -> None:
            pass

        async def start(self) -> None:
            if not self.may_start:
                raise Transient("no runtime yet")

        async def stop(self) -> None:
            pass

        async def add_to(self, beat: object) -> None:
            pass

    slow = Slow()
    switches = Switches((slow,))
    assert switches.health() == (FunctionHealth("containers", False),)
    switches.apply(AgentConfiguration(functions=("containers",)))
    assert switches.health() == (FunctionHealth("containers", False, is_starting=True),)
    asyncio.run(switches.switch())
    assert switches.health() == (FunctionHealth("containers", False, "no runtime yet"),)
    slow.may_start = True
    asyncio.run(switches.switch())
    assert switches.health() == (FunctionHealth("containers", True),)


def test_what_cannot_change_is_refused_with_reasons_and_changes_nothing(tmp_path: Path) -> None:
    async def scene(world: FleetWorld) -> None:
        answer = await configured(world, AgentConfiguration(heartbeat_s=5.0, keeper="/run/other.sock"))
        assert answer.applied == 0
        assert "keeper: the agent's keeper is chosen when the agent starts" in answer.refused["agent-a"]
        assert world.agents["agent-a"][0].configuration == LOCAL

    played(scene, tmp_path)


def test_an_agent_that_joins_later_is_answered_with_its_configuration(tmp_path: Path) -> None:
    async def scene(world: FleetWorld) -> None:
        await world.kill_agent("agent-a")
        await configured(world, CONTAINERS_OFF)
        registration = Registration("agent-b", "b", "1")
        agent = FleetAgent(registration, world.bus, (), AgentConfiguration(environment={"B": "2"}), ("environment",))
        await agent.register()
        assert agent.configuration == AgentConfiguration(("figures",), environment={"B": "2"})

    played(scene, tmp_path)


@pytest.mark.slow
def test_one_that_was_away_is_configured_when_it_is_back(tmp_path: Path) -> None:
    async def scene(world: FleetWorld) -> None:
        assert world.controller is not None
        await world.controller.stored.put_configuration("edge", "docker", encode(CONTAINERS_OFF).decode())
        await soon("it has it", lambda: world.agents["agent-a"][0].configuration == CONTAINERS_OFF)

    played(scene, tmp_path)


def test_a_new_controller_knows_all_from_heartbeats(tmp_path: Path) -> None:
    async def scene(world: FleetWorld) -> None:
        await world.kill_controller()
        controller = await world.start_controller()
        await soon(
            "it knows the agent",
            lambda: [host.registration.tags for host in controller.registry.hosts()] == [("agent-a",)],
        )

    played(scene, tmp_path)


def test_who_leaves_is_away_at_once_and_can_still_be_inspected(tmp_path: Path) -> None:
    async def scene(world: FleetWorld) -> None:
        assert world.controller is not None
        registry = world.controller.registry
        await world.kill_agent("agent-a")
        await soon("it is away", lambda: registry.host("agent-a").state is AgentState.AWAY)
        answer = await world.ask("inspect", Inspect("agent-a"), Inspected)
        assert isinstance(answer, Inspected)
        assert answer.facts["agent is"] == "away"
        assert answer.facts["answer"].startswith("none")

    played(scene, tmp_path)


def test_a_heartbeat_under_another_guid_or_unreadable_is_counted_and_changes_nothing(tmp_path: Path) -> None:
    async def scene(world: FleetWorld) -> None:
        assert world.controller is not None
        registry = world.controller.registry
        await world.bus.publish("hb.agent-z", encode(Heartbeat("agent-a", 1, 1e12)))
        await world.bus.publish("hb.agent-a", b"{")
        await soon("both are counted", lambda: len(registry.counts) >= 2)
        assert registry.counts["heartbeats under another guid"] == 1
        assert registry.counts["unreadable heartbeats"] == 1
        assert [host.registration.guid for host in registry.hosts()] == ["agent-a"]

    played(scene, tmp_path)


def test_a_long_list_comes_in_pages(tmp_path: Path) -> None:
    async def scene(world: FleetWorld) -> None:
        assert world.controller is not None
        names = [f"agent-{i:04d}" for i in range(30)]
        for name in names:
            world.controller.registry.register(Registration(name, "h" * 40_000, "1"), world.controller.now())
        found: list[str] = []
        start: int | None = 0
        pages = 0
        while start is not None:
            page = await world.ask("list", List(start=start), Listed)
            assert isinstance(page, Listed)
            assert len(encode(page)) < MAX_PAYLOAD
            found += [row.registration.guid for row in page.hosts]
            start, pages = page.next_start, pages + 1
        assert found == [*names, "agent-a"]
        assert pages == 3

    played(scene, tmp_path)


def test_an_agent_works_without_a_controller() -> None:
    async def play() -> None:
        agent = FleetAgent(Registration("agent-a", "a", "1"), MemoryBus(), ())
        await agent.register()
        assert agent.configuration == AgentConfiguration()

    asyncio.run(play())


def test_an_agents_file_says_which_of_its_fields_win(tmp_path: Path) -> None:
    path = tmp_path / "agent.yml"
    path.write_text("functions: [containers]\nenvironment: {OTEL_EXPORTER_OTLP_ENDPOINT: 'http://there'}\n")
    settings, fields = read_agent_file(path)
    assert settings == AgentConfiguration(("containers",), environment={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://there"})
    assert fields == ("functions", "environment")
    with pytest.raises(InvalidInput, match="heartbeat"):
        configuration_of({"heartbeat": 1}, "file:")
