import itertools

import numpy as np
import pytest

from cotenant_lab.world import contention, state
from cotenant_lab.world.config import WorldConfig


def test_hardware_threads_cost_nothing_up_to_half_then_the_full_loss():
    assert contention.smt_slowdown(0.2, 0.35) == 1.0
    assert contention.smt_slowdown(0.5, 0.35) == 1.0
    assert contention.smt_slowdown(1.0, 0.35) == pytest.approx(1 / 0.65)
    assert contention.smt_slowdown(1.7, 0.35) == contention.smt_slowdown(1.0, 0.35)
    assert 1.0 < contention.smt_slowdown(0.75, 0.35) < 1 / 0.65


@pytest.mark.parametrize("name", ["linear", "knee", "queueing"])
def test_every_pressure_law_agrees_on_the_measured_pair_at_its_scale_and_never_falls(name):
    law = state.law(WorldConfig(pressure_law=name))
    values = [contention.response(b, law) for b in np.linspace(0.0, 3.0, 61)]
    assert values[0] == 0.0
    assert contention.response(1.0, law._replace(pressure_scale=1.0)) == pytest.approx(1.0)
    assert all(a <= b for a, b in itertools.pairwise(values))


def test_knee_is_flat_first_and_queueing_bends_upwards():
    knee = state.law(WorldConfig(pressure_law="knee", knee=0.4))._replace(pressure_scale=1.0)
    assert contention.response(0.4, knee) == 0.0
    assert contention.response(0.7, knee) == pytest.approx(0.5)
    queue = state.law(WorldConfig(pressure_law="queueing"))._replace(pressure_scale=1.0)
    first = contention.response(1.2, queue) - contention.response(1.0, queue)
    second = contention.response(1.6, queue) - contention.response(1.4, queue)
    assert second > first > 0
    assert np.isfinite(contention.response(100.0, queue))


@pytest.mark.slow
def test_pairs_slow_each_other_as_published_pairs_do(world):
    """Two pods, half a node each: 1 + a b; figures of published co-location pairs: mean 1.11-1.21, median
    1.00-1.10, p90 1.31-1.50.
    """
    config, rng, pairs = WorldConfig(), np.random.default_rng(5), 10_000
    n = 2 * pairs
    a = np.minimum(config.sensitivity_most, rng.lognormal(np.log(config.sensitivity_median), config.profile_log_sd, n))
    b = np.minimum(config.pressure_most, rng.lognormal(np.log(config.pressure_median), config.profile_log_sd, n))
    batch = [
        {"cores": 48.0, "sensitivity": x, "pressure": y, "job": i} for i, (x, y) in enumerate(zip(a, b, strict=True))
    ]
    w = world(batch, nodes=pairs, smt_loss=0.0, node_qos=False, tick_s=3600.0, map_at_s=1e9)
    w.advance(0.0)
    w.start(np.arange(n), np.arange(n) // 2)
    finished = w.advance(2_200.0)
    # the longer of a pair is alone at the end, so judge by the first to finish of each
    order = finished.finished
    _, first = np.unique(order // 2, return_index=True)
    victim = order[first]
    slowdown = finished.finished_s[first] / 1000.0
    assert slowdown == pytest.approx(1 + a[victim] * b[victim ^ 1], rel=1e-6)
    both = 1 + a * b[np.arange(n) ^ 1]
    assert both.mean() == pytest.approx(1.12, abs=0.02)
    assert np.median(both) == pytest.approx(1.05, abs=0.02)
    assert np.quantile(both, 0.9) == pytest.approx(1.30, abs=0.04)
    assert np.quantile(both, 0.99) == pytest.approx(2.0, abs=0.1)
    assert np.abs(both[0::2] - both[1::2]).mean() == pytest.approx(0.14, abs=0.02)


@pytest.mark.parametrize("interference", [0.0, 1.0, 2.0])
def test_one_task_alone_takes_exactly_its_time(world, interference):
    """Its own pressure does not slow it, and half a node uses no sibling thread."""
    w = world([{"cores": 40.0, "duration_s": 1234.5, "sensitivity": 1.0, "pressure": 1.0}], interference=interference)
    w.advance(0.0)
    w.start(np.array([0]), np.array([0]))
    happened = w.advance(5000.0)
    assert happened.finished_s == pytest.approx([1234.5], rel=1e-9)


def test_without_interference_neighbours_below_half_a_node_do_not_matter(world):
    batch = [{"cores": 20.0, "sensitivity": 1.0, "pressure": 1.0} for _ in range(2)]
    for interference, expected in ((0.0, 1000.0), (1.0, 1000.0 * (1 + 0.7 * 20 / 48))):
        w = world(batch, interference=interference)
        w.advance(0.0)
        w.start(np.array([0, 1]), np.array([0, 0]))
        assert w.advance(5000.0).finished_s == pytest.approx([expected] * 2, rel=1e-9)


def test_node_qos_holds_batch_to_its_budget_and_off_shares_the_whole_node(world):
    batch = [{"cores": 48.0, "job": i} for i in range(3)]  # wants 144 of 96
    on = world(batch)
    on.advance(0.0)
    on.start(np.arange(3), np.zeros(3, np.int64))
    u = 0.65
    smt = 1 / (1 - 0.35 * (2 * u - 1) / u)
    assert on.advance(20_000.0).finished_s == pytest.approx([1000.0 * smt * 144 / (0.65 * 96)] * 3, rel=1e-9)
    off = world(batch, node_qos=False)
    off.advance(0.0)
    off.start(np.arange(3), np.zeros(3, np.int64))
    assert off.advance(20_000.0).finished_s == pytest.approx([1000.0 / 0.65 * 144 / 96] * 3, rel=1e-9)


def test_services_take_from_the_batch_budget_but_never_its_last_cores(world):
    batch = [{"cores": 20.0}]
    w = world(batch, [{"cores": 96, "load": 80.0, "objective": 100.0}], smt_loss=0.0)
    w.advance(0.0)
    w.start(np.array([0, 1]), np.array([0, 0]))
    assert w.advance(20_000.0).finished_s == pytest.approx([1000.0 * 20 / 2], rel=1e-9)


def test_a_service_waits_for_cpus_only_without_qos(world):
    ratios = {}
    for qos in (True, False):
        w = world([{"cores": 80.0}], [{"cores": 4, "load": 2.0}], node_qos=qos, smt_loss=0.0)
        w.advance(0.0)
        w.start(np.array([0, 1]), np.array([0, 0]))
        w.advance(60.0)
        ratios[qos] = float(w.measured().p99_ratio[0])
    assert ratios[False] > ratios[True]


def test_little_memory_left_slows_batch(world):
    batch = [{"cores": 1.0, "memory_gib": 47.0, "job": i} for i in range(2)]  # 94 % of 100 GiB
    w = world(batch)
    w.advance(0.0)
    w.start(np.array([0, 1]), np.array([0, 0]))
    assert w.advance(20_000.0).finished_s == pytest.approx([1000.0 * (1 + 0.04 / 0.07)] * 2, rel=1e-9)


def test_unplaced_siblings_leave_their_load_to_the_placed(world):
    ratios = []
    for placed in (1, 2):
        w = world([], [{"cores": 4, "load": 1.5, "replicas": 2}])
        w.advance(0.0)
        w.start(np.arange(placed), np.arange(placed))
        w.advance(120.0)
        ratios.append(float(w.measured().p99_ratio[0]))
    assert ratios[0] > ratios[1]
