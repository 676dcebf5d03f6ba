"""Machines to choose devices on."""

from __future__ import annotations

from cotenant.model.cluster.labels import Labels
from cotenant.model.devices.device import Device, DeviceType, FunctionGroup, VirtualFunction
from cotenant.model.devices.request import device_requests
from cotenant.model.resources import GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, RDMA, Amounts
from cotenant.policy.placement.devices.allocation import DeviceAsk, DeviceChoice, allocate
from cotenant.policy.placement.devices.ledger import DeviceHolding, DeviceLedger
from cotenant.policy.placement.refusal import Refusal

GIB = 1 << 30
WHOLE = Amounts.of({GPU_CORE: 100, GPU_MEMORY: 16 * GIB, GPU_MEMORY_RATIO: 100})


def gpus(
    count: int = 8, a_switch: int = 2, a_numa: int = 4, ill: tuple[int, ...] = (), links: str = ""
) -> list[Device]:
    """`links`: the link domain of each GPU, one letter each."""
    return [
        Device(
            DeviceType.GPU,
            minor,
            WHOLE,
            minor not in ill,
            minor // a_numa,
            str(minor // a_switch),
            links[minor] if links else None,
        )
        for minor in range(count)
    ]


def cards(count: int = 4, functions: int = 2, a_numa: int = 2) -> list[Device]:
    return [
        Device(
            DeviceType.RDMA,
            minor,
            Amounts.of({RDMA: 100}),
            numa=minor // a_numa,
            pcie=str(minor),
            function_groups=(
                FunctionGroup(
                    tuple(VirtualFunction(k, f"0000:{minor:02x}:00.{k}") for k in range(functions)),
                    Labels.of({"type": "general"}),
                ),
            ),
        )
        for minor in range(count)
    ]


def ask(resources: dict[str, int], **fields: object) -> DeviceAsk:
    return DeviceAsk(device_requests(Amounts.of(resources)), **fields)  # type: ignore[arg-type]


def placed(ledger: DeviceLedger, uid: str, wanted: DeviceAsk) -> DeviceLedger:
    got = allocate(ledger, wanted)
    assert isinstance(got, DeviceChoice), got
    return ledger.given(DeviceHolding(uid, got.allocations))


def minors(ledger: DeviceLedger, wanted: DeviceAsk, type_: DeviceType = DeviceType.GPU) -> tuple[int, ...]:
    got = allocate(ledger, wanted)
    assert isinstance(got, DeviceChoice), got
    return tuple(allocation.minor for allocation in got.allocations if allocation.type is type_)


def refused(ledger: DeviceLedger, wanted: DeviceAsk) -> tuple[str, str]:
    got = allocate(ledger, wanted)
    assert isinstance(got, Refusal), got
    return got.reason, got.nearest
