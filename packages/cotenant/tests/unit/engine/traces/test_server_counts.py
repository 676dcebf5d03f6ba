"""What model servers counted since the last reading: beginnings, restarts and gaps, against brute force."""

from __future__ import annotations

from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.property.few import first_cases

from cotenant.engine.traces.server_counts import (
    MAX_NEW,
    MAX_READ_GAP_S,
    SETTLED,
    STEADY_S,
    ServerCounts,
)
from cotenant.model.errors import InvalidInput
from cotenant.model.traces.model_server import ModelMeasure, ModelServerReading, ServerHistogram

TTFT = ModelMeasure.TIME_TO_FIRST_TOKEN
EDGES_US = (100_000, 500_000, 1_000_000)
URL = "http://10.0.0.1:8000/metrics"


def reading(*us: int, started_s: float | None = None, series: str = "engine=0", tokens: int = 0) -> ModelServerReading:
    """After these observations."""
    at_most = tuple(sum(value <= edge for value in us) for edge in EDGES_US)
    histogram = ServerHistogram(TTFT, "llama", series, EDGES_US, at_most, len(us))
    return ModelServerReading("vllm", (histogram,), started_s, tokens)


def new(counts: ServerCounts, found: ModelServerReading, now_s: float) -> tuple[int, ...]:
    observations = counts.take(URL, found, now_s)
    return observations[0].counts if observations else ()


def test_counting_begins_with_the_first_reading() -> None:
    counts = ServerCounts()
    assert new(counts, reading(1, 1, 1), 10.0) == ()
    assert new(counts, reading(1, 1, 1, 600_000), 12.0) == (0, 0, 1, 0)
    assert new(counts, reading(1, 1, 1, 600_000), 14.0) == ()


def test_of_a_process_that_started_while_its_address_was_looked_at_everything_is_new() -> None:
    counts = ServerCounts()
    counts.looks_at(URL, 5.0)
    assert new(counts, reading(1, 2_000_000, started_s=6.0), 10.0) == (1, 0, 0, 1)
    other = ServerCounts()
    other.looks_at(URL, 7.0)
    assert new(other, reading(1, 2_000_000, started_s=6.0), 10.0) == ()


@pytest.mark.parametrize(
    "after",
    [
        reading(1, started_s=90.0),  # fewer than before
        reading(1, 1, 1, 1, 1, 600_000, started_s=90.0),  # more in every bucket, but started later
        reading(600_000, 600_000, 600_000, 600_000, 600_000),  # as many in all, fewer in one bucket
    ],
)
def test_after_a_restart_what_it_shows_is_new(after: ModelServerReading) -> None:
    counts = ServerCounts()
    new(counts, reading(1, 1, 1, 600_000, started_s=1.0), 10.0)
    at_most = after.histograms[0].at_most
    shown = (at_most[0], at_most[1] - at_most[0], at_most[2] - at_most[1], after.histograms[0].total - at_most[2])
    assert new(counts, after, 12.0) == shown
    assert counts.restarts == 1


def test_a_start_time_computed_anew_is_no_restart() -> None:
    counts = ServerCounts()
    new(counts, reading(1, started_s=100.2), 110.0)
    assert new(counts, reading(1, 1, started_s=101.1), 112.0) == (1, 0, 0, 0)
    assert counts.restarts == 0


def test_a_new_engine_of_a_running_server_begins_with_its_next_reading() -> None:
    counts = ServerCounts()
    new(counts, reading(1), 10.0)
    second = reading(1, 1, 1, series="engine=1").histograms[0]
    both = reading(1, 600_000)
    assert new(counts, ModelServerReading("vllm", (*both.histograms, second)), 12.0) == (0, 0, 1, 0)
    assert counts.take(URL, ModelServerReading("vllm", (*both.histograms, second)), 14.0) == ()


def test_what_came_in_a_long_gap_has_no_time_and_is_left_out() -> None:
    counts = ServerCounts()
    new(counts, reading(1), 10.0)
    assert new(counts, reading(1, 1, 1), 11.0 + MAX_READ_GAP_S) == ()
    assert new(counts, reading(1, 1, 1, 1), 13.0 + MAX_READ_GAP_S) == (1, 0, 0, 0)


def test_more_than_any_server_makes_is_refused_and_counting_goes_on_from_there() -> None:
    counts = ServerCounts()
    new(counts, reading(), 10.0)
    claims = ServerHistogram(TTFT, "llama", "engine=0", EDGES_US, (MAX_NEW + 1,) * 3, MAX_NEW + 1)
    with pytest.raises(InvalidInput, match="since the last reading"):
        counts.take(URL, ModelServerReading("vllm", (claims,)), 12.0)
    more = ServerHistogram(TTFT, "llama", "engine=0", EDGES_US, (MAX_NEW + 3,) * 3, MAX_NEW + 3)
    assert new(counts, ModelServerReading("vllm", (more,)), 14.0) == (2, 0, 0, 0)


def test_tokens_a_second_are_of_two_readings_and_none_over_a_restart() -> None:
    counts = ServerCounts()
    new(counts, reading(tokens=1000), 10.0)
    assert counts.tokens_per_s(URL) is None
    new(counts, reading(tokens=1500), 12.0)
    assert counts.tokens_per_s(URL) == 250.0
    new(counts, reading(tokens=20, started_s=12.5), 14.0)
    assert counts.tokens_per_s(URL) is None


def models(first: int, second: int) -> ModelServerReading:
    """Two models of a server that does not say when it started, with so many fast requests each."""
    return ModelServerReading(
        "triton",
        tuple(
            ServerHistogram(TTFT, model, f"model={model}", EDGES_US, (count,) * 3, count)
            for model, count in (("a", first), ("b", second))
        ),
    )


def counted(counts: ServerCounts, found: ModelServerReading, now_s: float) -> dict[str, int]:
    return {one.model: sum(one.counts) for one in counts.take(URL, found, now_s)}


def test_a_model_that_is_loaded_again_counts_no_other_model_twice() -> None:
    counts = ServerCounts()
    counted(counts, models(1_000_000, 500), 10.0)
    assert counted(counts, models(1_000_010, 3), 12.0) == {"a": 10, "b": 3}
    assert counted(counts, models(1_000_011, 4), 14.0) == {"a": 1, "b": 1}
    assert counts.restarts == 1


def test_servers_that_answer_by_turns_at_one_address_count_nothing() -> None:
    counts = ServerCounts()
    new(counts, reading(*[1] * 5000, started_s=100.0), 1000.0)
    for turn in range(4):
        with pytest.raises(InvalidInput, match="one server at an address"):
            counts.take(URL, reading(*[600_000] * 4000, started_s=500.0), 1002.0 + 4 * turn)
        observed = new(counts, reading(*[1] * (5001 + turn), started_s=100.0), 1004.0 + 4 * turn)
        assert observed == (1, 0, 0, 0)
    assert counts.restarts == 0


def test_a_process_that_stays_is_the_one_that_is_here_and_its_past_is_not_counted() -> None:
    counts = ServerCounts()
    new(counts, reading(1, 1, started_s=500.0), 1000.0)
    older = reading(*[1] * 900, started_s=100.0)
    for answer in range(1, SETTLED):
        with pytest.raises(InvalidInput, match="name each replica"):
            counts.take(URL, older, 1000.0 + 2 * answer)
    assert counts.take(URL, older, 1020.0) == ()
    assert new(counts, reading(*[1] * 901, started_s=100.0), 1022.0) == (1, 0, 0, 0)


def test_counters_that_go_back_again_and_again_are_refused_until_they_are_steady() -> None:
    counts = ServerCounts()
    new(counts, reading(*[1] * 9), 1000.0)
    assert new(counts, reading(1, 1), 1002.0) == (2, 0, 0, 0)
    new(counts, reading(*[1] * 9), 1004.0)
    for at_s, shown in ((1006.0, 2), (1008.0, 9), (1010.0, 3)):
        with pytest.raises(InvalidInput, match="went back twice"):
            counts.take(URL, reading(*[1] * shown), at_s)
    with pytest.raises(InvalidInput, match="went back twice"):
        counts.take(URL, reading(*[1] * 4), 1009.0 + STEADY_S)
    assert new(counts, reading(*[1] * 6), 1011.0 + STEADY_S) == (2, 0, 0, 0)


BATCH = st.lists(st.integers(1, 2_000_000), max_size=6)


@pytest.mark.slow
@given(st.lists(BATCH, min_size=1, max_size=8), st.sets(st.integers(0, 7)))
def test_counts_are_those_of_brute_force_whatever_the_restarts(batches: list[list[int]], restarts: set[int]) -> None:
    counts, held = ServerCounts(), list[int]()
    expected, found = [0, 0, 0, 0], [0, 0, 0, 0]
    started_s = 1.0
    counts.take(URL, reading(started_s=started_s), 0.0)
    for number, batch in enumerate(batches, 1):
        if number in restarts:  # right after a reading: nothing is lost
            held, started_s = [], 1.0 + 10.0 * number
        held = held + batch
        for value in batch:
            expected[bisect_left(EDGES_US, value)] += 1
        for observations in counts.take(URL, reading(*held, started_s=started_s), float(number)):
            found = [before + more for before, more in zip(found, observations.counts, strict=True)]
    assert found == expected


test_first_cases = first_cases(
    test_counts_are_those_of_brute_force_whatever_the_restarts,
)
