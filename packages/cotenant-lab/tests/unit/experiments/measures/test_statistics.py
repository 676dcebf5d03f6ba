"""Correlations, ratios and intervals, by hand."""

from math import exp, isnan, log, pi, sin

import pytest

from cotenant_lab.experiments.loads.sine_demand import SineDemand
from cotenant_lab.experiments.measures.statistics import (
    IntervalEstimate,
    bootstrap,
    correlation,
    middle,
    quantile,
    ratio,
)


def test_correlation_of_a_line_is_one_whatever_its_slope() -> None:
    assert correlation([1, 2, 3, 4], [10, 30, 50, 70]) == pytest.approx(1.0)
    assert correlation([1, 2, 3, 4], [7, 5, 3, 1]) == pytest.approx(-1.0)


def test_correlation_by_hand() -> None:
    # deviations (-1, 0, 1) and (-1, 1, 0): 1 / (sqrt 2 sqrt 2)
    assert correlation([1, 2, 3], [1, 3, 2]) == pytest.approx(0.5)


def test_what_does_not_vary_correlates_with_nothing() -> None:
    assert isnan(correlation([1, 2, 3], [5, 5, 5]))
    assert isnan(correlation([1, 2], [1, 2]))


def test_correlation_refuses_unequal_lengths() -> None:
    with pytest.raises(ValueError, match="3 and 2"):
        correlation([1, 2, 3], [1, 2])


def test_a_ratio_is_the_geometric_mean_of_rounds() -> None:
    found = ratio([2, 8, 4], [1, 1, 1])
    assert found.value == pytest.approx(4.0)
    assert found.low is not None
    assert found.high is not None
    assert 2.0 <= found.low < 4.0 < found.high <= 8.0


def test_rounds_cancel_what_is_common_to_them() -> None:
    found = ratio([3, 30, 300], [1, 10, 100])
    assert (found.value, found.low, found.high) == (pytest.approx(3.0), pytest.approx(3.0), pytest.approx(3.0))


def test_two_rounds_have_no_interval() -> None:
    assert ratio([2, 2], [1, 1]) == IntervalEstimate(pytest.approx(2.0), None, None)
    assert middle([1.0, 2.0]) == IntervalEstimate(1.5, None, None)


def test_the_interval_is_repeatable_and_covers_the_middle() -> None:
    values = [log(1.0 + 0.01 * number) for number in range(40)]
    mean = sum(values) / len(values)
    found = bootstrap(values, lambda group: sum(group) / len(group), seed=5)
    assert found == bootstrap(values, lambda group: sum(group) / len(group), seed=5)
    assert found.low is not None
    assert found.high is not None
    # the standard error of the mean, by hand: 1.96 of it each way, to a fifth
    deviation = (sum((value - mean) ** 2 for value in values) / len(values)) ** 0.5
    half = 1.96 * deviation / len(values) ** 0.5
    assert found.high - found.low == pytest.approx(2 * half, rel=0.2)
    assert exp(found.low) < exp(mean) < exp(found.high)


def test_quantiles_of_a_sample() -> None:
    values = [float(number) for number in range(1, 101)]
    assert (quantile(values, 0.5), quantile(values, 0.99), quantile(values, 1.0)) == (50.0, 99.0, 100.0)
    assert isnan(quantile([], 0.5))


def test_the_sines_work_is_the_integral_of_its_demand() -> None:
    demand = SineDemand(0.1, 0.7, 20.0)
    step = 0.001
    for until in (0.0, 3.7, 10.0, 17.2, 33.3):
        summed = sum(step * (0.4 + 0.3 * sin(2 * pi * (n + 0.5) * step / 20.0)) for n in range(round(until / step)))
        assert demand.work_s(until) == pytest.approx(summed, abs=1e-4)
    assert demand.work_s(20.0) == pytest.approx(8.0)
