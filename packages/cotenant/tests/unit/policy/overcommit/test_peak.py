"""The peak policy: histograms, cold start, reserve, calibration to the stated risk, and hysteresis."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.model.cluster.qos import PriorityClass
from cotenant.model.errors import InvalidInput
from cotenant.policy.overcommit.histogram import GROWTH, DecayedHistogram
from cotenant.policy.overcommit.hysteresis import HysteresisBand, to_write
from cotenant.policy.overcommit.peak import (
    MeasuredPodUse,
    PeakSettings,
    calibrated,
    n_sigma,
    new_history,
    new_pool,
    observe,
    peak_amount,
    percentile,
    reserve,
)

CAPACITY = 100_000
PROD = PriorityClass.PROD
SETTINGS = PeakSettings(present_weight=1.0)


def _pods(**use: int | None) -> dict[str, MeasuredPodUse]:
    return {name: MeasuredPodUse(PROD, 40_000, amount) for name, amount in use.items()}


@given(st.lists(st.floats(0.001, 30), min_size=1, max_size=50), st.floats(0.01, 1.0))
def test_a_quantile_never_understates_and_is_within_a_bucket(values: list[float], share: float) -> None:
    histogram = DecayedHistogram(0.001, 3600.0)
    for value in values:
        histogram = histogram.added(value, 0.0)
    exact = float(np.quantile(values, share, method="inverted_cdf"))
    found = histogram.quantile(share)
    assert exact <= found * (1 + 1e-9) or exact <= 0.001
    assert found <= exact * GROWTH * (1 + 1e-9)


def test_old_values_count_half_after_a_half_life() -> None:
    histogram = DecayedHistogram(1.0, 60.0).added(100.0, 0.0, 4.0).added(10.0, 60.0, 2.0)
    assert histogram.weight == pytest.approx(4.0)
    assert histogram.mean == pytest.approx((200 + 20) / 4)


def test_a_clock_that_goes_backwards_decays_nothing() -> None:
    histogram = DecayedHistogram(1.0, 60.0).added(5.0, 100.0).added(5.0, 40.0)
    assert histogram.weight == 2.0
    assert histogram.at_s == 100.0


def test_moments() -> None:
    histogram = DecayedHistogram(1.0, 60.0)
    for value in (2.0, 4.0, 6.0):
        histogram = histogram.added(value, 0.0)
    assert histogram.mean == 4.0
    assert histogram.variance == pytest.approx(8 / 3)


def test_cold_start_is_by_requests() -> None:
    pool = new_pool(SETTINGS, 60)
    amount = peak_amount("batch-cpu", new_history(SETTINGS), pool, _pods(a=5_000), CAPACITY, 1_000, SETTINGS)
    assert amount.value == CAPACITY - 1_000 - 40_000
    assert "cold start" in amount.terms[-1].name


def test_a_predecessors_reserve_bridges_a_restart() -> None:
    pool, history = new_pool(SETTINGS, 60), new_history(SETTINGS, seeded_reserve=0.07)
    amount = peak_amount("batch-cpu", history, pool, _pods(a=5_000), CAPACITY, 1_000, SETTINGS)
    assert amount.value == CAPACITY - 1_000 - 5_000 - 7_000


def test_rises_of_pods_that_were_there_make_the_reserve_and_arrivals_do_not() -> None:
    pool, history = new_pool(SETTINGS, 60), new_history(SETTINGS)
    for i in range(60):
        pods = _pods(a=5_000 + 2_000 * (i % 2))
        if i > 30:
            pods |= _pods(b=60_000)
        history, pool = observe(history, pool, pods, CAPACITY, SETTINGS, 60.0 * i)
    kept = reserve(history, pool, SETTINGS)
    assert kept is not None
    assert 0.02 <= kept <= 0.02 * GROWTH * 1.01


def test_an_unmeasured_pod_counts_by_request_and_then_by_its_class() -> None:
    pool, history = new_pool(SETTINGS, 60), new_history(SETTINGS)
    for i in range(40):
        history, pool = observe(history, pool, _pods(**{f"p{i}": 10_000}), CAPACITY, SETTINGS, 60.0 * i)
    pool = replace(pool, rises=pool.rises.added(0.0, 0.0, 100.0))
    pods = _pods(new=None)
    amount = peak_amount("batch-cpu", history, pool, pods, CAPACITY, 0, SETTINGS)
    assert -amount.terms[-1].amount == pytest.approx(10_000, rel=GROWTH - 1)
    unknown = replace(pool, ratios={})
    assert peak_amount("batch-cpu", history, unknown, pods, CAPACITY, 0, SETTINGS).terms[-1].amount == -40_000


def test_the_parts_of_the_published_predictors() -> None:
    settings = replace(SETTINGS, sigmas=5.0, percentile=0.95, half_life_s=1e9)
    pool, history = new_pool(settings, 60), new_history(settings)
    for i in range(100):
        history, pool = observe(history, pool, _pods(a=10_000, b=10_000 + 100 * (i % 2)), CAPACITY, settings, 60.0 * i)
    assert n_sigma(history, 5.0) == pytest.approx(20_050 + 250, rel=1e-3)
    assert 20_100 <= percentile(history, 0.95) <= 20_100 * GROWTH**2
    amount = peak_amount("batch-cpu", history, pool, _pods(a=0, b=0), CAPACITY, 0, settings)
    assert amount.value <= CAPACITY - n_sigma(history, 5.0) + 1
    for one in (replace(settings, percentile=0.0), replace(settings, sigmas=0.0)):  # each alone decides here
        peak = n_sigma(history, 5.0) if one.sigmas else percentile(history, 0.95)
        few = peak_amount("batch-cpu", history, pool, _pods(a=0, b=0), CAPACITY, 1_000, one)
        assert few.value == CAPACITY - 1_000 - round(peak)
        more = peak_amount("batch-cpu", history, pool, _pods(a=0, b=0, c=None), CAPACITY, 1_000, one)
        assert more.value == CAPACITY - 1_000 - round(peak) - 40_000  # c was not measured: it counts by its request


@pytest.mark.parametrize("risk", [0.01, 0.05])
def test_feedback_keeps_the_stated_risk(risk: float) -> None:
    settings = PeakSettings(risk=risk)
    rng = np.random.default_rng(7)
    pool = new_pool(settings, 1.0)
    pool = replace(pool, level=10 * pool.level)
    broken = 0
    for hour in range(2000):
        now = int((rng.random(100) < pool.level * 3).sum())  # the world breaks three times as often as the level says
        broken += now if hour >= 1000 else 0
        pool = calibrated(pool, now, 100, settings)
    assert broken / 100_000 == pytest.approx(risk, rel=0.2)


@given(
    st.lists(st.integers(0, CAPACITY), min_size=1, max_size=60),
    st.floats(0, 0.2),
    st.floats(0, 0.3),
)
def test_hysteresis_never_leaves_more_than_was_computed(computed: list[int], slack: float, band: float) -> None:
    present: int | None = None
    for amount in computed:
        present = to_write(amount, present, CAPACITY, HysteresisBand(slack, band))
        assert 0 <= present <= amount
        assert present >= amount - (slack + band) * CAPACITY - 1


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(InvalidInput, match="peak risk"):
        PeakSettings(risk=0.0)
    with pytest.raises(InvalidInput, match="hysteresis"):
        HysteresisBand(slack=1.5)


def test_use_that_jitters_is_taken_at_its_mean() -> None:
    settings = PeakSettings(present_weight=0.0, mean_half_life_s=3600.0, half_life_s=1800.0)
    pool, history = replace(new_pool(settings, 60), level=0.1), new_history(settings)
    for i in range(600):
        history, pool = observe(history, pool, _pods(a=10_000 + 4_000 * (i % 2)), CAPACITY, settings, 60.0 * i)
    by_mean = reserve(history, pool, settings)
    assert by_mean is not None
    assert by_mean == pytest.approx(0.02, rel=0.15)  # half of what it is above present use
    low, high = (
        peak_amount("batch-cpu", history, pool, _pods(a=amount), CAPACITY, 0, settings).value
        for amount in (10_000, 14_000)
    )
    assert low == high
