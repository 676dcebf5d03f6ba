"""How much pods will use: good estimates are believed, bad ones are not."""

import numpy as np
import pytest

from cotenant.policy.overcommit.prediction import ENOUGH_SHAPES, calibrate, predict


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


def test_too_few_measured_shapes_leave_estimates_alone() -> None:
    request, use, estimate = world(1.0, ENOUGH_SHAPES - 1)
    np.testing.assert_array_equal(predict(request, estimate, calibrate(request, estimate, use), 1.0), estimate)
    assert calibrate(request[:1], estimate[:1], use[:1]).shapes == 1


def test_zero_estimates_stay_zero() -> None:
    request, use, estimate = world(0.5)
    calibration = calibrate(request, estimate, use)
    assert predict(np.array([1.0, 0.0]), np.array([0.0, 2.0]), calibration, 0.0).tolist() == [0.0, 2.0]
