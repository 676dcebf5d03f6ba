"""A device's queueing discipline in memory, as drivers/tc/netlink speaks of it: what hangs below what, and what the
kernel refuses.
"""

from __future__ import annotations

from dataclasses import replace

from cotenant.drivers.tc.netlink import RootQdisc, TrafficClass
from cotenant.model.errors import Transient
from cotenant.model.machine.knob import Vanished


class FakeTraffic:
    def __init__(self, *devices: str) -> None:
        self.default = {device: RootQdisc("noqueue", 0) for device in devices}
        self.roots = dict(self.default)
        self.held: dict[str, dict[int, TrafficClass]] = {device: {} for device in devices}
        self.sources: dict[str, dict[int, tuple[object, ...]]] = {device: {} for device in devices}

    def _known(self, device: str) -> None:
        if device not in self.roots:
            raise Vanished(f"{device}: no such network device")

    def root(self, device: str) -> RootQdisc:
        self._known(device)
        return self.roots[device]

    def make_root(self, device: str, handle: int, default_minor: int) -> None:
        self._known(device)
        if self.roots[device].handle:
            raise Transient(f"{device}: File exists")
        self.roots[device] = RootQdisc("htb", handle)

    def remove_root(self, device: str, handle: int) -> None:
        self._known(device)
        assert self.roots[device].handle == handle
        self.roots[device] = self.default[device]
        self.held[device], self.sources[device] = {}, {}

    def classes(self, device: str, handle: int) -> tuple[TrafficClass, ...]:
        self._known(device)
        held = self.held[device] if self.roots[device].handle == handle else {}
        return tuple(held[minor] for minor in sorted(held))

    def set_class(self, device: str, handle: int, one: TrafficClass) -> None:
        self._known(device)
        assert self.roots[device].handle == handle
        assert one.parent == handle or one.parent & 0xFFFF in self.held[device]
        rounded = replace(one, min_bits=one.min_bits // 8 * 8, max_bits=one.max_bits // 8 * 8)
        self.held[device][one.minor] = rounded

    def remove_class(self, device: str, handle: int, minor: int) -> None:
        self._known(device)
        assert not any(one.parent == handle | minor for one in self.held[device].values())
        del self.held[device][minor]

    def steer(self, device: str, handle: int, minor: int, addresses: tuple[object, ...]) -> None:
        self._known(device)
        self.sources[device] = {minor: addresses}
