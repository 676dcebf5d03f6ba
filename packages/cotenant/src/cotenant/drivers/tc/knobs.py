"""The rates of two classes of an uplink as knobs: services and best effort.

A device has one root discipline; replacing it must be undone exactly, whatever order the classes come and go in. The
first class that is written installs an HTB root with a handle of our own in place of the kernel's default; the last one
that is restored removes it, and the kernel's default returns. Both classes are children of one whose rate is the larger
ceiling, so that each may use what the other leaves. Unclassified traffic belongs to the services. A root discipline
that an administrator configured is never replaced. A class that does not exist reads as "".

Limits: egress only. Traffic gets into the best-effort class by priority.py or by source address (`steer`). All cores
queue at one lock, so a device with many queues loses some of its speed.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Protocol

from cotenant.drivers.tc.netlink import MIN_BITS, Netlink, RootQdisc, TrafficClass
from cotenant.model.errors import InvalidInput, Permanent, Unsupported
from cotenant.model.machine.counters import Gap
from cotenant.model.machine.knob import Knob, KnobTarget

HANDLE = 0xC07E0000
MINORS = {"ls": 0x10, "be": 0x20}  # by the class in a target's group: `DEVICE/CLASS`
_TOP = 0x1
_ABSENT, _STOOD = "absent", "stood "


class TrafficControl(Protocol):
    """The netlink operations that the classes need; see `netlink.Netlink` for semantics and errors."""

    def root(self, device: str) -> RootQdisc:
        """The root discipline."""
        ...

    def make_root(self, device: str, handle: int, default_minor: int) -> None:
        """Install an HTB root."""
        ...

    def remove_root(self, device: str, handle: int) -> None:
        """Remove the root."""
        ...

    def classes(self, device: str, handle: int) -> tuple[TrafficClass, ...]:
        """The classes of the root."""
        ...

    def set_class(self, device: str, handle: int, one: TrafficClass) -> None:
        """Create or change a class."""
        ...

    def remove_class(self, device: str, handle: int, minor: int) -> None:
        """Remove a class."""
        ...

    def steer(self, device: str, handle: int, minor: int, addresses: tuple[IPv4Address | IPv6Address, ...]) -> None:
        """Classify by source address."""
        ...


class TcKnobs:
    """Implements engine/node/interfaces.KnobPort for `KnobScope.TC`."""

    def __init__(self, traffic: TrafficControl | None = None) -> None:
        self._traffic: TrafficControl = traffic if traffic is not None else Netlink()
        self._lacks: Gap | None = None

    def supported(self, knob: Knob) -> Gap | None:
        """None unless the machine is known to lack it: the kernel reports that when a root is first installed."""
        return self._lacks if knob is Knob.RATE else Gap(str(knob), "a driver of its own")

    def read(self, target: KnobTarget) -> str:
        """ "LEAST MOST" in bits/s; "" where there is no such class."""
        device, minor = _place(target)
        current = self._classes(device).get(minor)
        return "" if current is None else f"{current.min_bits} {current.max_bits}"

    def raw(self, target: KnobTarget) -> str:
        """The class's rates, or that there was no class."""
        current = self.read(target)
        return _STOOD + current if current else _ABSENT

    def write(self, target: KnobTarget, value: str) -> None:
        """Create the class, or set its rates. Raises `Permanent` where the device's root was configured by an
        administrator.
        """
        device, minor = _place(target)
        least, most = _rates(target, value)
        root = self._traffic.root(device)
        if root.handle != HANDLE:
            if root.handle != 0:
                raise Permanent(f"{device} has a root discipline of its own ({root.kind} {root.handle >> 16:x}:)")
            try:
                self._traffic.make_root(device, HANDLE, MINORS["ls"])
            except Unsupported as error:
                self._lacks = Gap(str(Knob.RATE), error.needs)
                raise
        others = [one for other, one in self._classes(device).items() if other not in (minor, _TOP)]
        top = max(most, *(one.max_bits for one in others)) if others else most
        self._traffic.set_class(device, HANDLE, TrafficClass(_TOP, HANDLE, top, top))
        self._traffic.set_class(device, HANDLE, TrafficClass(minor, HANDLE | _TOP, least, most))

    def restore(self, target: KnobTarget, raw: str) -> None:
        """Write back what `raw` returned; the root is removed with the last class."""
        if raw.startswith(_STOOD):
            self.write(target, raw.removeprefix(_STOOD))
            return
        if raw != _ABSENT:
            raise InvalidInput(f"raw value of {target}", raw, "what raw() returned for this knob")
        device, minor = _place(target)
        if self._traffic.root(device).handle != HANDLE:
            return
        classes = self._classes(device)
        if set(classes) - {minor, _TOP}:
            if minor in classes:
                self._traffic.remove_class(device, HANDLE, minor)
        else:
            self._traffic.remove_root(device, HANDLE)

    def sent_bytes(self, target: KnobTarget) -> int | None:
        """Counter of bytes sent by the class since it was created; None where there is none."""
        device, minor = _place(target)
        current = self._classes(device).get(minor)
        return None if current is None else current.sent_bytes

    def steer(self, target: KnobTarget, addresses: Iterable[str]) -> None:
        """Direct traffic from these source addresses, and no others, to the class: pods with addresses of their own.

        Works where nothing rewrites the source before it is sent. Removed with the root. Raises `InvalidInput` for a
        malformed address.
        """
        device, minor = _place(target)
        try:
            parsed = tuple(ip_address(address) for address in sorted(set(addresses)))
        except ValueError as error:
            raise InvalidInput(f"addresses of {target}", str(error), "IPv4 or IPv6 addresses") from error
        if minor not in self._classes(device):
            raise InvalidInput(str(target), "", "an existing class", "set its rate first")
        self._traffic.steer(device, HANDLE, minor, parsed)

    def _classes(self, device: str) -> dict[int, TrafficClass]:
        return {one.minor: one for one in self._traffic.classes(device, HANDLE)}


def priority_of(class_name: str) -> int:
    """The socket priority that puts a packet into the class. Raises `InvalidInput` for an unknown name."""
    if class_name not in MINORS:
        raise InvalidInput("traffic class", class_name, f"one of {', '.join(MINORS)}")
    return HANDLE | MINORS[class_name]


def _place(target: KnobTarget) -> tuple[str, int]:
    if target.knob is not Knob.RATE:
        raise Unsupported(str(target.knob), "a driver of its own")
    device, _, name = target.group.partition("/")
    if name not in MINORS or not 0 < len(device) < 16:
        raise InvalidInput(str(target), target.group, f"DEVICE/CLASS, CLASS one of {', '.join(MINORS)}")
    return device, MINORS[name]


def _rates(target: KnobTarget, value: str) -> tuple[int, int]:
    parts = value.split(" ")
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() and len(part) < 16 for part in parts):
        raise InvalidInput(str(target), value, '"LEAST MOST" in bits a second')
    least, most = (max(MIN_BITS, int(part)) for part in parts)
    if least > most:
        raise InvalidInput(str(target), value, "LEAST not above MOST")
    return least, most
