"""Credentials (JWTs) as a real nats-server enforces them, and a program that speaks as its container's random guid."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from tests.fakes.servers.fleet_world import FleetWorld
from tests.fakes.servers.nats_server import NatsServer
from tests.fakes.servers.ports import free_port
from tests.fakes.waiting import patience, soon

from cotenant.drivers.nats.client import BusAccess, NatsBus, connect
from cotenant.drivers.nats.contract import BusMessage
from cotenant.drivers.nats.key_value import open_bucket
from cotenant.model.errors import InvalidInput, Permanent, Transient
from cotenant.model.fleet.group import GroupOutcome
from cotenant.model.fleet.methods import Call, Called
from cotenant.model.fleet.refusal import FleetForbidden, NoSuchGuid
from cotenant.model.fleet.requests import Up
from cotenant.model.fleet.rights import FleetFile, FleetOperator, HostEntry
from cotenant.model.fleet.template import ContainerTemplate, GroupTemplate
from cotenant.services.fleet.controller.asking import Asking
from cotenant.services.fleet.controller.controller import ControllerSettings, FleetController
from cotenant.services.fleet.fleet_file import MadeKeys, issuer, make_credentials
from cotenant.services.fleet.programs.program import Program
from cotenant.services.fleet.rpc import call

pytestmark = pytest.mark.slow
ISSUED_S = 1_700_000_000
FLEET = FleetFile((HostEntry("agent-a", ("edge",)), HostEntry("agent-b")), (FleetOperator("alice", ("*",)),))


class Fleet:
    """A server that trusts the fleet's operator, and connections to it."""

    def __init__(self, folder: Path) -> None:
        pytest.importorskip("nkeys", reason="nkeys is not installed")
        self.port = free_port()
        self.folder = folder / "keys"
        self.made = self.make(FLEET)
        self.server = NatsServer(folder, self.port, self.made.configuration)
        self.server.start()

    def make(self, fleet: FleetFile) -> MadeKeys:
        return make_credentials(fleet, self.folder, ("127.0.0.1",), f"127.0.0.1:{self.port}", ISSUED_S)

    async def opened(self, name: str, credentials: str = "") -> NatsBus:
        access = BusAccess(f"tls://127.0.0.1:{self.port}", name, ca=self.made.authority, credentials=credentials)
        access = access if credentials else replace(access, seed=self.made.seeds[name])
        return await connect(access, within_s=patience(30))


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(tmp_path)
    yield made
    made.server.kill()


def test_each_speaks_as_itself_only(fleet: Fleet) -> None:
    async def play() -> None:
        controller, host, alice = [await fleet.opened(name) for name in ("controller", "agent-a", "alice")]
        store = await open_bucket(controller, "cotenant-fleet")
        assert await store.put("group.shop", b"{}", 0) == 1
        beats: list[str] = []

        async def beat(message: BusMessage) -> None:
            beats.append(message.subject)

        await controller.subscribe("hb.*", beat)
        await controller.flush(patience(30))
        for subject in ("hb.agent-b", "guid.agent-b.rpc.stop", "$KV.cotenant-fleet.x", "hb.agent-a"):
            await host.publish(subject, b"{}")
        await soon("its own came", lambda: beats == ["hb.agent-a"])
        for bus, subject in ((host, "fleet.alice.rpc.list"), (alice, "guid.agent-a.rpc.start"), (alice, "hb.agent-a")):
            with pytest.raises(FleetForbidden, match=subject):
                await bus.request(subject, b"", timeout_s=60.0)
        for bus in (controller, host, alice):
            await bus.close()

    asyncio.run(play())


def test_who_has_left_the_file_is_refused_and_so_is_who_vouches_for_itself(fleet: Fleet, tmp_path: Path) -> None:
    async def play() -> None:
        other = make_credentials(FLEET, tmp_path / "other", ("127.0.0.1",), "127.0.0.1:1", ISSUED_S)
        with pytest.raises(Permanent, match="refuses agent-a"):
            await fleet.opened("agent-a", other.seeds["agent-a"].read_text())
        assert other.programs is not None
        with pytest.raises(Permanent, match="refuses web-1"):
            await fleet.opened("web-1", issuer(other.programs)("web-1"))
        before = fleet.made.seeds["agent-b"].read_text()
        await (await fleet.opened("agent-b", before)).close()
        fleet.made = fleet.make(replace(FLEET, hosts=FLEET.hosts[:1]))
        fleet.server.kill()
        fleet.server.start()
        await (await fleet.opened("agent-a")).close()
        with pytest.raises(Permanent, match="refuses agent-b"):
            await fleet.opened("agent-b", before)

    asyncio.run(play())
    with pytest.raises(InvalidInput, match="--program-key"):
        issuer(tmp_path / "nothing")


def test_a_program_speaks_as_the_random_guid_of_its_container_and_as_no_other(fleet: Fleet, tmp_path: Path) -> None:
    async def play() -> None:
        bus, agent, alice = [await fleet.opened(name) for name in ("controller", "agent-a", "alice")]
        store = await open_bucket(bus, "cotenant-fleet")
        following = asyncio.create_task(store.run())
        async with FleetWorld(tmp_path, hosts=(), bus=bus, store=store) as world:
            await world.kill_controller()
            assert fleet.made.programs is not None
            settings = ControllerSettings(FLEET, issue=issuer(fleet.made.programs, lambda: ISSUED_S))
            controller = FleetController(bus, store, settings)
            running = asyncio.create_task(controller.run(Asking(controller).verbs(), asyncio.Event()))
            await world.start_host("agent-a", agent)
            await soon("it is heard", lambda: any(host.beat for host in controller.registry.hosts()))
            shop = GroupTemplate("shop", (ContainerTemplate("web", "image"), ContainerTemplate("cart", "image")))
            outcome = await call(alice, "fleet.alice.rpc.up", Up(shop), GroupOutcome, 60.0)
            containers = world.dockers["agent-a"].containers
            given = {
                appkey: containers[guid]["environment"]["COTENANT_CREDENTIALS"]
                for appkey, guid in outcome.guids.items()
            }
            program, stop = Program("web", guid=outcome.guids["web"]), asyncio.Event()

            @program.method(deadline_s=40.0)
            def warm(celsius: float) -> str:
                return f"{celsius:g}"

            impostor = await fleet.opened(outcome.guids["web"], given["cart"])
            own = await fleet.opened(outcome.guids["web"], given["web"])
            serving = [asyncio.create_task(program.serve(impostor, stop))]
            await impostor.flush(patience(30))
            request = Call(outcome.guids["web"], "warm", msgspec.Raw(b'{"celsius": 21.5}'))
            with pytest.raises(NoSuchGuid):
                await call(alice, "fleet.alice.rpc.call", request, Called, 60.0)
            serving.append(asyncio.create_task(program.serve(own, stop)))
            for _ in range(round(patience(200))):
                try:
                    answer = await call(alice, "fleet.alice.rpc.call", request, Called, 60.0)
                    break
                except (NoSuchGuid, Transient):
                    await asyncio.sleep(0.05)
            assert bytes(answer.result) == b'"21.5"'
            for subject in (f"hb.{outcome.guids['web']}", "guid.agent-a.rpc.stop", "fleet.alice.rpc.list"):
                with pytest.raises(FleetForbidden):
                    await own.request(subject, b"", timeout_s=60.0)
            stop.set()
            await asyncio.gather(*serving, return_exceptions=True)
            for task in (running, following):
                task.cancel()
            await asyncio.gather(running, following, return_exceptions=True)
            for connection in (own, impostor):
                await connection.close()
        for connection in (agent, alice):
            await connection.close()

    asyncio.run(play())
