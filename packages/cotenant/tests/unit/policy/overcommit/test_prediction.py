"""How much pods will use: good estimates are believed, bad ones are not."""

from statistics import NormalDist

import numpy as np
import pytest

from cotenant.policy.overcommit.prediction import ENOUGH_SHAPES, UNCALIBRATED, calibrate, lent_cap, predict, shrink


def world(error_sd: float, shapes: int = 4000, seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    request = rng.choice([1.0, 2.0, 8.0], shapes)
    use = request * rng.lognormal(np.log(0.7), 0.35, shapes)
    return request, use, use * rng.lognormal(0.0, error_sd, shapes)


def test_calibration_finds_the_spreads_that_made_the_estimates() -> None:
    request, use, estimate = world(0.5)
    found = calibrate(request, estimate, use)
    assert found.prior_mean == pytest.approx(np.log(0.7), abs=0.02)
    assert found.prior_sd == pytest.approx(0.35, abs=0.02)
    assert found.bias == pytest.approx(0.0, abs=0.03)
    assert found.error_sd == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("error", [0.2, 0.5, 1.0])
def test_a_prediction_misses_less_than_the_estimate_and_than_the_request_based_prior(error: float) -> None:
    request, use, estimate = world(error)
    half = len(use) // 2
    calibration = calibrate(request[:half], estimate[:half], use[:half])
    predicted = predict(request[half:], estimate[half:], calibration, 0.0)

    def miss(values: np.ndarray) -> float:
        return float(np.std(np.log(values / use[half:])))

    assert miss(predicted) < miss(estimate[half:])
    assert miss(predicted) < miss(0.7 * request[half:])


def test_a_biased_estimate_is_corrected() -> None:
    request, use, estimate = world(0.1)
    calibration = calibrate(request, 3.0 * estimate, use)
    predicted = predict(request, 3.0 * estimate, calibration, 0.0)
    assert np.median(predicted / use) == pytest.approx(1.0, abs=0.03)


def test_caution_raises_predictions_more_the_less_is_known() -> None:
    request, use, estimate = world(1.0)
    calibration = calibrate(request, estimate, use)
    plain, careful = (predict(request, estimate, calibration, caution) for caution in (0.0, 1.0))
    assert (careful > 1.2 * plain).all()
    request, use, estimate = world(0.05)
    sure = calibrate(request, estimate, use)
    assert (predict(request, estimate, sure, 1.0) < 1.1 * predict(request, estimate, sure, 0.0)).all()


def test_requests_count_until_enough_shapes_have_been_measured() -> None:
    """Raw estimates overfilled nodes in the first minutes: at an error of sd 1 they were believed before anything
    had been measured.
    """
    request, use, estimate = world(1.0, ENOUGH_SHAPES - 1)
    np.testing.assert_array_equal(predict(request, estimate, calibrate(request, estimate, use), 1.0), request)
    np.testing.assert_array_equal(predict(request, estimate, UNCALIBRATED, 1.0), request)
    assert calibrate(request[:1], estimate[:1], use[:1]).shapes == 1


@pytest.mark.parametrize("error", [0.2, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("caution", [0.0, 0.25, 1.0])
def test_the_stated_risk_holds_and_sums_are_not_understated(error: float, caution: float) -> None:
    request, use, estimate = world(error, 20_000)
    half = len(use) // 2
    found = calibrate(request[:half], estimate[:half], use[:half])
    predicted = predict(request[half:], estimate[half:], found, caution)
    spread = found.prior_sd * np.sqrt(1.0 - found.trust)
    stated = 1.0 - NormalDist().cdf(caution + 0.5 * spread)
    assert (use[half:] > predicted).mean() == pytest.approx(stated, abs=0.02)
    assert predicted.sum() > 0.98 * use[half:].sum()


@pytest.mark.parametrize("error", [0.2, 0.5, 1.0, 2.0])
def test_declared_peaks_of_services_miss_less_when_shrunk_and_keep_their_level(error: float) -> None:
    rng = np.random.default_rng(3)
    request = rng.choice([2.0, 4.0, 8.0], 2000)
    peak = request * rng.uniform(0.35, 0.60, 2000)
    declared = peak * rng.lognormal(0.0, error, 2000)
    now = 0.5 * peak * rng.lognormal(0.0, 0.1, 2000)  # in the morning
    shrunk = shrink(request, declared, calibrate(request, declared, now))
    assert np.std(np.log(shrunk / peak)) < np.std(np.log(declared / peak))
    assert np.median(shrunk / peak) == pytest.approx(1.0, abs=0.1)
    assert shrunk.sum() == pytest.approx(peak.sum(), rel=0.12)


def test_declared_peaks_count_at_most_their_request_until_enough_has_been_measured() -> None:
    request, declared = np.array([2.0, 2.0, 0.0]), np.array([1.0, 9.0, 3.0])
    assert shrink(request, declared, UNCALIBRATED).tolist() == [1.0, 2.0, 3.0]


def test_zero_estimates_stay_zero() -> None:
    request, use, estimate = world(0.5)
    calibration = calibrate(request, estimate, use)
    assert predict(np.array([1.0, 0.0]), np.array([0.0, 2.0]), calibration, 0.0).tolist() == [0.0, 2.0]


def test_lending_grows_from_none_to_the_cap_with_the_trust_in_estimates() -> None:
    assert (lent_cap(1.57, 0.0), lent_cap(1.57, 1.0)) == (1.0, pytest.approx(1.57))
    assert lent_cap(1.57, 0.5) == pytest.approx(1.285)
    request, use, _ = world(0.2)
    trusts = []
    for error in (0.05, 0.2, 0.5, 1.0, 2.0):
        estimate = use * np.random.default_rng(9).lognormal(0.0, error, len(use))
        trusts.append(calibrate(request, estimate, use).trust)
    assert trusts == sorted(trusts, reverse=True)
    assert trusts[0] > 0.95
    assert trusts[-1] < 0.05
