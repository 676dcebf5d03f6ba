"""The rivals' scores by hand, on one node of 32 cores and two devices."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cotenant.policy.placement.gpu.fragmentation import GpuMix, GpuWeights, mix_of
from cotenant.policy.placement.gpu.state import ANY_MODEL, GpuNodeArrays, GpuShapes
from cotenant_lab.baselines.fgd import GpuRule, kind_bit, node_term, score_node

NO_WEIGHTS = GpuWeights(0.0, 0.0, 0.0, 1, 0.0)
HALF, WHOLE, PAIR, CPU_ONLY = range(4)
SHAPES = GpuShapes(
    cpu=np.array([6_400, 6_400, 12_800, 6_400]),
    memory=np.zeros(4, np.int64),
    gpu_count=np.array([1, 1, 2, 0]),
    gpu_milli=np.array([500, 1000, 1000, 0]),
    models=np.full(4, ANY_MODEL),
)
MIX = mix_of(SHAPES, np.array([4, 4, 1, 1]), models=1, devices=2)


def node(*free: int, cpu_free: int = 32_000) -> GpuNodeArrays:
    one = np.array([1], np.int64)
    return GpuNodeArrays(
        cpu_free=cpu_free * one,
        memory_free=one,
        gpu_free=np.array([free], np.int64),
        cpu=32_000 * one,
        memory=one,
        gpu_count=len(free) * one,
        model=0 * one,
    )


def score(rule: GpuRule, nodes: GpuNodeArrays, k: int, kinds: int = 0, mix: GpuMix = MIX) -> tuple[float, int]:
    term = node_term(int(rule), nodes, 0, mix, NO_WEIGHTS)
    value, devices = score_node(int(rule), nodes, 0, kinds, SHAPES, k, mix, NO_WEIGHTS, term)
    return float(value), int(devices)


def test_fgd_is_the_floored_sigmoid_of_what_f_falls_by() -> None:
    # F before, in GPUs: half 0, one whole 4 x 0.5, pair 1 x 1.5, CPU-only 1 x 1.5; of 10 pods -> 0.5
    # after filling the 0.5 hole: pair 1.0, CPU-only 1.0 -> 0.2
    value, devices = score(GpuRule.FGD, node(1000, 500), HALF)
    assert devices == 0b10
    assert value == math.floor(100 / (1 + math.exp(-(0.5 - 0.2))))


def test_fgd_takes_the_first_of_equal_devices() -> None:
    assert score(GpuRule.FGD, node(500, 500), HALF)[1] == 0b01


def test_fgd_counts_all_idle_gpu_as_fragment_where_cpu_runs_out() -> None:
    # 6.4 cores left: the whole GPU pod leaves 0 cores, so all of the other device is lost to all
    value, _ = score(GpuRule.FGD, node(1000, 1000, cpu_free=6_400), WHOLE)
    before = (1 * 2.0 + 1 * 2.0) / 10  # pair (CPU short), CPU-only
    assert value == math.floor(100 / (1 + math.exp(-(before - 1.0))))


def test_best_fit_is_what_is_left_in_whole_percent() -> None:
    value, devices = score(GpuRule.BEST_FIT, node(1000, 700), HALF)
    left = (25_600 / 128_000 + 1_200 / 8_000) / 2
    assert (value, devices) == (math.floor(100 * (1 - left)), 0b10)


def test_dot_product_prefers_the_less_free() -> None:
    value, devices = score(GpuRule.DOT_PRODUCT, node(1000, 700), HALF)
    dot = 0.05 * 0.25 + 500 / 8_000 * 1_700 / 8_000
    assert (value, devices) == (math.floor(100 * (1 - dot / 2)), 0b10)


@pytest.mark.parametrize(
    ("free", "k", "expected"),
    [
        ((1000, 1000), HALF, 31.0),  # an idle node
        ((1000, 300), HALF, 49.0),  # an idle device of a used node
        ((1000, 600), HALF, 94.0),  # a shared device with 60 % left
        ((1000, 600), CPU_ONLY, 0.0),
    ],
)
def test_packing_has_three_bands(free: tuple[int, ...], k: int, expected: float) -> None:
    assert score(GpuRule.PACKING, node(*free), k)[0] == expected


def test_clustering_joins_its_own_kind() -> None:
    shared, whole = kind_bit(1, 500), kind_bit(1, 1000)
    nodes = node(1000, 600)
    fill = 25 * 6_400 // 8_000
    assert [score(GpuRule.CLUSTERING, nodes, HALF, kinds)[0] for kinds in (shared, shared | whole, 0, whole)] == [
        75.0 + fill,
        50.0 + fill,
        25.0 + fill,
        0.0 + fill,
    ]
    assert score(GpuRule.CLUSTERING, nodes, CPU_ONLY, 0)[0] == 0.0
