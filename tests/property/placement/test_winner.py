"""The compiled choice among scored nodes against a plain one: the best, the sample's circle, and ties by chance."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.few import examples

from cotenant.policy.placement.compiled import winner

NO_MASK = np.zeros(0, dtype=np.bool_)


@st.composite
def offers(draw: st.DrawFn) -> tuple[list[int], list[float], list[bool], int, int]:
    """Verdicts, scores, which are allowed (none named: all), sample, cursor."""
    size = draw(st.integers(1, 9))
    verdicts = draw(st.lists(st.sampled_from([0, 0, 3]), min_size=size, max_size=size))
    scores = draw(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), min_size=size, max_size=size))
    allowed = draw(st.one_of(st.just([]), st.lists(st.booleans(), min_size=size, max_size=size)))
    return verdicts, scores, allowed, draw(st.integers(0, size + 1)), draw(st.integers(0, size - 1))


@settings(max_examples=examples(60))
@given(offers())
def test_it_is_the_first_of_the_best_among_those_that_are_looked_at(
    offer: tuple[list[int], list[float], list[bool], int, int],
) -> None:
    verdicts, scores, allowed, sample, begin = offer
    size = len(verdicts)
    order = [(begin + step) % size for step in range(size)] if sample else list(range(size))
    looked_at: list[int] = []
    feasible: list[int] = []
    for row in order:
        looked_at.append(row)
        if verdicts[row] == 0 and (not allowed or allowed[row]):
            feasible.append(row)
        if sample and len(feasible) == sample:
            break
    expected = max(feasible, key=lambda row: (scores[row], -feasible.index(row)), default=-1)
    cursor = np.array([begin], dtype=np.int64)
    found = winner(
        np.array(verdicts, dtype=np.int64),
        np.array(scores),
        np.array(allowed, dtype=np.bool_) if allowed else NO_MASK,
        False,
        sample,
        cursor,
        np.random.default_rng(1),
    )
    assert found == expected
    assert cursor[0] == ((begin + len(looked_at)) % size if sample else begin)


def test_ties_are_broken_uniformly() -> None:
    verdicts = np.array([0, 0, 5, 0, 0, 0], dtype=np.int64)
    scores = np.array([1.0, 7.0, 9.0, 7.0, 7.0, 7.0])
    rng = np.random.default_rng(7)
    cursor = np.zeros(1, dtype=np.int64)
    found = Counter(int(winner(verdicts, scores, NO_MASK, True, 0, cursor, rng)) for _ in range(8000))
    assert set(found) == {1, 3, 4, 5}
    assert all(abs(count - 2000) < 160 for count in found.values())  # four standard deviations
