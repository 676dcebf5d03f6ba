"""The devices of a node as values for display: totals, use, holders.

Limits: a snapshot; query single nodes where it is needed often.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cotenant.engine.rules.devices.nodes import DeviceNode
from cotenant.model.devices.allocation import DeviceAllocation
from cotenant.model.devices.device import Device, DeviceType
from cotenant.model.resources import NOTHING, Amounts
from cotenant.policy.placement.devices.ledger import DeviceLedger, DevicesOfType


@dataclass(frozen=True, slots=True)
class HolderSummary:
    """A pod's part of one device. `is_guess`: the allocation is assumed, because none was reported."""

    pod: str  # namespace/name
    amounts: Amounts
    functions: tuple[str, ...] = ()  # PCI addresses
    is_guess: bool = False


@dataclass(frozen=True, slots=True)
class DeviceSummary:
    """One device. `is_known` False: it is held, but not (or no longer) in the Device object."""

    type: DeviceType
    minor: int
    id: str
    is_known: bool
    is_healthy: bool
    numa: int | None
    pcie: str | None
    link: str | None
    total: Amounts
    used: Amounts
    free: Amounts
    holders: tuple[HolderSummary, ...]


@dataclass(frozen=True, slots=True)
class NodeDeviceSummary:
    """One node. `has_object` False: its Device object is gone, but pods still hold devices."""

    node: str
    has_object: bool
    devices: tuple[DeviceSummary, ...]
    partition_sizes: tuple[int, ...] = ()  # of the GPU partition table; empty = no table
    honors_partitions: bool = False
    wrong: tuple[str, ...] = ()  # entries of the object that cannot be used
    overlaps: tuple[str, ...] = ()  # devices held beyond their capacity


def summary(node: DeviceNode, holders: Mapping[str, tuple[str, bool]]) -> NodeDeviceSummary:
    """`holders`: by uid in the ledger, the pod and whether its devices are assumed."""
    ledger, facts = node.ledger, node.facts
    held: dict[tuple[DeviceType, int], list[HolderSummary]] = {}
    for holding in ledger.holdings:
        pod, is_guess = holders.get(holding.uid, (holding.uid, False))
        for allocation in holding.allocations:
            held.setdefault((allocation.type, allocation.minor), []).append(
                HolderSummary(pod, allocation.amounts, tuple(one.bus for one in allocation.functions), is_guess)
            )
    found = [
        _device(pool, device, held.pop((device.type, device.minor), []))
        for pool in ledger.pools
        for device in pool.inventory.devices
        if device is not None
    ]
    found += [_vanished(type_, minor, ledger, tuple(pods)) for (type_, minor), pods in sorted(held.items())]
    return NodeDeviceSummary(
        node.name,
        facts is not None,
        tuple(found),
        ledger.table.sizes() if ledger.table is not None else (),
        ledger.honor,
        facts.wrong if facts is not None else (),
        node.overlaps,
    )


def _device(pool: DevicesOfType, device: Device, holders: list[HolderSummary]) -> DeviceSummary:
    resources = pool.inventory.resources
    used = pool.used[device.minor]
    total = pool.inventory.totals[device.minor] or (0,) * len(resources)
    free = [max(0, most - have) if device.healthy else 0 for most, have in zip(total, used, strict=True)]
    return DeviceSummary(
        device.type,
        device.minor,
        device.id,
        True,
        bool(pool.inventory.healthy >> device.minor & 1),
        device.numa,
        device.pcie,
        device.link,
        device.total,
        Amounts.of(zip(resources, used, strict=True)),
        Amounts.of(zip(resources, free, strict=True)),
        tuple(holders),
    )


def _vanished(type_: DeviceType, minor: int, ledger: DeviceLedger, holders: tuple[HolderSummary, ...]) -> DeviceSummary:
    used = NOTHING
    for holder in holders:
        used = used + holder.amounts
    return DeviceSummary(
        type_, minor, _id(ledger, type_, minor), False, False, None, None, None, NOTHING, used, NOTHING, holders
    )


def _id(ledger: DeviceLedger, type_: DeviceType, minor: int) -> str:
    parts: list[DeviceAllocation] = [part for holding in ledger.holdings for part in holding.allocations]
    return next((part.id for part in parts if (part.type, part.minor) == (type_, minor) and part.id), "")
