"""Keys and permissions as a real nats-server enforces them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.servers.nats_server import NatsServer
from tests.fakes.servers.ports import free_port
from tests.fakes.waiting import patience, soon

from cotenant.drivers.nats.client import BusAccess, NatsBus, connect
from cotenant.drivers.nats.contract import BusMessage, NoResponder
from cotenant.drivers.nats.key_value import open_bucket
from cotenant.model.errors import Permanent
from cotenant.model.fleet.refusal import FleetForbidden
from cotenant.model.fleet.rights import FleetFile, FleetOperator, HostEntry
from cotenant.services.fleet.fleet_file import MadeKeys, make_keys

pytestmark = pytest.mark.slow
FLEET = FleetFile(
    (HostEntry("agent-a"), HostEntry("agent-b")), (FleetOperator("alice"), FleetOperator("bob")), ("controller",)
)


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[NatsServer, MadeKeys]]:
    port = free_port()
    pytest.importorskip("nkeys", reason="nkeys is not installed")
    made = make_keys(FLEET, tmp_path / "keys", ("127.0.0.1",), f"127.0.0.1:{port}")
    server = NatsServer(tmp_path, port, made.configuration)
    server.start()
    yield server, made
    server.kill()


async def opened(guarded: tuple[NatsServer, MadeKeys], name: str, key: str = "") -> NatsBus:
    server, made = guarded
    access = BusAccess(f"tls://127.0.0.1:{server.port}", name, seed=made.seeds[key or name], ca=made.authority)
    return await connect(access, within_s=patience(30))


async def heard(asker: NatsBus, subject: str) -> BusMessage:
    """The answer, asked for again while a client that was slow for the server is connecting anew."""
    for _ in range(round(patience(200))):
        try:
            return await asker.request(subject, b"", timeout_s=60.0)
        except NoResponder:
            await asyncio.sleep(0.05)
    raise AssertionError(f"nobody answers on {subject}")


def test_a_host_speaks_and_hears_as_its_own_guid_only(guarded: tuple[NatsServer, MadeKeys]) -> None:
    async def play() -> None:
        controller, host = await opened(guarded, "controller"), await opened(guarded, "agent-a")
        beats: list[str] = []
        overheard: list[str] = []

        async def beat(message: BusMessage) -> None:
            beats.append(message.subject)

        async def asked(message: BusMessage) -> None:
            overheard.append(message.subject)
            await host.publish(message.reply, b"done")

        await controller.subscribe("hb.*", beat)
        for subject in ("guid.agent-a.rpc.*", "guid.agent-b.rpc.*", "fleet.register.*", "_INBOX.controller.>"):
            await host.subscribe(subject, asked)
        await host.flush(patience(30))
        answer = await heard(controller, "guid.agent-a.rpc.inspect")
        assert answer.data == b"done"
        for subject in (
            "hb.agent-b",
            "guid.agent-b.rpc.stop",
            "fleet.alice.rpc.down",
            "$KV.cotenant-fleet.x",
            "hb.agent-a",
        ):
            await host.publish(subject, b"{}")
        await soon("its own came", lambda: beats == ["hb.agent-a"])
        for verb in ("guid.agent-b.rpc.stop", "fleet.alice.rpc.list"):
            with pytest.raises(FleetForbidden, match=verb):
                await host.request(verb, b"", timeout_s=60.0)
        assert overheard == ["guid.agent-a.rpc.inspect"]
        await controller.close()
        await host.close()

    asyncio.run(play())


def test_an_operator_asks_under_its_own_name_only(guarded: tuple[NatsServer, MadeKeys]) -> None:
    async def play() -> None:
        controller, bob = await opened(guarded, "controller"), await opened(guarded, "bob")

        async def asked(message: BusMessage) -> None:
            await controller.publish(message.reply, message.subject.encode())

        await controller.subscribe("fleet.*.rpc.*", asked)
        await controller.flush(patience(30))
        assert (await heard(bob, "fleet.bob.rpc.list")).data == b"fleet.bob.rpc.list"
        for subject in ("fleet.alice.rpc.list", "guid.agent-a.rpc.start", "hb.agent-a"):
            with pytest.raises(FleetForbidden, match=subject):
                await bob.request(subject, b"", timeout_s=60.0)
        await controller.close()
        await bob.close()

    asyncio.run(play())


def test_another_hosts_key_and_an_unknown_authority_are_refused(
    guarded: tuple[NatsServer, MadeKeys], tmp_path: Path
) -> None:
    async def play() -> None:
        stranger = make_keys(FleetFile((HostEntry("agent-a"),)), tmp_path / "other", ("127.0.0.1",), "127.0.0.1:1")
        server, made = guarded
        url = f"tls://127.0.0.1:{server.port}"
        with pytest.raises(Permanent, match="refuses agent-a"):
            await connect(
                BusAccess(url, "agent-a", seed=stranger.seeds["agent-a"], ca=made.authority), within_s=patience(30)
            )
        with pytest.raises(Permanent, match="certificate is not trusted"):
            await connect(
                BusAccess(url, "agent-a", seed=made.seeds["agent-a"], ca=stranger.authority), within_s=patience(30)
            )
        impostor = await opened(guarded, "agent-a", key="agent-b")
        with pytest.raises(FleetForbidden):
            await impostor.request("fleet.register.agent-a", b"", timeout_s=60.0)
        await impostor.close()

    asyncio.run(play())


def test_a_controller_may_use_the_store(guarded: tuple[NatsServer, MadeKeys]) -> None:
    async def play() -> None:
        controller = await opened(guarded, "controller")
        store = await open_bucket(controller, "cotenant-fleet")
        assert await store.put("group.shop", b"{}", 0) == 1
        await controller.close()

    asyncio.run(play())


def test_keys_that_are_there_are_kept(tmp_path: Path) -> None:
    pytest.importorskip("nkeys", reason="nkeys is not installed")
    first = make_keys(FLEET, tmp_path, ("localhost",), "0.0.0.0:4222")
    seeds = {name: path.read_text() for name, path in first.seeds.items()}
    make_keys(FLEET, tmp_path, ("localhost",), "0.0.0.0:4222")
    assert {name: path.read_text() for name, path in first.seeds.items()} == seeds
    assert all(path.stat().st_mode & 0o077 == 0 for path in first.seeds.values())
