"""Objectives counted from spans: exactly at the threshold, by window and by replica, and bounded."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.servers.spans import EPOCH_S, Given, batch_of

from cotenant.drivers.otlp.resources import span_tags
from cotenant.engine.traces.objectives import TrackedObjectives
from cotenant.engine.traces.replicas import FORGOTTEN_S, ObservedReplicas
from cotenant.engine.traces.slot_counts import SlotCounts, SlotRing
from cotenant.engine.traces.trace_engine import TraceEngine
from cotenant.model.errors import InvalidInput
from cotenant.model.traces.objective import Indicator, ServiceObjective
from cotenant.model.traces.spans import SpanKind, SpanSource
from cotenant.policy.objective.burn import CountedRequests

NOW_S = float(EPOCH_S + 10)
IDS = count(1)
CART = ServiceObjective("default/cart", "", "cart", threshold_us=80_000)


@pytest.fixture
def engine() -> TraceEngine:
    return TraceEngine(NOW_S, span_tags)


def spans(*ms: float, service: str = "cart", name: str = "POST", kind: SpanKind = SpanKind.SERVER) -> list[Given]:
    return [Given(next(IDS), 0, name, kind, 0, value, service) for value in ms]


def counted(engine: TraceEngine, key: str = "default/cart") -> tuple[int, int]:
    tracked = engine.objectives.get(key)
    assert tracked is not None
    return tracked.requests, tracked.bad


def test_a_request_is_good_at_its_threshold_and_bad_a_nanosecond_above(engine: TraceEngine) -> None:
    engine.objectives.set(CART, NOW_S)
    engine.add(batch_of(*spans(80, 79, 80.000001, 500)), NOW_S)
    assert counted(engine) == (4, 2)


def test_only_requests_of_what_it_names_count(engine: TraceEngine) -> None:
    engine.objectives.set(replace(CART, operation="POST"), NOW_S)
    engine.objectives.set(replace(CART, key="default/all"), NOW_S)
    engine.objectives.set(replace(CART, key="default/none", service="nobody"), NOW_S)
    engine.add(batch_of(*spans(100)), NOW_S)
    engine.add(batch_of(*spans(100, name="GET")), NOW_S)
    engine.add(batch_of(*spans(100, kind=SpanKind.CLIENT)), NOW_S)
    engine.add(batch_of(*spans(100, kind=SpanKind.CONSUMER)), NOW_S)
    engine.add(batch_of(*spans(100, service="other")), NOW_S)
    assert [counted(engine, f"default/{name}") for name in ("cart", "all", "none")] == [(2, 2), (3, 3), (0, 0)]


def test_errors_count_status_and_not_latency(engine: TraceEngine) -> None:
    engine.objectives.set(replace(CART, indicator=Indicator.ERRORS, threshold_us=None), NOW_S)
    given_spans = spans(5000, 1)
    engine.add(batch_of(given_spans[0], replace(given_spans[1], failed=True)), NOW_S)
    assert counted(engine) == (2, 1)


def test_an_objective_added_later_finds_operations_that_were_seen(engine: TraceEngine) -> None:
    engine.add(batch_of(*spans(100)), NOW_S)
    engine.objectives.set(CART, NOW_S)
    engine.add(batch_of(*spans(100)), NOW_S)
    assert counted(engine) == (1, 1)
    engine.objectives.remove(CART.key)
    engine.add(batch_of(*spans(100)), NOW_S)
    assert len(engine.objectives) == 0


def test_a_change_of_the_target_keeps_counts_and_one_of_the_threshold_does_not(engine: TraceEngine) -> None:
    engine.objectives.set(CART, NOW_S)
    engine.add(batch_of(*spans(100)), NOW_S)
    engine.objectives.set(replace(CART, budget_ppm=5000), NOW_S)
    assert counted(engine) == (1, 1)
    engine.objectives.set(replace(CART, threshold_us=1), NOW_S)
    assert counted(engine) == (0, 0)


def test_a_million_other_operations_do_not_hide_an_objective() -> None:
    engine = TraceEngine(NOW_S, span_tags)
    engine.objectives.set(replace(CART, operation="wanted"), NOW_S)
    for number in range(600):
        engine.add(batch_of(*spans(1, name=f"op-{number}")), NOW_S)
    assert engine.operations.overflowed > 0
    engine.add(batch_of(*spans(100, name="wanted")), NOW_S)
    assert counted(engine) == (1, 1)


def test_replicas_of_one_objective_are_told_apart(engine: TraceEngine) -> None:
    engine.objectives.set(CART, NOW_S)
    fast, slow = spans(10)[0], spans(100)[0]
    engine.add(batch_of(*[replace(fast, span=n, trace=n, pod="a") for n in range(1, 51)]), NOW_S)
    engine.add(batch_of(*[replace(slow, span=n, trace=n, pod="b") for n in range(100, 120)]), NOW_S)
    tracked = engine.objectives.get(CART.key)
    assert tracked is not None
    found = {source.pod: replica for source, replica in engine.objectives.of_replicas(tracked, NOW_S, 10).items()}
    assert {pod: (figures.requests, figures.bad) for pod, figures in found.items()} == {"a": (50, 0), "b": (20, 20)}
    assert found["b"].p99_us == pytest.approx(100_000, rel=0.011)
    assert found["a"].at_target_us == pytest.approx(10_000, rel=0.011)
    later = {s.pod: replica for s, replica in engine.objectives.of_replicas(tracked, NOW_S + 11, 10).items()}
    assert {pod: figures.requests for pod, figures in later.items()} == {"a": 0, "b": 0}


def test_replicas_are_bounded_and_forgotten() -> None:
    replicas = ObservedReplicas(most=2)
    assert [replicas.row("o", SpanSource(pod=pod), 0.0, 3) for pod in "abc"] == [0, 1, -1]
    assert replicas.overflowed == 3
    none = np.array([False, False])
    replicas.add(np.array([0, -1]), np.array([1000, 1000]), np.array([True, True]), np.array([500, 500]), none)
    replicas.row("o", SpanSource(pod="b"), FORGOTTEN_S, 1)
    replicas.forget(FORGOTTEN_S + 1)
    assert len(replicas) == 1
    assert replicas.row("o", SpanSource(pod="c"), FORGOTTEN_S + 1, 1) == 0
    assert replicas.figures("o", SpanSource(pod="c"), 0.99, FORGOTTEN_S + 1).requests == 0  # type: ignore[union-attr]


def test_self_reports_count_for_their_service_only() -> None:
    engine = TraceEngine(NOW_S, span_tags)
    own = replace(CART, service_namespace="shop", indicator=Indicator.SELF_REPORTED, threshold_us=None)
    engine.objectives.set(own, NOW_S)
    assert engine.objectives.reported("shop/cart", 100, 3, NOW_S) == 1
    assert engine.objectives.reported("shop/other", 100, 3, NOW_S) == 0
    assert counted(engine) == (100, 3)


def test_an_unreadable_objective_counts_nothing_and_names_near_services(engine: TraceEngine) -> None:
    engine.objectives.set(replace(CART, wrong=("odd",)), NOW_S)
    engine.add(batch_of(*spans(100)), NOW_S)
    assert counted(engine) == (0, 0)
    typo = replace(CART, key="default/typo", service="crat")
    engine.objectives.set(typo, NOW_S)
    assert (engine.objectives.is_known(typo), engine.objectives.near(typo)) == (False, ["cart"])
    of_operation = replace(CART, key="default/op", operation="PSOT")
    assert engine.objectives.near(of_operation) == ["POST"]


def test_the_number_of_objectives_is_bounded(engine: TraceEngine) -> None:
    bounded = TrackedObjectives(engine.operations, most=1)
    bounded.set(CART, NOW_S)
    bounded.set(CART, NOW_S)
    with pytest.raises(InvalidInput, match="at most 1"):
        bounded.set(replace(CART, key="default/second"), NOW_S)


@given(
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 5), st.integers(0, 5)), max_size=40),
    st.integers(1, 20),
    st.integers(1, 30),
    st.integers(0, 300),
)
def test_a_window_is_the_sum_of_its_slots(
    events: list[tuple[int, int, int]], width_s: int, slots: int, window_s: int
) -> None:
    ring, now_s, seen = SlotRing(width_s, slots + 1), 0, []
    for passed_s, requests, bad in events:
        now_s += passed_s
        ring.add(now_s, requests, bad)
        seen.append((now_s // width_s, requests, bad))
        window = min(window_s, ring.covers_s)
        oldest = now_s // width_s - -(-window // width_s)
        within = [entry for entry in seen if entry[0] >= oldest]
        assert ring.sum(now_s, window) == CountedRequests(sum(n for _, n, _ in within), sum(b for *_, b in within))


def test_a_clock_that_goes_back_counts_into_the_newest_slot() -> None:
    counts = SlotCounts(86_400)
    counts.add(1000.0, 5, 1)
    counts.add(10.0, 5, 1)
    assert counts.sum(1000.0, 10) == CountedRequests(10, 2)
    assert counts.sum(1000.0 + 5 * 86_400, 86_400) == CountedRequests(0, 0)


def test_a_request_of_hours_ago_counts_when_it_ended_and_is_none_of_now(engine: TraceEngine) -> None:
    engine.objectives.set(CART, NOW_S - 7200)
    tracked = engine.objectives.get(CART.key)
    assert tracked is not None
    engine.add(batch_of(*spans(10)), NOW_S)
    hour_ago = [replace(span, start_ms=-3_600_000.0, end_ms=-3_599_000.0) for span in spans(1, 1, 1)]
    engine.add(batch_of(*hour_ago), NOW_S)
    assert counted(engine) == (4, 3)
    windows = {window_s: engine.objectives.counted(tracked, window_s, NOW_S) for window_s in (300, 1800, 7200, 86_400)}
    now, since = CountedRequests(1, 0), CountedRequests(4, 3)
    assert windows == {300: now, 1800: now, 7200: since, 86_400: since}
    assert engine.counts.old == 3
    (figures,) = [engine.latency.window(number, NOW_S) for number in range(len(engine.operations))]
    assert (figures.requests, int(engine.latency.requests.sum())) == (1, 4)


def test_a_request_from_before_the_objective_does_not_count(engine: TraceEngine) -> None:
    engine.objectives.set(CART, NOW_S)
    engine.add(batch_of(*(replace(span, start_ms=-9e6, end_ms=-8.9e6) for span in spans(1, 1))), NOW_S)
    assert counted(engine) == (0, 0)
    tracked = engine.objectives.get(CART.key)
    assert tracked is not None
    assert tracked.seen_s is None


def test_old_requests_of_a_replica_are_no_signal_of_it(engine: TraceEngine) -> None:
    engine.objectives.set(CART, NOW_S - 7200)
    engine.add(batch_of(*(replace(span, pod="a", start_ms=-9e5, end_ms=-8.9e5) for span in spans(*[1] * 50))), NOW_S)
    assert len(engine.objectives.replicas) == 0


def test_old_requests_fall_out_of_rings_that_do_not_go_so_far_back() -> None:
    counts = SlotCounts(3600)
    ended_s = NOW_S - np.array([5.0, 100.0, 3700.0, 90_000.0])
    counts.add_ended(NOW_S, ended_s, np.array([True, False, True, True]))
    assert counts.sum(NOW_S, 60) == CountedRequests(1, 1)
    assert counts.sum(NOW_S, 3600) == CountedRequests(2, 1)
    assert counts.sum(NOW_S, 80_000) == CountedRequests(3, 2)
    counts.add_ended(NOW_S, NOW_S + np.array([100.0]), np.array([True]))  # a time ahead is none of this
    assert counts.sum(NOW_S, 60) == CountedRequests(1, 1)


def test_kinds_of_a_service_that_are_no_requests_are_known(engine: TraceEngine) -> None:
    engine.add(batch_of(*spans(1, kind=SpanKind.CLIENT), *spans(1, kind=SpanKind.INTERNAL)), NOW_S)
    assert engine.objectives.other_kinds(CART) == {SpanKind.CLIENT, SpanKind.INTERNAL}
    assert not engine.objectives.is_known(CART)


def test_the_window_of_a_replicas_figures_is_what_they_cover_so_that_a_steady_rate_is_steady() -> None:
    """A rate over a window that is still filling would grow for as long as that takes, and fall with each new slot."""
    replicas, source = ObservedReplicas(), SpanSource(pod="a")
    rates = []
    for quarter in range(80):
        now_s = 1000.0 + quarter / 4
        row = replicas.row("o", source, now_s, 10)
        rows = np.full(10, row)
        element = np.full(10, 1000)
        none = np.zeros(10, np.bool_)
        replicas.add(rows, element, none, element, none)
        found = replicas.figures("o", source, 0.99, now_s)
        assert found is not None
        if quarter >= 8:
            rates.append(found.requests / found.window_s)
    assert max(rates) < 1.3 * min(rates)
