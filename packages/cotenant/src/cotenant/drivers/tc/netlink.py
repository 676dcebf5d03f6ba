"""The queueing discipline of one network device, through netlink.

`tc` prints for people, and the netlink library is large and has errors of its own. The few operations that the classes
need, on names of devices, with this package's errors; the library is imported at first use, and each operation opens
and closes its socket.
Limits: HTB only; rates are whole bytes per second in the kernel, so bits are rounded down to multiples of 8.

Source: tc-htb(8); Linux net/sched/sch_htb.c.
"""

from __future__ import annotations

import errno
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING, Any

from cotenant.model.errors import InvalidInput, Permanent, Transient, Unsupported
from cotenant.model.machine.knob import Vanished

if TYPE_CHECKING:
    from pyroute2 import IPRoute, NetlinkError

NEEDS = "Linux traffic control with sch_htb, the right to administrate networks, and pyroute2"
MIN_BITS = 8_000  # a second; HTB's token arithmetic overflows well below
_ROOT_PARENT = 0xFFFFFFFF
_QUANTUM = (1_514, 60_000)  # bytes that a class sends per round
_ETH_P_IP, _ETH_P_IPV6 = 0x0800, 0x86DD
_FILTER_PRIORITY = {_ETH_P_IP: 49, _ETH_P_IPV6: 50}


@dataclass(frozen=True, slots=True)
class RootQdisc:
    """A device's root discipline. `handle` 0: the kernel's default, which is restored automatically."""

    kind: str
    handle: int


@dataclass(frozen=True, slots=True)
class TrafficClass:
    """One HTB class."""

    minor: int
    parent: int  # full handle
    min_bits: int  # per second
    max_bits: int
    sent_bytes: int = 0
    dropped: int = 0


class Netlink:
    """Traffic control of this network namespace, or of a named one."""

    def __init__(self, namespace: str | None = None) -> None:
        self._namespace = namespace

    def root(self, device: str) -> RootQdisc:
        """The root discipline. All methods raise `Vanished` where the device is gone, `Unsupported` without traffic
        control.
        """
        with self._open(device) as (socket, index):
            for qdisc in socket.get_qdiscs(index=index):
                if qdisc["parent"] == _ROOT_PARENT:
                    return RootQdisc(qdisc.get_attr("TCA_KIND"), qdisc["handle"])
        return RootQdisc("noqueue", 0)

    def make_root(self, device: str, handle: int, default_minor: int) -> None:
        """Install an HTB root whose unclassified packets go to a default class."""
        with self._open(device) as (socket, index):
            socket.tc("add", "htb", index, handle, default=default_minor)

    def remove_root(self, device: str, handle: int) -> None:
        """Remove the root with all below; the kernel restores its default."""
        with self._open(device) as (socket, index):
            socket.tc("del", "htb", index, handle)

    def classes(self, device: str, handle: int) -> tuple[TrafficClass, ...]:
        """The classes of this HTB root, ascending."""
        with self._open(device) as (socket, index):
            found = [
                _class(one)
                for one in socket.get_classes(index=index)
                if one.get_attr("TCA_KIND") == "htb" and one["handle"] >> 16 == handle >> 16
            ]
        return tuple(sorted(found, key=lambda one: one.minor))

    def set_class(self, device: str, handle: int, one: TrafficClass) -> None:
        """Create a class, or change it to this."""
        least, most = max(MIN_BITS, one.min_bits) // 8, max(MIN_BITS, one.max_bits) // 8
        quantum = min(_QUANTUM[1], max(_QUANTUM[0], least // 10))
        with self._open(device) as (socket, index):
            socket.tc(
                "replace-class",
                "htb",
                index,
                handle | one.minor,
                parent=one.parent,
                rate=least,
                ceil=most,
                quantum=quantum,
            )

    def remove_class(self, device: str, handle: int, minor: int) -> None:
        """Remove a class without classes below it."""
        with self._open(device) as (socket, index):
            socket.tc("del-class", index=index, handle=handle | minor)

    def steer(self, device: str, handle: int, minor: int, addresses: tuple[IPv4Address | IPv6Address, ...]) -> None:
        """Direct traffic from these source addresses, and no others, to a class."""
        with self._open(device) as (socket, index):
            for protocol, priority in _FILTER_PRIORITY.items():
                version = 4 if protocol == _ETH_P_IP else 6
                mine = [address for address in addresses if address.version == version]
                current = [
                    one for one in socket.get_filters(index=index, parent=handle) if one["info"] >> 16 == priority
                ]
                if current:
                    socket.tc("del-filter", index=index, parent=handle, info=current[0]["info"])
                for address in mine:
                    socket.tc(
                        "add-filter",
                        "u32",
                        index,
                        parent=handle,
                        prio=priority,
                        protocol=protocol,
                        target=handle | minor,
                        keys=_source_keys(address),
                    )

    @contextmanager
    def _open(self, device: str) -> Iterator[tuple[IPRoute, int]]:
        try:
            pyroute2 = importlib.import_module("pyroute2")
        except ImportError as error:
            raise Unsupported("traffic classes", NEEDS) from error
        try:
            with pyroute2.IPRoute(netns=self._namespace, flags=0) as socket:
                found = socket.link_lookup(ifname=device)
                if not found:
                    raise Vanished(f"{device}: no such network device")
                yield socket, found[0]
        except pyroute2.NetlinkError as error:
            raise _error(device, error) from error
        except OSError as error:
            raise Transient(f"{device}: netlink: {error}") from error


def _error(device: str, error: NetlinkError) -> Exception:
    """Map a kernel error to this package's errors."""
    what = f"{device}: {error}"
    match error.code:
        case errno.ENODEV:
            return Vanished(what)
        case errno.EPERM | errno.EACCES:
            return Permanent(what)
        case errno.EINVAL | errno.ERANGE:
            return InvalidInput("traffic class", device, f"a value that the kernel accepts ({error})")
        case errno.EOPNOTSUPP:
            return Unsupported("traffic classes", NEEDS)
        case errno.ENOENT if "specified qdisc" in str(error).lower():
            return Unsupported("traffic classes", NEEDS)
        case _:
            return Transient(what)


def _class(message: Any) -> TrafficClass:
    options, stats = message.get_attr("TCA_OPTIONS"), message.get_attr("TCA_STATS2")
    parameters = options.get_attr("TCA_HTB_PARMS")
    least = options.get_attr("TCA_HTB_RATE64") or parameters["rate"]
    most = options.get_attr("TCA_HTB_CEIL64") or parameters["ceil"]
    sent = stats.get_attr("TCA_STATS_BASIC")["bytes"] if stats is not None else 0
    dropped = stats.get_attr("TCA_STATS_QUEUE")["drops"] if stats is not None else 0
    return TrafficClass(message["handle"] & 0xFFFF, message["parent"], least * 8, most * 8, sent, dropped)


def _source_keys(address: IPv4Address | IPv6Address) -> list[str]:
    packed, start = (address.packed, 12) if address.version == 4 else (address.packed, 8)
    words = (packed[at : at + 4].hex() for at in range(0, len(packed), 4))
    return [f"0x{word}/0xffffffff+{start + 4 * at}" for at, word in enumerate(words)]
