"""Programs with methods of their own on a real nats-server with keys, and beside an embedded fleet as processes."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from tests.fakes.servers.nats_server import NatsServer
from tests.fakes.servers.ports import free_port
from tests.fakes.waiting import patience, soon

from cotenant.drivers.nats.broker import Broker
from cotenant.drivers.nats.client import BusAccess, NatsBus, connect
from cotenant.drivers.nats.file_store import FileStore
from cotenant.drivers.nats.key_value import open_bucket
from cotenant.drivers.nats.memory import MemoryBus
from cotenant.model.errors import InvalidInput
from cotenant.model.fleet.methods import Call, Called, MethodList, Methods
from cotenant.model.fleet.refusal import FleetForbidden, NoSuchGuid
from cotenant.model.fleet.rights import FleetFile, FleetOperator, HostEntry, ProgramEntry
from cotenant.services.fleet.controller.asking import Asking
from cotenant.services.fleet.controller.controller import ControllerSettings, FleetController
from cotenant.services.fleet.fleet_file import make_keys
from cotenant.services.fleet.places import write_bus_file
from cotenant.services.fleet.programs.program import Program
from cotenant.services.fleet.rpc import call

pytestmark = pytest.mark.slow
FLEET = FleetFile(
    (HostEntry("agent-a"),),
    (FleetOperator("alice", ("*",)), FleetOperator("bob", ("call",), ("core",))),
    programs=(ProgramEntry("heating-1", ("edge",)), ProgramEntry("other-1")),
)


def heating(guid: str) -> Program:
    program = Program("heating", "1.2.3", guid=guid)

    @program.method(deadline_s=40.0)
    def warm(celsius: float, room: str = "hall") -> str:
        """Warm a room."""
        return f"{room}: {celsius:g}"

    return program


async def answers(bus: NatsBus, guid: str) -> bool:
    try:
        return bool(await call(bus, "fleet.alice.rpc.methods", Methods(guid), MethodList, 60.0))
    except NoSuchGuid:
        return False


def test_a_program_answers_as_its_own_guid_only(tmp_path: Path) -> None:
    pytest.importorskip("nkeys", reason="nkeys is not installed")
    made = make_keys(FLEET, tmp_path / "keys", ("127.0.0.1",), f"127.0.0.1:{(port := free_port())}")
    server = NatsServer(tmp_path, port, made.configuration)
    server.start()

    async def opened(name: str) -> NatsBus:
        access = BusAccess(f"tls://127.0.0.1:{port}", name, seed=made.seeds[name], ca=made.authority)
        return await connect(access, within_s=patience(30))

    async def play() -> None:
        bus, alice, bob = await opened("controller"), await opened("alice"), await opened("bob")
        own, impostor = await opened("heating-1"), await opened("other-1")
        store = await open_bucket(bus, "cotenant-fleet")
        controller, stop = FleetController(bus, store, ControllerSettings(FLEET)), asyncio.Event()
        running = [asyncio.create_task(controller.run(Asking(controller).verbs(), stop))]
        running.append(
            asyncio.create_task(heating("heating-1").serve(impostor, stop))
        )  # the server lets it hear nothing
        await impostor.flush(patience(30))
        await soon("the controller answers", lambda: answered(alice))
        assert not await answers(alice, "heating-1")
        running.append(asyncio.create_task(heating("heating-1").serve(own, stop)))
        await soon("the program answers", lambda: answers(alice, "heating-1"))
        asked = Call("heating-1", "warm", msgspec.Raw(b'{"celsius": "21"}'))
        for _ in range(20):  # the impostor is in the same queue: it would get half of them
            called = await call(alice, "fleet.alice.rpc.call", asked, Called, 60.0)
            assert json.loads(bytes(called.result)) == "hall: 21"
        with pytest.raises(FleetForbidden, match="tags"):
            await call(bob, "fleet.bob.rpc.call", asked, Called, 60.0)
        for subject in ("guid.heating-1.rpc.warm", "hb.other-1", "fleet.alice.rpc.down", "fleet.register.other-1"):
            with pytest.raises(FleetForbidden):
                await impostor.request(subject, b"{}", timeout_s=60.0)
        stop.set()
        await asyncio.gather(*running)
        for closed in (bus, alice, bob, own, impostor):
            await closed.close()

    async def answered(alice: NatsBus) -> bool:
        try:
            await call(alice, "fleet.alice.rpc.methods", Methods("agent-a"), MethodList, 60.0)
        except InvalidInput:
            return True
        except NoSuchGuid:
            return False
        return False

    try:
        asyncio.run(play())
    finally:
        server.kill()


def test_types_are_in_the_services_info(server: NatsServer) -> None:
    async def play() -> None:
        here, there = await connect(BusAccess(server.url, "here")), await connect(BusAccess(server.url, "heating-1"))
        stop = asyncio.Event()
        serving = asyncio.create_task(heating("heating-1").serve(there, stop))

        async def listed() -> bool:
            try:
                return bool(await call(here, "guid.heating-1.rpc.methods", Methods(), MethodList, 60.0))
            except NoSuchGuid:
                return False

        await soon("it answers", listed)
        info = json.loads((await here.request("$SRV.INFO.cotenant-program", b"", timeout_s=60.0)).data)
        assert info["metadata"] == {"guid": "heating-1", "program": "heating"}
        (warm,) = [found for found in info["endpoints"] if found["name"] == "warm"]
        assert warm["subject"] == "guid.heating-1.rpc.warm"
        assert (warm["metadata"]["result"], warm["metadata"]["deadline_ms"]) == ("str", "40000")
        schema = json.loads(warm["metadata"]["arguments"])
        (form,) = schema["$defs"].values()
        assert form["required"] == ["celsius"]
        assert form["properties"]["celsius"] == {"type": "number"}
        stop.set()
        await serving
        await here.close()
        await there.close()

    asyncio.run(play())


SCRIPT = """
from cotenant.services.fleet.programs.program import Program
program = Program("heating", "1.2.3")
@program.method()
def warm(celsius: float, rooms: list[str] = []) -> dict[str, float]:
    return {room: celsius for room in rooms}
program.run()
"""


def cotenant(*words: str, state: Path) -> subprocess.CompletedProcess[str]:
    script = "import sys; from cotenant.cli.main import main; sys.exit(main())"
    line = [sys.executable, "-c", script, *words, "--state-dir", str(state)]
    return subprocess.run(line, capture_output=True, text=True, timeout=patience(60))


def test_a_process_beside_an_embedded_fleet_is_called_by_the_command(tmp_path: Path) -> None:
    """A program connects to the embedded bus from outside by the file that tells commands of its user where it is."""
    state = tmp_path / "state" / "fleet"

    async def play() -> None:
        state.mkdir(parents=True)
        store, bus, stop = FileStore(state / "store"), MemoryBus(), asyncio.Event()
        broker = Broker(bus, "token")
        await broker.start()
        write_bus_file(state, broker.url, "token")
        controller = FleetController(bus, store, ControllerSettings(is_alone=True))
        running = asyncio.create_task(controller.run(Asking(controller).verbs(), stop))
        environment = os.environ | {"COTENANT_GUID": "heating-0000002a", "STATE_DIRECTORY": str(tmp_path / "state")}
        program = subprocess.Popen([sys.executable, "-c", SCRIPT], env=environment)
        try:

            async def there() -> bool:
                assert program.poll() is None
                try:
                    return bool(await call(bus, "fleet.x.rpc.methods", Methods("heating-0000002a"), MethodList, 60.0))
                except NoSuchGuid:
                    return False

            await soon("the program answers", there)
            words = ("fleet", "call", "heating-0000002a", "warm", "celsius=21.5", 'rooms:=["hall"]', "--json")
            done = await asyncio.to_thread(cotenant, *words, state=state)
            assert (done.returncode, done.stdout) == (0, '{"hall":21.5}\n'), done.stderr
            done = await asyncio.to_thread(cotenant, *words[:4], "celsius=hot", state=state)
            assert (done.returncode, done.stderr) == (2, "cotenant: celsius: str: expected `float`\n")
            done = await asyncio.to_thread(cotenant, "fleet", "methods", words[2], state=state)
            assert "warm(celsius: float, rooms: list[str] = []) -> dict[str, float]   within 5 s" in done.stdout
        finally:
            program.terminate()
            await asyncio.to_thread(program.wait)
            stop.set()
            await running
            await broker.close()
            await bus.close()
            store.close()

    asyncio.run(play())
