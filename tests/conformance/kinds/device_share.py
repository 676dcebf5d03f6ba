"""Kinds of device_share: the grammar of device requests, and which devices are chosen."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.conformance.reading import Unreadable, one_of

from cotenant.model.cluster.labels import Labels, LabelSelector, Requirement, SelectorOperator
from cotenant.model.devices import request as grammar
from cotenant.model.devices.allocation import DeviceAllocation
from cotenant.model.devices.device import Device, DeviceType, FunctionGroup, VirtualFunction
from cotenant.model.devices.hints import CountBy, DeviceHint, DeviceScope, JointAllocation
from cotenant.model.devices.partition import table_of_model
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import Amounts
from cotenant.policy.placement.devices.allocation import DeviceAsk, DeviceChoice, allocate
from cotenant.policy.placement.devices.ledger import DeviceHolding, DeviceLedger
from cotenant.policy.placement.devices.strategy import DeviceStrategy

PREFIX = {"npu-core": "huawei.com/npu-core", "npu-cpu": "huawei.com/npu-cpu", "npu-dvpp": "huawei.com/npu-dvpp"}
SCORING = {
    None: DeviceStrategy.DEFAULT,
    "LeastAllocated": DeviceStrategy.DEFAULT,
    "MostAllocated": DeviceStrategy.BINPACK,
}
SCOPES = {
    None: DeviceScope.NODE,
    "Node": DeviceScope.NODE,
    "NUMANode": DeviceScope.NUMA,
    "PCIe": DeviceScope.PCIE,
    "Device": DeviceScope.DEVICE,
}


def full(name: str) -> str:
    return PREFIX.get(name) or (name if "/" in name else f"koordinator.sh/{name}")


def amounts(raw: Mapping[str, int] | None) -> Amounts:
    return Amounts.of({full(name): amount for name, amount in (raw or {}).items() if amount is not None})


def validate(case: Any) -> Iterator[tuple[str, Any, Any]]:
    try:
        grammar.check_request(amounts(case.given["request"]))
        valid = True
    except InvalidInput:
        valid = False
    yield "valid", case.expect["valid"], valid


def normalize(case: Any) -> Iterator[tuple[str, Any, Any]]:
    asked = amounts(case.given["request"])
    got = grammar.canonical(asked) if asked.items else asked  # a pod that asks for no device asks for nothing
    yield "normalized", amounts(case.expect["normalized"]), got


def per_gpu(case: Any) -> Iterator[tuple[str, Any, Any]]:
    got = grammar.per_device(amounts(case.given["normalized"]))
    yield "count", case.expect["count"], got.count
    yield "per_gpu", amounts(case.expect["per_gpu"]), got.amounts
    yield "shared", case.expect["shared"], got.shared


def fill_memory(case: Any) -> Iterator[tuple[str, Any, Any]]:
    try:
        got = grammar.filled(amounts(case.given["allocation"]), amounts(case.given["device_total"]))
    except InvalidInput:
        yield "error", bool(case.expect["error"]), True
        wanted = case.expect["allocation"]  # it stays as it was
        yield "allocation", amounts(wanted), amounts(case.given["allocation"]) if wanted is not None else Amounts()
        return
    yield "error", bool(case.expect["error"]), False
    yield "allocation", amounts(case.expect["allocation"]), got


def allocated(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    kind = DeviceType(given["type"])
    devices = [
        Device(kind, entry["minor"], amounts(entry["total"]), entry.get("health", True)) for entry in given["devices"]
    ]
    ledger = DeviceLedger.of(devices)
    for number, entry in enumerate(given.get("used", ())):
        # it may be more than the device has
        ledger = ledger.observed(DeviceHolding(str(number), (_part(kind, entry),)))
    ledger.validate()
    request = grammar.per_device(amounts(given["request"]))
    if len(given["request"]) == 3:  # both forms of memory, as in calls of upstream's allocator
        request = grammar.DeviceRequest(kind, amounts(given["request"]), 1, True)
    ask = DeviceAsk(
        (request,),
        strategy=SCORING[given["scoring"]],
        preemptible=tuple(_part(kind, entry) for entry in given.get("preemptible", ())),
    )
    got = allocate(ledger, ask)
    yield "error", bool(case.expect["error"]), not isinstance(got, DeviceChoice)
    wanted = [_part(kind, entry) for entry in case.expect.get("allocations", ())]
    yield "allocations", wanted, list(got.allocations) if isinstance(got, DeviceChoice) else []


def chosen(case: Any) -> Iterator[tuple[str, Any, Any]]:
    """Both kinds on a whole machine: with a partition table, and with adjacent groups."""
    given = case.given
    shared = json.loads((case.folder / "device_inventories.json").read_text())
    devices = [_device(entry) for entry in shared["inventories"][given["inventory"]]]
    honor = one_of(given, "partition_policy", ("Honor", "Prefer", ""), "") == "Honor"
    ledger = DeviceLedger.of(devices, table_of_model(given["model"]), honor)
    for number, entry in enumerate(given.get("assigned", ())):
        kind = DeviceType(entry["type"])
        holding = DeviceHolding(str(number), (_allocation(kind, entry, devices, shared["gpu_whole"]),))
        ledger = ledger.observed(holding)
    ledger.validate()
    got = allocate(ledger, _ask(given))
    yield "error", bool(case.expect["error"]), not isinstance(got, DeviceChoice)
    wanted = [
        _allocation(DeviceType(entry["type"]), entry, devices, shared["gpu_whole"])
        for entry in case.expect.get("allocations", ())
    ]
    yield "allocations", wanted, list(got.allocations) if isinstance(got, DeviceChoice) else []


def _ask(given: dict[str, Any]) -> DeviceAsk:
    requests, joint = [], None
    if given["gpu_count"]:
        requests.append(grammar.per_device(amounts(_gpu_amounts(given))))
    hints = [DeviceHint(DeviceType.GPU, scope=SCOPES[given["required_scope"]])]
    # PCIeLevel is parsed and keeps nobody off a switch, upstream as here.
    is_whole = one_of(given, "rdma_exclusive_policy", ("DeviceLevel", "PCIeLevel", ""), "") == "DeviceLevel"
    kinds = tuple(given.get("vf_types", ()))
    if given["rdma_per_nic"]:
        requests.append(grammar.per_device(amounts({"rdma": given["rdma_per_nic"]})))
        selector = LabelSelector((Requirement("type", SelectorOperator.IN, kinds),)) if kinds else None
        hints.append(
            DeviceHint(DeviceType.RDMA, function_selector=selector, count_by=CountBy.AMOUNT, whole_device=is_whole)
        )
    same_pcie = one_of(given, "joint_required_scope", ("SamePCIe", ""), "") == "SamePCIe"
    if given["joint_allocate"]:
        types = tuple(DeviceType(name) for name in given["joint_allocate"])
        joint = JointAllocation(types, same_pcie)
    return DeviceAsk(tuple(requests), tuple(hints), joint)


def _gpu_amounts(given: dict[str, Any]) -> dict[str, int]:
    percent = 100 * given["gpu_count"]
    return {"gpu-core": percent, "gpu-memory-ratio": percent}


def _device(raw: dict[str, Any]) -> Device:
    groups = tuple(
        FunctionGroup(tuple(VirtualFunction(*one) for one in group["vfs"]), Labels.of({"type": group["type"]}))
        for group in raw.get("vf_groups", ())
    )
    kind = DeviceType(raw["type"])
    total = raw.get("resources") or {"rdma": 100}
    return Device(kind, raw["minor"], amounts(total), raw["health"], raw["numa"], raw["pcie"], function_groups=groups)


def _part(kind: DeviceType, raw: Mapping[str, int]) -> DeviceAllocation:
    part = amounts({name: amount for name, amount in raw.items() if name != "minor"})
    return DeviceAllocation(kind, raw["minor"], part)


def _allocation(
    kind: DeviceType, raw: dict[str, Any], devices: list[Device], whole: dict[str, int]
) -> DeviceAllocation:
    """Upstream's cases give parts of GPUs without their memory in bytes; ours always include it."""
    resources = raw["resources"]
    if resources == "whole":
        resources = whole
    elif resources == "shared-half":
        resources = {name: amount // 2 for name, amount in whole.items()}
    device = next((entry for entry in devices if entry.type is kind and entry.minor == raw["minor"]), None)
    if device is None:
        raise Unreadable(f"the inventory has no {kind} {raw['minor']}")
    part = grammar.filled(amounts(resources), device.total)
    return DeviceAllocation(kind, raw["minor"], part, tuple(VirtualFunction(*one) for one in raw.get("vfs") or ()))


KINDS = {
    "validate": validate,
    "normalize": normalize,
    "per_gpu": per_gpu,
    "fill_memory": fill_memory,
    "allocate": allocated,
    "partition": chosen,
    "topology": chosen,
}
