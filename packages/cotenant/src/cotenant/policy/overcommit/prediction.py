"""Prediction of a pod's use from its request, its estimate, and the measured accuracy of estimates.

Fitting by estimates lends idle capacity, but with inaccurate estimates it overfills nodes and all pods slow down.
Requests count until enough shapes have been measured. Then empirical Bayes in logarithms: the measured shapes show how
use relates to requests (a prior with mean and spread) and how far estimates deviate (a bias and a spread); an
unmeasured shape's use is a quantile of the posterior between its estimate and the prior, so accurate estimates have a
high weight and inaccurate ones a low weight, and requests may exceed a node in proportion to that weight (`lent_cap`).
The quantile states the risk: with `caution` c a shape uses more than is predicted with probability 1 - Phi(c + sd / 2),
at most 1 - Phi(c), 40 % for the default 0.25; the sd / 2 makes the sum over many shapes unbiased at c = 0.
Limits: log-normal errors, equal for all shapes; a measured shape uses its measurement.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cotenant.model.arrays import Float

ENOUGH_SHAPES = 20  # with fewer measured shapes requests count, not estimates


@dataclass(frozen=True, slots=True)
class Calibration:
    """Parameters of prior and error, in natural logarithms."""

    prior_mean: float  # of use / request
    prior_sd: float
    bias: float  # mean of estimate / use
    error_sd: float  # sd of estimate / use
    shapes: int  # measured

    @property
    def is_enough(self) -> bool:
        """Whether enough shapes have been measured to believe estimates at all."""
        return self.shapes >= ENOUGH_SHAPES

    @property
    def trust(self) -> float:
        """Weight of an estimate against the prior, 0..1."""
        prior, error = self.prior_sd**2, self.error_sd**2
        return prior / (prior + error) if prior + error > 0 else 1.0


def lent_cap(cap: float, trust: float) -> float:
    """The largest requested share of a node when estimates have this trust: lending beyond the node's capacity grows
    with it, from 1 (requests must fit) to `cap`.

    Scores use estimates too; where those are wrong, nothing but the requests keeps batch from crowding on nodes that
    only look calm.
    """
    return 1.0 + (cap - 1.0) * trust


UNCALIBRATED = Calibration(0.0, 0.0, 0.0, 0.0, 0)


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
    """Predicted use of unmeasured shapes: posterior mean times exp(`caution` x posterior sd), requests before
    calibration. Zero estimates stay zero.
    """
    known = (request > 0) & (estimate > 0)
    if not calibration.is_enough:
        return np.where(known, request, estimate)
    trust = calibration.trust
    safe_request, safe_estimate = np.where(known, request, 1.0), np.where(known, estimate, 1.0)
    corrected = np.log(safe_estimate / safe_request) - calibration.bias
    centre = calibration.prior_mean + trust * (corrected - calibration.prior_mean)
    spread = calibration.prior_sd * np.sqrt(1.0 - trust)
    return np.where(known, safe_request * np.exp(centre + (caution + 0.5 * spread) * spread), estimate)


def shrink(request: Float, declared: Float, calibration: Calibration) -> Float:
    """Declared peaks of services, drawn to their common share of the request as far as measurements show that
    declarations are inaccurate.

    A few windows do not show a daily peak, so measured use calibrates the weight and not the level. At most the request
    before calibration.
    """
    known = (request > 0) & (declared > 0)
    if not calibration.is_enough or not known.any():
        return np.where(known, np.minimum(declared, request), declared)
    safe_request = np.where(known, request, 1.0)
    share = np.log(np.where(known, declared, 1.0) / safe_request)
    common = float(share[known].mean())
    return np.where(known, safe_request * np.exp(common + calibration.trust * (share - common)), declared)
