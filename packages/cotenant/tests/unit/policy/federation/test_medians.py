"""The middle of what several clusters state, and how much one of them weighs."""

from __future__ import annotations

from itertools import product

import pytest

from cotenant.policy.federation.medians import bounded_weights, upper_median, weighted_median


@pytest.mark.parametrize(
    ("evidence", "weights"),
    [
        ([], []),
        ([7], [7]),
        ([70], [50]),
        ([7, 5], [5, 5]),  # of two, each decides half
        ([5, 7], [5, 5]),
        ([3, 4, 5], [3, 4, 5]),
        ([3, 4, 9], [3, 4, 6]),  # less than the others together
        ([90, 4, 3], [6, 4, 3]),
        ([90, 80, 70], [50, 50, 50]),
        ([1, 1, 2], [1, 1, 1]),
    ],
)
def test_a_clusters_weight_is_bounded_by_the_others(evidence: list[int], weights: list[int]) -> None:
    assert bounded_weights(evidence, 50) == weights


@pytest.mark.parametrize(
    ("values", "weights", "middle", "upper"),
    [
        ([5], [3], 5, 5),
        ([1, 9], [1, 1], 5, 9),
        ([9, 1], [1, 1], 5, 9),
        ([1, 9], [2, 1], 1, 1),
        ([1, 9], [1, 2], 9, 9),
        ([1, 4, 9], [1, 1, 1], 4, 4),
        ([9, 4, 1], [1, 1, 2], 2, 4),  # half lies on the first: between 1 and 4
        ([1, 4, 9], [1, 1, 2], 6, 9),
        ([1, 4, 9], [1, 1, 3], 9, 9),
        ([-3, -1], [1, 1], -2, -1),
    ],
)
def test_the_median_is_in_the_middle_of_the_weight(
    values: list[int], weights: list[int], middle: int, upper: int
) -> None:
    assert weighted_median(values, weights) == middle
    assert upper_median(values, weights) == upper


def test_it_is_that_of_each_value_repeated_by_its_weight() -> None:
    for values in product((0, 2, 7), repeat=3):
        for weights in product((1, 2, 3), repeat=3):
            every = sorted(value for value, weight in zip(values, weights, strict=True) for _ in range(weight))
            lower, upper = every[(len(every) - 1) // 2], every[len(every) // 2]
            assert weighted_median(values, weights) == (lower + upper) // 2
            assert upper_median(values, weights) == upper


def test_without_weight_there_is_no_middle() -> None:
    with pytest.raises(AssertionError, match="weights are positive"):
        weighted_median([], [])
