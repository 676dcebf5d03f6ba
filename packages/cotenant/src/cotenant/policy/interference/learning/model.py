"""The model of learned interference: its parameters, priors, forgetting, and how profiles are read from it.

Nobody declares how sensitive an application is and how much pressure it exerts, and both must be estimated from what an
agent measures while the cluster runs. A Bayesian regression that is updated window by window. For a pod i of
application A on a node, in one window:

    log signal_i = level_A + queue_A q(load_i) + sibling h(u) + log(1 + a_A P_i) + noise
    P_i = sum over the other pods j of b_j use_j / half a node

signal is what the pod suffers: its p99 over its objective; or, without requests, time per unit of progress or cycles
per instruction. q is how the waiting time of a queue grows with its own load (Sakasegawa, 1977), so that a busy service
is not taken for a disturbed one; h(u) is the share of hardware threads whose sibling is busy. Level, queue and
sensitivity a have a joint normal posterior per application; pressure b has one of its own, and `sibling` is shared by
all (extended Kalman filter, block-diagonal covariance; update.py). Before data every application has the same prior, or
its declared profile. Without observations means return to the prior and variances grow back, exponentially with
`memory_s`.

Limits: sensitivity x pressure is identified and not the scale of each, which the prior fixes; the law is linear in
pressure, so under another law a profile is the slope where the application usually runs; covariances between
applications are dropped; windows count as independent. Source: Mars et al., Bubble-Up, MICRO'11 (sensitivity and
pressure); Maybeck, Stochastic Models, Estimation and Control I (Kalman filter).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from math import isfinite
from typing import NamedTuple

import numpy as np

from cotenant.model.arrays import Float, Int, Mask
from cotenant.model.cluster.interference_profile import InterferenceProfile
from cotenant.model.errors import InvalidInput

SMALLEST_RATIO, LARGEST_RATIO = 1e-3, 1e3  # signals outside are refused as absurd
_TOLERANCE_STEPS = 12  # of the fixed point that gives the tolerated slowdown; it contracts by one half each
_MAX_TOLERATED = 4.0
_MAX_LOAD = 0.97


class LearningColumn(IntEnum):
    """Columns of the table: one row per application."""

    LEVEL = 0  # log of the signal alone and without load
    QUEUE = 1
    SENSITIVITY = 2
    COVARIANCE = 3  # 9 columns: of level, queue and sensitivity, row by row
    PRESSURE = 12
    PRESSURE_VARIANCE = 13
    LOAD = 14  # smoothed mean use / requested cores of its pods; NaN = none yet
    PEAK = 15  # the highest of those
    SEEN_S = 16  # time of its last observation; NaN = none yet
    WINDOWS = 17
    NEIGHBOUR_WINDOWS = 18
    PRIOR_SENSITIVITY = 19
    PRIOR_SENSITIVITY_VARIANCE = 20
    PRIOR_PRESSURE = 21
    PRIOR_PRESSURE_VARIANCE = 22
    DECLARED = 23  # 1 or 0
    PRIOR_LEVEL = 24
    PRIOR_LEVEL_VARIANCE = 25


COLUMNS = len(LearningColumn) + 8  # the covariance has nine


@dataclass(frozen=True, slots=True)
class LearningSettings:
    """Priors and noise. Standard deviations in the unit of the parameter. Raises `InvalidInput` for a value that is
    not positive.
    """

    sensitivity: float = 0.4  # published pairs slow down by 1.11 to 1.21 on average: the product of both is about 0.12
    sensitivity_sd: float = 0.35
    pressure: float = 0.3
    pressure_sd: float = 0.3
    declared_sd: float = 0.3  # of a declared value, relative to it ...
    declared_least_sd: float = 0.05  # ... and at least this
    level: float = -0.7  # of p99 over objective: objectives are customarily about twice the p99 alone
    level_sd: float = 0.5
    other_level: float = 0.0  # of the signals of pods without requests, in a unit of their own
    other_level_sd: float = 0.7
    queue: float = 1.0
    queue_sd: float = 0.5
    sibling: float = 0.4
    sibling_sd: float = 0.1
    noise_sd: float = 0.085  # of a window's log signal, with what the model leaves out
    outlier: float = 3.0  # innovations beyond this many standard deviations are cut
    max_load: float = 0.92  # windows of a queue closer to saturation say nothing about neighbours
    memory_s: float = 3 * 86_400.0
    longest_step_s: float = 7 * 86_400.0  # a clock that jumps ahead makes the model forget no more than this
    load_weight: float = 0.2  # of a new window in the smoothed load

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if not isfinite(value) or (value <= 0 and name not in ("level", "other_level")):
                raise InvalidInput(f"learning.{name}", value, "a finite number above 0")

    def array(self) -> Float:
        """What the compiled update reads, in the order of `update.Setting`."""
        return np.array(
            [
                self.noise_sd**2,
                self.outlier,
                self.max_load,
                self.memory_s,
                self.longest_step_s,
                self.queue,
                self.queue_sd**2,
                self.load_weight,
            ]
        )


def start(
    table: Float,
    row: int,
    settings: LearningSettings,
    sensitivity: float | None = None,
    pressure: float | None = None,
    queues: bool = True,
) -> None:
    """Set a row to the prior, in place. A declared value is the mean of its prior, None = not declared. `queues`:
    its signal is a latency.
    """
    level, level_sd = (settings.level, settings.level_sd) if queues else (settings.other_level, settings.other_level_sd)
    line = table[row]
    line[:] = 0.0
    a, a_sd = _prior(sensitivity, settings.sensitivity, settings.sensitivity_sd, settings)
    b, b_sd = _prior(pressure, settings.pressure, settings.pressure_sd, settings)
    line[LearningColumn.LEVEL], line[LearningColumn.QUEUE], line[LearningColumn.SENSITIVITY] = level, settings.queue, a
    for i, sd in enumerate((level_sd, settings.queue_sd, a_sd)):
        line[LearningColumn.COVARIANCE + 4 * i] = sd * sd
    line[LearningColumn.PRESSURE], line[LearningColumn.PRESSURE_VARIANCE] = b, b_sd * b_sd
    line[LearningColumn.LOAD] = line[LearningColumn.SEEN_S] = np.nan
    line[LearningColumn.PRIOR_SENSITIVITY], line[LearningColumn.PRIOR_SENSITIVITY_VARIANCE] = a, a_sd * a_sd
    line[LearningColumn.PRIOR_PRESSURE], line[LearningColumn.PRIOR_PRESSURE_VARIANCE] = b, b_sd * b_sd
    line[LearningColumn.PRIOR_LEVEL], line[LearningColumn.PRIOR_LEVEL_VARIANCE] = level, level_sd * level_sd
    line[LearningColumn.DECLARED] = float(sensitivity is not None or pressure is not None)


def _prior(declared: float | None, mean: float, sd: float, settings: LearningSettings) -> tuple[float, float]:
    if declared is None:
        return mean, sd
    return declared, max(settings.declared_least_sd, settings.declared_sd * declared)


def tolerated(table: Float, cores: Float) -> Float:
    """By row: the slowdown by others, 1 to 4, at which the p99 just meets the objective at the application's highest
    load so far.

    `cores`: requested by one pod of it, aligned with `table`. 4 where no load was seen.
    """
    level, queue, peak = table[:, LearningColumn.LEVEL], table[:, LearningColumn.QUEUE], table[:, LearningColumn.PEAK]
    slowdown = np.ones(len(table))
    servers = np.maximum(cores, 1.0)
    power = np.sqrt(2.0 * (servers + 1.0)) - 1.0
    for _ in range(_TOLERANCE_STEPS):  # a slower service also queues longer
        load = np.minimum(peak * slowdown, _MAX_LOAD)
        waits = np.log1p(load**power / (servers * (1.0 - load)))
        slowdown = 0.5 * slowdown + 0.5 * np.exp(-(level + queue * waits))
        slowdown = np.minimum(np.maximum(slowdown, 1.0), _MAX_TOLERATED)
    return np.where(peak > 0.0, slowdown, _MAX_TOLERATED)


def profile(line: Float, allowance: float) -> InterferenceProfile:
    """One row as a value. `allowance` as from `tolerated` less 1, infinite where it is not known."""
    return InterferenceProfile(
        sensitivity=float(line[LearningColumn.SENSITIVITY]),
        sensitivity_sd=float(np.sqrt(max(0.0, line[LearningColumn.COVARIANCE + 8]))),
        pressure=float(line[LearningColumn.PRESSURE]),
        pressure_sd=float(np.sqrt(max(0.0, line[LearningColumn.PRESSURE_VARIANCE]))),
        allowance=allowance,
        windows=int(line[LearningColumn.WINDOWS]),
        neighbour_windows=int(line[LearningColumn.NEIGHBOUR_WINDOWS]),
        declared=bool(line[LearningColumn.DECLARED]),
    )


def usable(signal: Float, use: Float, cores: Float) -> tuple[Float, Float]:
    """Logarithms of the signals, and uses in cores; NaN where a value is absent, not finite or absurd (`use` beyond
    4 times the request and 4 cores).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        sane = np.isfinite(signal) & (signal >= SMALLEST_RATIO) & (signal <= LARGEST_RATIO)
        logs = np.where(sane, np.log(np.where(sane, signal, 1.0)), np.nan)
        used = np.isfinite(use) & (use >= 0.0) & (use <= np.maximum(4.0, 4.0 * cores))
    return logs, np.where(used, use, np.nan)


class LearningRound(NamedTuple):
    """One round of windows of N nodes; their pods are adjacent: those of node n are `first[n] .. first[n + 1] - 1`."""

    first: Int  # [N + 1]
    node_cores: Float  # [N] capacity
    row: Int  # [P] of the table
    signal: Float  # [P] log of what it suffers, NaN = not measured
    use: Float  # [P] cores in use
    cores: Float  # [P] requested
    weight: Float  # [P] share of its pressure that reaches the others: less than 1 behind a cache partition
    queues: Mask  # [P] whether the signal is a latency, which grows with the pod's own load
