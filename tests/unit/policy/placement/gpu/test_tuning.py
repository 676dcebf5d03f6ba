"""The one rule for the weights."""

from __future__ import annotations

import numpy as np
import pytest

from cotenant.policy.placement.gpu.state import ANY_MODEL, GpuNodes, GpuShapes
from cotenant.policy.placement.gpu.tuning import BALANCED, cpu_per_gpu, weights_for

ONE = np.array([1], np.int64)
NODE = GpuNodes(  # 16 cores, 2 GPUs
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


def test_surplus_is_no_waste_where_cpu_is_the_scarcer() -> None:
    assert weights_for(NODE, SHAPES, np.array([1, 1])) == BALANCED  # as much CPU as GPU
    assert weights_for(NODE, SHAPES, np.array([2, 1])) == BALANCED._replace(surplus=0.0)
