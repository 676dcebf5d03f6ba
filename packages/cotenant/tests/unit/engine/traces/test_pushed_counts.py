"""Histograms that SDKs push: counted at edges as brute force counts the observations, else not at all."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from itertools import pairwise
from math import ceil, log2
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.property.few import first_cases

from cotenant.drivers.otlp.metric_decoding import decode_metrics
from cotenant.drivers.otlp.resources import span_tags
from cotenant.engine.traces.objectives import Tracked
from cotenant.engine.traces.pushed_counts import MAX_AHEAD_S, MAX_SERIES, PushedCounts
from cotenant.engine.traces.server_objectives import ServerObjectives
from cotenant.engine.traces.trace_engine import TraceEngine
from cotenant.model.errors import InvalidInput
from cotenant.model.traces.model_server import ModelGoal, ModelMeasure
from cotenant.model.traces.objective import Indicator, ServiceObjective
from cotenant.model.traces.pushed_histogram import ExplicitBuckets, ExponentialBuckets, PushedHistogram
from cotenant.model.traces.spans import SpanSource
from cotenant.policy.objective.exponential_buckets import at_edges, coarser, since

RECORDED = json.loads(Path(__file__).with_name("recorded_genai_metrics.json").read_text())
TTFT = ModelMeasure.TIME_TO_FIRST_TOKEN
SOURCE = SpanSource("llm", "shop", "llm-0")
START_NS = 1_700_000_000 * 10**9
EDGES_US = (100_000, 250_000, 500_000, 1_000_000)


class Pushed:
    """One replica that exports again and again, and one objective."""

    def __init__(self, limit_us: int, now_s: float = START_NS / 1e9, model: str = "") -> None:
        self.now_s = now_s
        self.engine = TraceEngine(now_s, span_tags)
        goal = ModelGoal({TTFT: limit_us}, model=model)
        self.engine.objectives.set(
            ServiceObjective("shop/llm", "shop", "llm", "", Indicator.MODEL_SERVER, limit_us, goal, budget_ppm=50_000),
            now_s,
        )
        self._of = ServerObjectives(self.engine.objectives)
        self.counts = PushedCounts()

    def take(self, *points: PushedHistogram, source: SpanSource = SOURCE) -> Tracked:
        asked = self._of.asked("shop/llm")
        assert asked is not None
        news = self.counts.take(source, points, asked.limits_us, asked.since_s, self.now_s)
        self._of.take(source, news.reading, news.new, self.now_s)
        return self.tracked

    @property
    def tracked(self) -> Tracked:
        found = self.engine.objectives.get("shop/llm")
        assert found is not None
        return found

    @property
    def why(self) -> list[str]:
        return [why for _, why in self.engine.objectives.uncounted(self.tracked, self.now_s)]


def explicit(values: list[float], edges_us: tuple[int, ...] = EDGES_US) -> ExplicitBuckets:
    edges_s = (0.0, *(edge_us / 1e6 for edge_us in edges_us), float("inf"))
    counts = [sum(low < value <= high for value in values) for low, high in pairwise(edges_s)]
    return ExplicitBuckets(edges_us, tuple(counts))


def exponential(values: list[float], scale: int) -> ExponentialBuckets:
    indices = [ceil(log2(value) * 2.0**scale) - 1 for value in values if value > 0]
    found = tuple((index, indices.count(index)) for index in sorted(set(indices)))
    return ExponentialBuckets(scale, found, sum(value == 0 for value in values))


def point(buckets: ExplicitBuckets | ExponentialBuckets, at_s: float = 10.0, **more: object) -> PushedHistogram:
    made = PushedHistogram(TTFT, "llama", "m=llama", False, START_NS, START_NS + round(at_s * 1e9), buckets)
    return replace(made, **more)  # type: ignore[arg-type]


# ---- what a real SDK sent


def recorded(name: str, limit_us: int) -> tuple[Tracked, Pushed]:
    batches = [decode_metrics(base64.b64decode(body)) for body in RECORDED[name]]
    first = batches[0].sources[0][1][0]
    pushed = Pushed(limit_us, first.start_ns / 1e9 - 1)
    for batch in batches:
        ((source, points),) = batch.sources
        assert source == SOURCE
        assert not batch.rejected
        pushed.now_s = points[0].at_ns / 1e9
        pushed.take(*points)
    return pushed.tracked, pushed


@pytest.mark.parametrize("name", ["explicit", "explicit-delta", "exponential", "exponential-delta"])
@pytest.mark.parametrize("limit_us", [250_000, 500_000, 1_000_000])
def test_what_the_sdk_sends_is_counted_as_its_observations(name: str, limit_us: int) -> None:
    values = [value for batch in RECORDED["values_s"] for value in batch]
    tracked, pushed = recorded(name, limit_us)
    assert (tracked.requests, tracked.bad) == (len(values), sum(value * 1e6 > limit_us for value in values))
    assert not pushed.why


def test_a_scale_that_became_too_coarse_for_a_limit_is_refused_with_a_sentence() -> None:
    tracked, pushed = recorded("exponential-coarse", 250_000)
    assert (tracked.requests, tracked.bad, pushed.why) == (12, 7, [])
    tracked, pushed = recorded("exponential-coarse", 500_000)
    assert tracked.requests < 12
    assert pushed.why == [
        "500ms is no edge of OpenTelemetry's timeToFirstToken; the nearest are 3.906ms, 62.5ms, 250ms, 1000ms"
    ]


# ---- brute force


@pytest.mark.slow
@given(st.lists(st.floats(0.0005, 70.0), max_size=30), st.integers(-1, 12), st.sampled_from((0.0625, 0.25, 1.0, 4.0)))
def test_at_a_power_of_two_an_exponential_histogram_counts_as_brute_force(
    values: list[float], scale: int, limit_s: float
) -> None:
    limit_us = round(limit_s * 1e6)
    found = at_edges(exponential(values, scale), (limit_us,))
    assert limit_us in found.edges_us
    good = sum(found.counts[: found.edges_us.index(limit_us) + 1])
    assert (good, sum(found.counts)) == (sum(value <= limit_s for value in values), len(values))


@pytest.mark.slow
@given(
    st.lists(st.floats(0.001, 9.0), max_size=20),
    st.lists(st.floats(0.001, 9.0), max_size=20),
    st.integers(0, 9),
    st.integers(0, 4),
)
def test_a_difference_over_a_change_of_scale_is_what_came_between(
    before: list[float], later: list[float], scale: int, by: int
) -> None:
    found = since(exponential(before + later, scale), exponential(before, scale + by))
    expected = exponential(later, scale)
    assert found == expected
    assert coarser(exponential(later, scale + by), scale) == expected


@pytest.mark.slow
@given(st.lists(st.lists(st.floats(0.001, 3.0), max_size=8), max_size=6), st.booleans(), st.data())
def test_exports_that_are_repeated_or_deltas_count_each_observation_once(
    batches: list[list[float]], is_delta: bool, data: st.DataObject
) -> None:
    pushed, every, begin_ns = Pushed(500_000), list[float](), START_NS
    for number, batch in enumerate(batches, 1):
        every += batch
        sent = point(explicit(batch if is_delta else every), number, is_delta=is_delta)
        sent = replace(sent, start_ns=begin_ns if is_delta else START_NS)
        begin_ns = sent.at_ns
        pushed.now_s = sent.at_ns / 1e9
        for _ in range(data.draw(st.integers(1, 2))):
            pushed.take(sent)
    assert (pushed.tracked.requests, pushed.tracked.bad) == (len(every), sum(value > 0.5 for value in every))


test_first_cases = first_cases(
    test_at_a_power_of_two_an_exponential_histogram_counts_as_brute_force,
    test_a_difference_over_a_change_of_scale_is_what_came_between,
    test_exports_that_are_repeated_or_deltas_count_each_observation_once,
)


def test_buckets_that_lie_far_apart_cost_nothing() -> None:
    far = since(ExponentialBuckets(20, ((2**30, 1),)), ExponentialBuckets(20, ((-(2**30), 1),)))
    assert far.counts == ((-(2**30), -1), (2**30, 1))


# ---- beginnings, restarts, gaps


def test_a_process_that_was_there_before_the_objective_begins_with_its_first_point() -> None:
    pushed = Pushed(500_000, START_NS / 1e9 + 5)
    assert pushed.take(point(explicit([0.1, 0.9]))).requests == 0
    assert pushed.take(point(explicit([0.1, 0.9, 0.9]), 20.0)).bad == 1


def test_what_a_restarted_process_has_counted_is_new() -> None:
    pushed = Pushed(500_000)
    pushed.take(point(explicit([0.1, 0.9])))
    again = point(explicit([0.9]), 20.0, start_ns=START_NS + 15 * 10**9)
    assert pushed.take(again).requests == 3
    assert pushed.counts.restarts == 1


def test_a_series_that_fell_without_a_new_start_began_anew() -> None:
    pushed = Pushed(500_000)
    pushed.take(point(explicit([0.1, 0.9])))
    assert pushed.take(point(explicit([0.9]), 20.0)).requests == 3


def test_two_processes_under_one_name_are_refused() -> None:
    pushed = Pushed(500_000)
    pushed.take(point(explicit([0.1]), 10.0, start_ns=START_NS + 10**9))
    with pytest.raises(InvalidInput, match=r"service\.instance\.id"):
        pushed.take(point(explicit([0.1] * 50), 11.0))
    assert pushed.tracked.requests == 1


def test_a_proven_sender_has_series_of_its_own() -> None:
    pushed = Pushed(500_000)
    pushed.take(point(explicit([0.1]), 10.0, start_ns=START_NS + 10**9))
    pushed.take(point(explicit([0.1]), 11.0), source=replace(SOURCE, sender="shop"))
    assert pushed.tracked.requests == 2


def test_what_came_in_a_long_gap_or_long_ago_is_left_out() -> None:
    pushed = Pushed(500_000)
    pushed.take(point(explicit([0.1])))
    assert pushed.take(point(explicit([0.1] * 9), 400.0)).requests == 1
    assert pushed.take(point(explicit([0.1] * 10), 402.0)).requests == 2
    pushed.now_s += 10_000
    assert pushed.take(point(explicit([0.1] * 11), 404.0)).requests == 2


@pytest.mark.parametrize("is_delta", [False, True])
def test_a_point_of_the_future_does_not_silence_what_comes_after_it(is_delta: bool) -> None:
    pushed = Pushed(500_000)
    pushed.take(point(explicit([0.1]), is_delta=is_delta))
    far = MAX_AHEAD_S + 20.0
    with pytest.raises(InvalidInput, match=r"dated 620 s from now: expected at most 600 s ahead"):
        pushed.take(point(explicit([0.1] * 2), 20.0, is_delta=is_delta), point(explicit([0.9]), far, is_delta=is_delta))
    assert pushed.take(point(explicit([0.1] * 2), 20.0, is_delta=is_delta)).requests == (3 if is_delta else 2)
    assert pushed.counts.repeated == 0


def test_series_are_bounded() -> None:
    pushed = Pushed(500_000)
    many = [point(explicit([0.1]), series=f"user={number}") for number in range(MAX_SERIES + 1)]
    with pytest.raises(InvalidInput, match="fewer attributes"):
        pushed.take(*many)


def test_a_limit_that_is_no_edge_counts_nothing_and_names_the_nearest() -> None:
    pushed = Pushed(300_000)
    assert pushed.take(point(explicit([0.1]))).requests == 0
    assert pushed.why == [
        "300ms is no edge of OpenTelemetry's timeToFirstToken; the nearest are 100ms, 250ms, 500ms, 1000ms"
    ]


def test_a_model_is_counted_by_its_name() -> None:
    pushed = Pushed(500_000, model="llama")
    other = point(explicit([0.9]), series="m=other", model="other")
    assert pushed.take(point(explicit([0.1])), other).requests == 1


def test_observations_of_zero_and_beyond_every_edge_are_counted() -> None:
    found = at_edges(ExponentialBuckets(0, ((40, 2),), zero=3, zero_us=5), (1_000_000,))
    assert found.edges_us == (5, 1_000_000)
    assert found.counts == (3, 0, 2)
