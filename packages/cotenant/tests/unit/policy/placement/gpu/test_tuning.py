"""The one rule for the weights."""

from __future__ import annotations

import numpy as np
import pytest

from cotenant.policy.placement.gpu.fragmentation import GpuWeights
from cotenant.policy.placement.gpu.state import ANY_MODEL, GpuNodeArrays, GpuShapes
from cotenant.policy.placement.gpu.tuning import (
    BALANCE_RAMP,
    BALANCED,
    SCARCE_CPU,
    SHORTAGE_ALONE,
    SURPLUS_RAMP,
    cpu_per_gpu,
    weights_for,
)

ONE = np.array([1], np.int64)
NODE = GpuNodeArrays(  # 16 cores, 2 GPUs
    cpu_free=16_000 * ONE,
    memory_free=ONE,
    gpu_free=np.array([[1000, 1000]], np.int64),
    cpu=16_000 * ONE,
    memory=ONE,
    gpu_count=2 * ONE,
    model=0 * ONE,
)
SHAPES = GpuShapes(  # 4 cores without GPU, and 4 cores with a GPU
    cpu=np.array([4_000, 4_000]),
    memory=np.array([0, 0]),
    gpu_count=np.array([0, 1]),
    gpu_milli=np.array([0, 1000]),
    models=np.array([ANY_MODEL, ANY_MODEL]),
)


def test_cpu_per_gpu_compares_shares_of_what_is_there() -> None:
    assert cpu_per_gpu(NODE, SHAPES, np.array([0, 5])) == pytest.approx((4 / 16) / (1 / 2))
    assert cpu_per_gpu(NODE, SHAPES, np.array([5, 0])) == float("inf")


def weights_at(ratio: float) -> GpuWeights:
    """Of a mix that asks for `ratio` times as much of the CPU as of the GPU: one GPU is half the node's, 8 cores
    half its CPU.
    """
    shapes = SHAPES._replace(cpu=np.array([round(8_000 * ratio) - 4_000, 4_000]))
    assert cpu_per_gpu(NODE, shapes, np.array([1, 1])) == pytest.approx(ratio)
    return weights_for(NODE, shapes, np.array([1, 1]))


def test_balance_is_no_gain_where_cpu_is_the_scarcer() -> None:
    assert weights_for(NODE, SHAPES, np.array([0, 1])) == BALANCED  # half as much CPU as GPU
    assert weights_for(NODE, SHAPES, np.array([2, 1])) == SCARCE_CPU
    assert weights_for(NODE, SHAPES, np.array([1, 0])) == SCARCE_CPU  # no GPU pods at all


def test_the_weights_change_on_ramps_and_not_at_a_step() -> None:
    full, none = SURPLUS_RAMP
    assert weights_at(full) == BALANCED
    assert weights_at((full + none) / 2).surplus == pytest.approx(BALANCED.surplus / 2)
    assert weights_at(none)._replace(surplus=0.0) == pytest.approx(
        BALANCED._replace(surplus=0.0, shortage=SHORTAGE_ALONE)
    )
    assert weights_at(none).surplus == pytest.approx(0.0)
    assert weights_at(0.998).surplus == 0.0
    assert weights_at(sum(BALANCE_RAMP) / 2).hole == pytest.approx(BALANCED.hole / 2)
    weights = np.array([weights_at(float(ratio)) for ratio in np.linspace(0.75, 1.05, 61)])
    most = np.array(BALANCED._replace(several=10)) / 10  # `several` is a whole number: its steps are 1
    assert (np.diff(weights, axis=0) <= 1e-12).all()  # none grows
    assert (-np.diff(weights, axis=0) <= most + 1e-12).all()  # steps of 0.005 in the ratio
