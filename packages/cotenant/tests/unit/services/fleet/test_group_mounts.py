"""Groups with folders of the host, named volumes, and ports of one address."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes.servers.fleet_world import FleetWorld
from tests.fakes.waiting import soon

from cotenant.model.errors import Permanent, Transient
from cotenant.model.fleet.configuration import AgentConfiguration
from cotenant.model.fleet.group import GroupOutcome
from cotenant.model.fleet.requests import Down, SetConfiguration, Spread, Up
from cotenant.model.fleet.template import ContainerTemplate, GroupTemplate, Mount, PortMapping

WEB = ContainerTemplate("web", "image")


def played(scene: Callable[[FleetWorld], Awaitable[None]], folder: Path, *hosts: str) -> None:
    async def play() -> None:
        async with FleetWorld(folder, hosts or ("agent-a",)) as world:
            await scene(world)

    asyncio.run(play())


async def up(world: FleetWorld, *containers: ContainerTemplate) -> GroupOutcome:
    """Asked again, as the command does, while the controller has just begun."""
    outcomes: list[GroupOutcome] = []

    async def asked() -> bool:
        try:
            outcome = await world.ask("up", Up(GroupTemplate("shop", containers)), GroupOutcome)
        except Transient:
            return False
        assert isinstance(outcome, GroupOutcome)
        outcomes.append(outcome)
        return True

    await soon("an outcome", asked)
    return outcomes[0]


async def allow(world: FleetWorld, *folders: str) -> None:
    request = SetConfiguration("edge", "docker", AgentConfiguration(mount_paths=folders))
    assert await world.ask("configure", request, Spread) == Spread(1, 1)


def test_a_folder_is_mounted_where_the_hosts_configuration_allows_it(tmp_path: Path) -> None:
    data = os.path.realpath(tmp_path) + "/data"
    Path(data).mkdir()
    web = replace(WEB, mounts=(Mount(data, "/data", is_read_only=True),))

    async def scene(world: FleetWorld) -> None:
        docker = world.dockers["agent-a"]
        refused = await up(world, web)
        assert "reserve of web (" in refused.reason
        assert f"{data} may not be mounted: this host's agent lets containers mount nothing" in refused.reason
        assert docker.containers == {}
        await allow(world, data)
        outcome = await up(world, web)
        assert docker.containers[outcome.guids["web"]]["host"]["Binds"] == [f"{data}:/data:ro"]

    played(scene, tmp_path)


@pytest.mark.slow
def test_volumes_are_made_named_by_their_group_and_stay(tmp_path: Path) -> None:
    web = replace(WEB, mounts=(Mount("shop_data", "/data", is_volume=True), Mount("old", "/old", True, True)))
    extern = replace(WEB, mounts=(Mount("theirs", "/data", is_volume=True, is_external=True),))

    async def scene(world: FleetWorld) -> None:
        docker = world.dockers["agent-a"]
        outcome = await up(world, web)
        assert docker.containers[outcome.guids["web"]]["host"]["Binds"] == ["shop_data:/data", "old:/old:ro"]
        await world.ask("down", Down("shop"), GroupOutcome)
        assert docker.volumes == {name: {"cotenant.io/group": "shop"} for name in ("shop_data", "old")}
        refused = await up(world, extern)
        assert "volume theirs is external, and is not there on this host" in refused.reason
        docker.volumes["theirs"] = {}
        assert (await up(world, extern)).reason == ""

    played(scene, tmp_path)


@pytest.mark.slow
def test_a_volume_of_two_hosts_is_refused(tmp_path: Path) -> None:
    web = replace(WEB, mounts=(Mount("shop_data", "/data", is_volume=True),))

    async def scene(world: FleetWorld) -> None:
        with pytest.raises(Permanent, match=r"2 hosts may run it \(agent-a, agent-b\)"):
            await up(world, web)
        assert world.dockers["agent-a"].volumes == world.dockers["agent-b"].volumes == {}
        there = await up(world, replace(web, host_tags=("agent-b",)))
        assert set(there.guids) == {"web"}
        assert world.dockers["agent-b"].running() == {"web"}

    played(scene, tmp_path, "agent-a", "agent-b")


def test_ports_of_an_address_and_two_of_one_port_in_the_container(tmp_path: Path) -> None:
    def ports(first: int) -> tuple[PortMapping, ...]:
        return (PortMapping(first, 80), PortMapping(first, 80, "tcp", "127.0.0.1"), PortMapping(first + 1, 80, "udp"))

    async def scene(world: FleetWorld) -> None:
        outcome = await up(world, replace(WEB, ports=ports(1)))
        assert world.dockers["agent-a"].containers[outcome.guids["web"]]["host"]["PortBindings"] == {
            "80/tcp": [{"HostIp": "", "HostPort": "1"}, {"HostIp": "127.0.0.1", "HostPort": "1"}],
            "80/udp": [{"HostIp": "", "HostPort": "2"}],
        }

    played(scene, tmp_path)
