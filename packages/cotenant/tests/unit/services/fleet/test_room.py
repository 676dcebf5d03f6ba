"""Room and ports of a host, and the epochs that an agent has seen."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from cotenant.model.errors import Permanent, Transient
from cotenant.model.fleet.group import PlannedContainer
from cotenant.model.fleet.refusal import Fenced
from cotenant.model.fleet.requests import Fence
from cotenant.model.fleet.template import ContainerTemplate, PortMapping
from cotenant.services.fleet.functions.fences import Fences
from cotenant.services.fleet.functions.room import KEPT_S, RoomReservations, Taken


def planned(guid: str, cpu_milli: int = 0, memory_bytes: int = 0, port: int = 0) -> PlannedContainer:
    ports = (PortMapping(port, 80),) if port else ()
    return PlannedContainer(
        guid, "agent-a", ContainerTemplate("web", "image", (), (), {}, {}, ports, (), cpu_milli, memory_bytes)
    )


def test_room_is_kept_once_for_each_and_given_back() -> None:
    room = RoomReservations(1000, 1 << 30)
    room.reserve(planned("a", 600), "shop", [], 0.0)
    room.reserve(planned("a", 600), "shop", [], 0.0)
    with pytest.raises(Permanent, match="requests 600m CPUs, 400m are free"):
        room.reserve(planned("b", 600), "shop", [], 0.0)
    assert room.of_group("shop", 0.0) == ("a",)
    room.release("a")
    room.reserve(planned("b", 600), "shop", [], 0.0)


def test_a_reservation_and_its_container_count_once_and_a_lost_one_expires() -> None:
    room = RoomReservations(1000, 1 << 30)
    room.reserve(planned("a", 600), "shop", [], 0.0)
    room.reserve(planned("b", 400), "shop", [Taken("a", 600, 0, ())], 1.0)
    assert room.of_group("shop", KEPT_S + 0.5) == ("b",)
    assert room.of_group("shop", KEPT_S + 1.0) == ()


def test_memory_and_ports_of_what_is_there_are_taken() -> None:
    room = RoomReservations(1000, 1 << 30)
    there = Taken("old", 0, 1 << 29, ("8080/tcp",))
    with pytest.raises(Permanent, match="requests 1Gi of memory, 512Mi are free"):
        room.reserve(planned("a", memory_bytes=1 << 30), "shop", [there], 0.0)
    with pytest.raises(Permanent, match="port 8080/tcp is taken by old"):
        room.reserve(planned("a", port=8080), "shop", [there], 0.0)


def test_a_port_of_another_process_is_in_use() -> None:
    with socket.socket() as other:
        other.bind(("0.0.0.0", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(Permanent, match=f"port {port}/tcp is in use on this host"):
            RoomReservations(1000, 1 << 30).reserve(planned("a", port=port), "shop", [], 0.0)


def test_ports_of_an_address() -> None:
    def reserve(*ports: PortMapping, there: tuple[str, ...] = ()) -> None:
        wanted = PlannedContainer("a", "agent-a", ContainerTemplate("web", "image", ports=ports))
        RoomReservations(1000, 1 << 30).reserve(wanted, "shop", [Taken("old", 0, 0, there)], 0.0)

    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        reserve(PortMapping(port, 80, "tcp", "127.0.0.2"))
        with pytest.raises(Permanent, match=rf"port 127\.0\.0\.1:{port}/tcp is in use on this host"):
            reserve(PortMapping(port, 80, "tcp", "127.0.0.1"))
        with pytest.raises(Permanent, match=r"port 127\.0\.0\.2:9/tcp is taken by old"):
            reserve(PortMapping(9, 80, "tcp", "127.0.0.2"), there=("9/tcp",))
        with pytest.raises(Permanent, match="port 9/tcp is taken by old"):
            reserve(PortMapping(9, 80), there=("127.0.0.2:9/tcp",))
    with pytest.raises(Permanent, match=r"port 203\.0\.113\.1:9/tcp: this host has no address 203\.0"):
        reserve(PortMapping(9, 80, "tcp", "203.0.113.1"))


def test_epochs_only_rise_also_over_a_restart(tmp_path: Path) -> None:
    fences = Fences(tmp_path / "epochs.json")
    fences.check(Fence("shop", 5))
    fences.check(Fence("shop", 5))
    with pytest.raises(Fenced, match=r"group shop belongs to a later controller \(epoch 5, not 4\)"):
        Fences(tmp_path / "epochs.json").check(Fence("shop", 4))
    fences.check(Fence("other", 1))
    (tmp_path / "epochs.json").write_text("{")
    with pytest.raises(Transient, match="is damaged"):
        Fences(tmp_path / "epochs.json")
