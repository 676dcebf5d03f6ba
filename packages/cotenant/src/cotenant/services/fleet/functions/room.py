"""Room and ports of one host, kept for containers that are to be made here."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterable
from dataclasses import dataclass

from cotenant.model.errors import Permanent
from cotenant.model.fleet.group import PlannedContainer
from cotenant.model.fleet.template import host_port
from cotenant.model.quantities import format_bytes, format_milli

KEPT_S = 120.0  # a controller that is lost leaves no reservation behind


@dataclass(frozen=True, slots=True)
class Taken:
    """What a container of this host requests."""

    guid: str
    cpu_milli: int
    memory_bytes: int
    ports: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Kept:
    taken: Taken
    group: str
    until_s: float


class RoomReservations:
    """Reservations; they are lost with the agent, and making a container reserves again."""

    def __init__(self, cpu_milli: int, memory_bytes: int) -> None:
        self._cpu_milli = cpu_milli
        self._memory_bytes = memory_bytes
        self._kept: dict[str, _Kept] = {}

    def reserve(
        self, container: PlannedContainer, group: str, existing: Iterable[Taken], now_s: float, check_ports: bool = True
    ) -> None:
        """Keep room. `existing`:

        Containers that are here. Raises `Permanent` where there is none, or a port is in use.
        """
        self._expire(now_s)
        template = container.template
        wanted = Taken(
            container.guid, template.cpu_milli, template.memory_bytes, tuple(port.taken for port in template.ports)
        )
        others = [
            taken for taken in (*existing, *(kept.taken for kept in self._kept.values())) if taken.guid != wanted.guid
        ]
        others = list({taken.guid: taken for taken in others}.values())
        cpu = self._cpu_milli - sum(taken.cpu_milli for taken in others)
        memory = self._memory_bytes - sum(taken.memory_bytes for taken in others)
        if wanted.cpu_milli > cpu:
            raise Permanent(f"requests {format_milli(wanted.cpu_milli)} CPUs, {format_milli(max(cpu, 0))} are free")
        if wanted.memory_bytes > memory:
            raise Permanent(
                f"requests {format_bytes(wanted.memory_bytes)} of memory, {format_bytes(max(memory, 0))} are free"
            )
        for port in wanted.ports:
            holder = next((taken.guid for taken in others if _is_among(port, taken.ports)), "")
            if holder:
                raise Permanent(f"port {port} is taken by {holder}")
            if check_ports and container.guid not in self._kept:
                _check_free(port)
        self._kept[container.guid] = _Kept(wanted, group, now_s + KEPT_S)

    def release(self, guid: str) -> None:
        """Give room back."""
        self._kept.pop(guid, None)

    def of_group(self, group: str, now_s: float) -> tuple[str, ...]:
        """Guids with room kept for them."""
        self._expire(now_s)
        return tuple(guid for guid, kept in self._kept.items() if kept.group == group)

    def _expire(self, now_s: float) -> None:
        for guid, kept in list(self._kept.items()):
            if kept.until_s <= now_s:
                del self._kept[guid]


def _is_among(port: str, others: Iterable[str]) -> bool:
    wanted = host_port(port)
    return any(wanted.conflicts(host_port(other)) for other in others)


def _check_free(port: str) -> None:
    """Raises `Permanent` where this host has no such address, or somebody listens there."""
    wanted = host_port(port)
    kind = socket.SOCK_DGRAM if wanted.protocol == "UDP" else socket.SOCK_STREAM
    family = socket.AF_INET6 if ":" in wanted.address else socket.AF_INET
    try:
        with contextlib.closing(socket.socket(family, kind)) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind((wanted.address, wanted.port))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise Permanent(f"port {port} is in use on this host") from None
        if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
            raise Permanent(f"port {port}: this host has no address {wanted.address}") from None
        raise Permanent(f"port {port} cannot be listened on: {error.strerror}") from None
