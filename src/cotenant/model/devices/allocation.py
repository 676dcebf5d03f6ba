"""Which parts of which devices a pod was given, as a value and as the annotation that node agents and device plugins read.

Problem: the choice has to outlive the scheduler. Choice: the annotation is the record; what is written reads back as the same value.
Limits: allocations of device types that are not known here are refused, not dropped: they would be given away a second time.

Source: Koordinator, apis/extension/device_share.go (DeviceAllocations); amounts as Kubernetes writes quantities.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cotenant.model.devices.device import LARGEST_MINOR, DeviceType, VirtualFunction
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import json_object
from cotenant.model.resources import Amounts, format_amount

DEVICE_ALLOCATED = "scheduling.koordinator.sh/device-allocated"  # on pods, by the scheduler: JSON


@dataclass(frozen=True, slots=True)
class DeviceAllocation:
    """A part of one device."""

    type: DeviceType
    minor: int
    amounts: Amounts
    functions: tuple[VirtualFunction, ...] = ()
    id: str = ""


def format_allocations(allocations: Iterable[DeviceAllocation]) -> str:
    """The annotation."""
    told: dict[str, list[dict[str, Any]]] = {}
    for each in allocations:
        part: dict[str, Any] = {"minor": each.minor}
        part["resources"] = {name: format_amount(name, amount) for name, amount in each.amounts}
        if each.id:
            part["id"] = each.id
        if each.functions:
            part["extension"] = {"vfs": [{"minor": one.index, "busID": one.bus} for one in each.functions]}
        told.setdefault(each.type.value, []).append(part)
    return json.dumps(told, separators=(",", ":"))


def parse_allocations(text: str) -> tuple[DeviceAllocation, ...]:
    """From the annotation, by type as written. Raises `InvalidInput`."""
    found = []
    for name, parts in json_object(DEVICE_ALLOCATED, text).items():
        if name not in tuple(DeviceType):
            raise InvalidInput(DEVICE_ALLOCATED, name, f"one of {', '.join(DeviceType)}")
        if not isinstance(parts, list):
            raise InvalidInput(f"{DEVICE_ALLOCATED}: {name}", parts, "a list of allocations")
        found += [_allocation(DeviceType(name), part) for part in parts]
    return tuple(found)


def _allocation(type_: DeviceType, told: Any) -> DeviceAllocation:
    field = f"{DEVICE_ALLOCATED}: {type_.value}"
    if not isinstance(told, dict) or not _is_index(told.get("minor")) or told["minor"] > LARGEST_MINOR:
        raise InvalidInput(field, told, f"an object with a minor of 0 to {LARGEST_MINOR}")
    amounts = Amounts.parse(told.get("resources") or {}, f"{field}.resources")
    extension = told.get("extension") or {}
    functions = extension.get("vfs") or [] if isinstance(extension, dict) else None
    if not isinstance(functions, list):
        raise InvalidInput(f"{field}.extension", extension, "an object with vfs")
    return DeviceAllocation(
        type_, told["minor"], amounts, tuple(_function(one, field) for one in functions), str(told.get("id") or "")
    )


def _function(told: Any, field: str) -> VirtualFunction:
    bus = told.get("busID") if isinstance(told, dict) else None
    index = told.get("minor", 0) if isinstance(told, dict) else None
    if not isinstance(bus, str) or not isinstance(index, int) or not _is_index(index):
        raise InvalidInput(f"{field}.vfs", told, "a busID and a minor")
    return VirtualFunction(index, bus)


def _is_index(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
