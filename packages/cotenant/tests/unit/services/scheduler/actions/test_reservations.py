"""A reservation's node is written, and the engine is answered exactly once, whatever the server says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from tests.fakes.cluster.reservation_world import World, node, reservation, web

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import Conflict, Forbidden, NotFound, Unavailable
from cotenant.drivers.kube.kinds.custom.reservation import ReservationObject
from cotenant.drivers.kube.kinds.kind import Kind
from cotenant.engine.framework.pod_state import SchedulingState
from cotenant.engine.plugins.reservations.instructions import DeleteReservation, ReserveNode
from cotenant.model.devices.device import Device, DeviceType
from cotenant.model.devices.inventory import NodeDevices
from cotenant.model.groups.reservation import PreAllocation
from cotenant.model.resources import GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, NVIDIA_GPU, Amounts
from cotenant.services.scheduler.actions.reservations import Reserver, delete, write_status


class Server(Client):
    """Answers the write of a status as told, and holds one object."""

    def __init__(self, fails: Exception | None = None, node: str | None = "") -> None:
        self.fails = fails
        self.node = node  # that the object has; None = there is none
        self.written: list[tuple[str, Any]] = []  # UIDs and statuses
        self.annotated: list[Any] = []
        self.refuses: Exception | None = None  # for annotations
        self.deleted: list[str] = []
        self.version = "7"
        self.read = lambda: None  # called when it is read

    async def set_status(
        self,
        kind: Kind[Any],
        namespace: str,
        name: str,
        uid: str,
        status: Any,
        *,
        keeps: bool = False,
        version: str = "",
    ) -> None:
        if version and version != self.version:
            raise Conflict("another version")
        self.written.append((uid, status))
        if self.fails is not None:
            raise self.fails

    async def patch(self, kind: Kind[Any], namespace: str, name: str, patch: Any, **_: Any) -> Any:
        self.annotated.append(patch)
        if self.refuses is not None:
            raise self.refuses
        if patch["metadata"].get("resourceVersion", self.version) != self.version:
            raise Conflict("another version")
        self.version = str(int(self.version) + 1)
        return self._stored(name)

    async def get(self, kind: Kind[Any], namespace: str, name: str) -> Any:
        if self.node is None:
            raise NotFound("gone")
        found = self._stored(name)
        self.read()
        return found

    def _stored(self, name: str) -> ReservationObject:
        meta = {"name": name, "uid": "uid-r", "resourceVersion": self.version}
        found = {"metadata": meta, "spec": {}, "status": {"nodeName": self.node}}
        return msgspec.json.decode(msgspec.json.encode(found), type=ReservationObject)

    async def delete(self, kind: Kind[Any], namespace: str, name: str, *, uid: str = "", **_: Any) -> None:
        self.deleted.append(f"{name} {uid}")


def carried_out(server: Server, leads: bool = True, gone: bool = False, cards: int = 0) -> SchedulingState:
    """Decide a reservation and write it to the server: where the engine has it then."""
    world = World(node("a"))
    total = Amounts.of({GPU_CORE: 100, GPU_MEMORY_RATIO: 100, GPU_MEMORY: 1000})
    world.devices(NodeDevices("a", (Device(DeviceType.GPU, 0, total, id="a0"),)))
    world.see(reservation(also=Amounts.of({NVIDIA_GPU: cards} if cards else {})))
    (reserve,) = world.cluster.decide(0.0)
    assert isinstance(reserve, ReserveNode)
    if gone:
        world.reservations.gone("r", 0.0)
    return written(server, world, reserve, leads)


def written(
    server: Server, world: World, reserve: ReserveNode, leads: bool = True, fenced: Callable[[], bool] | None = None
) -> SchedulingState:
    """Write a decided reservation to the server: where the engine has it then."""
    woken: list[bool] = []

    async def scenario() -> None:
        reserver = Reserver(
            server,
            world.cluster,
            lambda: 1.0,
            may_write=fenced or (lambda: leads),
            changed=lambda: woken.append(True),
            is_fenced=fenced is not None,
        )
        reserver.add(reserve)
        while reserver._tasks:
            await asyncio.sleep(0)
        reserver.stop()

    asyncio.run(scenario())
    assert woken
    world.cluster.validate()
    return world.cluster.state_of("uid-r")


LOST = Unavailable("the connection broke", maybe_done=True)


@pytest.mark.parametrize(
    ("server", "state"),
    [
        (Server(), SchedulingState.BOUND),
        (Server(NotFound("gone")), SchedulingState.GONE),
        (Server(Conflict("another UID")), SchedulingState.GONE),
        (Server(Forbidden("no")), SchedulingState.HELD),
        (Server(Unavailable("no route", maybe_done=False)), SchedulingState.HELD),
        (Server(LOST, "a"), SchedulingState.BOUND),
        (Server(LOST, ""), SchedulingState.HELD),
        (Server(LOST, None), SchedulingState.GONE),
        (Server(RuntimeError("unforeseen")), SchedulingState.HELD),
    ],
)
def test_answers(server: Server, state: SchedulingState) -> None:
    assert carried_out(server) is state
    ((uid, status),) = server.written
    assert (uid, status["nodeName"]) == ("uid-r", "a")


def test_devices_are_written_before_the_status() -> None:
    server = Server()
    assert carried_out(server, cards=1) is SchedulingState.BOUND
    (patch,) = server.annotated
    assert patch["metadata"]["uid"] == "uid-r"
    assert patch["metadata"]["annotations"]["scheduling.koordinator.sh/resource-status"] is None
    assert '"minor":0' in patch["metadata"]["annotations"]["scheduling.koordinator.sh/device-allocated"]
    for refuses, state in (
        (NotFound("gone"), SchedulingState.GONE),
        (LOST, SchedulingState.HELD),
        (Forbidden("no"), SchedulingState.HELD),
    ):
        server = Server()
        server.refuses = refuses
        assert carried_out(server, cards=1) is state
        assert server.written == []


@pytest.mark.parametrize(
    ("refuses", "state"),
    [(None, SchedulingState.BOUND), (NotFound("gone"), SchedulingState.HELD), (LOST, SchedulingState.HELD)],
)
def test_pods_that_it_takes_are_annotated_first(refuses: Exception | None, state: SchedulingState) -> None:
    world = World(node("a"))
    world.see(web("x", 2000, on="a"), replace(reservation(cpu=4000), pre_allocation=PreAllocation()))
    (reserve,) = world.cluster.decide(0.0)
    server = Server()
    server.refuses = refuses
    assert written(server, world, reserve) is state
    ((uid, note),) = ((entry["metadata"]["uid"], entry["metadata"]["annotations"]) for entry in server.annotated)
    assert (uid, note) == ("uid-x", {"scheduling.koordinator.sh/reservation-allocated": '{"name":"r","uid":"uid-r"}'})
    assert len(server.written) == (refuses is None)


def test_nothing_is_sent_that_is_not_ours_to_send() -> None:
    server = Server()
    assert carried_out(server, leads=False) is SchedulingState.HELD
    assert carried_out(server, gone=True) is SchedulingState.GONE
    assert server.written == []


def test_statuses_and_deletions() -> None:
    world = World(node("a"))
    world.see(reservation(ttl_s=5.0))
    world.go()
    (status,) = world.cluster.decide(6.0)
    server = Server()
    asyncio.run(write_status(server, status))  # type: ignore[arg-type]
    asyncio.run(delete(server, DeleteReservation("r", "uid-r")))
    assert [(uid, told["phase"]) for uid, told in server.written] == [("uid-r", "Failed")]
    assert server.deleted == ["r uid-r"]


def decided(server: Server, fenced: Callable[[], bool], cards: int = 0) -> SchedulingState:
    """As one of several schedulers."""
    world = World(node("a"))
    total = Amounts.of({GPU_CORE: 100, GPU_MEMORY_RATIO: 100, GPU_MEMORY: 1000})
    world.devices(NodeDevices("a", (Device(DeviceType.GPU, 0, total, id="a0"),)))
    world.see(reservation(also=Amounts.of({NVIDIA_GPU: cards} if cards else {})))
    (reserve,) = world.cluster.decide(0.0)
    assert isinstance(reserve, ReserveNode)
    return written(server, world, reserve, fenced=fenced)


@pytest.mark.parametrize("cards", [0, 1])
def test_one_of_several_writes_over_the_version_that_it_read_while_it_led(cards: int) -> None:
    server = Server()
    assert decided(server, lambda: True, cards) is SchedulingState.BOUND
    assert (len(server.written), len(server.annotated)) == (1, cards)


@pytest.mark.parametrize("cards", [0, 1])
def test_a_shard_that_was_stopped_before_it_wrote_finds_another_version(cards: int) -> None:
    """Its Lease ran out after it had asked; the fence changed the reservation meanwhile."""
    server = Server()

    def fence() -> None:
        server.version = "8"

    server.read = fence
    assert decided(server, lambda: True, cards) is not SchedulingState.BOUND
    assert server.written == []


def test_a_shard_that_was_stopped_before_it_read_does_not_write() -> None:
    """The version that it would read is already that of the fence."""
    leads = [True, False]
    server = Server()
    assert decided(server, lambda: leads.pop(0) if len(leads) > 1 else leads[0]) is not SchedulingState.BOUND
    assert (server.written, server.annotated) == ([], [])


def test_one_of_several_leaves_a_reservation_that_has_a_node_meanwhile() -> None:
    server = Server(node="b")
    assert decided(server, lambda: True) is not SchedulingState.BOUND
    assert server.written == []
