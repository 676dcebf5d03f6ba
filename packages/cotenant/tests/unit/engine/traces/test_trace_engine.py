"""The trace engine over time: when traces are finished, what is counted, and that everything is bounded."""

from __future__ import annotations

import numpy as np
import pytest
from tests.fakes.servers.spans import EPOCH_S, Given, batch_of

from cotenant.drivers.otlp.resources import span_tags
from cotenant.engine.traces.kept import SLOWEST_FOR_S, KeptTrace
from cotenant.engine.traces.open_spans import LONGEST_S, QUIET_S
from cotenant.engine.traces.operations import OTHER, Operations
from cotenant.engine.traces.request_bodies import MAX_MESSAGE_BYTES, RequestBodies
from cotenant.engine.traces.sampling import TraceSampler
from cotenant.engine.traces.search import TraceQuery, critical_of, search
from cotenant.engine.traces.service_graph import ConnectionType, Edge
from cotenant.engine.traces.trace_engine import FUTURE_S, BatchReceipt, TraceEngine
from cotenant.model.errors import Transient
from cotenant.model.traces.spans import SpanKind
from cotenant.policy.objective.latency_buckets import quantile_ns

SERVER, CLIENT, PRODUCER, CONSUMER = SpanKind.SERVER, SpanKind.CLIENT, SpanKind.PRODUCER, SpanKind.CONSUMER
NOW_S = float(EPOCH_S + 10)


@pytest.fixture
def engine() -> TraceEngine:
    return TraceEngine(NOW_S, span_tags)


def request(trace: int = 1, cart_host: str = "b", cart_shift_ms: float = 0.0) -> list[Given]:
    """web calls cart, which asks redis, and publishes to mail."""
    early, late = 10 + cart_shift_ms, 90 + cart_shift_ms
    return [
        Given(1, 0, "GET /", SERVER, 0, 100, "web", host="a", trace=trace),
        Given(2, 1, "call", CLIENT, 5, 95, "web", host="a", trace=trace),
        Given(3, 2, "POST", SERVER, early, late, "cart", host=cart_host, trace=trace, tags={"user": "u1"}),
        Given(4, 3, "get", CLIENT, early + 10, early + 40, "cart", host=cart_host, trace=trace,
            tags={"db.system": "redis"}),
        Given(5, 3, "send", PRODUCER, early + 50, early + 51, "cart", host=cart_host, trace=trace),
        Given(6, 5, "receive", CONSUMER, 300, 400, "mail", trace=trace),
    ]  # fmt: skip


def kept(engine: TraceEngine) -> list[KeptTrace]:
    return list(engine.kept)


def test_a_trace_is_finished_when_it_has_been_quiet(engine: TraceEngine) -> None:
    spans = request()
    assert engine.add(batch_of(*spans[:3]), NOW_S) == BatchReceipt(3, 0, "")
    engine.add(batch_of(*spans[3:]), NOW_S + 5)
    engine.tick(NOW_S + QUIET_S)
    assert kept(engine) == []
    engine.tick(NOW_S + 5 + QUIET_S)
    (trace,) = kept(engine)
    assert [trace.spans[span.parent].operation.name for span in trace.spans[1:]] == [
        "GET /",
        "call",
        *["POST"] * 2,
        "send",
    ]
    assert (trace.duration_ns, trace.partial, trace.size) == (100 * 10**6, False, 6)
    assert engine.open_spans == 0


def test_a_trace_that_never_is_quiet_is_finished_at_last(engine: TraceEngine) -> None:
    for second in range(0, int(LONGEST_S) + 1, 5):
        engine.add(batch_of(Given(second + 1)), NOW_S + second)
        engine.tick(NOW_S + second)
    assert len(engine.kept) == 1


def test_a_late_span_is_counted_and_not_shown(engine: TraceEngine) -> None:
    engine.add(batch_of(*request()[:2]), NOW_S)
    engine.tick(NOW_S + 20)
    assert engine.add(batch_of(request()[2], Given(1, trace=2)), NOW_S + 21) == BatchReceipt(2, 0, "")
    engine.tick(NOW_S + 60)
    assert (engine.counts.late, engine.counts.finished, engine.counts.spans) == (1, 2, 4)
    assert sorted(trace.size for trace in kept(engine)) == [1, 2]


def test_a_span_that_was_sent_twice_counts_once_in_its_trace(engine: TraceEngine) -> None:
    for _ in range(2):
        engine.add(batch_of(*request()), NOW_S)
    engine.tick(NOW_S + 20)
    (trace,) = kept(engine)
    assert (len(trace.spans), trace.size, engine.counts.repeated) == (6, 6, 6)
    assert engine.latency.requests.sum() == 6


def test_under_a_budget_counts_stay_exact_and_kept_traces_say_their_probability() -> None:
    engine = TraceEngine(NOW_S, span_tags, sampler=TraceSampler(NOW_S, budget=10.0))
    for number in range(1, 201):
        failed = number % 50 == 0
        engine.add(batch_of(Given(number, trace=number * 0x9E3779B97F4A7C15 % 2**64, failed=failed)), NOW_S)
    engine.tick(NOW_S + 20)
    by_reason = {trace.kept_for for trace in kept(engine)}
    assert by_reason <= {"failed", "chance", "slowest"}
    assert {"failed", "chance"} <= by_reason
    assert all(trace.probability < 1.0 for trace in kept(engine) if trace.kept_for == "chance")
    assert (len(engine.kept) < 60, engine.latency.requests.sum(), engine.counts.finished) == (True, 200, 200)


def test_spans_of_the_future_are_rejected(engine: TraceEngine) -> None:
    batch = batch_of(Given(1, end_ms=1e3 * (FUTURE_S + 11)), Given(2, end_ms=1e3 * (FUTURE_S + 9)))
    receipt = engine.add(batch, NOW_S)
    assert receipt == BatchReceipt(1, 1, "1 of 2 spans: they end more than 600 s from now")
    assert engine.counts.rejected == 1


def test_without_room_a_batch_is_refused_as_a_whole() -> None:
    engine = TraceEngine(NOW_S, span_tags, max_open=5)
    engine.add(batch_of(*request()), NOW_S)  # a single one always fits
    with pytest.raises(Transient, match="6 spans wait for the end of their traces"):
        engine.add(batch_of(Given(1, trace=2)), NOW_S)
    assert (engine.counts.refused_batches, engine.counts.spans) == (1, 6)
    engine.tick(NOW_S + 20)
    assert engine.add(batch_of(Given(1, trace=2)), NOW_S + 20).accepted == 1


def test_traces_that_share_half_of_their_ids_stay_apart(engine: TraceEngine) -> None:
    for number in range(3):
        high = (number % 2 + 1) << 64
        engine.add(batch_of(*(Given(span + 1 + 10 * number, trace=high | 7) for span in range(2))), NOW_S)
    engine.tick(NOW_S + 20)
    assert sorted(trace.size for trace in kept(engine)) == [2, 4]


@pytest.mark.parametrize("jump_s", [-1e6, 1e6])
def test_a_clock_that_jumps_finishes_traces_and_loses_no_count(engine: TraceEngine, jump_s: float) -> None:
    engine.add(batch_of(*request()), NOW_S)
    engine.tick(NOW_S + jump_s)
    engine.tick(NOW_S + jump_s + 1)
    assert (engine.counts.finished, len(engine.kept), engine.open_spans) == (1, 1, 0)
    assert engine.latency.requests.sum() == 6


def test_the_graph_has_calls_databases_messages_and_users(engine: TraceEngine) -> None:
    failing = Given(4, 3, "get", CLIENT, 20, 50, "cart", trace=2, failed=True, tags={"db.system": "redis"})
    engine.add(batch_of(*request(1), *request(2)[:3], failing), NOW_S)
    engine.tick(NOW_S + 20)
    edges = {edge: (figures.calls, figures.failed) for edge, figures in engine.graph.edges.items()}
    assert edges == {
        Edge("user", "web", ConnectionType.VIRTUAL): (2, 0),
        Edge("web", "cart", ConnectionType.CALL): (2, 0),
        Edge("cart", "redis", ConnectionType.DATABASE): (2, 1),
        Edge("cart", "mail", ConnectionType.MESSAGING): (1, 0),
    }
    call = engine.graph.edges[Edge("web", "cart", ConnectionType.CALL)]
    assert (call.client.total_s, call.server.total_s) == (pytest.approx(0.18), pytest.approx(0.16))
    assert call.client.counts.tolist() == [2, *[0] * 8]


def test_the_skew_of_a_host_is_learned_and_taken_out(engine: TraceEngine) -> None:
    for trace in range(1, 12):
        engine.add(batch_of(*request(trace, cart_shift_ms=-500)), NOW_S)
    engine.tick(NOW_S + 20)
    trace = kept(engine)[0]
    call, post = trace.spans[1], trace.spans[2]
    assert post.shift_ns == 500 * 10**6
    assert post.start_ns - call.start_ns == 5 * 10**6
    assert sum(span.self_ns for span in trace.spans) == trace.duration_ns


def test_a_skew_beyond_the_bound_is_not_corrected() -> None:
    engine = TraceEngine(NOW_S, span_tags, max_shift_ns=10**6)
    engine.add(batch_of(*request(cart_shift_ms=-500)), NOW_S)
    engine.tick(NOW_S + 20)
    assert (kept(engine)[0].spans[2].shift_ns, engine.skews.ignored) == (0, 1)


def test_the_window_forgets_and_the_totals_do_not(engine: TraceEngine) -> None:
    engine.add(batch_of(*request()), NOW_S)
    number = next(n for n, operation in enumerate(engine.operations.known) if operation.name == "GET /")
    found = engine.latency.window(number, NOW_S + 10)
    assert (found.requests, found.errors) == (1, 0)
    assert quantile_ns(found.buckets, 0.5) == pytest.approx(100e6, rel=0.01)
    for second in range(0, 400, 10):
        engine.tick(NOW_S + second)
    assert engine.latency.window(number, NOW_S + 400).requests == 0
    assert engine.latency.requests[number] == 1


def test_a_slot_that_has_closed_still_belongs_to_the_window(engine: TraceEngine) -> None:
    engine.add(batch_of(*request(1)), NOW_S)
    engine.tick(NOW_S + 31)
    engine.add(batch_of(*(Given(n + 1, kind=SERVER, name=f"new {n}") for n in range(200))), NOW_S + 32)  # columns grow
    engine.add(batch_of(*request(2)), NOW_S + 32)
    found = [engine.latency.window(number, NOW_S + 40).requests for number in range(len(engine.operations))]
    assert found[:6] == [2] * 6


def test_operations_are_bounded_and_the_rest_is_counted_as_other() -> None:
    operations = Operations(most=30, per_service=10, max_services=3)
    for number in range(100):
        batch = batch_of(*(Given(1, name=f"GET /{number}", kind=SERVER, service=f"s{n}") for n in range(5)))
        assert operations.number(batch).size == 5
    services = {operation.service for operation in operations.known}
    assert services == {"s0", "s1", "s2", OTHER}
    assert sum(operation.name == OTHER for operation in operations.known) == 4
    assert len(operations) == 22 + 4  # three quarters of the bound for one namespace, with those of its rest
    assert operations.overflowed == 500 - 22


def test_a_million_operations_take_bounded_room(engine: TraceEngine) -> None:
    for number in range(300):
        spans = [Given(span + 1, name=f"{number}-{span}", kind=SERVER, trace=number + 1) for span in range(40)]
        engine.add(batch_of(*spans), NOW_S)
    assert len(engine.operations) == 501
    assert engine.latency.requests.sum() == 12_000


def test_attributes_beyond_the_bound_are_dropped_and_the_spans_stay(
    engine: TraceEngine,
) -> None:
    engine.bodies = RequestBodies(100, max_bytes=1000)
    for trace in range(1, 4):
        engine.add(batch_of(Given(1, trace=trace, tags={"big": "x" * 600})), NOW_S)
    engine.tick(NOW_S + 20)
    assert sorted(len(trace.spans[0].message) > 0 for trace in kept(engine)) == [False, False, True]
    assert engine.bodies.dropped == 2


def test_the_slowest_stay_when_the_last_are_full(engine: TraceEngine) -> None:
    engine.kept.max_last = 3
    durations = [5, 900, 7, 1, 2, 3, 4, 6]
    for trace, duration in enumerate(durations, 1):
        engine.add(batch_of(Given(1, trace=trace, kind=SERVER, end_ms=duration)), NOW_S + trace)
        engine.tick(NOW_S + trace + QUIET_S)
    assert [round(trace.duration_ns / 1e6) for trace in kept(engine)] == [6, 4, 3, 7, 900, 5]
    assert engine.kept.get(kept(engine)[4].trace_id) is kept(engine)[4]


def test_requests_of_long_ago_are_none_of_the_slowest_of_now(engine: TraceEngine) -> None:
    engine.kept.max_last = 1
    ago_ms = -1e3 * (SLOWEST_FOR_S + 60)
    for trace in range(1, 8):  # a collector that was cut off sends what it held
        given = Given(1, trace=trace, kind=SERVER, start_ms=ago_ms, end_ms=ago_ms + 900)
        engine.add(batch_of(given), NOW_S)
    engine.tick(NOW_S + QUIET_S)
    for trace, duration in ((10, 50), (11, 20)):
        engine.add(batch_of(Given(1, trace=trace, kind=SERVER, end_ms=duration)), NOW_S + trace)
        engine.tick(NOW_S + trace + QUIET_S)
    assert [round(trace.duration_ns / 1e6) for trace in kept(engine)] == [20, 50]


def test_as_much_of_an_id_is_shown_as_no_other_has(engine: TraceEngine) -> None:
    second = 0x6789ABCD << 96  # of a client whose ids begin with the second, and end at random
    ids = [second | 0x1122334455667788, second | 0x1122334455667799, second | 0xFF00000000000000, 0xAB << 120, 0x77]
    engine.add(batch_of(*(Given(1, trace=trace, kind=SERVER) for trace in ids)), NOW_S)
    engine.tick(NOW_S + QUIET_S)
    shown = dict(zip((trace.trace_id for trace in kept(engine)), engine.kept.beginnings(kept(engine)), strict=True))
    assert [shown[f"{trace:032x}"] for trace in ids] == [
        "6789abcd000000001122334455667788"[:31],
        "6789abcd000000001122334455667799"[:31],
        "6789abcd00000000f",
        "ab" + 14 * "0",
        "0000000000000077",
    ]
    for trace_id, beginning in shown.items():
        found = engine.kept.get(beginning)
        assert found is not None
        assert found.trace_id == trace_id


def test_a_search_needs_one_span_with_all_that_is_asked_for(engine: TraceEngine) -> None:
    engine.add(batch_of(*request(1), *request(2)[:2]), NOW_S)
    engine.tick(NOW_S + 20)

    def ids(**query: object) -> list[int]:
        return [trace.low for trace in search(engine.kept, TraceQuery(**query), span_tags)]  # type: ignore[arg-type]

    assert sorted(ids()) == [1, 2]
    assert ids(service="cart") == [1]
    assert ids(service="cart", operation="GET /") == []
    assert ids(tags={"user": "u1"}) == [1]
    assert ids(tags={"user": ""}) == [1]
    assert ids(tags={"user": "u2"}) == []
    assert ids(tags={"user": "u1"}, service="web") == []
    assert ids(min_ns=101 * 10**6) == []  # mail's does not reach it by less than a millisecond
    assert ids(failed=True) == []


def test_the_critical_path_of_a_service_in_the_middle(engine: TraceEngine) -> None:
    engine.add(batch_of(*request(1), *request(2)), NOW_S)
    engine.tick(NOW_S + 20)
    found = critical_of(engine.kept, "cart")
    assert (found.requests, found.total_ns) == (2, 160 * 10**6)
    assert {share.operation.name: round(share.share, 4) for share in found.shares} == {
        "POST": round(49 / 80, 4),
        "get": round(30 / 80, 4),
        "send": round(1 / 80, 4),
    }
    assert critical_of(engine.kept, "nobody").shares == ()


def test_an_empty_batch_is_accepted(engine: TraceEngine) -> None:
    assert engine.add(batch_of(), NOW_S) == BatchReceipt(0, 0, "")
    engine.tick(NOW_S + 1)
    assert (engine.counts.batches, len(engine.kept)) == (1, 0)


def test_a_kept_trace_is_bounded(engine: TraceEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cotenant.engine.traces.trace_engine.MAX_KEPT_SPANS", 10)
    spans = [Given(1, kind=SERVER), *(Given(n, 1) for n in range(2, 40))]
    engine.add(batch_of(*spans), NOW_S)
    engine.tick(NOW_S + 20)
    (trace,) = kept(engine)
    assert (len(trace.spans), trace.size, trace.spans[trace.root].operation.kind) == (10, 39, SERVER)


def test_random_arrival_gives_the_same_traces(engine: TraceEngine) -> None:
    spans = [span for trace in range(1, 8) for span in request(trace)]
    whole = TraceEngine(NOW_S, span_tags)
    whole.add(batch_of(*spans), NOW_S)
    order = np.random.default_rng(0).permutation(len(spans))
    for part in np.array_split(order, 9):
        engine.add(batch_of(*(spans[index] for index in part)), NOW_S)
    for trace_engine in (whole, engine):
        trace_engine.tick(NOW_S + 20)
    assert _facts(whole) == _facts(engine)


def _facts(engine: TraceEngine) -> object:
    return sorted((trace.low, sorted((span.span_id, span.self_ns) for span in trace.spans)) for trace in engine.kept)


def test_a_sender_that_fills_its_share_does_not_stop_another() -> None:
    engine = TraceEngine(NOW_S, span_tags, max_open=40)
    for trace in range(1, 5):
        engine.add(batch_of(*request(trace)), NOW_S, "greedy")
    with pytest.raises(Transient, match="24 of the same sender"):
        engine.add(batch_of(*request(5), *request(6)), NOW_S, "greedy")
    assert engine.add(batch_of(*request(5)), NOW_S, "other").accepted == 6
    engine.tick(NOW_S + 20)
    assert engine.add(batch_of(*request(7), *request(8)), NOW_S + 20, "greedy").accepted == 12


def test_attributes_of_a_huge_span_are_not_kept(engine: TraceEngine) -> None:
    engine.add(batch_of(Given(1, tags={"a": "x" * MAX_MESSAGE_BYTES}), Given(2, trace=2, tags={"a": "b"})), NOW_S)
    engine.tick(NOW_S + 20)
    assert sorted(len(trace.spans[0].message) > 0 for trace in kept(engine)) == [False, True]


def test_a_service_calls_so_many_others_and_the_rest_is_one_edge(
    engine: TraceEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cotenant.engine.traces.service_graph.MAX_EDGES_OF_CLIENT", 5)
    calls = [Given(number + 1, kind=CLIENT, tags={"peer.service": f"p{number}"}) for number in range(20)]
    engine.add(batch_of(*calls), NOW_S)
    engine.tick(NOW_S + 20)
    assert {edge.server for edge in engine.graph.edges} == {"p0", "p1", "p2", "p3", "p4", OTHER}
    assert sum(figures.calls for figures in engine.graph.edges.values()) == 20
