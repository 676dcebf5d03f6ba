"""Latencies by bucket: exact where small, to 1 % where large, and mergeable."""

import random
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant_lab.experiments.measures.histogram import MAX_US, Histogram, bucket_of, highest_of


@given(st.integers(0, MAX_US))
def test_a_bucket_holds_its_value_within_a_hundredth(value: int) -> None:
    highest = highest_of(bucket_of(value))
    assert value <= highest <= value * 1.008 + 1
    assert bucket_of(highest) == bucket_of(value)


def test_buckets_follow_one_another() -> None:
    for bucket in range(bucket_of(MAX_US)):
        assert bucket_of(highest_of(bucket) + 1) == bucket + 1


def test_quantiles_are_those_of_the_sample() -> None:
    drawn = random.Random(1)
    values = sorted(int(drawn.lognormvariate(6, 2)) for _ in range(5000))
    seen = Histogram()
    for value in values:
        seen.add(value)
    for share in (0.01, 0.5, 0.99, 0.999, 1.0):
        exact = values[ceil(share * 5000) - 1]
        assert exact <= (seen.quantile_us(share) or 0) <= exact * 1.008 + 1


def test_an_empty_histogram_has_no_quantile() -> None:
    assert Histogram().quantile_us(0.99) is None


def test_a_merged_histogram_counts_both_and_survives_storing() -> None:
    first, second = Histogram(), Histogram()
    for value in (1, 1, 300):
        first.add(value)
    for value in (1, 70_000):
        second.add(value)
    first.merge(second)
    again = Histogram.from_pairs(first.pairs())
    assert (again.total, again.counts) == (5, first.counts)
    assert again.quantile_us(0.6) == 1


@pytest.mark.parametrize(("limit", "count"), [(0, 3), (99, 2), (100, 1), (5000, 0)])
def test_what_is_above_a_limit_is_counted(limit: int, count: int) -> None:
    seen = Histogram()
    for value in (50, 100, 5000):
        seen.add(value)
    assert seen.above(limit) == count


def test_values_beyond_the_largest_count_as_it() -> None:
    seen = Histogram()
    seen.add(MAX_US * 4)
    assert seen.quantile_us(1.0) == highest_of(bucket_of(MAX_US))
