"""Placement from cached scores: the same choices as a full scan, nothing over capacity, nothing refused that fits."""

from __future__ import annotations

import numpy as np
import pytest
from tests.fakes.cluster.gpu_grants import GpuGrants

from cotenant.policy.placement.gpu.fragmentation import GpuMix, GpuWeights, mix_of
from cotenant.policy.placement.gpu.state import ANY_MODEL, GpuNodeArrays, GpuShapes, misfit
from cotenant.policy.placement.gpu.tuning import BALANCED
from cotenant_lab.baselines.fgd import GpuRule, kind_bit, node_term, score_node
from cotenant_lab.replay.device_queue import kept_scores, place_all

KINDS = [(0, 0), (1, 110), (1, 250), (1, 470), (1, 810), (1, 1000), (2, 1000), (4, 1000)]


def world(seed: int) -> tuple[GpuNodeArrays, GpuShapes, np.ndarray, GpuMix]:
    """A cluster of 12 nodes, 15 shapes, and arrivals beyond its capacity."""
    rng = np.random.default_rng(seed)
    count = rng.choice([0, 1, 2, 4], 12, p=[0.1, 0.3, 0.3, 0.3])
    cpu = rng.choice([8_000, 32_000, 64_000], 12)
    idle = (np.arange(4) < count[:, None]).astype(np.int64) * 1000
    memory = np.full(12, 64)
    nodes = GpuNodeArrays(cpu.copy(), memory.copy(), idle, cpu, memory, count, rng.integers(0, 2, 12))
    kinds = np.array([KINDS[i] for i in rng.integers(0, len(KINDS), 15)])
    shapes = GpuShapes(
        cpu=rng.integers(0, 6, 15) * 2_000,
        memory=rng.integers(0, 9, 15),
        gpu_count=np.ascontiguousarray(kinds[:, 0]),
        gpu_milli=np.ascontiguousarray(kinds[:, 1]),
        models=np.where(rng.random(15) < 0.8, ANY_MODEL, rng.integers(1, 4, 15)),
    )
    mix = mix_of(shapes, rng.integers(1, 30, 15), models=2, devices=4)
    return nodes, shapes, rng.integers(0, 15, 150), mix


def placed(
    rule: GpuRule, nodes: GpuNodeArrays, shapes: GpuShapes, arrivals: np.ndarray, mix: GpuMix, w: GpuWeights
) -> tuple[np.ndarray, np.ndarray]:
    count = len(arrivals)
    nodes = GpuNodeArrays(*(column.copy() for column in nodes))
    kept = kept_scores(len(shapes.cpu), nodes, int(rule), mix, w, count)
    row, devices = np.zeros(count, np.int64), np.zeros(count, np.int64)
    draws = np.random.default_rng(3).random((count, 2))
    for begin, end in ((0, 70), (70, count)):  # in two calls: the cache must carry over
        place_all(int(rule), nodes, shapes, arrivals, begin, end, mix, w, kept, draws, row, devices)
    return row, devices


@pytest.mark.parametrize("rule", GpuRule, ids=[rule.name.lower() for rule in GpuRule])
@pytest.mark.parametrize("seed", range(4))
def test_a_pod_that_fits_somewhere_is_placed_and_nothing_is_over_capacity(rule: GpuRule, seed: int) -> None:
    nodes, shapes, arrivals, mix = world(seed)
    row, devices = placed(rule, nodes, shapes, arrivals, mix, BALANCED)
    book = GpuGrants(nodes, shapes)
    for a, k in enumerate(arrivals):
        fits = any(misfit(book.nodes, n, shapes, k) == 0 for n in range(len(nodes.cpu)))
        assert (row[a] >= 0) == fits
        if fits:
            book.allocate(a, int(row[a]), int(k), int(devices[a]))  # refuses what does not fit
    book.validate()
    assert 0 < (row < 0).sum() < len(arrivals)


@pytest.mark.parametrize("rule", [r for r in GpuRule if r != GpuRule.RANDOM], ids=lambda rule: rule.name.lower())
@pytest.mark.parametrize("seed", range(4))
def test_kept_scores_choose_as_a_full_scan_does(rule: GpuRule, seed: int) -> None:
    nodes, shapes, arrivals, mix = world(seed)
    row, devices = placed(rule, nodes, shapes, arrivals, mix, BALANCED)
    book, kinds = GpuGrants(nodes, shapes), np.zeros(len(nodes.cpu), np.int64)
    for a, k in enumerate(arrivals):
        best, chosen, mask = -np.inf, -1, 0
        for n in range(len(nodes.cpu)):
            if misfit(book.nodes, n, shapes, k) == 0:
                term = node_term(int(rule), book.nodes, n, mix, BALANCED)
                score, taken = score_node(int(rule), book.nodes, n, kinds[n], shapes, k, mix, BALANCED, term)
                if score > best:
                    best, chosen, mask = score, n, taken
        assert (row[a], devices[a]) == (chosen, mask)
        if chosen >= 0:
            book.allocate(a, chosen, int(k), int(mask))
            kinds[chosen] |= kind_bit(shapes.gpu_count[k], shapes.gpu_milli[k])
