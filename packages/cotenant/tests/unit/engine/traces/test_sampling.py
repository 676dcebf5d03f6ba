"""Sampling under a budget: what is kept, and that kept traces weighted by their probability give the counts."""

from __future__ import annotations

from math import inf, sqrt

import numpy as np
import pytest

from cotenant.engine.traces.sampling import BURST_S, FinishedTraces, TraceSampler
from cotenant.model.traces.probability import ALL, probability_of, read_randomness, thresholds_of
from cotenant.policy.objective.sampling import FLOORS, TraceClass, fair_level, probabilities

# operation -> traces a second, spans of each, share of failed ones
SHAPES = {0: (400.0, 8, 0.01), 1: (60.0, 3, 0.2), 2: (1.0, 20, 0.0), 3: (0.2, 1, 0.5)}
BUDGET = 300.0


def second(generator: np.random.Generator, factor: float = 1.0) -> FinishedTraces:
    parts = []
    for operation, (rate, spans, failed) in SHAPES.items():
        count = int(generator.poisson(rate * factor / 8))
        parts.append(
            FinishedTraces(
                np.full(count, operation, np.int32),
                np.full(count, spans, np.int64),
                generator.random(count) < failed,
                generator.integers(1, 101, count) * 10**6,
                generator.integers(0, ALL, count, dtype=np.uint64),
                np.zeros(count, np.uint64),
            )
        )
    return FinishedTraces._make(map(np.concatenate, zip(*parts, strict=True)))


def run(
    seed: int, seconds: int, burst: int = -1
) -> tuple[TraceSampler, list[tuple[FinishedTraces, np.ndarray, np.ndarray]]]:
    generator, sampler, found = np.random.default_rng(seed), TraceSampler(0.0, BUDGET), []
    for step in range(seconds * 8):
        traces = second(generator, 10.0 if step // 8 == burst else 1.0)
        sampled = sampler.choose(traces, lambda _: 99e6, step / 8)
        found.append((traces, sampled.kept, sampled.threshold))
    return sampler, found


@pytest.mark.parametrize("seed", range(5))
def test_kept_traces_over_their_probability_are_the_exact_counts(seed: int) -> None:
    _, found = run(seed, 60)
    for operation in SHAPES:
        exact = sum(int((traces.root == operation).sum()) for traces, _, _ in found)
        estimate, variance = 0.0, 0.0
        for traces, kept, threshold in found:
            for chance in map(probability_of, threshold[kept & (traces.root == operation)].tolist()):
                estimate += 1 / chance
                variance += (1 - chance) / chance**2
        assert abs(estimate - exact) <= 4 * sqrt(variance) + 1e-6, operation


def test_the_budget_holds_also_in_a_burst_and_the_rare_and_failed_come_first() -> None:
    _, found = run(7, 30, burst=20)
    spans = [int(traces.spans[kept].sum()) for traces, kept, _ in found]
    assert sum(spans) <= BUDGET * (30 + 2 * BURST_S)
    assert max(sum(spans[first : first + 8]) for first in range(len(spans))) <= BUDGET * (2 * BURST_S)
    calm = [sample for step, sample in enumerate(found) if 80 <= step < 160]
    kept_share = {
        operation: sum(int(kept[traces.root == operation].sum()) for traces, kept, _ in calm)
        / sum(int((traces.root == operation).sum()) for traces, _, _ in calm)
        for operation in (0, 1, 2)
    }
    assert kept_share[2] > 0.9 > kept_share[1] > kept_share[0]
    failed = sum(int(kept[traces.failed].sum()) for traces, kept, _ in calm)
    assert failed / sum(int(traces.failed.sum()) for traces, _, _ in calm) > 0.9


def test_without_a_budget_all_is_kept() -> None:
    traces = second(np.random.default_rng(1))
    sampled = TraceSampler(0.0).choose(traces, lambda _: inf, 1.0)
    assert sampled.kept.all()
    assert not sampled.threshold.any()


@pytest.mark.parametrize("seed", range(20))
def test_probabilities_are_fair_within_the_budget_and_never_0(seed: int) -> None:
    generator = np.random.default_rng(seed)
    demand = generator.exponential(1.0, (12, 3)) ** 4 * (generator.random((12, 3)) < 0.7)
    budget = float(demand.sum() * generator.random())
    chance = probabilities(demand, budget)
    assert (chance > 0).all()
    assert (chance <= 1).all()
    assert (chance * demand).sum() <= budget * (1 + 1e-6)
    for of_class in TraceClass:
        assert (np.diff(chance[np.argsort(demand[:, of_class]), of_class]) <= 1e-9).all()
        floor = min(FLOORS[of_class] * budget, demand[:, of_class].sum())
        assert (chance * demand)[:, of_class].sum() >= floor * (1 - 1e-6)


def test_a_fair_level_of_three_demands() -> None:
    demand = np.array([1.0, 0.0, 10.0, 4.0])
    level = fair_level(demand, 9.0)
    assert level == pytest.approx(4.0)
    assert np.minimum(demand, level).sum() == pytest.approx(9.0)
    assert fair_level(demand, 15.0) == inf


def test_thresholds_are_rounded_towards_keeping_more() -> None:
    chances = np.array([1.0, 0.5, 0.1, 1e-3, 1e-6])
    found = [probability_of(threshold) for threshold in thresholds_of(chances).tolist()]
    assert found[0] == 1.0
    assert all(found >= chances)
    assert found == pytest.approx(chances.tolist(), rel=1e-3)


def test_random_bits_of_a_tracestate() -> None:
    assert read_randomness("vendor=1,ot=th:8;rv:0000000000000f") == 15
    assert [read_randomness(text) for text in ("", "ot=rv:12", "ot=rv:zzzzzzzzzzzzzz")] == [None] * 3
