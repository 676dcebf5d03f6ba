"""The parts of devices allocated to a pod, as a value and as the annotation that node agents and device plugins read.

The allocation has to survive a scheduler restart. The annotation is the record; what is written parses back to the same
value.
Limits: unknown device types are an error, not ignored: otherwise their devices would be allocated twice.

Source: Koordinator, apis/extension/device_share.go (DeviceAllocations); amounts as Kubernetes writes quantities.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from cotenant.model.devices.device import LARGEST_MINOR, DeviceType, VirtualFunction
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonObject, json_object
from cotenant.model.resources import Amounts, format_amount

DEVICE_ALLOCATED = "scheduling.koordinator.sh/device-allocated"  # on pods, by the scheduler: JSON


@dataclass(frozen=True, slots=True)
class DeviceAllocation:
    """An allocated part of one device."""

    type: DeviceType
    minor: int
    amounts: Amounts
    functions: tuple[VirtualFunction, ...] = ()
    id: str = ""


def format_allocations(allocations: Iterable[DeviceAllocation]) -> str:
    """Format the annotation."""
    data: dict[str, list[JsonObject]] = {}
    for allocation in allocations:
        part: dict[str, object] = {"minor": allocation.minor}
        part["resources"] = {name: format_amount(name, amount) for name, amount in allocation.amounts}
        if allocation.id:
            part["id"] = allocation.id
        if allocation.functions:
            part["extension"] = {"vfs": [{"minor": one.index, "busID": one.bus} for one in allocation.functions]}
        data.setdefault(allocation.type.value, []).append(part)
    return json.dumps(data, separators=(",", ":"))


def parse_allocations(text: str) -> tuple[DeviceAllocation, ...]:
    """Parse the annotation, by type in the order written. Raises `InvalidInput`."""
    found = []
    for name, parts in json_object(DEVICE_ALLOCATED, text).items():
        if name not in tuple(DeviceType):
            raise InvalidInput(DEVICE_ALLOCATED, name, f"one of {', '.join(DeviceType)}")
        if not isinstance(parts, list):
            raise InvalidInput(f"{DEVICE_ALLOCATED}: {name}", parts, "a list of allocations")
        found += [_allocation(DeviceType(name), part) for part in parts]
    return tuple(found)


def _allocation(type_: DeviceType, data: object) -> DeviceAllocation:
    field = f"{DEVICE_ALLOCATED}: {type_.value}"
    if not isinstance(data, dict) or not _is_index(data.get("minor")) or data["minor"] > LARGEST_MINOR:
        raise InvalidInput(field, data, f"an object with a minor of 0 to {LARGEST_MINOR}")
    amounts = Amounts.parse(data.get("resources") or {}, f"{field}.resources")
    extension = data.get("extension") or {}
    functions = extension.get("vfs") or [] if isinstance(extension, dict) else None
    if not isinstance(functions, list):
        raise InvalidInput(f"{field}.extension", extension, "an object with vfs")
    return DeviceAllocation(
        type_, data["minor"], amounts, tuple(_function(one, field) for one in functions), str(data.get("id") or "")
    )


def _function(data: object, field: str) -> VirtualFunction:
    bus = data.get("busID") if isinstance(data, dict) else None
    index = data.get("minor", 0) if isinstance(data, dict) else None
    if not isinstance(bus, str) or not isinstance(index, int) or not _is_index(index):
        raise InvalidInput(f"{field}.vfs", data, "a busID and a minor")
    return VirtualFunction(index, bus)


def _is_index(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
