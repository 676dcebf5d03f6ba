"""When pods have to leave and how much must become free."""

from __future__ import annotations

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.policy.nodeqos.eviction.goals import (
    AllocatableTrigger,
    BestEffortMemoryTrigger,
    Currency,
    Trigger,
    UsedTrigger,
    allocatable_goal,
    used_goal,
)


def test_use_counts_in_whole_percents_and_is_freed_down_to_the_lower_mark() -> None:
    marks = UsedTrigger(80, 5999)
    assert used_goal(Trigger.CPU_USED, marks, 10_000, 7_999, "mCPU") is None
    goal = used_goal(Trigger.CPU_USED, marks, 10_000, 8_099, "mCPU")
    assert goal is not None
    assert goal.amounts == ((Currency.USED, 200),)
    assert sum(term.value for term in goal.reason.terms) == 200
    assert goal.priority_threshold == 5999
    assert goal.reason.text == "free 0.2 CPU = 10 CPU x (80 % in use - 78 %); threshold 80 %"


def test_each_pool_is_held_against_its_own_requests() -> None:
    marks = AllocatableTrigger(80, 70, 7999)
    pools = ((Currency.REQUESTED_BATCH, 1000), (Currency.REQUESTED_MID, 1000))
    asked = ((Currency.REQUESTED_BATCH, 800), (Currency.REQUESTED_MID, 801))
    goal = allocatable_goal(Trigger.CPU_ALLOCATABLE, marks, pools, asked, "mCPU")
    assert goal is not None
    assert goal.amounts == ((Currency.REQUESTED_MID, 101),)
    assert sum(term.value for term in goal.reason.terms) == 101
    assert allocatable_goal(Trigger.CPU_ALLOCATABLE, marks, pools, asked[:1], "mCPU") is None


def test_a_pool_that_the_node_does_not_have_any_more_frees_all() -> None:
    marks = AllocatableTrigger(80, 70, 7999)
    goal = allocatable_goal(Trigger.MEMORY_ALLOCATABLE, marks, (), ((Currency.REQUESTED_BATCH, 5),), "bytes")
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
    goal = used_goal(Trigger.MEMORY_BEST_EFFORT, BestEffortMemoryTrigger(), 100, 70, "bytes")
    assert goal is not None
    assert goal.amounts == ((Currency.USED, 2),)
