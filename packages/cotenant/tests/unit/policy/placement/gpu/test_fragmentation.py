"""F against its definition, Phi's parts by hand, and the score's choice of device."""

from __future__ import annotations

import numpy as np
import pytest

from cotenant.policy.placement.gpu.fragmentation import (
    GpuWeights,
    cluster_fragment_gpus,
    fragment,
    mix_of,
    phi,
    phi_parts,
    phi_score,
)
from cotenant.policy.placement.gpu.state import ANY_MODEL, GpuNodeArrays, GpuShapes

FLAT = GpuWeights(shortage=0.0, surplus=0.0, hole=0.0, unit=200, quantum=0.0)


def nodes_of(*rows: tuple[int, tuple[int, ...], int], cpu: int = 32_000, most: int = 8) -> GpuNodeArrays:
    """Rows of (CPU free, free milli-GPU a device, model)."""
    free = np.zeros((len(rows), most), np.int64)
    for n, (_, gpus, _) in enumerate(rows):
        free[n, : len(gpus)] = gpus
    count = np.array([len(gpus) for _, gpus, _ in rows], np.int64)
    return GpuNodeArrays(
        cpu_free=np.array([c for c, _, _ in rows], np.int64),
        memory_free=np.full(len(rows), 1 << 40, np.int64),
        gpu_free=free,
        cpu=np.full(len(rows), cpu, np.int64),
        memory=np.full(len(rows), 1 << 40, np.int64),
        gpu_count=count,
        model=np.array([m for _, _, m in rows], np.int64),
    )


def shapes_of(*rows: tuple[int, int, int, int]) -> GpuShapes:
    """Rows of (CPU, GPUs, milli-GPU each, models)."""
    table = np.array(rows, np.int64)
    columns = [np.ascontiguousarray(table[:, i]) for i in range(4)]
    return GpuShapes(columns[0], np.zeros(len(rows), np.int64), *columns[1:])


def defined(nodes: GpuNodeArrays, n: int, shapes: GpuShapes, pods: np.ndarray) -> int:
    """F as the paper defines it, class by class, in milli-GPU x pods, GPU classes only."""
    free = nodes.gpu_free[n, : nodes.gpu_count[n]]
    total = 0
    for k, times in enumerate(pods):
        count, milli = shapes.gpu_count[k], shapes.gpu_milli[k]
        if count == 0:
            continue
        runs = (
            (shapes.models[k] >> nodes.model[n]) & 1
            and nodes.cpu_free[n] >= shapes.cpu[k]
            and (free >= milli).sum() >= count
        )
        total += times * (free[free < milli].sum() if runs else free.sum())
    return int(total)


@pytest.mark.parametrize("seed", range(20))
def test_fragment_is_the_papers_sum_over_classes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kinds = [(0, 0), (1, 110), (1, 250), (1, 470), (1, 810), (1, 1000), (2, 1000), (4, 1000), (8, 1000)]
    rows = []
    for _ in range(25):
        count, milli = kinds[rng.integers(len(kinds))]
        rows.append(
            (
                int(rng.integers(0, 9)) * 4_000,
                count,
                milli,
                ANY_MODEL if rng.random() < 0.7 else int(rng.integers(0, 8)),
            )
        )
    shapes = shapes_of(*rows)
    pods = rng.integers(1, 50, len(rows))
    mix = mix_of(shapes, pods, models=3, devices=8)
    nodes = nodes_of(
        *(
            (
                int(rng.integers(0, 33)) * 1_000,
                tuple(int(x) * 10 for x in rng.choice([0, 19, 25, 53, 100, 100], 1 << rng.integers(0, 4))),
                int(rng.integers(3)),
            )
            for _ in range(30)
        )
    )
    for n in range(30):
        assert fragment(nodes, n, nodes.cpu_free[n], 0, 0, mix) == defined(nodes, n, shapes, pods)


def test_fragment_foresees_what_taking_devices_leaves() -> None:
    shapes = shapes_of((4_000, 1, 300, ANY_MODEL), (8_000, 2, 1000, ANY_MODEL))
    mix = mix_of(shapes, np.array([3, 2]), models=1, devices=4)
    nodes = nodes_of((16_000, (1000, 500, 1000), 0))
    after = nodes_of((12_000, (700, 500, 700), 0))
    assert fragment(nodes, 0, 12_000, 0b101, 300, mix) == fragment(after, 0, 12_000, 0, 0, mix)


def test_cluster_fragment_counts_all_idle_for_cpu_only_classes() -> None:
    shapes = shapes_of((1_000, 0, 0, ANY_MODEL), (1_000, 1, 1000, ANY_MODEL))
    mix = mix_of(shapes, np.array([1, 3]), models=1, devices=8)
    nodes = nodes_of((8_000, (1000, 400), 0))
    # CPU-only (1 of 4): 1.4 GPUs; one GPU (3 of 4): the device with 0.4
    assert cluster_fragment_gpus(nodes, mix) == pytest.approx(0.25 * 1.4 + 0.75 * 0.4)


def test_cover_keeps_the_most_frequent_classes() -> None:
    shapes = shapes_of((1_000, 1, 500, ANY_MODEL), (1_000, 8, 1000, ANY_MODEL), (1_000, 0, 0, ANY_MODEL))
    pods = np.array([90, 4, 6])
    assert mix_of(shapes, pods, 1, 8).gpu_pods == 94
    typical = mix_of(shapes, pods, 1, 8, cover=0.95)
    assert (typical.gpu_pods, typical.cpu_pods) == (90, 6)


def test_pods_of_several_devices_can_count_more_than_once() -> None:
    shapes = shapes_of((1_000, 1, 500, ANY_MODEL), (1_000, 8, 1000, ANY_MODEL), (1_000, 0, 0, ANY_MODEL))
    mix = mix_of(shapes, np.array([90, 4, 6]), 1, 8, times_several=3)
    assert (mix.gpu_pods, mix.cpu_pods) == (90 + 3 * 4, 6)
    once = mix_of(shapes, np.array([90, 12, 6]), 1, 8)
    assert (mix.several == once.several).all()
    assert (mix.one == once.one).all()


def test_shapes_that_differ_in_memory_only_are_one_class() -> None:
    shapes = shapes_of((1_000, 1, 500, ANY_MODEL), (1_000, 1, 500, ANY_MODEL), (2_000, 1, 700, ANY_MODEL))
    shapes = shapes._replace(memory=np.array([1, 2, 3]))
    assert mix_of(shapes, np.array([3, 3, 5]), 1, 8, cover=0.5).gpu_pods == 6


def test_parts_of_phi_by_hand() -> None:
    mix = mix_of(shapes_of((1_000, 1, 1000, ANY_MODEL)), np.array([1]), 1, 8)
    w = GpuWeights(shortage=2.0, surplus=0.5, hole=3.0, unit=300, quantum=0.04)
    nodes = nodes_of((8_000, (1000, 500), 0), (32_000, (0, 500), 0))
    short = phi_parts(nodes, 0, 8_000, 0, 0, mix, w)
    assert short.fragment == pytest.approx(0.5)
    assert short.shortage == pytest.approx(2.0 * (0.25 - 0.75) ** 2)
    assert short.surplus == 0.0
    assert short.hole == pytest.approx(-3.0 * (3 + 1) / 3)
    spare = phi_parts(nodes, 1, 32_000, 0, 0, mix, w)
    assert spare.shortage == 0.0
    assert spare.surplus == pytest.approx(0.5 * (1.0 - 0.25) ** 2)
    assert phi(nodes, 1, mix, w) == pytest.approx(sum(spare))


def test_node_without_devices_has_no_phi() -> None:
    mix = mix_of(shapes_of((1_000, 1, 1000, ANY_MODEL)), np.array([1]), 1, 8)
    w = GpuWeights(shortage=2.0, surplus=0.5, hole=3.0, unit=300, quantum=0.04)
    assert phi(nodes_of((8_000, (), 0)), 0, mix, w) == 0.0


def test_shared_pod_takes_the_device_that_strands_least() -> None:
    shapes = shapes_of((1_000, 1, 400, ANY_MODEL), (1_000, 1, 1000, ANY_MODEL))
    mix = mix_of(shapes, np.array([1, 1]), 1, 8)
    nodes = nodes_of((16_000, (1000, 400, 700), 0))
    score, devices = phi_score(nodes, 0, shapes, 0, mix, FLAT, phi(nodes, 0, mix, FLAT))
    assert devices == 0b010  # filling the 0.4 hole removes a fragment, the others leave one
    assert score == pytest.approx(0.5 * 0.4)


def test_whole_pods_take_the_first_idle_devices() -> None:
    shapes = shapes_of((1_000, 2, 1000, ANY_MODEL))
    mix = mix_of(shapes, np.array([1]), 1, 8)
    nodes = nodes_of((16_000, (900, 1000, 1000, 1000), 0))
    _, devices = phi_score(nodes, 0, shapes, 0, mix, FLAT, 0.0)
    assert devices == 0b0110


@pytest.mark.parametrize("seed", range(20))
def test_score_is_the_best_fall_of_phi_over_the_devices(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kinds = [(0, 0), (1, 110), (1, 470), (1, 810), (1, 1000), (2, 1000), (4, 1000)]
    shapes = shapes_of(*((int(rng.integers(0, 5)) * 4_000, *kinds[rng.integers(7)], ANY_MODEL) for _ in range(20)))
    mix = mix_of(shapes, rng.integers(1, 50, 20), models=1, devices=8)
    w = GpuWeights(shortage=2.0, surplus=0.4, hole=3.0, unit=220, quantum=0.0)
    nodes = nodes_of(*((16_000, tuple(rng.choice([0, 190, 530, 900, 1000, 1000], 4).tolist()), 0) for _ in range(20)))
    compared = 0
    for n in range(20):
        free = nodes.gpu_free[n, :4]
        for k in range(20):
            count, milli = int(shapes.gpu_count[k]), int(shapes.gpu_milli[k])
            fitting = [
                mask
                for mask in range(16)
                if mask.bit_count() == count and all(free[i] >= milli for i in range(4) if mask >> i & 1)
            ]
            if not fitting:
                continue
            before = phi(nodes, n, mix, w)
            falls = {
                m: before - sum(phi_parts(nodes, n, nodes.cpu_free[n] - shapes.cpu[k], m, milli, mix, w))
                for m in fitting
            }
            score, devices = phi_score(nodes, n, shapes, k, mix, w, before)
            assert score == pytest.approx(max(falls.values()), abs=1e-9)
            assert falls[devices] == pytest.approx(max(falls.values()), abs=1e-9)
            compared += 1
    assert compared > 100


def test_score_is_rounded_to_the_quantum() -> None:
    shapes = shapes_of((1_000, 1, 400, ANY_MODEL), (1_000, 1, 1000, ANY_MODEL))
    mix = mix_of(shapes, np.array([1, 1]), 1, 8)
    nodes = nodes_of((16_000, (400,), 0))
    w = FLAT._replace(quantum=0.04)
    score, _ = phi_score(nodes, 0, shapes, 0, mix, w, phi(nodes, 0, mix, w))
    assert score == 5.0  # 0.5 x 0.4 GPU in steps of 0.04
