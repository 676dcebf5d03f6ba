"""One node's devices of one type, prepared for allocation.

Allocation compares a few integers per device and asks which devices share a switch; reading that from descriptions each
time is slow. Built once when a node's devices change: totals as tuples over the resources that occur, every group of
close devices as a mask of minors.
Limits: a device of unknown location is only in the node's group.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

from cotenant.model.devices.device import Device, DeviceType
from cotenant.model.devices.hints import DeviceScope
from cotenant.model.devices.request import filled
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import GPU_MEMORY, Amounts

Key = TypeVar("Key", str, int)
Row = tuple[int, ...]  # one amount for each of an inventory's resources


@dataclass(frozen=True, slots=True)
class DeviceGroup:
    """Devices close to each other. `around`: masks of the group itself and of those that contain it, the widest
    first.
    """

    minors: int
    scope: DeviceScope
    linked: bool  # all within one link domain
    around: tuple[int, ...]
    name: str


@dataclass(frozen=True, slots=True)
class DeviceInventory:
    """Tuples are indexed by minor; None where there is no such device."""

    type: DeviceType
    resources: tuple[str, ...]
    devices: tuple[Device | None, ...]
    totals: tuple[Row | None, ...]
    minors: int
    healthy: int
    groups: tuple[DeviceGroup, ...]  # the closest first
    linked_first: tuple[DeviceGroup, ...]  # the same, groups within one link domain before all others
    by_pcie: tuple[tuple[str, int], ...]
    by_numa: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, type_: DeviceType, devices: Iterable[Device]) -> DeviceInventory:
        """Those of `devices` that have this type. Raises `InvalidInput` where a minor comes twice."""
        own = sorted((device for device in devices if device.type is type_), key=lambda device: device.minor)
        resources = tuple(sorted({name for device in own for name in device.total.names()}))
        by_minor: dict[int, Device] = {}
        for device in own:
            if device.minor in by_minor:
                raise InvalidInput(f"{type_.value} minor", device.minor, "each minor once")
            by_minor[device.minor] = device
        size = max(by_minor, default=-1) + 1
        groups = tuple(sorted(_groups(own), key=lambda group: -group.scope))
        listed = tuple(by_minor.get(minor) for minor in range(size))
        return cls(
            type_,
            resources,
            listed,
            tuple(_row(device, resources) for device in listed),
            _mask(own),
            _mask(device for device in own if device.healthy and any(amount for _, amount in device.total)),
            groups,
            tuple(sorted(groups, key=lambda group: not group.linked)),
            _masks((device.pcie, device) for device in own),
            _masks((device.numa, device) for device in own),
        )

    def minors_on(self, numa: int) -> int:
        """Devices on these NUMA nodes (mask of ids), and those of unknown NUMA node."""
        found = self.minors
        for node, minors in self.by_numa:
            if not numa >> node & 1:
                found &= ~minors
        return found

    def likeness(self) -> Hashable:
        """Equal for inventories in which the same minors would be chosen: everything but the identities of devices
        without virtual functions.
        """
        return (
            tuple(None if device is None else replace(device, id="") for device in self.devices),
            self.type,
        )

    def pcie_of(self, minors: int) -> tuple[str, ...]:
        """The switches that these devices are under, in the order of their first device."""
        return tuple(pcie for pcie, mask in self.by_pcie if mask & minors)


@lru_cache(maxsize=4096)  # few sizes of devices, few sizes of parts
def part_of(part: Amounts, total: Amounts, resources: tuple[str, ...]) -> tuple[Row | None, Amounts]:
    """A part of such a device with both forms of memory, over these resources and by name; no row where it requests
    other resources.
    """
    # Without the device's memory, percent are allocated as they are, and bytes by the rule below nowhere.
    amounts = filled(part, total) if total.get(GPU_MEMORY) else part
    if any(amount and name not in resources for name, amount in amounts):
        return None, amounts
    return tuple(amounts.get(name) for name in resources), amounts


def _row(device: Device | None, resources: tuple[str, ...]) -> Row | None:
    return None if device is None else tuple(device.total.get(name) for name in resources)


def _groups(devices: list[Device]) -> list[DeviceGroup]:
    """Node, NUMA nodes and switches; within each also its share of a link domain, where that is more than one
    device and not all.
    """
    every = _mask(devices)
    links = [mask for _, mask in _masks((device.link, device) for device in devices)]
    found: list[DeviceGroup] = []

    def add(minors: int, scope: DeviceScope, around: tuple[int, ...], name: str) -> None:
        linked = any(not minors & ~mask for mask in links)
        found.append(DeviceGroup(minors, scope, linked, around, name))
        for mask in links:
            part = minors & mask
            if not linked and part.bit_count() > 1:
                found.append(DeviceGroup(part, scope, True, around, name))

    add(every, DeviceScope.NODE, (every,), "the node")
    for numa, in_numa in _masks((device.numa, device) for device in devices):
        add(in_numa, DeviceScope.NUMA, (every, in_numa), f"NUMA {numa}")
        for pcie, under in _masks((device.pcie, device) for device in devices if device.numa == numa):
            add(under, DeviceScope.PCIE, (every, in_numa, under), f"PCIe {pcie}")
    for pcie, under in _masks((device.pcie, device) for device in devices if device.numa is None):
        add(under, DeviceScope.PCIE, (every, under), f"PCIe {pcie}")
    return found


def _masks(placed: Iterable[tuple[Key | None, Device]]) -> tuple[tuple[Key, int], ...]:
    masks: dict[Key, int] = {}
    for key, device in placed:
        if key is not None:
            masks[key] = masks.get(key, 0) | 1 << device.minor
    return tuple(masks.items())


def _mask(devices: Iterable[Device]) -> int:
    mask = 0
    for device in devices:
        mask |= 1 << device.minor
    return mask
