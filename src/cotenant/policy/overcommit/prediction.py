"""Prediction of a pod's use from its request, its estimate, and the measured accuracy of estimates.

Problem: fitting by estimates lends idle capacity, but with inaccurate estimates it overfills nodes and all pods slow down. Choice:
empirical Bayes in logarithms. The shapes with measured use show how use relates to requests (a prior with mean and spread)
and how far estimates deviate (a bias and a spread); an unmeasured shape's use is the posterior between its estimate and the prior, so accurate
estimates have a high weight and inaccurate ones a low weight. Limits: log-normal errors, equal for all shapes; a measured shape uses its measurement.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cotenant.model.arrays import Float

ENOUGH_SHAPES = 20  # with fewer measured shapes, estimates are used unchanged


@dataclass(frozen=True, slots=True)
class Calibration:
    """Parameters of prior and error, in natural logarithms."""

    prior_mean: float  # of use / request
    prior_sd: float
    bias: float  # mean of estimate / use
    error_sd: float  # sd of estimate / use
    shapes: int  # measured


def calibrate(request: Float, estimate: Float, measured: Float) -> Calibration:
    """Calibrate from measured shapes, aligned columns in one unit. Rows with a zero are ignored."""
    known = (request > 0) & (estimate > 0) & (measured > 0)
    if known.sum() < 2:
        return Calibration(0.0, 0.0, 0.0, 0.0, int(known.sum()))
    ratio = np.log(measured[known] / request[known])
    miss = np.log(estimate[known] / measured[known])
    return Calibration(
        float(ratio.mean()), float(ratio.std(ddof=1)), float(miss.mean()), float(miss.std(ddof=1)), int(known.sum())
    )


def predict(request: Float, estimate: Float, calibration: Calibration, caution: float) -> Float:
    """Predicted use of unmeasured shapes: posterior median times exp(`caution` x posterior sd). Zero estimates stay zero."""
    if calibration.shapes < ENOUGH_SHAPES:
        return estimate.copy()
    prior, error = calibration.prior_sd**2, calibration.error_sd**2
    trust = prior / (prior + error) if prior + error > 0 else 1.0
    known = (request > 0) & (estimate > 0)
    safe_request, safe_estimate = np.where(known, request, 1.0), np.where(known, estimate, 1.0)
    corrected = np.log(safe_estimate / safe_request) - calibration.bias
    centre = calibration.prior_mean + trust * (corrected - calibration.prior_mean)
    spread = np.sqrt(prior * (1.0 - trust))
    return np.where(known, safe_request * np.exp(centre + caution * spread), estimate)
