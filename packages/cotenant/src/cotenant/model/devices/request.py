"""A pod's device request in one normal form.

The same request has many spellings (`nvidia.com/gpu: 2`, `koordinator.sh/gpu: 200`, core and memory each), some of them
contradictory, and memory may be given in bytes or in percent. Choice, in four steps: `check_request` validates the
combination of resources; `canonical` converts whole-card names to core and memory ratio; `per_device` divides by the
number of devices; `filled` adds, for one concrete device, the missing form of memory.
Limits: Hygon's form by card count with amounts per card (`dcunum`) and vendor templates are not supported.

Source: Koordinator, DeviceShare (utils, devicehandler_gpu, devicehandler_default) and apis/extension/device_share.go.
Upstream computes the percentage of bytes in floats; here it is computed in integers, rounded down, so the two can
differ by one percent.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.devices.device import DeviceType
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import (
    FPGA,
    GPU,
    GPU_CORE,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
    GPU_SHARED,
    LENT_GPU,
    NVIDIA_GPU,
    RDMA,
    Amounts,
)

AMD_GPU = "amd.com/gpu"
HYGON_DCU = "hygon.com/dcu"
HYGON_DCU_OLD = "dcu.com/gpu"
NPU_CORE = "huawei.com/npu-core"
NPU_CPU = "huawei.com/npu-cpu"
NPU_DVPP = "huawei.com/npu-dvpp"

WHOLE = 100  # percent of a device
CARDS = (NVIDIA_GPU, AMD_GPU, HYGON_DCU, HYGON_DCU_OLD)  # counted in whole devices
NVIDIA = "nvidia"
VENDORS = {  # of resource names that only one vendor's devices serve, as the values of the label gpu-vendor
    NVIDIA_GPU: NVIDIA,
    AMD_GPU: "amd",
    HYGON_DCU: "hygon",
    HYGON_DCU_OLD: "hygon",
    NPU_CORE: "huawei",
    NPU_CPU: "huawei",
    NPU_DVPP: "huawei",
}
_PARTS = (GPU_CORE, NPU_CORE, NPU_CPU, NPU_DVPP)  # divided among the devices without conversion
_NPU = frozenset((GPU_SHARED, NPU_CORE, NPU_CPU, GPU_MEMORY))

_VALID_COMBINATIONS = frozenset(
    [
        *(frozenset((name,)) for name in (*CARDS, GPU, RDMA, FPGA, GPU_MEMORY, GPU_MEMORY_RATIO, LENT_GPU)),
        frozenset((GPU_CORE, GPU_MEMORY)),
        frozenset((GPU_CORE, GPU_MEMORY_RATIO)),
        frozenset((NPU_CORE, GPU_MEMORY_RATIO)),
        frozenset((GPU_SHARED, GPU_MEMORY)),
        frozenset((GPU_SHARED, GPU_MEMORY_RATIO)),
        frozenset((GPU_SHARED, GPU_CORE, GPU_MEMORY)),
        frozenset((GPU_SHARED, GPU_CORE, GPU_MEMORY_RATIO)),
        _NPU,
        _NPU | {NPU_DVPP},
    ]
)
_TYPE_OF = {RDMA: DeviceType.RDMA, FPGA: DeviceType.FPGA} | dict.fromkeys(
    (*CARDS, GPU, GPU_SHARED, *_PARTS, GPU_MEMORY, GPU_MEMORY_RATIO, LENT_GPU), DeviceType.GPU
)
RESOURCES = frozenset(_TYPE_OF)  # every resource name of a device


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """An amount from each of `count` devices of one type. `shared`: other pods may use the rest of the device's
    memory.
    """

    type: DeviceType
    amounts: Amounts
    count: int
    shared: bool


def asks_devices(asked: Amounts) -> bool:
    """Whether any of these requests is for a device."""
    for name, amount in asked.items:  # noqa: SIM110 - called for every pod: no generator here
        if amount and name in RESOURCES:
            return True
    return False


def asks_lent_gpu(asked: Amounts) -> bool:
    """Whether a pod asks for a part of a GPU that is lent: with that it agrees to leave when it is wanted back."""
    return asked.get(LENT_GPU) > 0


def type_of(resource: str) -> DeviceType | None:
    """The device type that a resource belongs to; None for any other resource."""
    return _TYPE_OF.get(resource)


def check_request(asked: Amounts) -> None:
    """Raise `InvalidInput` where resources of one device type cannot be combined or divided."""
    names = frozenset(asked.names())
    if not names:
        raise InvalidInput("device request", "nothing", "at least one device resource")
    if names not in _VALID_COMBINATIONS:
        raise InvalidInput(
            "device request", ", ".join(sorted(names)), "a valid combination of resources", _nearest(names)
        )
    for name, amount in asked:
        if amount == 0 and name != GPU_CORE:
            raise InvalidInput(name, 0, "more than 0")
    if GPU_SHARED in names:
        _check_shares(asked)
        return
    for name in (GPU, RDMA, FPGA, GPU_CORE, GPU_MEMORY_RATIO, LENT_GPU):
        amount = asked.get(name)
        if amount > WHOLE and amount % WHOLE:
            raise InvalidInput(name, amount, "at most 100 percent, or whole devices (200, 300, ...)")


def canonical(asked: Amounts) -> Amounts:
    """Convert whole cards or `koordinator.sh/gpu` to gpu-core and gpu-memory-ratio. Raises `InvalidInput`."""
    check_request(asked)
    for name in CARDS:
        if name in asked:
            return Amounts.of({GPU_CORE: WHOLE * asked.get(name), GPU_MEMORY_RATIO: WHOLE * asked.get(name)})
    if GPU in asked:
        return Amounts.of({GPU_CORE: asked.get(GPU), GPU_MEMORY_RATIO: asked.get(GPU)})
    return asked


def per_device(wanted: Amounts) -> DeviceRequest:
    """The number of devices that a canonical request means, and the amount of each."""
    for name, type_ in ((RDMA, DeviceType.RDMA), (FPGA, DeviceType.FPGA)):
        if name in wanted:
            amount = wanted.get(name)
            count = amount // WHOLE if amount > WHOLE else 1
            return DeviceRequest(type_, Amounts.of({name: amount // count}), count, amount // count < WHOLE)
    if lent := wanted.get(LENT_GPU):
        count = max(1, lent // WHOLE)
        return DeviceRequest(DeviceType.GPU, Amounts.of({LENT_GPU: lent // count}), count, True)
    ratio = wanted.get(GPU_MEMORY_RATIO)
    count = wanted.get(GPU_SHARED)
    if not count:
        count = ratio // WHOLE if ratio > WHOLE and ratio % WHOLE == 0 else 1
    entry = {name: wanted.get(name) // count for name in _PARTS if name in wanted}
    memory = GPU_MEMORY_RATIO if GPU_MEMORY_RATIO in wanted else GPU_MEMORY
    if memory in wanted:
        entry[memory] = wanted.get(memory) // count
    return DeviceRequest(DeviceType.GPU, Amounts.of(entry), count, memory == GPU_MEMORY or ratio // count < WHOLE)


def device_requests(asked: Amounts) -> tuple[DeviceRequest, ...]:
    """The device requests of a pod, by type; other resources and amounts of 0 are ignored. Raises `InvalidInput`."""
    found = []
    for type_ in DeviceType:
        part = Amounts.of((name, amount) for name, amount in asked if _TYPE_OF.get(name) is type_)
        if any(amount for _, amount in part):
            found.append(per_device(canonical(part)))
    return tuple(found)


def filled(part: Amounts, total: Amounts) -> Amounts:
    """A part of one GPU with both forms of memory. Bytes and percent round down; unchanged where both or none are
    given.

    Raises `InvalidInput` where one form is given and the device has no amount of memory to compute the other from.
    """
    has_bytes, has_ratio = GPU_MEMORY in part, GPU_MEMORY_RATIO in part
    device_bytes = total.get(GPU_MEMORY)
    if has_bytes == has_ratio:
        return part
    if not device_bytes:
        raise InvalidInput(GPU_MEMORY, device_bytes, "the memory of the device", "its other form cannot be computed")
    if has_bytes:
        return part.replaced(Amounts.of({GPU_MEMORY_RATIO: part.get(GPU_MEMORY) * WHOLE // device_bytes}))
    return part.replaced(Amounts.of({GPU_MEMORY: part.get(GPU_MEMORY_RATIO) * device_bytes // WHOLE}))


def _check_shares(asked: Amounts) -> None:
    count = asked.get(GPU_SHARED)
    if NPU_CORE in asked:
        if count > 1:
            raise InvalidInput(GPU_SHARED, count, "1 with NPU amounts", "a shared NPU cannot be several")
        if asked.get(NPU_DVPP) > WHOLE:
            raise InvalidInput(NPU_DVPP, asked.get(NPU_DVPP), "at most 100 percent")
        return
    for name in (GPU_CORE, GPU_MEMORY_RATIO):
        amount = asked.get(name)
        if amount % count or amount // count > WHOLE:
            raise InvalidInput(
                name, amount, f"a multiple of {count} ({GPU_SHARED}), at most 100 percent of each device"
            )


def _nearest(names: frozenset[str]) -> str:
    """The valid combination that differs in the fewest resources, as a hint."""
    known = min(_VALID_COMBINATIONS, key=lambda combination: (len(combination ^ names), sorted(combination)))
    more, less = sorted(known - names), sorted(names - known)
    words = [*(f"add {name}" for name in more), *(f"leave out {name}" for name in less)]
    return " and ".join(words)
