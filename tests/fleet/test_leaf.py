"""A host behind the server of its LAN, a leaf node of the fleet's: heard, asked, the same after the leaf was lost."""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import suppress
from pathlib import Path

import pytest
from tests.fakes.servers.nats_server import NatsServer
from tests.fakes.servers.ports import free_port
from tests.fakes.waiting import patience, soon

from cotenant.drivers.nats.client import BusAccess, connect
from cotenant.drivers.nats.contract import BusMessage
from cotenant.drivers.nats.file_store import FileStore
from cotenant.model.errors import Transient
from cotenant.model.fleet.configuration import AgentConfiguration
from cotenant.model.fleet.host import Registration
from cotenant.model.fleet.refusal import NobodyAnswers, Overdue
from cotenant.model.fleet.requests import Limit, Limited
from cotenant.model.fleet.rights import FleetFile, HostEntry, Lan
from cotenant.model.fleet.states import AgentState
from cotenant.services.fleet.agent.agent import FleetAgent
from cotenant.services.fleet.controller.asking import Asking
from cotenant.services.fleet.controller.controller import ControllerSettings, FleetController
from cotenant.services.fleet.fleet_file import MadeKeys, make_credentials, make_keys
from cotenant.services.fleet.functions.contract import Beat
from cotenant.services.fleet.rpc import RpcVerb, call

pytestmark = pytest.mark.slow


class Limits:
    """Implements `Function`: remembers what it was asked for."""

    name = "limits"
    fault = ""

    def __init__(self) -> None:
        self.asked: list[Limit] = []
        self.verbs = {"limit": RpcVerb(Limit, self._limit)}

    async def _limit(self, request: Limit, _: BusMessage) -> Limited:
        self.asked.append(request)
        return Limited(("cpu=2 for 9m59s",))

    def configure(self, configuration: AgentConfiguration) -> None:
        """Nothing to set."""

    async def start(self) -> None:
        """Nothing to start."""

    async def stop(self) -> None:
        """Nothing to stop."""

    async def add_to(self, beat: Beat) -> None:
        """Nothing to add."""


def made_of(fleet: FleetFile, folder: Path, hub_port: int, between: int, with_jwt: bool) -> MadeKeys:
    """Keys, or credentials, of a fleet on loopback."""
    listen, leaf_listen = f"127.0.0.1:{hub_port}", f"127.0.0.1:{between}"
    if with_jwt:
        return make_credentials(fleet, folder, ("127.0.0.1",), listen, int(time.time()), leaf_listen)
    return make_keys(fleet, folder, ("127.0.0.1",), listen, leaf_listen)


@pytest.mark.parametrize("with_jwt", [False, True], ids=["keys", "credentials"])
def test_a_host_behind_a_leaf_is_listed_and_asked_and_its_loss_and_return_lose_nothing(
    tmp_path: Path, with_jwt: bool
) -> None:
    pytest.importorskip("nkeys", reason="nkeys is not installed")
    hub_port, leaf_port, between = free_port(), free_port(), free_port()
    lan = Lan("east", ("agent-b",), f"127.0.0.1:{leaf_port}")
    fleet = FleetFile((HostEntry("agent-a"), HostEntry("agent-b")), lans=(lan,))
    made = made_of(fleet, tmp_path / "keys", hub_port, between, with_jwt)
    for name in ("hub", "leaf"):
        (tmp_path / name).mkdir()
    hub = NatsServer(tmp_path / "hub", hub_port, made.configuration)
    leaf = NatsServer(tmp_path / "leaf", leaf_port, made.leaves["east"])
    leaf_authority = made.leaves["east"].parent / "tls" / "ca.crt"

    async def play() -> None:
        bus = await connect(
            BusAccess(f"tls://127.0.0.1:{hub_port}", "controller", seed=made.seeds["controller"], ca=made.authority),
            patience(30),
        )
        there = await connect(
            BusAccess(f"tls://127.0.0.1:{leaf_port}", "agent-b", seed=made.seeds["agent-b"], ca=leaf_authority),
            patience(30),
        )
        store = FileStore(tmp_path / "store")
        controller = FleetController(bus, store, ControllerSettings(is_alone=True))
        running = asyncio.create_task(controller.run(Asking(controller).verbs(), asyncio.Event()))
        limits = Limits()
        local = AgentConfiguration(heartbeat_s=0.1)
        agent = FleetAgent(Registration("agent-b", "behind", "1", tags=("east",)), there, (limits,), local)
        agent_running = asyncio.create_task(agent.run(asyncio.Event()))

        def state() -> AgentState | None:
            hosts = list(controller.registry.select(("east",)))
            return hosts[0].state if hosts and hosts[0].beat is not None else None

        async def limited() -> bool:
            # servers tell one another a moment after an agent subscribed, and a killed one takes the request with it
            with suppress(NobodyAnswers, Overdue, Transient):
                subject, request = "guid.agent-b.rpc.limit", Limit("web-1", {"cpu": "2"})
                answer = await call(bus, subject, request, Limited, 1.0, key="once")
                return answer.lines == ("cpu=2 for 9m59s",)
            return False

        await soon("it is listed with its tag", lambda: state() is AgentState.ALIVE)
        await soon("it is limited", limited)
        leaf.kill()
        await soon("its silence is seen", lambda: state() is AgentState.AWAY)
        leaf.start()
        await soon("it is back", lambda: state() is AgentState.ALIVE)
        await soon("it is asked again with the same key", limited)
        assert limits.asked == [Limit("web-1", {"cpu": "2"})]  # and acted once
        hub.kill()
        hub.start()
        await soon("the controller is back", lambda: bus.is_connected)
        await soon("it is asked through the new hub", limited)
        assert len(limits.asked) == 1
        for task in (agent_running, running):
            task.cancel()
        await asyncio.gather(agent_running, running, return_exceptions=True)
        await there.close()
        await bus.close()
        store.close()

    hub.start()
    leaf.start()
    try:
        asyncio.run(play())
    finally:
        leaf.kill()
        hub.kill()


@pytest.mark.parametrize("with_jwt", [False, True], ids=["keys", "credentials"])
def test_a_leaf_may_not_speak_for_hosts_of_another_network(tmp_path: Path, with_jwt: bool) -> None:
    pytest.importorskip("nkeys", reason="nkeys is not installed")
    hub_port, leaf_port, between = free_port(), free_port(), free_port()
    fleet = FleetFile((HostEntry("agent-a"), HostEntry("agent-b")), lans=(Lan("east", ("agent-b",)),))
    made = made_of(fleet, tmp_path / "keys", hub_port, between, with_jwt)
    for name in ("hub", "leaf"):
        (tmp_path / name).mkdir()
    remotes = next(line for line in made.leaves["east"].read_text().splitlines() if "remotes:" in line)
    remotes = re.sub(r"account: \w+, ", "", remotes)  # it knows no accounts
    taken_over = tmp_path / "leaf" / "nats-server.conf"  # by somebody who lets everybody in
    taken_over.write_text(f'listen: "127.0.0.1:{leaf_port}"\nleafnodes {{ {remotes} }}\n')
    hub = NatsServer(tmp_path / "hub", hub_port, made.configuration)
    leaf = NatsServer(tmp_path / "leaf", leaf_port, taken_over)

    async def play() -> None:
        access = BusAccess(
            f"tls://127.0.0.1:{hub_port}", "controller", seed=made.seeds["controller"], ca=made.authority
        )
        controller, liar = await connect(access, patience(30)), await connect(BusAccess(leaf.url, "liar"), patience(30))
        heard: set[str] = set()

        async def beat(message: BusMessage) -> None:
            heard.add(message.subject)

        await controller.subscribe("hb.*", beat)

        async def both() -> bool:
            await liar.publish("hb.agent-a", b"false")
            await liar.publish("hb.agent-b", b"true")
            return "hb.agent-b" in heard

        await soon("what its own host says comes through", both)
        await soon("and again", both)
        assert heard == {"hb.agent-b"}
        await liar.close()
        await controller.close()

    hub.start()
    leaf.start()
    try:
        asyncio.run(play())
    finally:
        leaf.kill()
        hub.kill()
