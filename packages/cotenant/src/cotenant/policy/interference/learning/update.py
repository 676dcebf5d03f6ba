"""The update of learned interference by one round of windows. Compiled; `observe.py_func` is the plain form.

Every window of every measured pod says something about its own application and about each pod beside it, several
hundred thousand times a day. An extended Kalman step per window, linear in the number of pods on the node: three
parameters of the pod's application with their full covariance, one pressure per neighbour, one global factor. The state
is changed in place, in the order of the windows, so equal rounds give equal states.
Limits: the covariances between a pod's sensitivity and its neighbours' pressures are dropped; an outlier is cut, not
removed.
"""

from __future__ import annotations

from math import exp, isnan, log, sqrt

import numpy as np

from cotenant.model.arrays import Float, Int, Mask
from cotenant.model.compiled import inlined, njit
from cotenant.policy.interference.learning.model import LearningColumn, LearningRound, LearningSettings

_LEVEL, _SENSITIVITY, _COVARIANCE = (
    int(LearningColumn.LEVEL),
    int(LearningColumn.SENSITIVITY),
    int(LearningColumn.COVARIANCE),
)
_PRESSURE, _PRESSURE_VARIANCE = int(LearningColumn.PRESSURE), int(LearningColumn.PRESSURE_VARIANCE)
_LOAD, _PEAK, _SEEN = int(LearningColumn.LOAD), int(LearningColumn.PEAK), int(LearningColumn.SEEN_S)
_WINDOWS, _NEIGHBOUR_WINDOWS = int(LearningColumn.WINDOWS), int(LearningColumn.NEIGHBOUR_WINDOWS)
_A0, _VA0 = int(LearningColumn.PRIOR_SENSITIVITY), int(LearningColumn.PRIOR_SENSITIVITY_VARIANCE)
_LEVEL0, _VLEVEL0 = int(LearningColumn.PRIOR_LEVEL), int(LearningColumn.PRIOR_LEVEL_VARIANCE)
_B0, _VB0 = int(LearningColumn.PRIOR_PRESSURE), int(LearningColumn.PRIOR_PRESSURE_VARIANCE)

# columns of `LearningSettings.array()`
_NOISE, _OUTLIER, _MAX_LOAD, _MEMORY, _LONGEST, _QUEUE0, _VQUEUE0, _LOAD_WEIGHT = range(8)
_MAX_RATIO = 0.97


@inlined
def waiting(cores: float, load: float) -> float:
    """log of how much a queue of `cores` servers lengthens the time in it at `load` (share of the servers in use);
    Sakasegawa's approximation.
    """
    servers = max(cores, 1.0)
    load = min(max(load, 0.0), _MAX_RATIO)
    return log(1.0 + load ** (sqrt(2.0 * (servers + 1.0)) - 1.0) / (servers * (1.0 - load)))


@njit
def forget(table: Float, row: int, now_s: float, settings: Float) -> None:
    """Let a row's means return to its prior for the time since its last observation; a clock that went back forgets
    nothing.
    """
    before = table[row, _SEEN]
    table[row, _SEEN] = now_s
    if isnan(before) or now_s <= before:
        return
    keep = exp(-min(now_s - before, settings[_LONGEST]) / settings[_MEMORY])
    table[row, _LEVEL] = table[row, _LEVEL0] + keep * (table[row, _LEVEL] - table[row, _LEVEL0])
    table[row, _LEVEL + 1] = settings[_QUEUE0] + keep * (table[row, _LEVEL + 1] - settings[_QUEUE0])
    table[row, _SENSITIVITY] = table[row, _A0] + keep * (table[row, _SENSITIVITY] - table[row, _A0])
    for i in range(9):
        table[row, _COVARIANCE + i] *= keep * keep
    grown = 1.0 - keep * keep
    table[row, _COVARIANCE] += grown * table[row, _VLEVEL0]
    table[row, _COVARIANCE + 4] += grown * settings[_VQUEUE0]
    table[row, _COVARIANCE + 8] += grown * table[row, _VA0]
    table[row, _PRESSURE] = table[row, _B0] + keep * (table[row, _PRESSURE] - table[row, _B0])
    table[row, _PRESSURE_VARIANCE] = keep * keep * table[row, _PRESSURE_VARIANCE] + grown * table[row, _VB0]
    table[row, _PEAK] *= keep


@njit
def observe(
    table: Float,
    sibling: Float,
    first: Int,
    node_cores: Float,
    row: Int,
    signal: Float,
    use: Float,
    cores: Float,
    weight: Float,
    queues: Mask,
    now_s: float,
    settings: Float,
) -> int:
    """Update `table` and `sibling` (mean and variance) in place by a `LearningRound`; returns the number of windows
    that were used.
    """
    h = np.zeros(3)
    gains = np.zeros(3)
    taken = 0
    for n in range(first.shape[0] - 1):
        low, high = first[n], first[n + 1]
        half = node_cores[n] / 2.0
        total, busy = 0.0, 0.0
        for i in range(low, high):
            forget(table, row[i], now_s, settings)
            total += weight[i] * table[row[i], _PRESSURE] * use[i] / half
            busy += use[i]
        busy = min(1.0, busy / node_cores[n])
        shared = (2.0 * busy - 1.0) / busy if busy > 0.5 else 0.0  # of the threads in use: their sibling is busy
        for i in range(low, high):
            load = use[i] / max(cores[i], 1e-3)
            if isnan(signal[i]) or (queues[i] and load > settings[_MAX_LOAD]):
                continue
            mine = row[i]
            others = max(0.0, total - weight[i] * table[mine, _PRESSURE] * use[i] / half)
            slowed = 1.0 + table[mine, _SENSITIVITY] * others
            h[0] = 1.0
            h[1] = waiting(cores[i], load) if queues[i] else 0.0
            h[2] = others / slowed
            expected = log(slowed) + sibling[0] * shared
            spread = settings[_NOISE] + sibling[1] * shared * shared
            expected += table[mine, _LEVEL] + table[mine, _LEVEL + 1] * h[1]
            for a in range(3):
                gains[a] = 0.0
                for b in range(3):
                    gains[a] += table[mine, _COVARIANCE + 3 * a + b] * h[b]
                spread += h[a] * gains[a]
            slope = table[mine, _SENSITIVITY] / slowed / half
            for j in range(low, high):
                if j != i:
                    felt = slope * weight[j] * use[j]
                    spread += felt * felt * table[row[j], _PRESSURE_VARIANCE]
            most = settings[_OUTLIER] * sqrt(spread)
            missed = min(max(signal[i] - expected, -most), most)
            for a in range(3):
                table[mine, _LEVEL + a] += gains[a] / spread * missed
                for b in range(3):
                    table[mine, _COVARIANCE + 3 * a + b] -= gains[a] * gains[b] / spread
            table[mine, _LEVEL + 1] = max(0.0, table[mine, _LEVEL + 1])
            table[mine, _SENSITIVITY] = max(0.0, table[mine, _SENSITIVITY])
            table[mine, _WINDOWS] += 1.0
            gain = sibling[1] * shared / spread
            sibling[0] = max(0.0, sibling[0] + gain * missed)
            sibling[1] -= gain * shared * sibling[1]
            for j in range(low, high):
                if j == i:
                    continue
                felt = slope * weight[j] * use[j]
                theirs = row[j]
                gain = table[theirs, _PRESSURE_VARIANCE] * felt / spread
                table[theirs, _PRESSURE] = max(0.0, table[theirs, _PRESSURE] + gain * missed)
                table[theirs, _PRESSURE_VARIANCE] -= gain * felt * table[theirs, _PRESSURE_VARIANCE]
                table[theirs, _NEIGHBOUR_WINDOWS] += 1.0
            taken += 1
    _loads(table, row, use, cores, queues, signal, settings)
    return taken


@njit
def _loads(table: Float, row: Int, use: Float, cores: Float, queues: Mask, signal: Float, settings: Float) -> None:
    """Smooth each application's mean load, and keep its highest."""
    count = np.zeros(table.shape[0])
    total = np.zeros(table.shape[0])
    for i in range(row.shape[0]):
        if queues[i] and not isnan(signal[i]):
            count[row[i]] += 1.0
            total[row[i]] += use[i] / max(cores[i], 1e-3)
    for i in range(row.shape[0]):
        k = row[i]
        if count[k] > 0.0:
            mean = total[k] / count[k]
            kept = table[k, _LOAD]
            table[k, _LOAD] = mean if isnan(kept) else kept + settings[_LOAD_WEIGHT] * (mean - kept)
            table[k, _PEAK] = max(table[k, _PEAK], table[k, _LOAD])
            count[k] = 0.0


def learn(table: Float, sibling: Float, windows: LearningRound, now_s: float, settings: LearningSettings) -> int:
    """`observe` for a `LearningRound`: rows with a use that is not known must have been left out."""
    return observe(table, sibling, *windows, now_s, settings.array())
