"""Long-running services with a day's curve, like the containers of Alibaba's 2018 contest (Tianchi): seeded, in cores and GB.

Problem: batch traces say nothing of the services that share the machines. Choice: each application's relative curve is
1 + b (cluster - 1) + own, where `cluster` is the measured relative curve of all containers, b how much the application follows it, and
`own` a second-order autoregression with the measured autocorrelation, flattened at its extremes and closed over midnight. The mean is
drawn from the measured distribution over containers, b and the swing of `own` from those of containers of about that mean.
Limits: applications are drawn as containers are distributed, so the real link between an application's size and its CPU (rank
correlation 0.38) is not there; memory is flat at its peak; a container's median peak comes out 15 % low and its 99th percentile high.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.signal import lfilter
from scipy.special import ndtr

from cotenant.lab.workloads import calibration_services as published
from cotenant.lab.workloads.generator import draw, draw_atoms
from cotenant.model.arrays import Float, Int
from cotenant.model.errors import InvalidInput

SAMPLES = len(published.CLUSTER_CURVE)
MOST_APPS = 1_000_000
MOST_CORES = 48.0  # the largest of the real peaks
LEAST_OF_MEAN = 0.15  # no curve falls below this share of its mean; 2.5 % of the real ones do


@dataclass(frozen=True, slots=True)
class Services:
    """A applications; every container of one is alike."""

    containers: Int  # [A]
    cpu_cores: Float  # [A, 98] of one container, over a day
    memory_gb: Float  # [A] of one container
    disk_gb: Float  # [A] of one container

    def cluster_curve(self) -> Float:
        """[98] CPU of all containers over their mean."""
        total = self.containers @ self.cpu_cores
        return total / total.mean()


def generate_services(apps: int, rng: np.random.Generator) -> Services:
    """Draw `apps` applications. Equal generators give equal services. Raises `InvalidInput` for a count that makes no sense."""
    if not 1 <= apps <= MOST_APPS:
        raise InvalidInput("apps", apps, f"1..{MOST_APPS:,}")
    containers = draw(published.CONTAINERS_PER_APP, rng.random(apps)).astype(np.int64)
    cpu_z = rng.standard_normal(apps)
    follows_z = rng.standard_normal(apps)
    own_z = _tied(follows_z, published.OWN_SWING_WITH_FOLLOWING, rng)
    memory_z = _tied(cpu_z, published.MEMORY_WITH_CPU, rng)

    cpu_u = ndtr(cpu_z)
    value, share = np.array(published.CPU_MEAN_CORES).T
    mean = np.interp(cpu_u, share, value)
    tenth = np.minimum((cpu_u * 10).astype(np.int64), 9)
    follows = _by_tenth(published.FOLLOWS_CLUSTER, tenth, ndtr(follows_z))
    swing = _by_tenth(published.OWN_SWING, tenth, ndtr(own_z))
    relative = 1 + follows[:, None] * (np.array(published.CLUSTER_CURVE) - 1) + swing[:, None] * _own_parts(apps, rng)
    relative = np.maximum(relative, LEAST_OF_MEAN)
    relative /= relative.mean(axis=1, keepdims=True)
    return Services(
        containers=containers,
        cpu_cores=np.minimum(mean[:, None] * relative, MOST_CORES),
        memory_gb=draw_atoms(published.MEMORY_PEAK_GB, ndtr(memory_z)),
        disk_gb=draw_atoms(published.DISK_GB, rng.random(apps)),
    )


def _tied(z: Float, rho: float, rng: np.random.Generator) -> Float:
    return rho * z + np.sqrt(1 - rho**2) * rng.standard_normal(len(z))


def _by_tenth(table: tuple[tuple[float, ...], ...], tenth: Int, u: Float) -> Float:
    """The value at share u of each application's tenth by mean CPU."""
    rows = np.array([np.interp(u, published.SHARES, row) for row in table])
    return rows[tenth, np.arange(len(u))]


def _own_parts(apps: int, rng: np.random.Generator) -> Float:
    """[A, 98] of mean 0 and standard deviation 1, with the published autocorrelation, from the Yule-Walker coefficients."""
    lag_1, lag_2 = published.OWN_LAG_1, published.OWN_LAG_2
    first = lag_1 * (1 - lag_2) / (1 - lag_1**2)
    second = (lag_2 - lag_1**2) / (1 - lag_1**2)
    warm = 100
    path = lfilter([1.0], [1.0, -first, -second], rng.standard_normal((apps, warm + SAMPLES + 1)), axis=1)[:, warm:]
    drift = (path[:, -1] - path[:, 0])[:, None] * np.arange(SAMPLES) / SAMPLES
    own = path[:, :-1] - drift  # the next day begins where this one ends
    own = np.tanh(own / own.std(axis=1, keepdims=True))  # real curves are flatter at their tops than a normal process
    own -= own.mean(axis=1, keepdims=True)
    return own / own.std(axis=1, keepdims=True)
