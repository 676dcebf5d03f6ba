from __future__ import annotations

from cotenant.policy.placement.job_order import JobOrder, OrderKnobs, given_up_at, key_at, time_needed, trust


def key(order: JobOrder, arrival: float, deadline: float, path: float, work: float, **knobs: float) -> float:
    return key_at(int(order), arrival, deadline, path, work, OrderKnobs(**knobs))


def test_plain_orders_sort_by_what_they_are_named_after() -> None:
    assert key(JobOrder.ARRIVAL, 5.0, 90.0, 30.0, 7.0) == 5.0
    assert key(JobOrder.DEADLINE, 5.0, 90.0, 30.0, 7.0) == 90.0
    assert key(JobOrder.REMAINING_WORK, 5.0, 90.0, 30.0, 7.0) == 7.0
    assert key(JobOrder.LATEST_START, 5.0, 90.0, 30.0, 7.0) == 60.0
    assert key(JobOrder.LATEST_START, 5.0, 90.0, 30.0, 7.0, margin=2.0) == 30.0


def test_a_wide_job_needs_time_for_its_width() -> None:
    knobs = OrderKnobs(share=0.5, cores=100.0)
    assert time_needed(30.0, 1_000.0, knobs) == 30.0
    assert time_needed(30.0, 10_000.0, knobs) == 200.0
    assert time_needed(30.0, 10_000.0, OrderKnobs()) == 30.0


def test_small_jobs_go_before_all_others_and_by_slack_among_themselves() -> None:
    small = [key(JobOrder.LATEST_START, 0.0, d, 1.0, 10.0, small_work=50.0) for d in (900.0, 500.0)]
    large = key(JobOrder.LATEST_START, 0.0, 2.0, 1.0, 50.0, small_work=50.0)
    assert small[1] < small[0] < large


def test_a_job_is_given_up_when_its_path_no_longer_fits() -> None:
    def given_up(now: float, **knobs: float) -> bool:
        return given_up_at(now, 100.0, 40.0, 200.0, OrderKnobs(**knobs))

    assert not given_up(1e9)  # never, unless asked
    assert not given_up(60.0, hopeless=1.0)
    assert given_up(60.1, hopeless=1.0)
    assert not given_up(60.1, hopeless=0.5)
    assert given_up(60.1, hopeless=0.5, share=1.0, cores=2.0)  # its width needs 100 s


def test_estimates_beyond_the_deadline_are_scaled_down_and_others_kept() -> None:
    knobs = OrderKnobs(believe=0.5)
    assert trust(10.0, 110.0, 40.0, knobs) == 1.0
    assert trust(10.0, 110.0, 200.0, knobs) == 0.25
    assert trust(10.0, 110.0, 200.0, OrderKnobs()) == 1.0
    assert not given_up_at(10.0, 110.0, 0.25 * 200.0, 1.0, OrderKnobs(hopeless=1.0))
