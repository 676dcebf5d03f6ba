"""What a pod is predicted to use at most, by figures worked out by hand: sigma 1 at the risk that one standard
deviation stands for, weights that halve, highs that bound, and the request as a prior.
"""

from __future__ import annotations

from statistics import NormalDist

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_metric import ReportedHistory, Use, UseSpread
from cotenant.model.resources import BATCH_CPU, BATCH_MEMORY, CPU_NAME, MEMORY_NAME, MID_CPU, Amounts
from cotenant.policy.overcommit.predicted_use import (
    UNMEASURED,
    PodHistories,
    PodUseHistory,
    PredictedUseSettings,
    UseMoments,
    continued,
    is_lent_to,
    predicted_use,
    reported,
    requested_use,
)

ONE_SIGMA = 1.0 - NormalDist().cdf(1.0)  # about 0.159: a pod has enough measurements after 6.3
SETTINGS = PredictedUseSettings(risk=ONE_SIGMA, half_life_s=60.0, prior_samples=3.0)
NOTHING = Use(0, 0)


def history(
    weight: float, mean: float, squares: float, last: int, highest: float, memory: UseMoments | None = None
) -> PodUseHistory:
    cpu = UseMoments(mean, squares, last, highest)
    return PodUseHistory(0.0, 1, weight, cpu, memory or cpu)


@pytest.mark.parametrize(
    ("weight", "mean", "squares", "last", "highest", "asked", "expected"),
    [
        (4.0, 100.0, 400.0, 90, 500.0, 0, 110),  # mean + sqrt(400 / 4)
        (4.0, 100.0, 400.0, 150, 500.0, 0, 150),  # never less than the last one
        (4.0, 100.0, 400.0, 90, 105.0, 0, 110),  # too few measurements for the highest to bound it
        (6.0, 100.0, 600.0, 90, 105.0, 0, 110),  # still
        (7.0, 100.0, 700.0, 90, 105.0, 0, 105),
        (7.0, 100.0, 700.0, 90, 300.0, 0, 110),  # a highest above it bounds nothing
        (7.0, 100.0, 700.0, 109, 105.0, 0, 109),
        (1.0, 100.0, -5.0, 100, 100.0, 0, 100),  # a sum of squares that rounding made negative
        (1.0, 100.0, 0.0, 100, 100.0, 500, 400),  # 100 + 400 * 3 / (3 + 1)
        (9.0, 100.0, 0.0, 100, 100.0, 500, 200),  # 100 + 400 * 3 / (3 + 9)
        (9.0, 100.0, 0.0, 100, 100.0, 99, 100),  # a smaller request counts for nothing
        (3.0, 100.4, 0.0, 100, 101.0, 0, 101),  # rounded up
    ],
)
def test_what_a_pod_counts_with(
    weight: float, mean: float, squares: float, last: int, highest: float, asked: int, expected: int
) -> None:
    found = predicted_use(Use(asked, 0), history(weight, mean, squares, last, highest), True, SETTINGS)
    assert found.cpu_m == expected


def test_each_resource_has_its_own_figures() -> None:
    known = history(4.0, 100.0, 0.0, 100, 100.0, UseMoments(7000.0, 4 * 50.0**2, 7000, 7100.0))
    assert predicted_use(Use(50, 0), known, True, SETTINGS) == Use(100, 7050)
    assert predicted_use(Use(0, 9000), known, False, SETTINGS) == Use(100, 9000)


def test_without_measurements_a_pod_counts_with_its_request_and_stale_ones_never_lower_it() -> None:
    asked = Use(500, 700)
    assert predicted_use(asked, UNMEASURED, True, SETTINGS) == asked
    known = history(9.0, 100.0, 0.0, 100, 100.0)
    assert predicted_use(asked, known, False, SETTINGS) == asked
    assert predicted_use(Use(50, 60), known, False, SETTINGS) == Use(100, 100)


def test_half_of_a_measurements_weight_is_gone_after_a_half_life() -> None:
    first = UNMEASURED.measured(Use(100, 10), 1000.0, SETTINGS)
    assert first == PodUseHistory(1000.0, 1, 1.0, UseMoments(100.0, 0.0, 100, 100.0), UseMoments(10.0, 0.0, 10, 10.0))
    second = first.measured(Use(400, 10), 1060.0, SETTINGS)
    # weights 1/2 and 1: a mean of (50 + 400) / 1.5, squares (200^2 / 2 + 100^2)
    assert (second.at_s, second.samples, second.weight) == (1060.0, 2, 1.5)
    assert second.cpu == pytest.approx(UseMoments(300.0, 30_000.0, 400, 400.0))
    assert second.memory == pytest.approx(UseMoments(10.0, 0.0, 10, 10.0))
    third = second.measured(Use(100, 10), 1120.0, SETTINGS)
    # weights 1/4, 1/2 and 1 of 100, 400 and 100
    assert third.weight == 1.75
    assert third.cpu.mean == pytest.approx(325 / 1.75)
    assert third.cpu.highest == pytest.approx(325 / 1.75 + (400 - 325 / 1.75) / 2)  # halfway to the mean
    assert third.cpu.last == 100


def test_a_clock_that_went_back_lets_nothing_fade() -> None:
    first = UNMEASURED.measured(Use(100, 10), 1000.0, SETTINGS)
    back = first.measured(Use(300, 10), 400.0, SETTINGS)
    assert (back.at_s, back.weight, back.cpu.mean) == (1000.0, 2.0, 200.0)


@pytest.mark.parametrize("use", [Use(-1, 5), Use(5, -1)])
def test_a_negative_amount_is_refused(use: Use) -> None:
    with pytest.raises(InvalidInput, match="not negative"):
        UNMEASURED.measured(use, 0.0, SETTINGS)
    with pytest.raises(InvalidInput, match="not negative"):
        continued(ReportedHistory(1, 1.0, UseSpread(0.0, 0.0, 0.0), UseSpread(0.0, 0.0, 0.0)), use, 0.0)
    assert UNMEASURED.measured(NOTHING, 0.0, SETTINGS).samples == 1


def test_what_is_reported_is_what_goes_on() -> None:
    known = PodUseHistory(5.0, 7, 4.0, UseMoments(100.0, 400.0, 90, 130.0), UseMoments(50.0, 0.0, 50, 50.0))
    told = reported(known)
    assert told == ReportedHistory(7, 4.0, UseSpread(100.0, 10.0, 130.0), UseSpread(50.0, 0.0, 50.0))
    assert continued(told, Use(90, 50), 5.0) == known
    assert continued(told, Use(140, 50), 9.0).cpu.highest == 140.0
    assert continued(told, Use(140, 50), 9.0).at_s == 9.0
    odd = PodUseHistory(5.0, 1, 1.0, UseMoments(-1e-9, -1e-9, 0, -1e-9), UseMoments(0.0, 0.0, 0, 0.0))
    assert reported(odd).cpu == UseSpread(0.0, 0.0, 0.0)


def test_an_agent_forgets_pods_that_it_no_longer_measures() -> None:
    pods = PodHistories(SETTINGS)
    assert set(pods.measured({"a": Use(1, 1), "b": Use(2, 2)}, 0.0)) == {"a", "b"}
    assert pods.measured({"a": Use(1, 1)}, 60.0)["a"].samples == 2
    found = pods.measured({"a": Use(1, 1), "b": Use(2, 2)}, 120.0)
    assert (found["a"].samples, found["b"].samples) == (3, 1)
    assert PodHistories().measured({"a": Use(1, 1)}, 0.0)["a"].weight == 1.0


def test_a_request_is_of_every_class() -> None:
    requests = Amounts.of({CPU_NAME: 1000, BATCH_CPU: 200, MID_CPU: 30, MEMORY_NAME: 5, BATCH_MEMORY: 6})
    assert requested_use(requests) == Use(1230, 11)
    assert is_lent_to(requests)
    assert not is_lent_to(Amounts.of({CPU_NAME: 1000, BATCH_CPU: 0}))
    assert is_lent_to(Amounts.of({BATCH_MEMORY: 1}))


@pytest.mark.parametrize(
    "wrong",
    [
        {"risk": 0.0},
        {"risk": 0.5},
        {"half_life_s": 0.0},
        {"half_life_s": float("inf")},
        {"stale_s": -1.0},
        {"prior_samples": -0.1},
        {"prior_samples": float("nan")},
        {"cpu_limit_pct": 0},
        {"cpu_limit_pct": 1001},
        {"memory_limit_pct": True},
        {"memory_limit_pct": 50.0},
    ],
)
def test_settings_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    (name,) = wrong
    with pytest.raises(InvalidInput, match=f"predicted use: {name}"):
        PredictedUseSettings(**wrong)  # type: ignore[arg-type]


def test_settings_at_their_ends_are_taken() -> None:
    PredictedUseSettings(risk=0.499, prior_samples=0.0, cpu_limit_pct=1, memory_limit_pct=1000, half_life_s=0.1)
    assert PredictedUseSettings(risk=ONE_SIGMA).sigmas == pytest.approx(1.0)
    assert PredictedUseSettings(risk=0.01).sigmas == pytest.approx(2.3263, abs=1e-4)


def test_a_measurement_is_stale_after_three_report_intervals_or_the_stated_time() -> None:
    assert (SETTINGS.expires_s(30), SETTINGS.expires_s(60), SETTINGS.expires_s(100)) == (180.0, 180.0, 300.0)
