"""Rates for clients: what they begin stays within the budget, and what they thin can be counted again."""

from __future__ import annotations

from math import inf, sqrt

import numpy as np
import pytest
from tests.fakes.servers.spans import EPOCH_S, Given, batch_of

from cotenant.drivers.otlp.resources import span_sampling
from cotenant.engine.traces.head_rates import MAX_OPERATIONS, NOT_SAID, HeadRates, HeadStrategy
from cotenant.engine.traces.operations import SpanOperation
from cotenant.engine.traces.sampling import FinishedTraces, TraceSampler
from cotenant.engine.traces.trace_engine import TraceEngine
from cotenant.model.traces.probability import (
    ALL,
    probability_of,
    read_threshold,
    thresholds_of,
)
from cotenant.model.traces.spans import SpanKind
from cotenant.policy.objective.sampling import head_probabilities

BUDGET = 100.0
CLIENTS, SECONDS = 5, 900
SHAPES = ((300.0, 4), (60.0, 2), (0.5, 10))  # traces a second that are begun, and spans of each, by operation
KNOWN = [SpanOperation("shop", "web", f"GET /{number}", SpanKind.SERVER) for number in range(len(SHAPES))]


def probability_in(strategy: HeadStrategy, operation: int) -> float:
    return dict(strategy.operations).get(KNOWN[operation].name, strategy.probability)


@pytest.mark.parametrize("says_so", [True, False])
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_clients_that_ask_each_minute_stay_within_the_budget_and_counts_come_back(seed: int, says_so: bool) -> None:
    generator, rates = np.random.default_rng(seed), HeadRates(0.0, BUDGET)
    polls = generator.integers(0, 60, CLIENTS)  # each client asks at its own second
    followed = [[0] * len(SHAPES)] * CLIENTS  # thresholds by operation
    arrived = np.zeros(SECONDS)
    begun, estimate, variance = 0, 0.0, 0.0
    for second in range(SECONDS):
        for client in np.flatnonzero(polls == second % 60).tolist():
            told = rates.strategy("", "web", KNOWN, float(second))
            chances = np.array([probability_in(told, operation) for operation in range(len(SHAPES))])
            followed[client] = thresholds_of(chances).tolist()
        roots, spans, thresholds = [], [], []
        for operation, (traces_per_s, size) in enumerate(SHAPES):
            for client in range(CLIENTS):
                count = int(generator.poisson(traces_per_s / CLIENTS))
                threshold = followed[client][operation]
                kept = int((generator.integers(0, ALL, count, dtype=np.uint64) >= threshold).sum())
                probability = probability_of(threshold)
                begun += count
                estimate += kept / probability
                variance += count * (1 - probability) / probability
                roots += [operation] * kept
                spans += [size] * kept
                thresholds += [threshold if says_so else NOT_SAID] * kept
        arrived[second] = sum(spans)
        rates.add(np.array(roots, np.int32), np.array(spans, np.int64), np.array(thresholds, np.int64), float(second))
    assert arrived[:1].sum() > 5 * BUDGET  # before anybody had asked
    assert arrived[300:].mean() < 1.15 * BUDGET
    assert arrived[300:].mean() > 0.6 * BUDGET  # no answer lowers the next
    assert abs(estimate - begun) <= 4 * sqrt(variance)
    last = rates.strategy("shop", "web", KNOWN, float(SECONDS))
    assert probability_in(last, 2) == 1.0 > probability_in(last, 1) > probability_in(last, 0)


@pytest.mark.parametrize("seed", range(20))
def test_operations_share_the_budget_evenly(seed: int) -> None:
    generator = np.random.default_rng(seed)
    demand, budget = generator.exponential(30.0, 12), float(generator.uniform(1, 500))
    chosen = head_probabilities(demand, budget)
    given = chosen * demand
    assert given.sum() <= budget * (1 + 1e-9) or (chosen == 1.0).all()
    thinned = chosen < 1.0
    if thinned.any():
        assert given.sum() == pytest.approx(budget)
        assert np.ptp(given[thinned]) < 1e-9
        assert (given[~thinned] <= given[thinned].min() + 1e-9).all()


@pytest.mark.parametrize("seed", range(5))
def test_traces_that_clients_and_the_budget_thinned_stand_for_what_was_begun(seed: int) -> None:
    generator, sampler = np.random.default_rng(seed), TraceSampler(0.0, 60.0)
    begun, estimate, variance = 0, 0.0, 0.0
    for step in range(400):
        count = int(generator.poisson(40))
        begun += count
        head = thresholds_of(generator.choice([1.0, 0.5, 0.1], count))
        random = generator.integers(0, ALL, count, dtype=np.uint64)
        came = random >= head
        size = int(came.sum())
        traces = FinishedTraces(
            np.zeros(size, np.int32),
            np.ones(size, np.int64),
            np.zeros(size, np.bool_),
            np.ones(size, np.int64),
            random[came],
            head[came],
        )
        sampled = sampler.choose(traces, lambda _: inf, step / 8)
        assert (sampled.threshold >= sampled.head).all()
        for chance in map(probability_of, sampled.threshold[sampled.kept].tolist()):
            estimate += 1 / chance
            variance += (1 - chance) / chance**2
    assert sampler.left_out.sum() > 1000
    assert abs(estimate - begun) <= 4 * sqrt(variance)


def test_requests_that_arrive_stand_for_those_that_were_thinned() -> None:
    engine = TraceEngine(float(EPOCH_S), lambda _: {}, carried=span_sampling)
    spans = [
        Given(1, 0, "GET", SpanKind.SERVER, trace=1, tracestate="ot=th:c"),
        Given(2, 0, "GET", SpanKind.SERVER, trace=2, tracestate="vendor=th:f,ot=rv:ffffffffffffff;th:8"),
        Given(3, 0, "GET", SpanKind.SERVER, trace=3, tags={"note": "ot=th:f"}),
        Given(4, 3, "call", SpanKind.CLIENT, trace=3, tracestate="ot=th:c"),
    ]
    engine.add(batch_of(*spans), float(EPOCH_S))
    engine.add(batch_of(*spans), float(EPOCH_S))  # repeated
    number = [operation.name for operation in engine.operations.known].index("GET")
    assert engine.latency.requests[number] + engine.represented.beyond[number] == 4 + 2 + 1
    assert np.count_nonzero(engine.represented.beyond) == 1


def test_unknown_services_are_left_alone_and_answers_are_bounded() -> None:
    rates = HeadRates(0.0, BUDGET)
    assert rates.strategy("", "nobody", KNOWN, 1.0) == HeadStrategy(1.0, ())
    known = [SpanOperation("", "web", f"o{number}", SpanKind.SERVER) for number in range(2 * MAX_OPERATIONS)]
    everything = np.arange(len(known), dtype=np.int32)
    for second in range(5):
        rates.add(everything, np.ones(len(known), np.int64), np.full(len(known), NOT_SAID), float(second))
    found = rates.strategy("", "web", known, 5.0)
    assert len(found.operations) == MAX_OPERATIONS
    assert 0.0 < found.probability < 0.2
    assert rates.strategy("other", "web", known, 5.0) == HeadStrategy(1.0, ())


def test_thresholds_are_read() -> None:
    assert [read_threshold(text) for text in ("ot=th:8", "a=1, ot=rv:1;th:c0", "ot=th:0")] == [1 << 55, 3 << 54, 0]
    assert [read_threshold(text) for text in ("", "ot=th:", "ot=th:xyz", "b=th:8", f"ot=th:{'1' * 15}")] == [None] * 5
