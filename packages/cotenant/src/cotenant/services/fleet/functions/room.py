"""Room and ports of one host, kept for containers that are to be made here."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterable
from dataclasses import dataclass

from cotenant.model.errors import Permanent
from cotenant.model.fleet.group import PlannedContainer
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
            holder = next((taken.guid for taken in others if port in taken.ports), "")
            if holder:
                raise Permanent(f"port {port} is taken by {holder}")
            if check_ports and container.guid not in self._kept and not _is_free(port):
                raise Permanent(f"port {port} is in use on this host")
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


def _is_free(port: str) -> bool:
    number, _, protocol = port.partition("/")
    kind = socket.SOCK_DGRAM if protocol == "udp" else socket.SOCK_STREAM
    with contextlib.closing(socket.socket(socket.AF_INET, kind)) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("0.0.0.0", int(number)))
        except OSError:
            return False
    return True
