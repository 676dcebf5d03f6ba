"""How much a pod will use, from what it requests, what was estimated of it, and how good such estimates have proved.

Problem: fitting by estimates lends what is idle, but when estimates are half wrong it overfills nodes and everybody suffers. Choice:
empirical Bayes in logarithms. From the shapes whose use has been measured we know how use relates to requests (a prior with mean and spread)
and how far estimates miss (a bias and a spread); an unmeasured shape's use is the posterior between its estimate and the prior, so good
estimates are believed and bad ones are not. Limits: log-normal errors that are alike for all shapes; a measured shape is taken at its measurement.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cotenant.model.arrays import Float

ENOUGH_SHAPES = 20  # below this many measured shapes, estimates are taken as they are


@dataclass(frozen=True, slots=True)
class Calibration:
    """In natural logarithms."""

    prior_mean: float  # of use / request
    prior_sd: float
    bias: float  # mean of estimate / use
    error_sd: float  # sd of estimate / use
    shapes: int  # measured


def calibrate(request: Float, estimate: Float, measured: Float) -> Calibration:
    """From measured shapes, aligned columns in one unit. Zero entries are left out."""
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
    told = np.log(safe_estimate / safe_request) - calibration.bias
    centre = calibration.prior_mean + trust * (told - calibration.prior_mean)
    spread = np.sqrt(prior * (1.0 - trust))
    return np.where(known, safe_request * np.exp(centre + caution * spread), estimate)
