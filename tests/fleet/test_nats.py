"""The bus and the store on a real nats-server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.fakes.servers.bus_contract import CONTRACT
from tests.fakes.servers.nats_server import NatsServer
from tests.fakes.waiting import patience, soon

from cotenant.drivers.nats.client import BusAccess, connect
from cotenant.drivers.nats.contract import Bus, BusMessage, BusService, RevisionConflict, StoredValue
from cotenant.drivers.nats.key_value import open_bucket
from cotenant.model.errors import Transient

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("case", CONTRACT)
def test_contract(server: NatsServer, case: Callable[[Bus, Bus], Awaitable[None]]) -> None:
    async def play() -> None:
        here, there = await connect(BusAccess(server.url, "here")), await connect(BusAccess(server.url, "there"))
        await case(here, there)
        await here.close()
        await there.close()

    asyncio.run(play())


def test_a_service_is_found_with_its_metadata(server: NatsServer) -> None:
    async def play() -> None:
        bus = await connect(BusAccess(server.url, "here"))

        async def received(message: BusMessage) -> None:
            await bus.publish(message.reply, b"")

        await bus.serve(
            BusService("cotenant-agent", "1.2.3", {"guid": "agent-a"}, "guid.agent-a.rpc", ["start"]), received
        )
        found = await bus.request("$SRV.INFO.cotenant-agent", b"", timeout_s=60.0)
        for said in (b'"guid": "agent-a"', b'"guid.agent-a.rpc.start"', b'"version": "1.2.3"'):
            assert said.replace(b" ", b"") in found.data.replace(b" ", b"")
        await bus.close()

    asyncio.run(play())


def test_stored_values_are_compared_and_seen_by_others(server: NatsServer) -> None:
    async def play() -> None:
        here, there = await connect(BusAccess(server.url, "here")), await connect(BusAccess(server.url, "there"))
        first = await open_bucket(here, "cotenant-fleet")
        revision = await first.put("group.shop", b'{"a":1}', 0)
        second = await open_bucket(there, "cotenant-fleet")
        following = asyncio.create_task(second.run())
        assert second.names() == ["group.shop"]
        with pytest.raises(RevisionConflict):
            await second.put("group.shop", b"{}", 0)
        changed = await first.put("group.shop", b'{"a":2}', revision)
        await soon("the other one sees it", lambda: second.get("group.shop") == first.get("group.shop"))
        with pytest.raises(RevisionConflict):
            await second.put("group.shop", b"{}", revision)
        following.cancel()
        latest = await first.put("group.shop", b'{"a":3}', changed)
        with pytest.raises(RevisionConflict):
            await second.delete("group.shop", changed)
        assert await second.read("group.shop") == StoredValue(b'{"a":3}', latest)
        await first.delete("group.shop", latest)
        assert second.get("group.shop") == StoredValue(b'{"a":3}', latest)
        assert await second.read("group.shop") is None
        assert second.names() == []
        assert await second.read("group.other") is None
        assert await second.put("group.shop", b'{"a":4}', 0) > latest
        await here.close()
        await there.close()

    asyncio.run(play())


def test_a_store_opened_while_another_writes_has_every_value(server: NatsServer) -> None:
    """The watch of nats-py may say that all has come before it has: found once in three openings here."""

    async def play() -> None:
        here, there = await connect(BusAccess(server.url, "here")), await connect(BusAccess(server.url, "there"))
        first = await open_bucket(here, "cotenant-fleet")
        keys = [f"group.g{k}" for k in range(5)]
        for key in keys:
            await first.put(key, b"{}")

        async def write() -> None:
            while True:
                for key in keys:
                    await first.put(key, b"{}")

        writing = asyncio.create_task(write())
        for _ in range(40):
            assert sorted((await open_bucket(there, "cotenant-fleet")).names()) == keys
        writing.cancel()
        await here.close()
        await there.close()

    asyncio.run(play())


def test_a_bucket_that_was_made_anew_replaces_what_was_known(server: NatsServer) -> None:
    async def play() -> None:
        here, there = await connect(BusAccess(server.url, "here")), await connect(BusAccess(server.url, "there"))
        store = await open_bucket(here, "cotenant-fleet")
        for key in ("group.shop", "group.hog"):
            await store.put(key, b"{}")
        await there.client.jetstream().delete_key_value("cotenant-fleet")
        other = await open_bucket(there, "cotenant-fleet")
        await other.put("group.shop", b'{"a":1}', 0)
        await store.load()
        assert store.names() == ["group.shop"]
        assert store.get("group.shop") == other.get("group.shop")
        await here.close()
        await there.close()

    asyncio.run(play())


def test_what_was_asked_when_the_server_was_killed_fails_at_once_and_may_be_asked_again(server: NatsServer) -> None:
    async def play() -> None:
        here, there = await connect(BusAccess(server.url, "here")), await connect(BusAccess(server.url, "there"))
        came: list[bytes] = []

        async def received(message: BusMessage) -> None:
            came.append(message.data)
            if message.data == b"again":
                await there.publish(message.reply, b"done")

        await there.subscribe("guid.a.rpc.*", received)
        await there.flush(patience(30))
        asked = asyncio.create_task(here.request("guid.a.rpc.logs", b"first", timeout_s=3600.0))
        await soon("it was asked", lambda: came == [b"first"])
        server.kill()
        with pytest.raises(Transient, match="went away before an answer"):
            await asked
        server.start()

        async def answered() -> bool:
            try:
                return (await here.request("guid.a.rpc.logs", b"again", timeout_s=5.0)).data == b"done"
            except (Transient, TimeoutError):
                return False

        await soon("it is answered", answered)
        await here.close()
        await there.close()

    asyncio.run(play())


def test_after_the_server_was_killed_all_goes_on(server: NatsServer) -> None:
    async def play() -> None:
        here, there = await connect(BusAccess(server.url, "here")), await connect(BusAccess(server.url, "there"))
        store = await open_bucket(here, "cotenant-fleet")
        revision = await store.put("group.shop", b"{}", 0)
        came: list[bytes] = []

        async def received(message: BusMessage) -> None:
            came.append(message.data)

        await there.subscribe("hb.*", received)

        async def first() -> bool:  # a subscription reaches the server a moment after it is asked for
            await here.publish("hb.a", b"1")
            return b"1" in came

        await soon("the first came", first)
        server.kill()
        await soon("both noticed", lambda: not here.is_connected and not there.is_connected)
        server.start()
        await soon("both are back", lambda: here.is_connected and there.is_connected)

        async def heard() -> bool:  # the other's subscription comes a moment after its connection
            await here.publish("hb.a", b"2")
            return came[-1] == b"2"

        await soon("the second came", heard)

        async def stored() -> bool:  # JetStream comes a moment after the server
            try:
                return await store.put("group.shop", b'{"a":2}', revision) > revision
            except Transient:
                return False
            except RevisionConflict:  # an earlier try came through, its answer did not
                await store.load()
                return (found := store.get("group.shop")) is not None and found.value == b'{"a":2}'

        await soon("the store takes values", stored)
        await here.close()
        await there.close()

    asyncio.run(play())
