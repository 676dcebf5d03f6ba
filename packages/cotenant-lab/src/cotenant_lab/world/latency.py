"""Request latency of a service: M/M/c, first come first served.

A service's p99 depends on its load and on its slowdown by neighbours, evaluated thousands of times per simulated
minute. The exact sojourn-time distribution of M/M/c (Erlang C; e.g. Kleinrock, Queueing Systems I), so a window is
judged by P(T > objective) without finding a root; a slowdown s stretches every service time.
Limits: exponential service times (C^2 = 1) and FCFS workers; with C^2 = 4 the true p99 is about twice as high, with
processor sharing 1.1-1.7 times. The backlog of an overload is not carried into the next window.

Loads are in erlangs (arrival rate x mean service time), times in units of the mean service time.
"""

from __future__ import annotations

from math import exp, log

import numpy as np

from cotenant.model.arrays import Float, Int
from cotenant.model.compiled import njit

OVERLOAD = 0.995  # offered load / servers above which a queue counts as unstable
TAIL = 0.01  # p99
TABLE_STEPS = 100  # loads of the p99 table: 0.00, 0.01, ... 0.99 of the servers


@njit
def erlang_c(servers: int, load: float) -> float:
    """Probability that an arrival waits: M/M/c with `load` < `servers`, by the stable Erlang B recursion."""
    blocking = 1.0
    for k in range(1, servers + 1):
        blocking = load * blocking / (k + load * blocking)
    ratio = load / servers
    return blocking / (1.0 - ratio + ratio * blocking)


@njit
def tail(servers: int, load: float, x: float) -> float:
    """P(T > x): time in system, waiting and service. 1 when overloaded."""
    if load >= OVERLOAD * servers:
        return 1.0
    waits = erlang_c(servers, load)
    k = servers - load
    if abs(k - 1.0) < 1e-6:
        delayed = (1.0 + x) * exp(-x)
    else:
        delayed = (k * exp(-x) - exp(-k * x)) / (k - 1.0)
    return (1.0 - waits) * exp(-x) + waits * delayed


@njit
def p99(servers: int, load: float) -> float:
    """The 99th percentile of the time in system, by bisection; 1,000 when overloaded."""
    if load >= OVERLOAD * servers:
        return 1000.0
    low, high = 0.0, 2000.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if tail(servers, load, middle) > TAIL:
            low = middle
        else:
            high = middle
    return high


@njit
def tolerated_slowdown(servers: int, load: float, objective: float) -> float:
    """The largest s (1..10) at which the p99 still meets `objective` when every service time is stretched by s."""
    low, high = 1.0, 10.0
    for _ in range(50):
        middle = 0.5 * (low + high)
        if tail(servers, load * middle, objective / middle) <= TAIL:
            low = middle
        else:
            high = middle
    return low


@njit
def p99_alone(servers: Int, load: Float) -> Float:
    """`p99` of many queues: int64[n], float64[n] -> float64[n]."""
    out = np.empty(servers.shape[0])
    for i in range(servers.shape[0]):
        out[i] = p99(servers[i], load[i])
    return out


@njit
def tolerances(servers: Int, load: Float, objective: Float) -> Float:
    """`tolerated_slowdown` of many queues: aligned arrays of length n."""
    out = np.empty(servers.shape[0])
    for i in range(servers.shape[0]):
        out[i] = tolerated_slowdown(servers[i], load[i], objective[i])
    return out


@njit
def p99_table(servers: Int) -> Float:
    """`p99` over load / servers = 0.00 .. 0.99: float64[len(servers), TABLE_STEPS]."""
    out = np.empty((servers.shape[0], TABLE_STEPS))
    for i in range(servers.shape[0]):
        for j in range(TABLE_STEPS):
            out[i, j] = p99(servers[i], servers[i] * j / TABLE_STEPS)
    return out


@njit
def decay_table(servers: Int, highs: Float) -> Float:
    """The slope of -log P(T > x) at the p99, per mean service time, for `highs` of `p99_table`:
    float64[len(servers), TABLE_STEPS].
    """
    out = np.empty(highs.shape)
    for i in range(highs.shape[0]):
        for j in range(TABLE_STEPS):
            load, x = servers[i] * j / TABLE_STEPS, highs[i, j]
            out[i, j] = log(tail(servers[i], load, 0.9 * x) / tail(servers[i], load, 1.1 * x)) / (0.2 * x)
    return out


@njit
def p99_lookup(table: Float, row: int, ratio: float) -> float:
    """p99 at load / servers = `ratio` between the table's points; held at its last point above 0.99."""
    place = min(max(ratio, 0.0) * TABLE_STEPS, TABLE_STEPS - 1.0)
    j = min(int(place), TABLE_STEPS - 2)
    share = place - j
    return (1.0 - share) * table[row, j] + share * table[row, j + 1]
