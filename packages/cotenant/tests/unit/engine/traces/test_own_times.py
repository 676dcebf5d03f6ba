"""Own time of requests at their arrival: against the calls that were made, over batches, and with what is missing."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from tests.fakes.servers.spans import Given, batch_of

from cotenant.engine.traces.own_times import OwnTimes
from cotenant.model.traces.spans import SpanKind

MS = 10**6


def own(times: OwnTimes, *spans: Given) -> dict[str, tuple[float, bool]]:
    """Own time in ms, and whether a call was found, by name."""
    columns = batch_of(*spans).columns
    own_ns, called = times.of(columns)
    return {given.name: (ns / MS, bool(found)) for given, ns, found in zip(spans, own_ns.tolist(), called, strict=True)}


def span(number: int, parent: int, kind: SpanKind, start: float, end: float, trace: int = 1) -> Given:
    return Given(number, parent, str(number), kind, start, end, trace=trace)


def test_calls_below_a_request_are_not_its_own_time() -> None:
    spans = (
        span(1, 9, SpanKind.SERVER, 0, 100),
        span(2, 1, SpanKind.INTERNAL, 5, 60),
        span(3, 2, SpanKind.CLIENT, 10, 40),
        span(4, 1, SpanKind.CLIENT, 70, 90),
        span(5, 3, SpanKind.SERVER, 12, 38),  # the called service, whose spans come in the same batch
    )
    found = own(OwnTimes(), *spans)
    assert found["1"] == (50, True)
    assert found["2"] == (25, True)
    assert found["5"] == (26, False)


def test_calls_at_the_same_time_count_once() -> None:
    calls = [span(2 + n, 1, SpanKind.CLIENT, 10, 50) for n in range(3)]
    assert own(OwnTimes(), span(1, 0, SpanKind.SERVER, 0, 100), *calls)["1"] == (60, True)


def test_children_may_come_in_earlier_batches_and_of_other_traces_are_not_mixed() -> None:
    times = OwnTimes()
    for trace in (1, 2):
        own(times, span(2, 1, SpanKind.CLIENT, 0, 10 * trace, trace))
    assert own(times, span(1, 0, SpanKind.SERVER, 0, 30, 2))["1"] == (10, True)
    assert own(times, span(1, 0, SpanKind.SERVER, 0, 30, 1))["1"] == (20, True)
    assert own(times, span(1, 0, SpanKind.SERVER, 0, 30, 1))["1"] == (30, False)  # the entry is used up


def test_a_child_after_its_parent_leaves_all_time_its_own() -> None:
    times = OwnTimes()
    assert own(times, span(1, 0, SpanKind.SERVER, 0, 30))["1"] == (30, False)
    own(times, span(2, 1, SpanKind.CLIENT, 0, 10))


def test_a_full_table_overwrites_and_never_invents_calls() -> None:
    times = OwnTimes(slots=4)
    for trace in range(1, 200):
        own(times, span(2, 1, SpanKind.CLIENT, 0, 10, trace))
    found = [own(times, span(1, 0, SpanKind.SERVER, 0, 30, trace))["1"] for trace in range(1, 200)]
    assert set(found) == {(20, True), (30, False)}
    assert sum(called for _, called in found) <= 4


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_random_requests_equal_the_sum_of_their_calls(seed: int) -> None:
    random, times = Random(seed), OwnTimes()
    spans: list[Given] = []
    expected: dict[int, float] = {}
    for trace in range(1, 20):
        start, number = float(random.randrange(50)), 2
        at, calls = start, 0.0
        inner: list[tuple[int, float]] = [(1, start)]  # open spans and their starts
        for _ in range(random.randrange(12)):
            at += random.randrange(1, 5)
            if random.random() < 0.4:
                inner.append((number, at))
            elif random.random() < 0.6:
                length = random.randrange(1, 9)
                spans.append(span(number, inner[-1][0], SpanKind.CLIENT, at, at + length, trace))
                at, calls = at + length, calls + length
            elif len(inner) > 1:
                closed, since = inner.pop()
                spans.append(span(closed, inner[-1][0], SpanKind.INTERNAL, since, at, trace))
            number += 1
        while len(inner) > 1:
            closed, since = inner.pop()
            spans.append(span(closed, inner[-1][0], SpanKind.INTERNAL, since, at, trace))
        spans.append(span(1, 0, SpanKind.SERVER, start, at + 1, trace))
        expected[trace] = at + 1 - start - calls
    spans.sort(key=lambda given: (given.end_ms, given.kind is SpanKind.SERVER, -given.span))
    cuts = sorted(random.sample(range(1, len(spans)), 5))
    found: dict[int, float] = {}
    for first, last in zip([0, *cuts], [*cuts, len(spans)], strict=True):
        part = spans[first:last]
        own_ns, _ = times.of(batch_of(*part).columns)
        found |= {
            given.trace: ns / MS
            for given, ns in zip(part, own_ns.tolist(), strict=True)
            if given.kind is SpanKind.SERVER
        }
    assert found == pytest.approx(expected)
    assert np.all(times._keys == 0)  # every entry was used up
