"""What fits where, and taking devices."""

from __future__ import annotations

import numpy as np
import pytest

from cotenant.policy.placement.gpu.state import (
    ANY_MODEL,
    GpuNodeArrays,
    GpuShapes,
    Misfit,
    first_devices,
    misfit,
    take,
    tightest_device,
)


def one_node(gpus: tuple[int, ...] = (1000, 300), cpu: int = 8_000, memory: int = 100, model: int = 1) -> GpuNodeArrays:
    def column(value: int) -> np.ndarray:
        return np.array([value], np.int64)

    return GpuNodeArrays(
        cpu_free=column(cpu),
        memory_free=column(memory),
        gpu_free=np.array([gpus], np.int64),
        cpu=column(cpu),
        memory=column(memory),
        gpu_count=column(len(gpus)),
        model=column(model),
    )


def one_shape(
    cpu: int = 1_000, memory: int = 1, count: int = 1, milli: int = 300, models: int = ANY_MODEL
) -> GpuShapes:
    return GpuShapes(*(np.array([value], np.int64) for value in (cpu, memory, count, milli, models)))


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        (one_shape(), Misfit.FITS),
        (one_shape(cpu=8_000, memory=100, count=1, milli=1000), Misfit.FITS),
        (one_shape(count=2, milli=300), Misfit.FITS),
        (one_shape(models=0b01), Misfit.MODEL),
        (one_shape(models=0b10), Misfit.FITS),
        (one_shape(count=3), Misfit.DEVICES),
        (one_shape(count=2, milli=301), Misfit.GPU),
        (one_shape(cpu=8_001), Misfit.CPU),
        (one_shape(memory=101), Misfit.MEMORY),
        (one_shape(count=0, milli=0, models=0b01), Misfit.FITS),
    ],
)
def test_misfit_names_the_first_reason(shape: GpuShapes, reason: Misfit) -> None:
    assert misfit(one_node(), 0, shape, 0) == reason


def test_devices_by_order_and_by_tightness() -> None:
    node = one_node((200, 900, 400, 900))
    assert first_devices(node, 0, 2, 400) == 0b0110
    assert first_devices(node, 0, 4, 400).bit_count() == 3
    assert tightest_device(node, 0, 300) == 0b0100
    assert tightest_device(node, 0, 901) == 0


def test_take_and_give_back() -> None:
    node, shape = one_node(), one_shape(cpu=3_000, memory=7, count=2, milli=300)
    take(node, 0, shape, 0, 0b11, 1)
    assert (node.cpu_free[0], node.memory_free[0], node.gpu_free[0].tolist()) == (5_000, 93, [700, 0])
    take(node, 0, shape, 0, 0b11, -1)
    assert (node.cpu_free[0], node.memory_free[0], node.gpu_free[0].tolist()) == (8_000, 100, [1000, 300])
