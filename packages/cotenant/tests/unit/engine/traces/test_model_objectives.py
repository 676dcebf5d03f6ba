"""Objectives of model servers: from histograms exactly at an edge or not at all, from spans request by request."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.servers.model_servers import page
from tests.fakes.servers.spans import EPOCH_S, Given, batch_of
from tests.property.few import first_cases

from cotenant.drivers.modelserver.exposition import read_exposition
from cotenant.drivers.otlp.resources import span_tags
from cotenant.engine.traces.objectives import Tracked
from cotenant.engine.traces.server_counts import ServerCounts
from cotenant.engine.traces.server_objectives import ServerObjectives
from cotenant.engine.traces.trace_engine import TraceEngine
from cotenant.model.traces.model_server import GoalSource, ModelGoal, ModelMeasure
from cotenant.model.traces.objective import Indicator, ServiceObjective
from cotenant.model.traces.spans import SpanKind, SpanSource

NOW_S = float(EPOCH_S + 10)
IDS = count(1)
TTFT, TPOT = ModelMeasure.TIME_TO_FIRST_TOKEN, ModelMeasure.TIME_PER_OUTPUT_TOKEN
REPLICA = SpanSource("llm", "shop", "llm-0", host="n1", pod_namespace="shop", sender="shop")


def objective(
    limits_us: dict[ModelMeasure, int], source: GoalSource = GoalSource.METRICS, model: str = ""
) -> ServiceObjective:
    goal = ModelGoal(limits_us, source, model)
    limit_us = goal.only[1] if goal.only is not None else None
    return ServiceObjective("shop/llm", "shop", "llm", "", Indicator.MODEL_SERVER, limit_us, goal, budget_ppm=50_000)


class Readings:
    """One replica, read again and again."""

    def __init__(self, wanted: ServiceObjective, release: str = "vllm-0.11") -> None:
        self.engine = TraceEngine(NOW_S, span_tags)
        self.engine.objectives.set(wanted, NOW_S)
        self._of = ServerObjectives(self.engine.objectives)
        self._counts, self._release, self._now_s = ServerCounts(), release, NOW_S

    def take(self, **seconds: tuple[float, ...]) -> Tracked:
        """A reading of these observations, by measure."""
        reading = read_exposition(page(self._release, seconds))
        self._of.take(REPLICA, reading, self._counts.take("http://a/metrics", reading, self._now_s), self._now_s)
        self._now_s += 2.0
        return self.tracked

    @property
    def tracked(self) -> Tracked:
        found = self.engine.objectives.get("shop/llm")
        assert found is not None
        return found

    @property
    def why(self) -> list[str]:
        return [why for _, why in self.engine.objectives.uncounted(self.tracked, self._now_s)]


@pytest.mark.slow
@given(st.lists(st.floats(0.001, 3.0), max_size=30), st.sampled_from((0.1, 0.25, 0.5, 1.0)))
def test_at_an_edge_the_count_is_that_of_brute_force(values: list[float], limit_s: float) -> None:
    readings = Readings(objective({TTFT: round(limit_s * 1e6)}))
    readings.take()
    tracked = readings.take(timeToFirstToken=tuple(values))
    assert (tracked.requests, tracked.bad) == (len(values), sum(value > limit_s for value in values))


def test_a_limit_that_is_no_edge_counts_nothing_and_names_the_nearest() -> None:
    readings = Readings(objective({TTFT: 300_000}))
    readings.take()
    assert readings.take(timeToFirstToken=(0.2, 0.9)).requests == 0
    assert readings.why == ["300ms is no edge of vllm's timeToFirstToken; the nearest are 80ms, 100ms, 250ms, 500ms"]


@pytest.mark.parametrize(
    ("release", "measure", "why"),
    [
        ("tgi-3", TTFT, "tgi does not show timeToFirstToken; it has duration, queueTime"),
        ("tgi-3", TPOT, "tgi does not show timePerOutputToken; it has duration, queueTime"),
        (
            "vllm-0.8",
            TPOT,
            "vllm does not show timePerOutputToken; it has duration, interTokenLatency, queueTime, timeToFirstToken",
        ),
        ("llama.cpp", TTFT, "llama.cpp does not show timeToFirstToken; it has no histogram"),
    ],
)
def test_what_a_server_does_not_show_is_named(release: str, measure: ModelMeasure, why: str) -> None:
    readings = Readings(objective({measure: 500_000}), release)
    assert readings.take().requests == 0
    assert readings.why == [why]


def test_an_edge_of_a_geometric_row_is_met_to_the_microsecond() -> None:
    edge_s = 0.0001 * 1.5**15  # of TGI: 43.789389... ms
    readings = Readings(objective({ModelMeasure.QUEUE_TIME: round(edge_s * 1e6)}), "tgi-3")
    readings.take()
    tracked = readings.take(queueTime=(edge_s, edge_s * 1.01))
    assert (tracked.requests, tracked.bad) == (2, 1)


def test_only_the_model_that_it_names_counts() -> None:
    readings = Readings(objective({TTFT: 500_000}, model="mixtral"))
    readings.take()
    assert readings.take(timeToFirstToken=(0.2,)).requests == 0
    assert readings.why == ["vllm serves no model 'mixtral'; it has llama"]
    served = Readings(objective({TTFT: 500_000}, model="llama"))
    served.take()
    assert served.take(timeToFirstToken=(0.2,)).requests == 1


def test_a_replica_burns_as_with_spans() -> None:
    readings = Readings(objective({TTFT: 500_000}))
    readings.take()
    readings.take(timeToFirstToken=(0.2,) * 10 + (0.9,) * 10)
    objectives, now_s = readings.engine.objectives, NOW_S + 3
    (figures,) = objectives.of_replicas(readings.tracked, now_s, 10).values()
    assert (figures.requests, figures.bad) == (20, 10)
    assert figures.at_target_us > 500_000  # 0.9 s is in the bucket up to 1 s
    assert objectives.standing(readings.tracked, now_s).burn[300] == pytest.approx(10.0)


@pytest.mark.parametrize("limit_s", [0.02, 0.25, 0.5, 0.75, 2.5])
def test_figures_of_good_observations_are_within_the_limit_whatever_the_sketch_rounds(limit_s: float) -> None:
    readings = Readings(objective({TTFT: round(limit_s * 1e6)}))
    readings.take()
    readings.take(timeToFirstToken=(limit_s,) * 90)
    (figures,) = readings.engine.objectives.of_replicas(readings.tracked, NOW_S + 3, 10).values()
    assert figures.bad == 0
    assert 0.9 * limit_s < figures.at_target_us / 1e6 <= limit_s


def test_a_replica_of_another_namespace_counts_nothing() -> None:
    readings = Readings(objective({TTFT: 500_000}))
    readings.engine.objectives.trusts_all = False
    of = ServerObjectives(readings.engine.objectives)
    reading = read_exposition(page("vllm-0.11", {"timeToFirstToken": (0.2,)}))
    counts = ServerCounts()
    counts.looks_at("b", 0.0)
    new = counts.take("b", reading, NOW_S)
    assert of.take(REPLICA, reading, new, NOW_S) == 1
    assert readings.tracked.is_proven
    assert of.take(replace(REPLICA, namespace="mall"), reading, new, NOW_S) == 0


def generation(ms: float, failed: bool = False, **tags: str) -> Given:
    named = {f"gen_ai.{name.replace('__', '.')}": value for name, value in tags.items()}
    return Given(
        next(IDS), 0, "llm_request", SpanKind.SERVER, 0, ms, "llm", "shop", failed=failed, tags=named, pod="llm-0"
    )


def of_spans(goal: ServiceObjective, *spans: Given) -> tuple[Tracked, list[str]]:
    engine = TraceEngine(NOW_S, span_tags)
    engine.objectives.set(goal, NOW_S)
    engine.add(batch_of(*spans), NOW_S)
    tracked = engine.objectives.get("shop/llm")
    assert tracked is not None
    return tracked, [why for _, why in engine.objectives.uncounted(tracked, NOW_S)]


def vllm(ms: float, first_s: float, tokens: int, **more: str) -> Given:
    return generation(ms, latency__time_to_first_token=repr(first_s), usage__completion_tokens=str(tokens), **more)


GOODPUT = objective({TTFT: 500_000, TPOT: 50_000}, GoalSource.SPANS)


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.integers(1, 2000), st.integers(0, 3000), st.integers(1, 60), st.booleans()),
        min_size=1,
        max_size=12,
    )
)
def test_goodput_is_that_of_brute_force(requests: list[tuple[int, int, int, bool]]) -> None:
    """First token after so many ms, the others over so many ms, so many tokens, failed."""
    spans = [
        replace(vllm(first_ms + rest_ms, first_ms / 1000, tokens), failed=failed)
        for first_ms, rest_ms, tokens, failed in requests
    ]
    bad = sum(
        failed or first_ms > 500 or (tokens > 1 and rest_ms > 50 * (tokens - 1))
        for first_ms, rest_ms, tokens, failed in requests
    )
    tracked, _ = of_spans(GOODPUT, *spans)
    assert (tracked.requests, tracked.bad) == (len(requests), bad)


def test_the_convention_s_own_names_are_read_too() -> None:
    tracked, _ = of_spans(
        GOODPUT,
        generation(900, response__time_to_first_chunk="0.4", usage__output_tokens="11", response__model="llama"),
    )
    assert (tracked.requests, tracked.bad) == (1, 0)


def test_a_request_without_what_a_limit_needs_is_not_counted_and_the_attribute_is_named() -> None:
    tracked, why = of_spans(GOODPUT, generation(900, latency__time_to_first_token="0.1"))
    assert tracked.requests == 0
    assert why == ["no gen_ai.usage.output_tokens or gen_ai.usage.completion_tokens in its spans"]
    _, why = of_spans(GOODPUT, generation(900, latency__time_to_first_token="soon"))
    assert why == ["gen_ai.latency.time_to_first_token is no number from 0 to 86400"]


def test_a_request_of_another_model_is_not_its_own() -> None:
    goal = objective({TTFT: 500_000}, GoalSource.SPANS, "llama")
    tracked, why = of_spans(
        goal,
        vllm(900, 0.6, 5, response__model="llama"),
        vllm(900, 0.6, 5, request__model="other"),
        vllm(900, 0.6, 5),
    )
    assert (tracked.requests, tracked.bad, why) == (1, 1, [])


def test_spans_do_not_count_for_an_objective_of_metrics() -> None:
    tracked, _ = of_spans(objective({TTFT: 500_000}), vllm(900, 0.6, 5))
    assert tracked.requests == 0


test_first_cases = first_cases(
    test_at_an_edge_the_count_is_that_of_brute_force,
    test_goodput_is_that_of_brute_force,
)
