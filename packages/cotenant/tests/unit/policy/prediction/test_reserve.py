"""What stands above a course, by figures worked out by hand: the carried share of an excess, errors by the hour,
quantiles of series and kind together, and what a forecast that came true teaches.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cotenant.model.errors import InvalidInput
from cotenant.policy.prediction.reserve import (
    PredictedReserve,
    ReserveSettings,
    above,
    carry,
    judge,
    new_reserve,
    promised,
)

PLAIN = ReserveSettings(keep=1.0, carry_prior=0.0, hour_prior=1e-9, kind_weight=0.0, correction=0.02, warm=0.0)
AT_0, AT_2 = 100, 140  # the bins of errors of 0 to 0.05 and of 2 to 2.05 sizes


def reserve(kinds: tuple[int, ...] = (0,), risks: tuple[float, ...] = (0.05,), horizon: int = 1) -> PredictedReserve:
    return new_reserve(horizon, risks, np.array(kinds, np.int64))


def of_pairs(*pairs: tuple[float, float]) -> list[float]:
    """The sums of these pairs of an excess and of what came above the course."""
    d, g = np.array([one for one, _ in pairs]), np.array([other for _, other in pairs])
    return [float(len(pairs)), d.sum(), g.sum(), (d * d).sum(), (d * g).sum()]


@pytest.mark.parametrize(("slope", "carried"), [(0.5, 0.5), (1.0, 1.0), (1.1, 1.1), (3.0, 1.2), (-1.0, 0.0)])
def test_the_carried_share_is_the_slope_of_what_came_over_the_excess(slope: float, carried: float) -> None:
    told = of_pairs((0.0, 0.1), (2.0, 0.1 + 2 * slope), (1.0, 0.1 + slope))
    found = replace(reserve(), sums=np.array([told]))
    assert carry(found, PLAIN) == pytest.approx([carried])


def test_a_series_of_few_forecasts_carries_what_its_kind_does() -> None:
    own, kind = of_pairs((0.0, 0.0), (2.0, 1.0)), of_pairs((0.0, 0.0), (2.0, 2.0))
    other = of_pairs((0.0, 5.0), (2.0, 5.0))
    found = replace(reserve((1, 0, 1)), sums=np.array([own, own, [0.0] * 5]), kind_sums=np.array([other, kind]))
    # two forecasts of slope 1/2 beside two of slope 1, or of slope 0; without own ones the kind's alone
    assert carry(found, replace(PLAIN, carry_prior=2.0)) == pytest.approx([0.75, 0.25, 1.0])
    assert carry(reserve(), PLAIN) == pytest.approx([1.0])  # an excess stays until something else is known


def test_errors_are_those_of_the_hour_and_its_neighbours_beside_those_of_the_day() -> None:
    error = np.zeros((1, 24, 3))
    error[0, 23], error[0, 0], error[0, 1], error[0, 5] = (1, 3, 1), (1, 1, 1), (2, 0, 2), (4, 40, 8)
    kind_counts = np.zeros((1, 400))
    kind_counts[0, AT_2] = 10.0
    found = replace(reserve(), error=error, kind_counts=kind_counts)
    settings = replace(PLAIN, kind_weight=1.0)
    # at midnight 4 in 4 forecasts and 4 in 4: mean 1, size 1; the quantile is the bin's upper edge
    assert above(found, 24, settings) == pytest.approx(np.array([[1 + 2.05]]))
    # beside 4 of all eight, whose mean is 44/8 and whose size is 12/8
    expected = (4 + 4 * 5.5) / 8 + (4 + 4 * 1.5) / 8 * 2.05
    assert above(found, 0, replace(settings, hour_prior=4.0)) == pytest.approx(np.array([[expected]]))
    assert above(found, 5, settings) == pytest.approx(np.array([[10 + 2 * 2.05]]))
    assert above(found, 6, settings) == pytest.approx(np.array([[10 + 2 * 2.05]]))
    # an hour that never erred is not certain
    assert above(found, 12, replace(settings, hour_prior=1e-9))[0, 0] == pytest.approx(5.5 + 1.5 * 2.05)


def quantiles(found: PredictedReserve, settings: ReserveSettings) -> list[list[float]]:
    """In sizes of errors: each hour erred by 0 on the mean, and by 1 in size."""
    error = np.zeros((len(found.kinds), 24, 3))
    error[..., 0], error[..., 2] = 1.0, 1.0
    return [[round(float(one), 6) for one in row] for row in above(replace(found, error=error), 3, settings)]


def test_a_quantile_is_of_a_series_own_errors_and_its_kinds() -> None:
    kind = np.zeros((2, 400))
    kind[0, AT_0] = kind[0, AT_2] = 50.0
    kind[1, 0] = 30.0
    own = np.zeros((3, 400))
    own[1, AT_0] = 100.0
    risks = (0.25, 0.6, 0.2)
    found = replace(reserve((0, 0, 1), risks), kind_counts=kind, counts=own)
    settings = replace(PLAIN, kind_weight=100.0, warm=24.0)
    # of the kind half are at 0 and half at 2; with as many of its own at 0, three in four are
    assert quantiles(found, settings) == [[2.05, 0.05, 2.05], [0.05, 0.05, 2.05], [-4.95, -4.95, -4.95]]
    # its own alone
    assert quantiles(found, replace(settings, kind_weight=1e-6))[1] == [0.05, 0.05, 0.05]


def test_of_a_finite_sample_the_quantile_is_that_of_one_error_more_above_all() -> None:
    counts = np.zeros((1, 400))
    counts[0, AT_0], counts[0, AT_2] = 95.0, 1.0
    found = replace(reserve(risks=(0.011, 0.05)), counts=counts, kind_counts=counts)
    plain = replace(PLAIN, kind_weight=1e-6)
    # of 96 errors 98.9 % are 94.9, and of 97 they are 95.9
    assert quantiles(found, plain) == [[0.05, 0.05]]
    assert quantiles(found, replace(plain, finite_sample=True)) == [[2.05, 0.05]]
    few = replace(found, counts=counts / 96 * 20, kind_counts=counts / 96 * 20)  # 98.9 % of 21 are more than there are
    assert quantiles(few, replace(plain, finite_sample=True))[0][0] == 2.05


@pytest.mark.parametrize(("judged", "is_known"), [(23.0, False), (24.0, True)])
def test_nothing_is_said_of_a_kind_with_too_few_judged_forecasts(judged: float, is_known: bool) -> None:
    kind = np.zeros((1, 400))
    kind[0, AT_0] = judged
    (found,) = quantiles(replace(reserve(), kind_counts=kind), ReserveSettings())
    assert np.isfinite(found[0]) == is_known


def made(
    found: PredictedReserve, hour: int, course: list[float], excess: list[float], bounds: list[list[float]]
) -> PredictedReserve:
    return promised(found, hour, np.array(course), np.array(excess), np.array(bounds))


def test_a_forecast_that_came_true_teaches_and_moves_the_level() -> None:
    found = made(reserve((0, 0, 1)), 31, [0.4, 0.4, 0.4], [0.1, 0.0, 0.1], [[0.6], [0.7], [0.5]])
    after = judge(found, np.array([0.65, 0.65, np.nan]), PLAIN)
    # nothing learned before: the excess is carried whole, 0.25 and 0.25 came, 0.15 and 0.25 are the errors
    assert after.error[0, 7] == pytest.approx([1.0, 0.15, 0.0])
    assert after.error[1, 7] == pytest.approx([1.0, 0.25, 0.0])
    assert after.sums[0] == pytest.approx([1.0, 0.1, 0.25, 0.01, 0.025])
    assert after.kind_sums[0] == pytest.approx([2.0, 0.1, 0.5, 0.01, 0.025])
    assert (after.judged.tolist(), after.exceeded.tolist()) == ([[1], [1], [0]], [[1], [0], [0]])
    assert after.levels[:, 0] == pytest.approx([0.05 - 0.02 * 0.95, 0.05, 0.05])
    # what was not measured, and what has no size to compare with, teaches nothing
    assert not after.error[2].any()
    assert not after.sums[2].any()
    assert not after.kind_sums[1].any()
    assert not after.counts.any()
    assert not after.kind_counts.any()
    assert int((after.error[0, :, 0] > 0).sum()) == 1


def test_an_error_is_counted_in_sizes_of_those_before() -> None:
    error = np.zeros((4, 24, 3))
    error[:, 7] = (1.0, 0.1, 0.05)  # a mean of 0.1, a size of 0.05
    found = replace(reserve((0, 0, 1, 1)), error=error)
    found = made(found, 7, [0.4] * 4, [0.0] * 4, [[np.nan]] * 4)
    after = judge(found, np.array([0.4 + 0.201, 99.0, -99.0, np.nan]), PLAIN)
    assert [(row, int(at)) for row, at in zip(*np.nonzero(after.counts), strict=True)] == [(0, AT_2), (1, 399), (2, 0)]
    assert after.counts.sum(axis=1).tolist() == [1.0, 1.0, 1.0, 0.0]
    assert after.kind_counts.sum(axis=1).tolist() == [2.0, 1.0]
    assert after.error[0, 7] == pytest.approx([2.0, 0.1 + 0.201, 0.05 + 0.101])
    assert after.error[3, 7] == pytest.approx([1.0, 0.1, 0.05])
    assert not after.judged.any()  # nothing was said then
    assert after.levels[:, 0] == pytest.approx([0.05] * 4)


def test_older_forecasts_fade_with_each_that_is_judged() -> None:
    settings = replace(PLAIN, keep=0.5)
    error = np.zeros((2, 24, 3))
    error[:, 7] = (2.0**24, 0.0, 2.0**24)
    counts, kind_counts = np.full((2, 400), 4.0), np.full((1, 400), 8.0)
    found = replace(
        reserve((0, 0)), error=error, counts=counts, kind_counts=kind_counts,
        sums=np.full((2, 5), 2.0), kind_sums=np.full((1, 5), 6.0),
    )  # fmt: skip
    after = judge(made(found, 7, [0.0, 0.0], [0.0, 0.0], [[1.0], [1.0]]), np.array([3.0, np.nan]), settings)
    assert after.error[0, 7] == pytest.approx([1.0 + 1, 3.0, 1.0 + 3])  # an hour is visited once in 24
    assert after.error[1, 7] == pytest.approx([2.0**24, 0.0, 2.0**24])
    assert (after.counts[0, 0], after.counts[0, 160], after.counts[1, 160]) == (2.0, 3.0, 2.0)
    assert (after.kind_counts[0, 0], after.kind_counts[0, 160]) == (4.0, 5.0)
    assert after.sums[1] == pytest.approx([1.0] * 5)
    assert after.sums[0] == pytest.approx([2.0, 1.0, 4.0, 1.0, 1.0])
    assert after.kind_sums[0] == pytest.approx([4.0, 3.0, 6.0, 3.0, 3.0])


def test_a_level_rises_above_its_risk_once_some_bounds_were_due_to_be_exceeded() -> None:
    risks, lasting = (0.05, 0.2), replace(PLAIN, correction=1.0)
    found = reserve((0, 0), risks)
    for hour in range(100):
        before, found = found, made(found, 1, [0.4, 0.4], [0.0, 0.0], [[0.5, 0.5], [0.7, 0.7]])
        found = judge(found, np.array([0.6, 0.6]), lasting)
        if hour < 49:  # of 49 bounds of 20 % fewer than ten were due
            assert found.levels[1].tolist() == [0.05, 0.2]
        elif hour == 49:
            assert found.levels[1, 1] > before.levels[1, 1]
    assert np.allclose(found.levels, [[0.005, 0.02], [0.05, 0.5]])  # of 100 bounds of 5 % fewer than ten were due
    assert found.exceeded.tolist() == [[100, 100], [0, 0]]
    assert found.judged.tolist() == [[100, 100], [100, 100]]


def test_a_lowered_level_is_restored_by_hours_that_stay_below() -> None:
    found = judge(made(reserve(), 1, [0.4], [0.0], [[0.5]]), np.array([0.6]), PLAIN)
    lowered = found.levels[0, 0]
    for _ in range(3):
        found = judge(made(found, 1, [0.4], [0.0], [[0.7]]), np.array([0.6]), PLAIN)
    assert found.levels[0, 0] == pytest.approx(lowered + 3 * 0.02 * 0.05)


def test_as_high_as_was_said_is_not_above_it() -> None:
    after = judge(made(reserve(), 1, [0.4], [0.0], [[0.5]]), np.array([0.5]), PLAIN)
    assert (after.judged.tolist(), after.exceeded.tolist()) == ([[1]], [[0]])


def test_a_forecast_is_judged_once_its_horizon_is_over() -> None:
    found = reserve(horizon=2)
    for hour in range(2):
        assert judge(found, np.array([0.9]), PLAIN) is found  # nothing is due
        found = made(found, hour, [0.4], [0.0], [[0.5]])
    after = judge(found, np.array([0.9]), PLAIN)
    assert np.flatnonzero(after.error[0, :, 0]).tolist() == [0]
    later = judge(made(after, 2, [0.4], [0.0], [[0.5]]), np.array([0.9]), PLAIN)
    assert np.flatnonzero(later.error[0, :, 0]).tolist() == [0, 1]


@pytest.mark.parametrize(("horizon", "risks"), [(0, (0.1,)), (1, ()), (1, (0.0,)), (1, (0.1, 1.0))])
def test_a_horizon_and_risks_that_mean_nothing_are_refused(horizon: int, risks: tuple[float, ...]) -> None:
    with pytest.raises(InvalidInput, match="horizon"):
        reserve(risks=risks, horizon=horizon)


@pytest.mark.parametrize("wrong", [{"keep": 0.0}, {"keep": 1.1}, {"correction": -0.1}, {"earned": -1.0}])
def test_weights_that_mean_nothing_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidInput, match="reserve settings"):
        ReserveSettings(**wrong)
    assert ReserveSettings(keep=1.0, correction=0.0).keep == 1.0


def test_a_new_reserve_has_a_place_for_each_series_and_kind() -> None:
    found = reserve((2, 0), (0.01, 0.05), horizon=3)
    assert (found.sums.shape, found.kind_sums.shape) == ((2, 5), (3, 5))
    assert (found.ahead.shape, found.bounds.shape) == ((2, 3, 3), (2, 3, 2))
    assert found.levels.tolist() == [[0.01, 0.05]] * 2
    assert reserve(()).kind_sums.shape == (0, 5)
