from __future__ import annotations

import pytest

from cotenant.model.devices.device import DeviceType
from cotenant.model.devices.request import DeviceRequest, canonical, check_request, device_requests, filled, per_device
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import (
    FPGA,
    GPU,
    GPU_CORE,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
    GPU_SHARED,
    NVIDIA_GPU,
    RDMA,
    Amounts,
)

GIB = 1 << 30


def test_every_spelling_of_two_whole_gpus_is_the_same() -> None:
    two = Amounts.of({GPU_CORE: 200, GPU_MEMORY_RATIO: 200})
    for asked in ({NVIDIA_GPU: 2}, {"amd.com/gpu": 2}, {"dcu.com/gpu": 2}, {GPU: 200}, dict(two)):
        assert canonical(Amounts.of(asked)) == two
    whole = Amounts.of({GPU_CORE: 100, GPU_MEMORY_RATIO: 100})
    assert per_device(two) == DeviceRequest(DeviceType.GPU, whole, 2, False)


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ({GPU_CORE: 50}, f"add {GPU_MEMORY}"),
        ({GPU_CORE: 50, GPU_MEMORY: GIB, GPU_MEMORY_RATIO: 10}, f"leave out {GPU_MEMORY_RATIO}"),
        ({GPU_SHARED: 1}, f"add {GPU_MEMORY}"),
    ],
)
def test_invalid_combinations_come_with_the_nearest_valid_one(asked: dict[str, int], hint: str) -> None:
    with pytest.raises(InvalidInput, match="a valid combination of resources") as refused:
        check_request(Amounts.of(asked))
    assert refused.value.hint == hint


@pytest.mark.parametrize(
    "asked",
    [
        {GPU: 150},
        {FPGA: 250},
        {GPU_MEMORY_RATIO: 0},
        {NVIDIA_GPU: 0},
        {GPU_SHARED: 0, GPU_MEMORY: GIB},
        {GPU_SHARED: 2, GPU_MEMORY_RATIO: 75},
        {GPU_SHARED: 2, GPU_CORE: 300, GPU_MEMORY_RATIO: 100},
    ],
)
def test_amounts_that_do_not_divide_are_refused(asked: dict[str, int]) -> None:
    with pytest.raises(InvalidInput):
        check_request(Amounts.of(asked))


def test_no_core_beside_memory_is_no_mistake() -> None:
    got = per_device(canonical(Amounts.of({GPU_CORE: 0, GPU_MEMORY_RATIO: 50})))
    assert got == DeviceRequest(DeviceType.GPU, Amounts.of({GPU_CORE: 0, GPU_MEMORY_RATIO: 50}), 1, True)


def test_a_pods_devices_are_found_among_its_requests() -> None:
    asked = Amounts.of({"cpu": 4000, GPU: 50, RDMA: 200, FPGA: 0})
    gpu, rdma = device_requests(asked)
    assert (gpu.type, gpu.count, gpu.shared) == (DeviceType.GPU, 1, True)
    assert rdma == DeviceRequest(DeviceType.RDMA, Amounts.of({RDMA: 100}), 2, False)
    assert device_requests(Amounts.of({"cpu": 1})) == ()


def test_memory_is_filled_in_whole_bytes_and_percent() -> None:
    total = Amounts.of({GPU_CORE: 100, GPU_MEMORY: 1000, GPU_MEMORY_RATIO: 100})
    assert filled(Amounts.of({GPU_MEMORY: 290}), total) == Amounts.of({GPU_MEMORY: 290, GPU_MEMORY_RATIO: 29})
    assert filled(Amounts.of({GPU_MEMORY_RATIO: 33}), total) == Amounts.of({GPU_MEMORY: 330, GPU_MEMORY_RATIO: 33})
    both = Amounts.of({GPU_MEMORY: 1, GPU_MEMORY_RATIO: 33})
    assert filled(both, Amounts.of({GPU_CORE: 100})) == both


@pytest.mark.parametrize("part", [{GPU_MEMORY_RATIO: 33}, {GPU_MEMORY: 1000}])
@pytest.mark.parametrize("total", [{}, {GPU_CORE: 100, GPU_MEMORY_RATIO: 100}, {GPU_MEMORY: 0}])
def test_memory_that_cannot_be_computed_is_an_error(part: dict[str, int], total: dict[str, int]) -> None:
    with pytest.raises(InvalidInput, match="gpu-memory"):
        filled(Amounts.of(part), Amounts.of(total))
