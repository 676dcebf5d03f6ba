"""What agents can know of a window: a sample percentile instead of the true one, and reports that are late or lost.
Compiled.

A scheduler that reads the world's exact p99, or the very flag that the metric counts, looks more certain than one on
real nodes. A replica's p99 is the sample percentile of the requests of its window. The k-th of n order statistics of
uniform variables has a Beta(k, n + 1 - k) distribution (David and Nagaraja, Order Statistics); it is drawn by Wilson
and Hilferty's approximation of the gamma distribution and mapped through the replica's own sojourn-time distribution. A
node's measurements of one minute are lost, or arrive with the next minute's round in place of that one's. Random
numbers are a hash of seed, minute and pod, so every policy of a seed gets the same errors.
Limits: requests are independent (near saturation successive ones are not, so the true error is larger); the tail is
taken as exponential around the p99, exact to a few percent from 100 requests a window on; which services report nothing
at all is not modelled.
"""

from __future__ import annotations

from math import ceil, cos, log, pi, sqrt

import numpy as np

from cotenant.model.compiled import njit
from cotenant_lab.world.latency import TAIL

ON_TIME, LATE, LOST = range(3)
LATENCY_STREAM, DELIVERY_STREAM = 1, 2
_SMALLEST = 1e-9


@njit
def uniform(seed: int, minute: int, number: int, stream: int) -> float:
    """A uniform variable in (0, 1), the same for equal arguments (the finaliser of SplitMix64: Steele, Lea and
    Flood, OOPSLA'14).
    """
    x = np.uint64(seed) * np.uint64(0xD1B54A32D192ED03) + np.uint64(minute) * np.uint64(0x9E3779B97F4A7C15)
    x = (
        (x ^ (x >> np.uint64(32))) * np.uint64(0xBF58476D1CE4E5B9)
        + np.uint64(number) * np.uint64(8)
        + np.uint64(stream)
    )
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = x ^ (x >> np.uint64(31))
    return (float(x >> np.uint64(11)) + 0.5) / 9007199254740992.0


@njit
def standard_normal(seed: int, minute: int, number: int, stream: int) -> float:
    """A standard normal variable (Box and Muller), the same for equal arguments. Uses `stream` and `stream + 4`."""
    radius = sqrt(-2.0 * log(uniform(seed, minute, number, stream)))
    return radius * cos(2.0 * pi * uniform(seed, minute, number, stream + 4))


@njit
def sampled_tail(requests: int, z: float) -> float:
    """The true share of requests beyond the sample p99 of `requests` (1 or more): 1 - Beta(k, n + 1 - k) at the
    normal score `z`.
    """
    beyond = requests + 1.0 - ceil((1.0 - TAIL) * requests)
    cube = 1.0 - 1.0 / (9.0 * beyond) + z * sqrt((1.0 - beyond / (requests + 1.0)) / (9.0 * beyond))
    return min(1.0, max(_SMALLEST, beyond * cube * cube * cube / (requests + 1.0)))


@njit
def sampled_p99(high: float, decay: float, requests: int, z: float) -> float:
    """The sample p99 of a window; `high` is the true p99 and `decay` the slope of -log P(T > x) there, in one unit
    of time.
    """
    return max(0.0, high + log(TAIL / sampled_tail(requests, z)) / decay)


@njit
def delivery(seed: int, minute: int, node: int, lost: float, late: float) -> int:
    """Whether a node's measurements of this minute arrive: ON_TIME, LATE or LOST."""
    u = uniform(seed, minute, node, DELIVERY_STREAM)
    if u < lost:
        return LOST
    return LATE if u < lost + late else ON_TIME
