import itertools

import numpy as np
import pytest

from cotenant.model.arrays import ReportColumn
from cotenant.model.errors import InvalidInput
from cotenant_lab.world.offer import Offer
from cotenant_lab.world.state import CAUSES, MEMORY, NODE_FAILURE, REQUESTED
from cotenant_lab.world.truth import Truth
from cotenant_lab.world.world import ArrivedMeasurements, IllegalTransition

ONE = np.array([0])


def test_services_are_ready_at_once_and_batch_when_its_job_comes(world):
    w = world([{}], [{"replicas": 3}])
    happened = w.advance(0.0)
    assert happened.ready.tolist() == [0, 1, 2, 3]
    assert happened.ready_s.tolist() == [0.0] * 4
    assert w.advance(0.0).ready.size == 0  # reported once
    assert w.now_s == 0.0


def test_the_next_stage_waits_for_the_whole_stage(world):
    batch = [{"duration_s": 100.0}, {"duration_s": 300.0}, {"level": 1, "duration_s": 50.0}]
    w = world(batch)
    assert w.advance(0.0).ready.tolist() == [0, 1]
    w.start(np.array([0, 1]), np.array([0, 1]))
    assert w.advance(299.0).finished.tolist() == [0]
    with pytest.raises(IllegalTransition, match="not yet ready"):
        w.start(np.array([2]), ONE)
    happened = w.advance(400.0)
    assert (happened.ready.tolist(), happened.ready_s.tolist()) == ([2], [300.0])
    w.start(np.array([2]), ONE)
    assert w.advance(1000.0).finished_s.tolist() == [450.0]
    assert not w.done  # the services' day is not over
    w.advance(7200.0)
    assert w.done


def test_time_advances_exactly_and_never_goes_back(world):
    w = world([{}])
    w.advance(12.5)
    assert w.now_s == 12.5
    for bad in (12.0, float("nan"), float("inf")):
        with pytest.raises(InvalidInput, match="until_s"):
            w.advance(bad)
    assert w.now_s == 12.5


def test_many_small_steps_equal_one_long_step(world):
    lives = []
    for step in (1.0, 900.0):
        w = world(
            [{"cores": 60.0, "pressure": 0.9, "sensitivity": 0.9, "job": i} for i in range(4)], [{"pressure": 0.5}]
        )
        w.advance(0.0)
        w.start(np.arange(5), np.zeros(5, np.int64))
        finished = []
        while w.now_s < 9000.0:
            finished += w.advance(w.now_s + step).finished_s.tolist()
        lives.append(finished)
    assert lives[0] == lives[1]
    assert len(lives[0]) == 4


@pytest.mark.parametrize(
    ("pods", "rows", "words"),
    [
        ([0, 0], [0, 1], "named twice"),
        ([0, 9], [0, 0], "no such pod"),
        ([0, 1], [0, 7], "no such node"),
        ([0, -1], [0, 0], "no such pod"),
    ],
)
def test_a_bad_start_changes_nothing(world, pods, rows, words):
    w = world([{}, {}])
    w.advance(0.0)
    with pytest.raises(IllegalTransition, match=words):
        w.start(np.array(pods), np.array(rows))
    assert w.measured().pods.size == 0
    w.start(np.array([0, 1]), np.array([0, 1]))  # both still can
    with pytest.raises(IllegalTransition, match=r"running, ready at 0.0 s, first started at 0.0 s, .*on node 1"):
        w.start(np.array([1]), ONE)
    w.advance(1000.0)
    with pytest.raises(IllegalTransition, match=r"finished at 1000.0 s"):
        w.start(np.array([1]), ONE)


def test_columns_that_are_not_pods_and_rows_are_refused(world):
    w = world([{}])
    w.advance(0.0)
    with pytest.raises(InvalidInput, match="rows"):
        w.start(np.array([0]), np.array([0, 1]))
    with pytest.raises(InvalidInput, match="pods"):
        w.start(np.array([0.5]), ONE)


def test_an_asked_eviction_starts_again_from_zero_and_is_counted_apart(world):
    w = world([{"duration_s": 500.0}])
    w.advance(0.0)
    w.start(ONE, ONE)
    w.advance(400.0)
    w.evict(ONE)
    with pytest.raises(IllegalTransition, match="not yet reported"):
        w.start(ONE, ONE)
    with pytest.raises(IllegalTransition, match="not running"):
        w.evict(ONE)
    happened = w.advance(400.0)
    assert happened.evicted.tolist() == [0]
    assert happened.cause.tolist() == [REQUESTED]
    assert happened.hold_until_s.tolist() == [400.0]
    w.start(ONE, np.array([1]))
    assert w.advance(2000.0).finished_s == pytest.approx([900.0])
    account = w.account()
    assert (account.evictions_asked, account.evictions_memory, account.evictions_failure) == (1, 0, 0)
    assert account.slowdown == pytest.approx([900.0 / 500.0])


def test_evicting_is_all_or_none(world):
    w = world([{}, {}])
    w.advance(0.0)
    w.start(np.array([0]), ONE)
    with pytest.raises(IllegalTransition):
        w.evict(np.array([0, 1]))
    with pytest.raises(IllegalTransition, match="named twice"):
        w.evict(np.array([0, 0]))
    assert w.advance(1000.0).finished.tolist() == [0]


def test_full_memory_evicts_the_least_advanced_and_holds_it_longer_each_time(world):
    batch = [{"memory_gib": 60.0, "job": i, "duration_s": 5000.0} for i in range(2)]
    w = world(batch, hold_s=60.0, hold_doublings=2)
    w.advance(0.0)
    w.start(np.array([0]), ONE)
    w.advance(10.0)
    holds = []
    for _ in range(4):
        w.start(np.array([1]), ONE)
        happened = w.advance(w.now_s)
        assert happened.evicted.tolist() == [1]
        assert CAUSES[happened.cause[0]] == "memory"
        assert happened.cause[0] == MEMORY
        assert happened.evicted_memory_bytes[0] == 60 * 2**30
        until = float(happened.hold_until_s[0])
        holds.append(until - w.now_s)
        w.advance(until - 1.0)
        with pytest.raises(IllegalTransition, match="held back"):
            w.start(np.array([1]), ONE)
        w.advance(until)
    assert holds == [120.0, 240.0, 240.0, 240.0]
    assert w.account().evictions_memory == 4


def test_memory_grows_over_a_pods_first_work(world):
    w = world([{"memory_gib": 10.0}], memory_start=0.5, memory_ramp=0.5, measurement_error=0.0)
    w.advance(0.0)
    w.start(ONE, ONE)
    seen = []
    for minute in range(1, 16):
        w.advance(60.0 * minute)
        seen.append(float(w.measured().memory_bytes[0]) / 2**30)
    assert seen[0] == pytest.approx(10 * (0.5 + 0.5 * 0.06 / 0.5))
    assert all(a <= b for a, b in itertools.pairwise(seen))
    assert seen[-1] == pytest.approx(10.0)


def test_cpu_use_swings_about_its_mean(world):
    w = world([{"cores": 10.0, "duration_s": 6000.0}], cpu_swing=0.2)
    w.advance(0.0)
    w.start(ONE, ONE)
    seen = []
    for minute in range(1, 100):
        w.advance(60.0 * minute)
        seen.append(float(w.measured().cpu_cores[0]))
    assert np.mean(seen) == pytest.approx(10.0, rel=0.01)
    assert max(seen) == pytest.approx(12.0, rel=0.01)
    assert min(seen) == pytest.approx(8.0, rel=0.01)


def test_a_failed_node_loses_its_work_and_comes_back(world):
    w = world([{"duration_s": 50_000.0}], [{}], failures=True, failure_interval_days=0.02, repair_s=300.0, seed=3)
    w.advance(0.0)
    w.start(np.array([0, 1]), np.array([0, 1]))
    down, evicted, up = [], [], []
    while w.now_s < 7200.0:
        happened = w.advance(w.now_s + 60.0)
        down += list(zip(happened.nodes_down.tolist(), happened.nodes_down_s.tolist(), strict=True))
        up += list(zip(happened.nodes_up.tolist(), happened.nodes_up_s.tolist(), strict=True))
        evicted += list(
            zip(happened.evicted.tolist(), happened.evicted_s.tolist(), happened.cause.tolist(), strict=True)
        )
        if happened.evicted.size and happened.nodes_down.size == 1 and len(evicted) == 1:
            with pytest.raises(IllegalTransition, match="the node is down"):
                w.start(happened.evicted, happened.nodes_down)
            stale = w.reports()[happened.nodes_down[0], ReportColumn.REPORTED_AT]
            assert stale < happened.nodes_down_s[0]
    assert {pod for pod, _, _ in evicted} == {0, 1}
    first_down = {row: min(at for r, at in down if r == row) for row in (0, 1)}
    for pod, at, cause in evicted:
        assert cause == NODE_FAILURE
        assert at == first_down[pod]
    for row, at in up:
        assert (row, pytest.approx(at - 300.0)) in down
    assert w.account().evictions_failure == 2


def test_failures_can_be_turned_off(world):
    w = world([], [{}], failure_interval_days=0.001)
    assert w.advance(7200.0).nodes_down.size == 0


def test_reports_are_those_of_the_last_tick(world):
    w = world([{"cores": 24.0, "memory_gib": 30.0}], [{"cores": 4, "load": 2.0, "memory_gib": 10.0}])
    assert np.isnan(w.reports()).all()
    w.advance(0.0)
    w.start(np.array([0, 1]), np.array([0, 0]))
    assert w.reports()[0, ReportColumn.CPU_USED] == 0.0  # taken before the start
    w.advance(60.0)
    report = w.reports()[0]
    assert report[ReportColumn.CPU_USED] == pytest.approx(26 / 96, rel=1e-3)
    assert report[ReportColumn.MEMORY_USED] == pytest.approx(0.4)
    assert report[ReportColumn.DOMINANT_SHARE] == pytest.approx(0.4)
    assert report[ReportColumn.VIOLATION] == 0.0
    assert report[ReportColumn.LATENCY_P99_MS] > 10.0  # at least a service time of 10 ms
    assert report[ReportColumn.FAIRNESS] == pytest.approx((24 + 4) ** 2 / (2 * (24**2 + 4**2)))
    assert report[ReportColumn.REPORTED_AT] == 60.0
    empty = w.reports()[1]
    assert empty[ReportColumn.CPU_USED] == 0.0
    assert empty[ReportColumn.FAIRNESS] == 1.0
    w.reports()[0, 0] = 9.0  # a copy
    assert w.reports()[0, 0] != 9.0


def test_an_overloaded_service_is_seen_violated(world):
    w = world([], [{"cores": 2, "load": 2.5, "objective": 10.0}, {"cores": 2, "load": 0.2, "objective": 10.0}])
    w.advance(0.0)
    w.start(np.array([0, 1]), np.array([0, 0]))
    w.advance(60.0)
    seen = w.measured()
    assert seen.pods[seen.replicas].tolist() == [0, 1]
    assert seen.requests.tolist() == [15_000, 1_200]  # load / service time x 60 s
    assert seen.p99_ratio[0] > 1.0 > seen.p99_ratio[1]
    assert w.reports()[0, ReportColumn.VIOLATION] == 0.5


def test_measurements_are_noisy_repeatable_and_of_the_running_only(world):
    w = world([{"cores": 10.0, "duration_s": 90.0}, {"cores": 10.0, "job": 1}], measurement_error=0.05)
    w.advance(0.0)
    w.start(np.array([0]), ONE)
    w.advance(60.0)
    w.start(np.array([1]), ONE)  # after the tick: not measured yet
    first, again = w.measured(), w.measured()
    assert first.pods.tolist() == [0]
    assert first.cpu_cores.tolist() == again.cpu_cores.tolist()
    assert first.cpu_cores[0] != 10.0
    assert first.cpu_cores[0] == pytest.approx(10.0, rel=0.3)
    w.advance(100.0)
    assert w.measured().pods.size == 0  # the measured pod is gone
    w.advance(120.0)
    assert w.measured().pods.tolist() == [1]


def test_nothing_offered_or_measured_names_the_truth():
    hidden = set(Truth._fields) - {
        "cpu_milli",
        "memory_bytes",
        "tenant",
        "tenants",
    }  # requests and identities are public
    assert not hidden & set(Offer._fields)
    assert set(ArrivedMeasurements._fields) == {
        "at_s",
        "pods",
        "rows",
        "cpu_cores",
        "memory_bytes",
        "replicas",
        "p99_ratio",
        "requests",
    }


def test_workloads_that_cannot_run_are_refused(world):
    with pytest.raises(InvalidInput, match="cpu_milli of pod 0"):
        world([{"cores": 97.0}])
    with pytest.raises(InvalidInput, match="memory_bytes of pod 0"):
        world([{"memory_gib": 101.0}])
    with pytest.raises(InvalidInput, match="duration_s of pod 1"):
        world([{}, {"duration_s": float("nan")}])
    with pytest.raises(InvalidInput, match="sensitivity of pod 0"):
        world([{"sensitivity": -1.0}])
    with pytest.raises(InvalidInput, match="at least one pod"):
        world()
    with pytest.raises(InvalidInput, match="nodes"):
        world([{}], nodes=0)
    with pytest.raises(InvalidInput, match="seed"):
        world([{}], seed=-1)
