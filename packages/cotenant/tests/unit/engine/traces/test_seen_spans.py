"""Repeated spans: known over batches, minutes and a restart, in bounded memory, at bounded cost."""

from __future__ import annotations

import numpy as np
from tests.fakes.servers.spans import EPOCH_S, Given, batch_of

from cotenant.engine.traces.seen_spans import GENERATION_S, MAX_SAVED, SeenSpans
from cotenant.model.traces.spans import SpanColumns, SpanKind, columns_of

NOW_S = float(EPOCH_S)


def columns(first: int, size: int) -> SpanColumns:
    made = columns_of(size)
    made.span_id[:] = np.arange(first, first + size)
    made.trace_low[:] = 7
    return made


def test_a_repeat_is_known_in_a_batch_over_batches_and_after_minutes() -> None:
    seen = SeenSpans(NOW_S)
    batch = batch_of(Given(1), Given(2), Given(1)).columns
    assert seen.repeated(batch, NOW_S).tolist() == [False, False, True]
    assert seen.repeated(batch, NOW_S + 1).all()
    assert seen.repeated(batch, NOW_S + GENERATION_S + 1).all()
    assert seen.repeated(batch_of(Given(3)).columns, NOW_S).tolist() == [False]


def test_ids_of_another_trace_or_kind_are_no_repeat() -> None:
    seen = SeenSpans(NOW_S)
    client, server = Given(1, kind=SpanKind.CLIENT), Given(1, kind=SpanKind.SERVER)  # as Zipkin numbers a call
    assert not seen.repeated(batch_of(client, server, Given(1, trace=2), Given(1, trace=2 << 64)).columns, NOW_S).any()


def test_memory_is_bounded_and_the_newest_are_known() -> None:
    seen = SeenSpans(NOW_S, max_prints=5000)
    for first in range(1, 100_001, 1000):
        assert not seen.repeated(columns(first, 1000), NOW_S).any()
    assert seen._newer.size + seen._older.size <= 2 * 16_384
    assert seen.repeated(columns(96_001, 4000), NOW_S).all()
    assert len(seen.saved()) <= 8 * MAX_SAVED


def test_what_was_seen_is_known_after_a_restart() -> None:
    before, after = SeenSpans(NOW_S), SeenSpans(NOW_S + 60)
    before.repeated(columns(1, 300), NOW_S)
    after.restore(before.saved())
    assert after.repeated(columns(1, 300), NOW_S + 60).all()
    assert not after.repeated(columns(301, 300), NOW_S + 60).any()
    after.restore(b"\x01\x02")  # a damaged one is left alone


def test_a_clock_that_goes_back_is_no_end_of_memory() -> None:
    seen = SeenSpans(NOW_S)
    seen.repeated(columns(1, 10), NOW_S)
    assert seen.repeated(columns(1, 10), NOW_S - 100).all()
