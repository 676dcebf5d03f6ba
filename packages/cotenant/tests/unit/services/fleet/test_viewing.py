"""A console's side of a fleet, against a real controller and agent over the embedded bus."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes.servers.fleet_world import FleetWorld

from cotenant.drivers.nats.broker import Broker
from cotenant.drivers.nats.memory import MemoryBus
from cotenant.model.errors import CotenantError, InvalidInput, Permanent
from cotenant.model.fleet.group import GroupOutcome
from cotenant.model.fleet.refusal import FleetForbidden
from cotenant.model.fleet.requests import Down, Up
from cotenant.model.fleet.rights import FleetFile, FleetOperator, HostEntry
from cotenant.model.fleet.template import ContainerTemplate, GroupTemplate
from cotenant.model.fleet.terminals import OpenTerminal, ReadTerminal, WriteTerminal
from cotenant.services.fleet.places import BUS_FILE, BusOptions, write_bus_file
from cotenant.services.fleet.viewing import VERBS, FleetViewer


async def served(world: FleetWorld, folder: Path, token: str = "token") -> Broker:
    assert isinstance(world.bus, MemoryBus)
    broker = Broker(world.bus, token)
    await broker.start()
    write_bus_file(folder, broker.url, token)
    return broker


def options(folder: Path) -> BusOptions:
    return BusOptions(name="console", state_dir=folder)


@pytest.mark.slow
def test_hosts_and_a_group_that_failed_with_its_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COTENANT_BUS", raising=False)

    async def scene() -> None:
        async with FleetWorld(tmp_path) as world:
            broker, viewer = await served(world, tmp_path), FleetViewer(options(tmp_path))
            assert [row.registration.guid for row in (await viewer.listed()).hosts] == ["agent-a"]
            assert await viewer.group("shop") is None
            up = Up(GroupTemplate("shop", (ContainerTemplate("web", "image"), ContainerTemplate("db", "no-image"))))
            outcome = await world.ask("up", up, GroupOutcome)
            assert isinstance(outcome, GroupOutcome)
            group = await viewer.group("shop")
            assert group is not None
            assert {member.appkey for member in group.members} == {"web", "db"}
            assert {member.agent for member in group.members} == {"agent-a"}
            assert group.done
            assert group.reason == outcome.reason
            assert [row.members for row in (await viewer.listed()).groups] == [()]  # only where one was asked for
            await viewer.close()
            await broker.close()

    asyncio.run(scene())


def test_a_fleet_that_was_started_again_elsewhere_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COTENANT_BUS", raising=False)

    async def scene() -> None:
        async with FleetWorld(tmp_path) as world:
            viewer = FleetViewer(options(tmp_path))
            with pytest.raises(InvalidInput, match="serve --embedded"):
                await viewer.listed()
            broker = await served(world, tmp_path)
            assert len((await viewer.listed()).hosts) == 1
            await broker.close()
            (tmp_path / BUS_FILE).unlink()
            broker = await served(world, tmp_path, "another token")
            for _ in range(3):  # the first may still go to the connection that ended
                try:
                    found = await viewer.listed()
                    break
                except CotenantError:
                    continue
            assert len(found.hosts) == 1
            await viewer.close()
            await broker.close()

    asyncio.run(scene())


def test_it_has_the_verbs_that_read_and_a_right_to_no_other(tmp_path: Path) -> None:
    rights = FleetFile((HostEntry("agent-a"),), (FleetOperator("local", ("*",)), FleetOperator("console", VERBS)))

    async def scene() -> None:
        async with FleetWorld(tmp_path, rights=rights) as world:
            broker, viewer = await served(world, tmp_path), FleetViewer(options(tmp_path))
            assert len((await viewer.listed()).hosts) == 1
            with pytest.raises(Permanent, match="may not down"):
                await viewer._ask("down", Down("shop"), GroupOutcome)
            up = Up(GroupTemplate("shop", (ContainerTemplate("web", "image"),)))
            with pytest.raises(FleetForbidden, match="console may not up"):
                await world.ask("up", up, GroupOutcome, operator="console")
            for question in (
                viewer.open_terminal(OpenTerminal("web-1")),
                viewer.read_terminal(ReadTerminal("web-1", "0" * 32)),
                viewer.write_terminal(WriteTerminal("web-1", "0" * 32, b"x")),
            ):
                with pytest.raises(FleetForbidden, match="console may not exec"):
                    await question
            stranger = FleetViewer(replace(options(tmp_path), name="stranger"))
            with pytest.raises(FleetForbidden, match="stranger is no operator"):
                await stranger.listed()
            await stranger.close()
            await viewer.close()
            await broker.close()

    asyncio.run(scene())
