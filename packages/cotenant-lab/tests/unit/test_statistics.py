"""The statistics, against values computed by hand."""

from math import inf, isnan, nan, sqrt

import numpy as np
import pytest

from cotenant_lab.statistics import (
    Sustained,
    at_load,
    cumulative,
    independent_ratio,
    interval,
    jain,
    paired_difference,
    paired_ratio,
    student_t,
    sustained_load,
)


@pytest.mark.parametrize(("degrees", "expected"), [(1, 12.706), (2, 4.303), (5, 2.571), (9, 2.262), (30, 2.042)])
def test_students_t_has_the_tabled_quantiles(degrees: int, expected: float) -> None:
    assert student_t(degrees) == pytest.approx(expected, abs=5e-4)


def test_interval_of_three_values() -> None:
    found = interval([1.0, 2.0, 3.0])  # sd 1, so the half width is t(2) / sqrt(3)
    assert found.mean == 2.0
    assert found.half_width == pytest.approx(4.302653 / sqrt(3), rel=1e-6)
    assert found.count == 3
    assert not found.excludes_zero
    assert found.low == pytest.approx(2 - 4.302653 / sqrt(3))
    assert found.high == pytest.approx(2 + 4.302653 / sqrt(3))


def test_interval_leaves_nan_out_and_says_how_many_are_left() -> None:
    assert interval([1.0, nan, 3.0]).count == 2
    alone = interval([nan, 4.0])
    assert (alone.mean, alone.count) == (4.0, 1)
    assert isnan(alone.half_width)
    assert not alone.excludes_zero
    assert isnan(interval([nan]).mean)
    assert interval([]).count == 0


def test_equal_values_have_an_interval_of_no_width() -> None:
    assert interval([0.5, 0.5, 0.5]).half_width == 0.0
    assert interval([0.5, 0.5]).excludes_zero
    assert not interval([0.0, 0.0]).excludes_zero


def test_paired_difference_cancels_what_the_pairs_share() -> None:
    ours = [1.0, 5.0, 9.0]
    theirs = [1.5, 5.6, 9.4]
    found = paired_difference(theirs, ours)
    assert found.mean == pytest.approx(0.5)
    assert found.half_width == pytest.approx(4.302653 * 0.1 / sqrt(3), rel=1e-5)  # the differences' sd is 0.1
    assert found.excludes_zero
    assert not interval(np.array(theirs)).excludes_zero  # unpaired, the variation between seeds hides it


def test_what_never_ended_is_infinite_and_has_no_interval() -> None:
    found = interval([1.0, inf])
    assert (found.mean, found.count) == (inf, 2)
    assert isnan(found.half_width)
    assert paired_difference([2.0, inf, 4.0], [1.0, inf, 3.0]).mean == 1.0
    x, share = cumulative(np.array([1.0, 2.0, inf, inf]))
    assert (x.tolist(), share.tolist()) == ([1.0, 2.0], [0.25, 0.5])


def test_paired_difference_refuses_unequal_numbers() -> None:
    with pytest.raises(ValueError, match="pairs"):
        paired_difference([1.0, 2.0], [1.0])


@pytest.mark.parametrize(
    ("values", "expected"),
    [([1, 1, 1, 1], 1.0), ([1, 0, 0, 0], 0.25), ([1, 2, 3], 36 / 42), ([0, 0], 1.0), ([5], 1.0)],
)
def test_jains_index(values: list[float], expected: float) -> None:
    assert jain(values) == pytest.approx(expected)


def test_jains_index_of_nothing_is_undefined() -> None:
    assert isnan(jain([]))


def test_cumulative_keeps_small_samples_whole() -> None:
    x, share = cumulative(np.array([3.0, 1.0, 2.0, 2.0]))
    assert x.tolist() == [1.0, 2.0, 2.0, 3.0]
    assert share.tolist() == [0.25, 0.5, 0.75, 1.0]
    assert cumulative(np.empty(0))[0].size == 0


def test_cumulative_of_a_large_sample_is_thin_true_and_reaches_the_end() -> None:
    sample = np.arange(1.0, 10_001.0)
    x, share = cumulative(sample, points=100)
    assert x.size <= 100
    assert x[-1] == 10_000.0
    assert share[-1] == 1.0
    np.testing.assert_allclose(share, x / 10_000)


def test_sustained_load_lies_where_the_first_class_crosses() -> None:
    # services reach 1 % half-way between 0.8 and 0.9, batch a quarter of the way
    found = sustained_load([0.7, 0.8, 0.9], [[0.0, 0.005, 0.015], [0.0, 0.0, 0.04]])
    assert found == Sustained(pytest.approx(0.825), "exact", 0)


def test_sustained_load_at_a_swept_load_that_just_holds() -> None:
    assert sustained_load([0.7, 0.8], [[0.0, 0.01]]) == Sustained(0.8, "above", 0)
    assert sustained_load([0.7, 0.8], [[0.01, 0.02]]).load == pytest.approx(0.7)


def test_sustained_load_beyond_the_sweep_is_a_bound() -> None:
    assert sustained_load([0.7, 0.8], [[0.02, 0.03]]) == Sustained(0.7, "below", 2)
    assert sustained_load([0.7, 0.8], [[0.001, 0.002]]) == Sustained(0.8, "above", 0)
    assert sustained_load([0.77], [[0.002]]) == Sustained(0.77, "above", 0)


def test_sustained_load_takes_the_largest_load_and_counts_the_gaps_below() -> None:
    found = sustained_load([0.7, 0.8, 0.9], [[0.02, 0.0, 0.02]])
    assert found.load == pytest.approx(0.85)
    assert found.gaps == 1
    assert sustained_load([0.7, 0.8], [[0.02, 0.0]]) == Sustained(0.8, "above", 1)


def test_sustained_load_between_two_loads_that_fail_by_different_classes() -> None:
    # services fall below 1 % at 3/4 of the way, batch rises above it at 1/2: nowhere both
    assert sustained_load([0.0, 1.0], [[0.04, 0.0], [0.0, 0.02]]).bound == "below"
    # services hold from 1/4 on, batch until 1/2
    assert sustained_load([0.0, 1.0], [[0.013, 0.001], [0.0, 0.02]]).load == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("loads", "figures"),
    [([], [[]]), ([0.8, 0.7], [[0.0, 0.0]]), ([0.7, 0.7], [[0.0, 0.0]]), ([0.7], [[0.0, 0.0]]), ([0.7], [[nan]])],
)
def test_sustained_load_refuses_what_is_no_curve(loads: list[float], figures: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="ascending"):
        sustained_load(loads, figures)


def test_a_figure_at_a_load_is_linear_between_the_swept_ones_and_ends_with_them() -> None:
    assert [at_load([0.8, 0.9], [0.4, 0.5], load) for load in (0.7, 0.825, 0.9, 1.0)] == pytest.approx(
        [0.4, 0.425, 0.5, 0.5]
    )


def test_ratios_are_paired_and_leave_out_what_is_not_defined() -> None:
    found = paired_ratio([1.1, 1.3, 2.0, nan], [1.0, 1.0, 0.0, 1.0])
    assert (found.mean, found.count) == (pytest.approx(1.2), 2)
    assert found.half_width == pytest.approx(student_t(1) * 0.1)  # sd 0.141 / sqrt(2)
    assert paired_ratio([], []).count == 0
    with pytest.raises(ValueError, match="unequal"):
        paired_ratio([1.0], [1.0, 2.0])


def test_a_ratio_of_unpaired_figures_has_welchs_interval() -> None:
    # logarithms 0, 1, 2 and 0, 0.5, 1, 0.5: variances 1/3 and (1/6)/4 of the means, 2.50 degrees of freedom
    e = float(np.e)
    ratio, low, high = independent_ratio([1.0, e, e**2], [1.0, sqrt(e), e, sqrt(e)])
    total = 1 / 3 + 1 / 24
    degrees = total**2 / ((1 / 3) ** 2 / 2 + (1 / 24) ** 2 / 3)
    half = student_t(degrees) * sqrt(total)
    assert (ratio, low, high) == pytest.approx((sqrt(e), e ** (0.5 - half), e ** (0.5 + half)))
    assert degrees == pytest.approx(2.504, abs=0.01)
    assert independent_ratio([2.0, 2.0], [1.0, 1.0]) == pytest.approx((2.0, 2.0, 2.0))
    alone = independent_ratio([2.0], [1.0, 1.0])
    assert alone[0] == pytest.approx(2.0)
    assert isnan(alone[1])
    assert isnan(alone[2])
