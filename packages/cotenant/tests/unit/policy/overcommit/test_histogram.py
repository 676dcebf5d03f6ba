"""Decaying histograms against the values that were added."""

from __future__ import annotations

from statistics import fmean, pvariance

import numpy as np
import pytest

from cotenant.policy.overcommit.histogram import BUCKETS, GROWTH, DecayedHistogram

EMPTY = DecayedHistogram(0.01, 100.0)


def filled(values: list[float], at_s: float = 0.0) -> DecayedHistogram:
    found = EMPTY
    for value in values:
        found = found.added(value, at_s)
    return found


def test_an_empty_one_knows_nothing() -> None:
    assert (EMPTY.weight, EMPTY.total, EMPTY.squares, EMPTY.at_s, EMPTY.growth) == (0, 0, 0, 0, GROWTH)
    assert (EMPTY.mean, EMPTY.variance, EMPTY.quantile(0.99)) == (0, 0, 0)
    assert len(EMPTY.counts) == BUCKETS


@pytest.mark.parametrize("seed", range(4))
def test_a_quantile_is_at_most_one_bucket_above_the_value(seed: int) -> None:
    values = [float(value) for value in np.random.default_rng(seed).gamma(2.0, 1.0, 37)]
    found = filled(values)
    ordered = sorted(values)
    for count in range(1, 38):
        exact = ordered[count - 1]
        assert exact <= found.quantile(count / 37) <= exact * GROWTH * (1 + 1e-9)
    assert (found.weight, found.mean) == (37, pytest.approx(fmean(values)))
    assert found.variance == pytest.approx(pvariance(values))


def test_the_edges_of_buckets() -> None:
    assert (EMPTY.edge(0), EMPTY.edge(1), EMPTY.edge(3)) == (0.0, 0.01 * GROWTH, 0.01 * GROWTH**3)
    for value, bucket in (
        (0.0, 0),
        (0.01, 0),
        (0.0100001, 1),
        (0.01 * 1.0999, 1),
        (0.01 * 1.1001, 2),
        (1e9, BUCKETS - 1),
    ):
        counts = EMPTY.added(value, 0.0).counts
        assert np.flatnonzero(counts).tolist() == [bucket]
    assert filled([0.0, 0.005]).quantile(1.0) == 0.0  # values that are nothing
    assert filled([1e9]).quantile(1.0) == EMPTY.edge(BUCKETS - 1)
    wide = DecayedHistogram(1.0, 1.0, growth=2.0).added(5.0, 0.0)
    assert wide.quantile(1.0) == 8.0


def test_weights_halve_with_the_half_life_and_never_grow_again() -> None:
    old = filled([4.0] * 8, at_s=50.0)
    later = old.added(2.0, 150.0, count=3.0)
    assert (later.weight, later.total, later.squares, later.at_s) == (7.0, 22.0, 76.0, 150.0)
    assert later.counts.sum() == 7.0
    back = later.added(1.0, 100.0)  # a clock that went back
    assert (back.weight, back.at_s) == (8.0, 150.0)
    assert old.weight == 8.0  # a value: it has not changed
    assert EMPTY.added(1.0, 1e9).weight == 1.0


def test_a_prior_weighs_as_said_in_its_own_shape() -> None:
    few, many = filled([1.0, 1.0]), filled([100.0] * 50)
    assert few.quantile(0.5, many, 1.0) == few.quantile(0.5)
    assert few.quantile(0.6, many, 8.0) == many.quantile(0.5)
    assert few.quantile(2 / 3, many, 1.0) == few.quantile(0.5)
    assert few.quantile(0.67, many, 1.0) == many.quantile(0.5)
    assert few.quantile(0.9, EMPTY, 8.0) == few.quantile(0.9)
    assert EMPTY.quantile(0.9, many, 8.0) == many.quantile(0.9)
