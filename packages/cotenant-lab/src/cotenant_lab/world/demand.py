"""Inputs of a run that do not depend on the scheduler: the services' load by minute, and the nodes' outages.

Both are drawn in advance from the seed, so all policies of a seed get the same load and the same failures.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from cotenant.model.arrays import Float
from cotenant_lab.world.config import WorldConfig
from cotenant_lab.world.records import OUTAGE, Records
from cotenant_lab.world.truth import Truth


def service_load(truth: Truth, config: WorldConfig, rng: np.random.Generator) -> Float:
    """Load of each service's replica in erlangs, by tick: float64[S, ticks to the end of the run + 1].

    A cosine day with its trough at the start, times the exponential of first-order autoregressive noise.
    """
    ticks = int(config.limit_s // config.tick_s) + 2
    day = np.arange(ticks) * config.tick_s / config.horizon_s
    swing, phase = truth.service_swing[:, None], truth.service_phase[:, None]
    shape = 1.0 - swing * 0.5 * (1.0 + np.cos(2.0 * np.pi * (day[None, :] - phase)))
    keep = config.load_noise_memory
    steps = config.load_noise_sd * rng.standard_normal((ticks, len(truth.service_peak)))
    noise = np.empty_like(steps)
    noise[0] = steps[0]
    for i in range(1, ticks):
        noise[i] = keep * noise[i - 1] + sqrt(1.0 - keep * keep) * steps[i]
    return np.ascontiguousarray(truth.service_peak[:, None] * shape * np.exp(noise.T))


def outages(config: WorldConfig, rng: np.random.Generator) -> Records:
    """Node failures within the horizon, Poisson and uniform over nodes, each with its repair, in order of time;
    none while a node is down.
    """
    mean = config.horizon_s / (86_400.0 * config.failure_interval_days) * config.nodes
    n = int(rng.poisson(mean))
    at = np.sort(rng.uniform(0.0, config.horizon_s, n))
    row = rng.integers(0, config.nodes, n)
    if not config.failures:
        n = 0
    back = np.full(config.nodes, -1.0)
    kept: list[tuple[float, int, bool]] = []
    for i in range(n):
        if at[i] > back[row[i]]:
            back[row[i]] = at[i] + config.repair_s
            kept += [(float(at[i]), int(row[i]), False), (float(back[row[i]]), int(row[i]), True)]
    kept.sort()
    return np.array(kept, OUTAGE).view(np.recarray)
