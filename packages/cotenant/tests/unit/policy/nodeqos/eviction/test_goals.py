"""When pods have to leave and how much must become free."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_decision import Reason
from cotenant.model.machine.node_state import Allocatable, HostUse, NodeState
from cotenant.policy.nodeqos.eviction.goals import (
    AllocatableTrigger,
    BestEffortMemoryTrigger,
    Currency,
    EvictionGoal,
    EvictionTrigger,
    UsedTrigger,
    allocatable_goal,
    allocatable_release,
    cooling_down,
    cpu_pools,
    judge_requests,
    memory_pools,
    used_goal,
    used_release,
)


def test_use_counts_in_whole_percents_and_is_freed_down_to_the_lower_mark() -> None:
    marks = UsedTrigger(80, 5999)
    assert used_goal(EvictionTrigger.CPU_USED, marks, 10_000, 7_999, "mCPU") is None
    goal = used_goal(EvictionTrigger.CPU_USED, marks, 10_000, 8_099, "mCPU")
    assert goal is not None
    assert goal.amounts == ((Currency.USED, 200),)
    assert sum(term.value for term in goal.reason.terms) == 200
    assert goal.priority_threshold == 5999
    assert goal.reason.text == "free 0.2 CPU = 10 CPU x (80 % in use - 78 %); threshold 80 %"


def test_each_pool_is_held_against_its_own_requests() -> None:
    marks = AllocatableTrigger(80, 70, 7999)
    pools = ((Currency.REQUESTED_BATCH, 1000), (Currency.REQUESTED_MID, 1000))
    asked = ((Currency.REQUESTED_BATCH, 800), (Currency.REQUESTED_MID, 801))
    goal = allocatable_goal(EvictionTrigger.CPU_ALLOCATABLE, marks, pools, asked, "mCPU")
    assert goal is not None
    assert goal.amounts == ((Currency.REQUESTED_MID, 101),)
    assert sum(term.value for term in goal.reason.terms) == 101
    assert allocatable_goal(EvictionTrigger.CPU_ALLOCATABLE, marks, pools, asked[:1], "mCPU") is None


def test_a_pool_that_the_node_does_not_have_any_more_frees_all() -> None:
    marks = AllocatableTrigger(80, 70, 7999)
    goal = allocatable_goal(EvictionTrigger.MEMORY_ALLOCATABLE, marks, (), ((Currency.REQUESTED_BATCH, 5),), "bytes")
    assert goal is not None
    assert goal.amounts == ((Currency.REQUESTED_BATCH, 5),)


@pytest.mark.parametrize(
    "make",
    [
        lambda: UsedTrigger(80, 8000),
        lambda: UsedTrigger(80, 9500),
        lambda: UsedTrigger(80, 5999, 80),
        lambda: UsedTrigger(1, 5999),  # two below it is no percentage
        lambda: UsedTrigger(True, 5999),
        lambda: UsedTrigger(101, 5999),
        lambda: AllocatableTrigger(80, 80, 5999),
        lambda: AllocatableTrigger(80, 70, 8000),
        lambda: BestEffortMemoryTrigger(70, 70),
        lambda: BestEffortMemoryTrigger(70, -1),
    ],
)
def test_no_configuration_reaches_production_or_frees_nothing(make: object) -> None:
    with pytest.raises(InvalidInput):
        make()  # type: ignore[operator]


def test_best_effort_memory_has_koordinators_marks() -> None:
    goal = used_goal(EvictionTrigger.MEMORY_BEST_EFFORT, BestEffortMemoryTrigger(), 100, 70, "bytes")
    assert goal is not None
    assert goal.amounts == ((Currency.USED, 2),)


@pytest.mark.parametrize(
    "make",
    [
        lambda: UsedTrigger(2, 7999, 0),
        lambda: UsedTrigger(2, 7999),
        lambda: UsedTrigger(100, -1, 99),
        lambda: AllocatableTrigger(1, 0, 7999),
        lambda: AllocatableTrigger(200, 199, 0),
        lambda: BestEffortMemoryTrigger(100, 0),
    ],
)
def test_marks_at_their_bounds_are_admitted(make: Callable[[], object]) -> None:
    assert make() is not None


@pytest.mark.parametrize(
    "make",
    [
        lambda: AllocatableTrigger(0, 0, 5999),
        lambda: AllocatableTrigger(80, -1, 5999),
        lambda: UsedTrigger(80, True),
        lambda: UsedTrigger(80, 59.5),  # type: ignore[arg-type]
        lambda: UsedTrigger(80, 5999, 101),
    ],
)
def test_marks_beyond_their_bounds_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(InvalidInput):
        make()


@pytest.mark.parametrize(
    ("threshold", "lower", "used", "release"),
    [
        (80, None, 799, 0),
        (80, None, 800, 20),
        (80, 70, 809, 100),
        (80, 70, 810, 110),
        (2, 0, 20, 20),
        (100, 99, 1000, 10),
    ],
)
def test_use_to_free(threshold: int, lower: int | None, used: int, release: int) -> None:
    assert used_release(threshold, lower, 1000, used) == release


@pytest.mark.parametrize(
    ("pool", "requested", "release"),
    [(1000, 800, 0), (1000, 801, 101), (999, 800, 100), (0, 7, 7), (None, 7, 7), (1000, 2000, 1300)],
)
def test_requests_to_free(pool: int | None, requested: int, release: int) -> None:
    assert allocatable_release(80, 70, pool, requested) == release


def test_the_pools_are_the_settings_else_the_nodes() -> None:
    node = NodeState(0, 1, HostUse(1, 1, 1, 1))
    known = replace(
        node,
        allocatable=Allocatable(
            cpu_m=1, memory_bytes=2, batch_cpu_m=3, batch_memory_bytes=4, mid_cpu_m=5, mid_memory_bytes=6
        ),
    )
    own = ((Currency.REQUESTED_BATCH, 9),)
    for pools in (cpu_pools, memory_pools):
        assert pools(None, node) is None
        assert pools(own, known) == pools(own, node) == own
    names = (Currency.REQUESTED_BATCH, Currency.REQUESTED_MID, Currency.REQUESTED)
    assert cpu_pools(None, known) == tuple(zip(names, (3, 5, 1), strict=True))
    assert memory_pools(None, known) == tuple(zip(names, (4, 6, 2), strict=True))


def test_why_nothing_is_evicted_for_requests() -> None:
    marks, asked = AllocatableTrigger(80, 70, 5999), ((Currency.REQUESTED_BATCH, 800),)
    trigger = EvictionTrigger.CPU_ALLOCATABLE
    unknown = judge_requests(trigger, marks, None, asked, "mCPU")
    within = judge_requests(trigger, marks, ((Currency.REQUESTED_BATCH, 1000),), asked, "mCPU")
    assert isinstance(unknown, Reason)
    assert isinstance(within, Reason)
    assert (unknown.rule, unknown.text) == (f"evict:{trigger}", "the node's lendable resources are not known")
    assert within.text == "requests are within the threshold of every pool"
    goal = judge_requests(trigger, marks, ((Currency.REQUESTED_BATCH, 900),), asked, "mCPU")
    assert isinstance(goal, EvictionGoal)
    assert goal.priority_threshold == 5999
    assert goal.reason.text == (
        f"free 0.17 CPU of 0.8 CPU {Currency.REQUESTED_BATCH} over 0.9 CPU; threshold 80 %, goal 70 %"
    )
    assert [(term.name, term.value) for term in goal.reason.terms] == [
        (Currency.REQUESTED_BATCH, 800),
        ("70 % of the pool", -630),
    ]


def test_the_pause_after_an_eviction() -> None:
    assert cooling_down("r", None, 5, 10) is None
    assert cooling_down("r", 1_000_000, 5_000_000, 4_000_000) is None
    found = cooling_down("r", 1_000_000, 4_900_000, 4_000_000)
    assert found is not None
    assert (found.rule, found.text) == ("r", "cooling down for 0.1 s after the last eviction")
