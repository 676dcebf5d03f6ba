"""Ports of a host that zones forward to their pods: each belongs to one pod of one zone while that zone is there.

QEMU listens on a forwarded port, and the second machine that asks for one ends at its start with a line that names no
zone. So a port that another zone of this host has is refused before a machine is made, with both named, and can be had
once that zone's machine has ended.
Limits: zones of one keeper are compared; a port that another program of the host listens on shows at QEMU's start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cotenant.model.errors import InvalidInput
from cotenant.services.zones.definition import ZoneDefinition
from cotenant.services.zones.pods import PodPort, ZonePod


def check_host_ports(wanted: ZoneDefinition, running: Iterable[ZoneDefinition]) -> None:
    """Refuse a zone that forwards a port which one of these has. Raises `InvalidInput` naming both."""
    others = list(running)
    for pod, port in _forwarded(wanted):
        for other in others:
            for its_pod, its_port in _forwarded(other):
                if port.takes(its_port):
                    raise InvalidInput(
                        f"pods.{pod.name}.ports.host",
                        f"{port.address}:{port.host}",
                        "a port of this host that no other zone forwards",
                        f"zone {other.zone} forwards {its_port.address}:{its_port.host} to its pod {its_pod.name}: "
                        "take another port, or destroy that zone",
                    )


def _forwarded(zone: ZoneDefinition) -> Iterator[tuple[ZonePod, PodPort]]:
    return ((pod, port) for pod in zone.pods for port in pod.ports if port.host)
