import heapq
import itertools
from math import exp, log

import numpy as np
import pytest

from cotenant_lab.world import latency


@pytest.mark.parametrize(
    ("servers", "load", "expected"),
    [(1, 0.5, 0.5), (1, 0.9, 0.9), (2, 1.0, 1 / 3), (5, 4.0, 0.55411), (10, 8.0, 0.40918)],
)
def test_erlang_c_matches_published_values(servers, load, expected):
    assert latency.erlang_c(servers, load) == pytest.approx(expected, abs=1e-5)


def test_one_server_is_mm1():
    for ratio in (0.1, 0.5, 0.9):
        for x in (0.0, 0.7, 5.0):
            assert latency.tail(1, ratio, x) == pytest.approx(exp(-(1 - ratio) * x), rel=1e-9)
        assert latency.p99(1, ratio) == pytest.approx(log(100) / (1 - ratio), rel=1e-9)


def test_tail_starts_at_one_never_rises_and_is_one_when_overloaded():
    for servers, load in ((2, 1.0), (2, 1.0 + 1e-9), (8, 7.0), (16, 3.0)):  # c - a = 1 is the removable singularity
        values = [latency.tail(servers, load, x) for x in np.linspace(0, 30, 200)]
        assert values[0] == pytest.approx(1.0)
        assert all(a >= b for a, b in itertools.pairwise(values))
    assert latency.tail(4, 4.0, 100.0) == 1.0
    assert latency.p99(4, 4.0) == 1000.0


def test_mean_of_the_tail_is_the_mean_sojourn():
    # E[T] = 1 + Pw / (c - a)
    for servers, load in ((2, 1.4), (4, 3.0), (16, 14.0)):
        x = np.linspace(0, 60, 60_001)
        integral = np.trapezoid([latency.tail(servers, load, v) for v in x], x)
        assert integral == pytest.approx(1 + latency.erlang_c(servers, load) / (servers - load), rel=1e-4)


def test_tolerated_slowdown_puts_the_p99_on_the_objective():
    for servers, load in ((2, 0.8), (8, 4.0)):
        objective = 2.0 * latency.p99(servers, load)
        slowdown = latency.tolerated_slowdown(servers, load, objective)
        assert slowdown > 1.0
        assert latency.p99(servers, load * slowdown) * slowdown == pytest.approx(objective, rel=1e-6)
    assert latency.tolerated_slowdown(4, 2.0, latency.p99(4, 2.0)) == pytest.approx(1.0, abs=1e-6)


def test_table_is_close_to_the_formula():
    sizes = np.array([2, 4, 8, 16])
    table = latency.p99_table(sizes)
    assert table.shape == (4, latency.TABLE_STEPS)
    for row, servers in enumerate(sizes):
        for ratio in np.linspace(0.0, 0.9, 400):
            exact = latency.p99(servers, ratio * servers)
            assert latency.p99_lookup(table, row, ratio) == pytest.approx(exact, rel=0.003)
        assert latency.p99_lookup(table, row, 5.0) == table[row, -1]


def simulate_queue(servers: int, load: float, arrivals: int, seed: int) -> tuple[np.ndarray, float]:
    """FCFS M/M/c, service rate 1: sojourn times, and the time mean of requests in the system."""
    rng = np.random.default_rng(seed)
    arrive = np.cumsum(rng.exponential(1 / load, arrivals))
    service = rng.exponential(1.0, arrivals)
    free = [0.0] * servers
    leave = np.empty(arrivals)
    for i in range(arrivals):
        begin = max(arrive[i], free[0])
        leave[i] = begin + service[i]
        heapq.heapreplace(free, leave[i])
    end = arrive[-1]
    steps = np.concatenate((np.ones(arrivals), -np.ones(arrivals)))
    when = np.concatenate((arrive, leave))
    order = np.argsort(when, kind="stable")
    when, inside = when[order], np.cumsum(steps[order])
    until = np.minimum(np.append(when[1:], when[-1]), end)
    return leave - arrive, float((inside * np.maximum(until - np.minimum(when, end), 0)).sum() / end)


@pytest.mark.slow
@pytest.mark.parametrize(("servers", "load"), [(2, 1.0), (4, 2.8), (8, 6.4)])
def test_tail_and_littles_law_against_a_simulated_queue(servers, load):
    sojourn, inside = simulate_queue(servers, load, 300_000, seed=servers)
    assert latency.p99(servers, load) == pytest.approx(np.quantile(sojourn, 0.99), rel=0.03)
    mean = 1 + latency.erlang_c(servers, load) / (servers - load)
    assert sojourn.mean() == pytest.approx(mean, rel=0.02)
    assert inside == pytest.approx(load * mean, rel=0.02)  # theory
    assert inside == pytest.approx(load * sojourn.mean(), rel=0.01)  # Little: L = lambda W
