"""Continuous batching: a case by hand, and what holds for any stream of requests."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.few import examples

from cotenant_lab.gpuworld.serving import (
    Replicas,
    ServedRequests,
    ServerLaw,
    advance,
    new_replicas,
    new_requests,
    route,
)

LAW = ServerLaw(
    max_batch=2,
    max_prefill_tokens=8192,
    kv_tokens=1000,
    prefill_us_per_token=100.0,
    weights_us=10_000.0,
    kv_us_per_token=10.0,
    first_token_us=10_000,
    per_token_us=10_000,
)
ALONE = np.ones(1)


def requests(*rows: tuple[int, int, int]) -> ServedRequests:
    """Rows of arrival, prompt and output."""
    columns = np.array(rows, np.int64).reshape(-1, 3)
    return new_requests(*(np.ascontiguousarray(columns[:, place]) for place in range(3)))


def serving(asked: ServedRequests, law: ServerLaw) -> Replicas:
    replicas = new_replicas(1, law.max_batch)
    replicas.serves[0] = 1
    route(replicas, asked, 0, len(asked.arrive_us))
    return replicas


def test_three_requests_by_hand() -> None:
    asked = requests((0, 10, 3), (0, 20, 2), (0, 5, 1))
    replicas = serving(asked, LAW)
    advance(replicas, asked, LAW, 1_000_000, ALONE, ALONE)
    # The first two prompts in one prefill: 30 tokens. A step with 11 + 21 tokens in the cache ends the second, the
    # third's prefill is its answer, and a step with the 12 tokens of the first ends it.
    first, second, third = 3_000, 3_000 + 10_320, 3_000 + 10_320 + 500
    assert asked.first_us.tolist() == [first, first, third]
    assert asked.end_us.tolist() == [third + 10_120, second, third]
    assert replicas.prefill_us[0] == 3_500
    assert replicas.decode_us[0] == 20_440
    # over the objectives of 10 ms: first tokens of 3, 3 and 13.82 ms, times per token of 10.32 and 10.47 ms
    assert replicas.log_ppm[0, : replicas.logged[0]].tolist() == [300_000, 300_000, 1_032_000, 1_382_000, 1_047_000]


def test_slowdowns_lengthen_their_phase_only() -> None:
    asked = requests((0, 10, 3))
    replicas = serving(asked, LAW)
    advance(replicas, asked, LAW, 1_000_000, ALONE * 2.0, ALONE * 1.5)
    assert asked.first_us[0] == 2_000
    assert asked.end_us[0] == 2_000 + 15_165 + 15_180


def test_who_does_not_fit_in_the_cache_waits_for_the_end_of_who_does() -> None:
    law = LAW._replace(kv_tokens=30)
    asked = requests((0, 10, 3), (0, 20, 2))
    advance(serving(asked, law), asked, law, 1_000_000, ALONE, ALONE)
    assert asked.first_us[1] == asked.end_us[0] + 2_000


def test_a_request_is_not_served_before_it_arrives() -> None:
    asked = requests((50_000, 10, 1))
    replicas = serving(asked, LAW)
    advance(replicas, asked, LAW, 40_000, ALONE, ALONE)
    assert asked.first_us[0] < 0
    advance(replicas, asked, LAW, 1_000_000, ALONE, ALONE)
    assert asked.first_us[0] == 51_000


def test_requests_go_to_the_replica_with_the_fewest() -> None:
    asked = requests(*[(0, 10, 5)] * 5)
    replicas = new_replicas(3, 2)
    replicas.serves[:] = (1, 0, 1)
    route(replicas, asked, 0, 5)
    assert replicas.waiting.tolist() == [3, 0, 2]


streams = st.lists(
    st.tuples(st.integers(0, 300_000), st.integers(1, 60), st.integers(1, 12)), min_size=1, max_size=30
).map(sorted)


@given(streams, st.integers(1, 4), st.integers(72, 200))
@settings(max_examples=examples(60), deadline=None)
def test_limits_hold_at_every_tick_and_all_work_is_done(
    stream: list[tuple[int, int, int]], max_batch: int, kv_tokens: int
) -> None:
    law = LAW._replace(max_batch=max_batch, kv_tokens=kv_tokens)
    asked = requests(*stream)
    replicas = serving(asked, law)
    busy_us = 0
    for tick in range(1, 4_000):
        advance(replicas, asked, law, tick * 10_000, ALONE, ALONE)
        busy_us += int(replicas.prefill_us[0] + replicas.decode_us[0])
        assert replicas.batch[0] <= max_batch
        assert 0 <= replicas.context[0] <= replicas.reserved[0] <= kv_tokens
        if not replicas.waiting[0] and not replicas.batch[0]:
            break
    assert (asked.arrive_us < asked.first_us).all()
    assert (asked.first_us <= asked.end_us).all()
    assert replicas.reserved[0] == replicas.context[0] == 0
    # Work is conserved: from the first arrival to the last token it pauses only while nobody is there.
    idle_us, until_us = 0, int(asked.arrive_us[0])
    for arrive_us, end_us in sorted(zip(asked.arrive_us.tolist(), asked.end_us.tolist(), strict=True)):
        idle_us += max(0, arrive_us - until_us)
        until_us = max(until_us, end_us)
    assert busy_us == int(asked.end_us.max() - asked.arrive_us[0]) - idle_us


@given(streams, st.floats(1.0, 3.0), st.floats(1.0, 3.0))
@settings(max_examples=examples(20), deadline=None)
def test_the_compiled_form_equals_the_plain_one(
    stream: list[tuple[int, int, int]], slow_prefill: float, slow_decode: float
) -> None:
    found = []
    for form in (advance, advance.py_func):
        asked = requests(*stream)
        replicas = serving(asked, LAW)
        for tick in range(1, 40):
            form(replicas, asked, LAW, tick * 20_000, ALONE * slow_prefill, ALONE * slow_decode)
        found.append((asked, replicas))
    for compiled, plain in zip(*found, strict=True):
        for column, same in zip(compiled, plain, strict=True):
            np.testing.assert_array_equal(column, same)
