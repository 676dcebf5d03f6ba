"""Load averages of groups against the kernel's recurrence, and conditions that do not flap."""

from __future__ import annotations

from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.engine.node.loads import MOST_FADING, LoadAverages, Loads
from cotenant.engine.node.problems import Problems
from cotenant.model.machine.run_queue import BUCKETS, WaitHistogram
from cotenant.model.machine.stalls import GroupStalls, StallReading


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), min_size=1, max_size=200))
def test_averages_are_those_of_the_kernels_recurrence(counts: list[tuple[int, int]]) -> None:
    loads, expected = LoadAverages(), [0.0] * 6
    found: dict[str, Loads] = {}
    for at, (runnable, blocked) in enumerate(counts):
        found = loads.seen(at * 5_000_000, {"a": (runnable, blocked)})
        for index, (now, minutes) in enumerate((now, minutes) for now in (runnable, blocked) for minutes in (1, 5, 15)):
            kept = exp(-5 / 60 / minutes) if at else 1.0
            expected[index] = expected[index] * kept + now * (1 - kept)
    assert [*found["a"].runnable, *found["a"].uninterruptible] == pytest.approx(expected)


def test_uneven_intervals_weigh_as_long_as_they_were_and_gone_groups_fade() -> None:
    often, seldom = LoadAverages(), LoadAverages()
    for at in range(13):
        fine = often.seen(at * 5_000_000, {"a": (3, 1)})
    for at in (0, 60_000_000):
        coarse = seldom.seen(at, {"a": (3, 1)})
    assert fine["a"].runnable == pytest.approx(coarse["a"].runnable)
    assert seldom.seen(61_000_000, {"b": (1, 0)}).keys() == {"a", "b"}
    assert seldom.seen(4 * 3600 * 1_000_000, {}) == {}


def histogram(slot: int, number: int, sum_us: int) -> WaitHistogram:
    buckets = tuple(number if at == slot else 0 for at in range(BUCKETS))
    return WaitHistogram(number, sum_us, buckets)


def reading(at_s: float, blocked: WaitHistogram, reclaim: WaitHistogram | None = None) -> StallReading:
    return StallReading(round(at_s * 1e6), (GroupStalls("db", blocked, reclaim or WaitHistogram()),))


def test_conditions_hold_from_their_limit_on_until_half_of_it() -> None:
    problems = Problems(cpus=2)
    none = WaitHistogram()

    def true_of(at_s: float, blocked: WaitHistogram, load: float, reclaim_us: int = 0) -> set[str]:
        loads = {"db": Loads(uninterruptible=(load, 0.0, 0.0)), "web": Loads()}
        seen = problems.seen(reading(at_s, blocked, WaitHistogram(1, reclaim_us)), loads)
        assert {problem.type for problem in seen} == {"BlockedTasks", "SlowBlockIo", "DirectReclaim"}
        assert all("db" in problem.message for problem in seen if problem.is_true)
        return {problem.type for problem in seen if problem.is_true}

    assert true_of(0, none, 0.5) == set()
    assert true_of(10, histogram(20, 10, 10_000_000), 2.1) == {"BlockedTasks", "SlowBlockIo"}  # waits of 1 to 2 s
    both = {"BlockedTasks", "SlowBlockIo"}
    assert true_of(20, histogram(20, 10, 10_000_000), 1.5) == both  # no new wait, but not for a minute
    assert true_of(69, histogram(20, 10, 10_000_000), 1.5) == both
    assert true_of(70, histogram(20, 10, 10_000_000), 1.5) == {"BlockedTasks"}  # above half of the limit
    assert true_of(129, histogram(20, 10, 10_000_000), 0.9) == {"BlockedTasks"}
    assert true_of(130, histogram(20, 10, 10_000_000), 0.9) == set()
    assert true_of(140, histogram(20, 10, 10_000_000), 1.9, reclaim_us=600_000) == {"DirectReclaim"}


def test_a_problem_that_comes_and_goes_at_each_look_changes_nothing_but_once() -> None:
    problems, changes, before = Problems(cpus=1), 0, False
    for at in range(0, 3600, 5):
        loads = {"db": Loads(uninterruptible=(1.5 if at % 10 else 0.0, 0.0, 0.0))}
        now = problems.seen(reading(at, WaitHistogram()), loads)[0].is_true
        changes += now != before
        before = now
    assert changes == 1


@given(st.lists(st.floats(0, 2), min_size=50, max_size=300))
def test_however_a_problem_comes_and_goes_it_changes_twice_a_minute_at_most(loads_seen: list[float]) -> None:
    problems, changed_s, before = Problems(cpus=1), list[int](), False
    for number, load in enumerate(loads_seen):
        loads = {"db": Loads(uninterruptible=(load, 0.0, 0.0))}
        now = problems.seen(reading(5 * number, WaitHistogram()), loads)[0].is_true
        if now != before:
            changed_s.append(5 * number)
        before = now
    assert all(later - first >= 60 for first, later in zip(changed_s, changed_s[2:], strict=False))


def test_thousands_of_containers_that_come_and_go_leave_nothing() -> None:
    loads, problems = LoadAverages(), Problems(cpus=2)
    kept = 0
    for at in range(0, 1200, 5):
        living = [f"pods/{number}" for number in range(at * 3, at * 3 + 600)]  # 4,185 in all, of 200 s each
        groups = tuple(GroupStalls(group, histogram(12, at + 1, 9000 * at), runnable=1) for group in living)
        seen = loads.seen(at * 1_000_000, dict.fromkeys(living, (1, 0)))
        problems.seen(StallReading(at * 1_000_000, groups), seen)
        kept = max(kept, len(seen))
    assert kept <= 600 + MOST_FADING
    assert loads.seen(3 * 3600 * 1_000_000, {}) == {}


def test_few_waits_are_no_condition() -> None:
    problems = Problems(cpus=1)
    problems.seen(reading(0, WaitHistogram()), {})
    found = problems.seen(reading(5, histogram(22, 2, 8_000_000)), {})
    assert not any(problem.is_true for problem in found)
