"""Zones whose start takes long: asked for without waiting, ended while they start, failed, and what a keeper that was
killed leaves.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.fakes.waiting import soon
from tests.unit.services.zones.test_host import HOST, memory
from tests.unit.services.zones.test_runner import MemoryKeeper

from cotenant.drivers.signatures.ed25519 import TrustedKeys
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.zones.state import ZoneChange
from cotenant.services.sockets.peers import Peers
from cotenant.services.zones.client import ZoneClient
from cotenant.services.zones.definition import ZoneDefinition
from cotenant.services.zones.host import ZoneHost
from cotenant.services.zones.opening import ZoneSupport
from cotenant.services.zones.runner import ZoneRunner
from cotenant.services.zones.server import ZoneServer

BOX = "zone: box\nvm: {memory_mib: 512}\ngroups: [{group: web, kind: service}]\nperiod_ms: 100"


@dataclass
class Machines:
    """Machines that boot when they are let; `why`: they fail instead."""

    boots: asyncio.Event = field(default_factory=asyncio.Event)
    why: str = ""
    opened: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    agents: list[str | None] = field(default_factory=list)

    @asynccontextmanager
    async def open(
        self,
        definition: ZoneDefinition,
        host: ZoneSupport,
        folder: Path,
        source: str,
        agent: str | None,
        changed: Callable[[ZoneChange], None],
        log: Callable[[str], None],
    ) -> AsyncIterator[ZoneRunner]:
        self.opened.append(source)
        self.agents.append(agent)
        try:
            await self.boots.wait()
            if self.why:
                raise Permanent(self.why)
            async with memory(definition, host, MemoryKeeper(), agent, changed, log, log) as runner:
                yield runner
        finally:
            self.closed.append(definition.zone)


def make(folder: Path, machines: Machines, files: Path | None = None, keys: TrustedKeys | None = None) -> ZoneHost:
    return ZoneHost(
        MemoryKeeper(),
        HOST,
        folder,
        ("kubepods",),
        vm_opener=machines.open,
        vm_check=lambda definition, source: None,
        files=files,
        keys=keys,
    )


def test_a_zone_that_is_not_waited_for_starts_and_another_that_fails_says_why(tmp_path: Path) -> None:
    async def main() -> None:
        machines = Machines()
        zones = make(tmp_path, machines)
        assert await zones.create(BOX, "box.yaml", "127.0.0.1:7", wait=False) == {"zone": "box"}
        assert zones.sources == {"box": "box.yaml"}
        assert (tmp_path / "box.zone").exists()  # a keeper that is killed now starts it again
        machines.boots.set()
        await soon("it runs", lambda: (tmp_path / "box.json").exists())
        assert machines.agents == ["127.0.0.1:7"]
        assert zones.failures == {}
        await zones.stop()
        machines.why = "no kernel"
        assert await zones.create(BOX.replace("box", "two"), "two.yaml", wait=False) == {"zone": "two"}
        await soon("it failed", lambda: zones.failures == {"two": ("two.yaml", "no kernel")})
        await soon("its file is gone", lambda: not (tmp_path / "two.zone").exists())
        assert zones.sources == {}
        machines.why = ""
        await zones.create(BOX.replace("box", "two"), "two.yaml")
        assert zones.failures == {}
        await zones.stop()
        assert (tmp_path / "two.zone").exists()  # it comes back with the keeper
        machines.why = "no kernel"
        with pytest.raises(Permanent, match="no kernel"):
            await zones.create(BOX, "box.yaml")
        assert (tmp_path / "box.zone").exists()  # it had been created before: a restart tries again

    asyncio.run(main())


@pytest.mark.parametrize("has_begun", [True, False])
def test_a_zone_is_destroyed_while_its_machine_boots(tmp_path: Path, has_begun: bool) -> None:
    async def main() -> None:
        machines = Machines()
        zones = make(tmp_path, machines)
        await zones.create(BOX, "ControlZone/box@1:u", wait=False)
        if has_begun:
            await soon("it boots", lambda: bool(machines.opened))
        assert await zones.destroy("box") == "destroyed"
        assert (len(machines.opened), len(machines.closed)) == (has_begun, has_begun)
        assert zones.sources == {}
        assert zones.failures == {}
        assert not (tmp_path / "box.zone").exists()
        waiting = asyncio.create_task(zones.create(BOX, "box.yaml"))
        await soon("it boots", lambda: len(machines.opened) == 1 + has_begun)
        await zones.destroy("box")
        with pytest.raises(Permanent, match="destroyed while it started"):
            await waiting
        await zones.create(BOX, "box.yaml", wait=False)  # nothing is left of it
        machines.boots.set()
        await soon("it runs", lambda: (tmp_path / "box.json").exists())
        await zones.stop()

    asyncio.run(main())


def test_what_a_killed_keeper_left_is_removed_before_its_zones_are_made_again(tmp_path: Path) -> None:
    group, kept = tmp_path / "group", tmp_path / "full"
    for folder in (group, kept / "child", tmp_path / "zones/vm/box/root"):
        folder.mkdir(parents=True)
    (tmp_path / "zones/box.groups").write_text(f"{group}\n{kept}\n{tmp_path / 'none'}")
    (tmp_path / "zones/box.zone").write_text(f'# {{"source": "ControlZone/box@1:u", "agent": "unix:/a"}}\n{BOX}')

    async def main() -> None:
        machines = Machines()
        machines.boots.set()
        server = ZoneServer(tmp_path / "zones.sock", make(tmp_path / "zones", machines, tmp_path), Peers())
        await server.start()
        assert not group.exists()
        assert kept.exists()
        assert not (tmp_path / "zones/vm").exists()
        assert not (tmp_path / "zones/box.groups").exists()
        client = ZoneClient(tmp_path / "zones.sock")
        await soon("it is made again", lambda: (tmp_path / "zones/box.json").exists())
        assert await asyncio.to_thread(client.sources) == {"box": "ControlZone/box@1:u"}
        assert await asyncio.to_thread(client.failures) == {}
        assert (machines.opened, machines.agents) == ([str(tmp_path / "zone.yaml")], ["unix:/a"])
        await server.stop()

    asyncio.run(main())


def test_a_cluster_names_files_below_the_keepers_folder_whoever_asks(tmp_path: Path) -> None:
    pods = "\npods: [{name: page, image: {archive: @}}]"

    async def main() -> None:
        machines = Machines()
        machines.boots.set()
        server = ZoneServer(tmp_path / "zones.sock", make(tmp_path / "zones", machines, tmp_path / "files"), Peers())
        request = {"do": "create", "text": BOX + pods.replace("@", "web.tar"), "name": "box.yaml"}
        with pytest.raises(Permanent, match="for root"):
            await server._carry_out(request, user=12345)
        outside = {**request, "text": BOX + pods.replace("@", "/etc/shadow"), "name": "ControlZone/box@1:u"}
        with pytest.raises(InvalidInput, match="a file below"):
            await server._carry_out(outside, user=0)
        await server._carry_out({**request, "name": "ControlZone/box@1:u"}, user=12345)
        assert machines.opened == [str(tmp_path / "files/zone.yaml")]
        await server.stop()

    (tmp_path / "zones").mkdir()
    asyncio.run(main())


def test_a_keeper_with_keys_starts_zones_that_name_files_only_of_signed_packages(tmp_path: Path) -> None:
    pods = f"{BOX}\npods: [{{name: page, image: {{archive: web.tar}}}}]"
    files = tmp_path / "files"
    files.mkdir()
    (files / "box.yaml").write_text(pods)

    async def main() -> None:
        machines = Machines()
        machines.boots.set()
        zones = make(tmp_path / "zones", machines, files, TrustedKeys("/etc/keys", ()))
        with pytest.raises(InvalidInput, match="a package signed by a key of /etc/keys"):
            await zones.create(pods, str(files / "box.yaml"))
        with pytest.raises(InvalidInput, match="a file of a package signed by a key of /etc/keys"):
            await zones.create(pods, "ControlZone/box@1:u")
        assert not machines.opened
        await zones.create(BOX, "ControlZone/box@1:u")  # names no file
        assert machines.opened == [str(files / "zone.yaml")]
        await zones.stop()

    (tmp_path / "zones").mkdir()
    asyncio.run(main())
