"""Agents' signals: sample percentiles with the error of their requests, late and lost measurements, and metrics
that do not depend on either.
"""

import numpy as np
import pytest

from cotenant.model.arrays import ReportColumn
from cotenant_lab.world import signals
from cotenant_lab.world.latency import decay_table, p99_lookup, p99_table, tail

ONE = np.array([0])


@pytest.mark.parametrize(("requests", "tolerance"), [(100, 0.1), (500, 0.03), (1_000, 0.02), (20_000, 0.02)])
def test_the_sample_p99_has_the_order_statistics_distribution(requests: int, tolerance: float) -> None:
    """Against 200,000 draws of the Beta distribution of the k-th of n uniform variables."""
    k = int(np.ceil(0.99 * requests))
    beyond = 1.0 - np.random.default_rng(1).beta(k, requests + 1 - k, 200_000)
    for z, below in ((-2.0, 0.02275), (-1.0, 0.15866), (0.0, 0.5), (1.0, 0.84134), (2.0, 0.97725)):
        assert signals.sampled_tail(requests, z) == pytest.approx(float(np.quantile(beyond, below)), rel=tolerance)


@pytest.mark.parametrize(("servers", "load"), [(2, 0.4), (4, 2.0), (8, 7.0), (16, 14.0)])
def test_a_tail_share_is_mapped_through_the_replicas_own_latency_distribution(servers: int, load: float) -> None:
    size = np.array([servers])
    highs = p99_table(size)
    decay = p99_lookup(decay_table(size, highs), 0, load / servers)
    high = p99_lookup(highs, 0, load / servers)
    for requests in (500, 5_000):
        for z in (-1.5, -0.5, 0.5, 1.5):
            sample = signals.sampled_p99(high, decay, requests, z)
            assert tail(servers, load, sample) == pytest.approx(signals.sampled_tail(requests, z), rel=0.05)


def test_sample_percentiles_of_simulated_windows_spread_as_drawn_ones_do() -> None:
    rng = np.random.default_rng(2)
    requests = 1_200
    size = np.array([1])
    highs = p99_table(size)  # one server at no load: exponential service times
    drawn = [
        signals.sampled_p99(highs[0, 0], decay_table(size, highs)[0, 0], requests, z)
        for z in rng.standard_normal(4_000)
    ]
    windows = np.sort(rng.exponential(1.0, (4_000, requests)), axis=1)[:, int(np.ceil(0.99 * requests)) - 1]
    assert np.mean(drawn) == pytest.approx(windows.mean(), rel=0.01)
    assert np.std(drawn) == pytest.approx(windows.std(), rel=0.06)


def test_random_numbers_depend_on_their_arguments_alone_and_are_uniform() -> None:
    draws = np.array([[signals.uniform(5, minute, pod, 1) for pod in range(200)] for minute in range(100)])
    assert 0.0 < draws.min() < draws.max() < 1.0
    assert draws.mean() == pytest.approx(0.5, abs=0.01)
    assert draws.var() == pytest.approx(1 / 12, rel=0.03)
    assert abs(np.corrcoef(draws[:-1].ravel(), draws[1:].ravel())[0, 1]) < 0.03
    assert abs(np.corrcoef(draws[:, :-1].ravel(), draws[:, 1:].ravel())[0, 1]) < 0.03
    assert signals.uniform(5, 3, 7, 1) == draws[3, 7]
    assert signals.uniform(6, 3, 7, 1) != draws[3, 7] != signals.uniform(5, 3, 7, 2)
    normal = np.array([signals.standard_normal(0, 1, pod, 1) for pod in range(20_000)])
    assert (normal.mean(), normal.std()) == (pytest.approx(0.0, abs=0.02), pytest.approx(1.0, abs=0.02))


def minutes(world, many: int, **changes):
    """p99 / objective that arrived in each of `many` minutes of a service at constant load, and the world."""
    w = world([], [{"cores": 4, "load": 2.0, "objective": 6.0}], horizon_s=36_000.0, **changes)
    w.advance(0.0)
    w.start(ONE, ONE)
    seen = []
    for minute in range(1, many + 1):
        w.advance(60.0 * minute)
        seen.append(w.measured().p99_ratio.tolist())
    return seen, w


def test_the_measured_p99_scatters_around_the_true_one_and_repeats(world) -> None:
    seen, w = minutes(world, 200)
    again, _ = minutes(world, 200)
    other, _ = minutes(world, 200, seed=1)
    assert seen == again != other
    ratios = np.array(seen).ravel()
    highs = p99_table(np.array([4]))
    true = p99_lookup(highs, 0, 0.5)
    requests = int(w.measured().requests[0])
    assert requests == 12_000  # 2 erlangs / 10 ms x 60 s
    expected = 1.0 / np.sqrt(0.01 * requests) / p99_lookup(decay_table(np.array([4]), highs), 0, 0.5) / true
    assert ratios.mean() == pytest.approx(true / 6.0, rel=3 * expected / np.sqrt(200))
    assert ratios.std() / ratios.mean() == pytest.approx(expected, rel=0.15)


def test_metrics_do_not_depend_on_what_agents_report(world) -> None:
    accounts = [minutes(world, 30, **changes)[1].account() for changes in ({}, {"report_lost": 1.0}, {"seed": 9})]
    assert len({(account.violation_service, account.violation_count) for account in accounts}) == 1


def test_lost_measurements_never_arrive_and_late_ones_come_a_minute_later_instead_of_the_next(world) -> None:
    seen, w = minutes(world, 3, report_lost=1.0)
    assert seen == [[], [], []]
    assert np.isnan(w.reports()[0]).all()
    on_time, _ = minutes(world, 4)
    late, w = minutes(world, 4, report_late=1.0)
    assert late == [[], [], on_time[1], []]  # of the ticks at 0, 60, ... those at 0, 120, ... are late
    assert w.reports()[0, ReportColumn.REPORTED_AT] == 120.0


def test_some_measurements_are_lost_and_late_by_default(world) -> None:
    kinds = [signals.delivery(0, minute, 5, 0.01, 0.03) for minute in range(20_000)]
    assert kinds.count(signals.LOST) / 20_000 == pytest.approx(0.01, rel=0.25)
    assert kinds.count(signals.LATE) / 20_000 == pytest.approx(0.03, rel=0.15)


def test_a_starting_replica_has_no_requests_and_is_not_measured(world) -> None:
    w = world([], [{"cores": 4, "load": 2.0}])
    w.advance(30.0)
    w.start(ONE, ONE)
    w.advance(60.0)
    assert w.measured().pods.tolist() == [0]
    assert w.measured().replicas.tolist() == []
    assert w.reports()[0, ReportColumn.VIOLATION] == 0.0
    w.advance(120.0)
    assert w.measured().replicas.tolist() == [0]


def test_a_pod_that_arrived_after_the_late_measurement_is_not_in_it(world) -> None:
    w = world([{"cores": 1.0}, {"cores": 1.0, "job": 1}], report_late=1.0)
    w.advance(0.0)
    w.start(np.array([0]), ONE)
    w.advance(120.0)
    w.start(np.array([1]), ONE)
    w.advance(180.0)  # what was measured at 120 s arrives
    assert w.measured().pods.tolist() == [0]
