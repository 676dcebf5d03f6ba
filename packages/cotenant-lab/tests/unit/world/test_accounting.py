import numpy as np
import pytest

from cotenant_lab.world import accounting


def test_jain_of_known_vectors():
    assert accounting.jain(np.array([1.0, 1.0, 1.0])) == pytest.approx(1.0)
    assert accounting.jain(np.array([1.0, 0.0, 0.0, 0.0])) == pytest.approx(0.25)
    assert accounting.jain(np.zeros(3)) == 1.0


def test_batch_that_meets_its_deadline_and_batch_that_waits_too_long(world):
    """Two jobs of 1000 s with a deadline at 1500 s; one starts at once, one at 700 s."""
    batch = [{"cores": 1.0, "job": 0}, {"cores": 3.0, "job": 1}]
    w = world(batch, deadline_s=1500.0)
    w.advance(0.0)
    w.start(np.array([0]), np.array([0]))
    w.advance(700.0)
    w.start(np.array([1]), np.array([1]))
    w.advance(7200.0)
    a = w.account()
    assert a.success == 0.5  # 700 s is over the 600 s that a start may take
    assert a.violation == pytest.approx(0.75)
    assert a.violation_batch == pytest.approx(0.75)
    assert a.violation_count == 0.5
    assert a.violation_queued == pytest.approx(0.75)
    assert a.violation_slowed == a.violation_restarted == a.violation_unplaced == 0.0
    assert a.wait_s.tolist() == [0.0, 700.0]
    assert a.slowdown == pytest.approx([1.0, 1.7])
    assert a.task_fairness == pytest.approx(accounting.jain(np.array([1.0, 1 / 1.7])))
    assert a.unfinished == 0


def test_what_never_ran_is_violated_and_stays_in_every_denominator(world):
    w = world([{}, {"job": 1}], [{"cores": 4}], deadline_s=1500.0)
    w.advance(0.0)
    w.start(np.array([1]), np.array([0]))
    w.advance(7200.0)
    a = w.account()
    assert a.success == pytest.approx(1 / 3)
    assert a.violation_service == 1.0
    assert a.violation_batch == 0.5
    assert a.violation_count == pytest.approx(2 / 3)
    assert a.violation_unplaced == pytest.approx(a.violation)
    assert np.isinf(a.wait_s).sum() == 2
    assert np.isinf(a.slowdown).sum() == 1
    assert a.unfinished == 1


@pytest.mark.parametrize(("cause", "part"), [("restart", "violation_restarted"), ("slow", "violation_slowed")])
def test_late_jobs_are_blamed_on_their_largest_loss(world, cause, part):
    w = world([{"cores": 90.0}], deadline_s=1100.0)
    w.advance(0.0)
    w.start(np.array([0]), np.array([0]))
    if cause == "restart":
        w.advance(900.0)
        w.evict(np.array([0]))
        w.advance(900.0)
        w.start(np.array([0]), np.array([0]))
    w.advance(7200.0)
    a = w.account()
    assert a.violation == 1.0
    assert getattr(a, part) == 1.0


def test_time_means_and_fragmentation_by_hand(world):
    """One node of two full by CPU for the whole day: the other's idle CPU fits every shape, the full one has none
    idle.
    """
    batch = [{"cores": 96.0, "memory_gib": 50.0, "duration_s": 1e6}]
    w = world(batch, [{"cores": 48, "load": 1.0, "memory_gib": 60.0}], node_qos=False, smt_loss=0.0)
    w.advance(0.0)
    w.start(np.array([0, 1]), np.array([1, 0]))
    w.advance(7200.0)
    a = w.account()
    assert a.requested_cpu == pytest.approx((48 + 96) / 192)
    assert a.requested_memory == pytest.approx(1.10 / 2)
    assert a.used_cpu == pytest.approx((1 + 96) / 192, rel=1e-3)
    assert a.used_memory == pytest.approx(1.10 / 2)
    drawn = a.timeline.fragmentation[~np.isnan(a.timeline.fragmentation)]
    assert len(drawn) == 7200 / 300 + 1
    # node 1 has 48 cores and 40 GiB idle: neither shape fits (96 cores; 60 GiB)
    assert a.fragmentation == pytest.approx(48 / 192)
    # tenant 0 holds the service, tenant 1 the batch pod
    assert a.dominant_fairness == pytest.approx(accounting.jain(np.array([0.3, 0.5])))
    assert a.granted_fairness == pytest.approx(1.0)


def test_queued_demand_lowers_granted_fairness(world):
    w = world([{"cores": 10.0}], [{"cores": 10}])
    w.advance(0.0)
    w.start(np.array([0]), np.array([0]))  # tenant 1 waits for ever
    w.advance(7200.0)
    assert w.account().granted_fairness == pytest.approx(0.5)


def test_windows_before_ten_minutes_do_not_count(world):
    w = world([], [{"cores": 4}])
    w.advance(599.0)
    w.start(np.array([0]), np.array([0]))
    w.advance(7200.0)
    a = w.account()
    assert a.violation_service == 0.0
    assert a.timeline.service_violation[5] == 1.0


def test_the_machine_map_is_of_its_instant(world):
    w = world(
        [{"cores": 24.0, "duration_s": 500.0}, {"job": 1, "duration_s": 5000.0}], [{"cores": 48}], map_at_s=1200.0
    )
    w.advance(0.0)
    w.start(np.array([1, 2, 0]), np.array([0, 1, 1]))
    w.advance(1140.0)
    assert w.account().machine_map is None
    w.advance(1260.0)
    w.evict(np.array([0]))
    shown = w.account().machine_map
    assert shown is not None
    assert shown.at == "at 0.3 h"
    assert shown.machine.tolist() == [1, 1]
    assert shown.is_service.tolist() == [True, False]
    assert shown.cpu_share.tolist() == pytest.approx([0.5, 1 / 96])
    assert shown.owner == ("tenant 0", "tenant 0")
