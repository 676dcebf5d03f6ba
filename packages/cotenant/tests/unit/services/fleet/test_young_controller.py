"""A controller that began a moment ago has not heard all hosts yet: what does not fit then is asked again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cotenant.drivers.nats.contract import BusMessage
from cotenant.drivers.nats.file_store import FileStore
from cotenant.drivers.nats.memory import MemoryBus
from cotenant.model.errors import Permanent, Transient
from cotenant.model.fleet.requests import Up
from cotenant.model.fleet.template import ContainerTemplate, GroupTemplate
from cotenant.services.fleet.controller.asking import Asking
from cotenant.services.fleet.controller.controller import OWNER_AWAY_S, FleetController

ASKED = Up(GroupTemplate("shop", (ContainerTemplate("web", "image"),)))


def test_a_group_is_refused_for_good_once_all_hosts_had_time_to_be_heard(tmp_path: Path) -> None:
    async def play() -> None:
        store, bus, now = FileStore(tmp_path / "store"), MemoryBus(), [100.0]
        up = Asking(FleetController(bus, store, now=lambda: now[0])).verbs()["up"]
        with pytest.raises(Transient, match=r"no host of this fleet is alive .*, among those heard since this contr"):
            await up.handle(ASKED, BusMessage("fleet.alice.rpc.up"))
        now[0] += OWNER_AWAY_S
        with pytest.raises(Permanent, match=r"no host of this fleet is alive and may be used$"):
            await up.handle(ASKED, BusMessage("fleet.alice.rpc.up"))
        await bus.close()
        store.close()

    asyncio.run(play())
