"""Evidence that a replica misses its objective, from windows whose p99 is a sample.

The p99 of a window is an order statistic of its requests, so a replica near its objective is above it in half of its
windows; counting windows above the objective moves replicas that meet it, and a move costs a minute of service. A
cumulative sum (Page, Biometrika 1954) of the standardised log ratio of p99 to objective. The standard error is that of
the order statistic for a tail that is exponential beyond the p99, 1 / (ln 100 sqrt(0.01 n)), and an allowance for what
the sample does not show. A window counts at most `CLIP` standard errors, so one outlier never suffices, and `DRIFT` is
subtracted from each, so a replica that is just at its objective gathers nothing for long.
Limits: heavy-tailed services have a larger error than is assumed here; windows count as independent.
"""

from __future__ import annotations

from math import log

import numpy as np

from cotenant.model.arrays import Float, Int

CLIP = 3.0  # standard errors that one window counts at most
DRIFT = 0.5  # standard errors subtracted from each window
CLEAR = CLIP - DRIFT  # evidence of one clear miss
_TAIL = 0.01
_SHAPE = log(1.0 / _TAIL)  # p99 over the scale of an exponential tail
_SMALLEST = 1e-6


def standard_error(requests: Int, noise: float) -> Float:
    """Standard error of the log of a window's p99, by its number of requests; `noise` is a relative error besides
    that of the sample.
    """
    beyond = np.maximum(1.0, _TAIL * requests)
    return np.asarray(np.sqrt(1.0 / (_SHAPE * _SHAPE * beyond) + noise * noise))


def evidence(before: Float, p99_ratio: Float, requests: Int, noise: float) -> Float:
    """Evidence after one more window: `before`, p99 over objective and the number of requests, aligned. 0 = none,
    `CLEAR` for each clear miss.
    """
    score = np.log(np.maximum(p99_ratio, _SMALLEST)) / standard_error(requests, noise)
    return np.asarray(np.maximum(0.0, before + np.clip(score, -CLIP, CLIP) - DRIFT))
