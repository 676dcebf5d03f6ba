"""Victims by sums, row by row: who is reprieved, whose budget breaks, which job is lost, and what a row then costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cotenant.policy.placement.reprieve import PRIORITY_OFFSET
from cotenant.policy.placement.victims_by_sums import (
    BREAKS,
    GOES,
    STAYS,
    TEARS,
    Costs,
    Losses,
    by_row,
    clear,
    remove_all,
)


@dataclass(frozen=True)
class Member:
    """A candidate: its row, priority, start, size, the group that budgets cover it by, and its job."""

    row: int
    priority: int
    started_s: float = 0.0
    size: int = 1
    group: int = 0
    job: int = -1


@dataclass
class Cleared:
    fate: list[int]
    costs: Costs
    left: list[int]


def cleared(
    members: Sequence[Member],
    needs: int,
    rows: int = 1,
    covers: Sequence[Sequence[int]] = ((),),
    bears: Sequence[int] = (),
    spare: Sequence[int] = (),
    trying: Sequence[bool] | None = None,
) -> Cleared:
    """Rows are full of their candidates, and a newcomer needs so much. `covers`: the budgets of each group."""
    row = np.array([one.row for one in members], np.int64)
    weight = np.array([[one.size for one in members]], np.int64)
    held = np.bincount(row, weight[0], rows).astype(np.int64)
    left = held.copy()[None, :]
    limit = (held - needs)[None, :]
    remove_all(row, weight, left)
    assert left.tolist() == [[0] * rows]
    start, order = by_row(row, rows)
    ends = np.cumsum([0, *map(len, covers)]).astype(np.int64)
    budgets = np.array([budget for group in covers for budget in group], np.int64)
    sizes = [sum(one.job == job for one in members) for job in range(len(spare))]
    of = [[one for one in members if one.job == job] for job in range(len(spare))]
    losses = Losses(
        np.array(spare, np.int64),
        np.array([7] * len(spare), np.int64),
        np.array([max((one.priority for one in group), default=0) for group in of], np.int64),
        np.array([sum(one.priority for one in group) for group in of], np.int64),
        np.array(sizes, np.int64),
        np.array([min((one.started_s for one in group), default=0.0) for group in of]),
    )
    fate = np.full(len(members), -1, np.int64)
    torn, violations, highest, total, victims = (np.zeros(rows, np.int64) for _ in range(5))
    costs = Costs(torn, violations, highest, total, victims, np.full(rows, np.inf))
    clear(
        np.array(trying if trying is not None else [True] * rows),
        start,
        order,
        np.array([one.priority for one in members], np.int64),
        np.array([one.started_s for one in members]),
        np.array([one.group for one in members], np.int64),
        ends,
        budgets,
        np.array(bears, np.int64),
        np.array([one.job for one in members], np.int64),
        losses,
        weight,
        left,
        limit,
        fate,
        costs,
    )
    return Cleared(fate.tolist(), costs, left[0].tolist())


def test_candidates_are_sorted_by_row_and_keep_their_order() -> None:
    start, order = by_row(np.array([2, 0, 2, 0, 2]), 4)
    assert (start.tolist(), order.tolist()) == ([0, 2, 2, 5, 5], [1, 3, 0, 2, 4])


def test_every_column_loses_what_its_candidates_weigh() -> None:
    left = np.array([[10, 20], [5, 5]])
    remove_all(np.array([1, 0, 1]), np.array([[1, 2, 3], [1, 0, 1]]), left)
    assert left.tolist() == [[8, 16], [5, 3]]


def test_the_most_important_and_the_longest_running_stay() -> None:
    members = [Member(0, 1), Member(0, 5, 300.0), Member(0, 5, 100.0), Member(0, 3)]
    found = cleared(members, needs=2)
    assert found.fate == [GOES, STAYS, STAYS, GOES]
    assert found.left == [2]
    assert (found.costs.victims[0], found.costs.highest[0]) == (2, 3)
    assert found.costs.total[0] == 1 + 3 + 2 * PRIORITY_OFFSET
    assert cleared(members, needs=3).fate == [GOES, GOES, STAYS, GOES]


def test_a_smaller_one_stays_where_a_larger_one_has_no_room() -> None:
    found = cleared([Member(0, 9, size=4), Member(0, 1, size=1), Member(0, 0, size=1)], needs=4)
    assert found.fate == [GOES, STAYS, STAYS]
    assert (found.costs.highest[0], found.costs.victims[0], found.costs.torn[0]) == (9, 1, 0)


def test_of_the_most_important_victims_the_earliest_start_counts() -> None:
    members = [Member(0, 5, 100.0), Member(0, 5, 50.0), Member(0, 1, 1.0)]
    assert cleared(members, needs=3).costs.earliest_s[0] == 50.0
    assert cleared(members, needs=2).costs.earliest_s[0] == 100.0
    assert cleared(members, needs=1).costs.earliest_s[0] == 1.0


def test_each_row_is_decided_alone_and_those_that_are_not_tried_are_left() -> None:
    members = [Member(0, 1), Member(1, 9), Member(2, 4), Member(1, 2)]
    found = cleared(members, needs=1, rows=3, trying=[True, True, False])
    assert found.fate == [GOES, STAYS, -1, GOES]
    assert found.costs.victims.tolist() == [1, 1, 0]
    assert found.costs.highest.tolist() == [1, 2, 0]


def test_those_whose_eviction_breaks_a_budget_are_reprieved_first() -> None:
    members = [Member(0, 9), Member(0, 1, group=1), Member(0, 2, group=1)]
    # one of the two may be disrupted: the more important one is counted first, so the other breaks the budget
    found = cleared(members, needs=1, covers=((), (0,)), bears=[1])
    assert found.fate == [STAYS, STAYS, GOES]
    assert found.costs.violations[0] == 0
    none = cleared(members, needs=2, covers=((), (0,)), bears=[0])
    assert none.fate == [GOES, BREAKS, STAYS]
    assert (none.costs.violations[0], none.costs.victims[0]) == (1, 2)
    every = cleared(members, needs=3, covers=((), (0,)), bears=[0])
    assert (every.fate, every.costs.violations[0]) == ([GOES, BREAKS, BREAKS], 2)


def test_budgets_are_counted_anew_on_each_row() -> None:
    members = [Member(0, 1, group=1), Member(1, 1, group=1)]
    found = cleared(members, needs=1, rows=2, covers=((), (0,)), bears=[1])
    assert (found.fate, found.costs.violations.tolist()) == ([GOES, GOES], [0, 0])


def test_a_pod_of_several_budgets_breaks_the_one_that_is_used_up() -> None:
    members = [Member(0, 1, group=0), Member(0, 1, group=1)]
    found = cleared(members, needs=2, covers=((0, 1), (1,)), bears=[5, 1])
    assert (found.fate, found.costs.violations[0]) == ([GOES, BREAKS], 1)


def test_members_that_a_job_cannot_spare_are_reprieved_before_all_others() -> None:
    members = [Member(0, 1, job=0), Member(0, 2, job=0), Member(0, 9)]
    found = cleared(members, needs=1, spare=[1])
    # it can spare its least important one
    assert found.fate == [GOES, STAYS, STAYS]
    assert (found.costs.torn[0], found.costs.victims[0]) == (0, 1)
    kept = cleared(members, needs=1, spare=[0])
    assert kept.fate == [STAYS, STAYS, GOES]


def test_a_job_that_loses_too_many_is_lost_as_a_whole() -> None:
    members = [Member(0, 1, 20.0, job=0), Member(0, 2, 10.0, job=0), Member(0, 9, 5.0)]
    found = cleared(members, needs=3, spare=[1])
    assert found.fate == [TEARS, TEARS, GOES]
    costs = found.costs
    assert (costs.torn[0], costs.victims[0], costs.violations[0]) == (1, 3, 7)
    assert costs.total[0] == 9 + 3 + 3 * PRIORITY_OFFSET
    assert (costs.highest[0], costs.earliest_s[0]) == (9, 5.0)
    alone = cleared([Member(0, 1, 20.0, size=2, job=0), Member(0, 2, 10.0, job=0)], needs=3, spare=[0])
    assert (alone.costs.highest[0], alone.costs.earliest_s[0], alone.costs.torn[0]) == (2, 10.0, 1)


def test_what_a_lost_job_frees_keeps_others() -> None:
    # the job holds 3, of which its large member must go; its other one is lost with it, and the plain pod stays
    members = [Member(0, 5, size=2, job=0), Member(0, 5, job=0), Member(0, 1)]
    found = cleared(members, needs=2, spare=[0])
    assert found.fate[0] == TEARS
    assert found.fate[1] == TEARS
    assert found.fate[2] == STAYS
    assert found.left == [1]
    assert (found.costs.victims[0], found.costs.highest[0]) == (2, 5)


def test_a_job_on_two_rows_is_counted_on_each() -> None:
    members = [Member(0, 1, job=0), Member(1, 1, job=0)]
    found = cleared(members, needs=1, rows=2, spare=[1])
    assert found.fate == [GOES, GOES]
    assert found.costs.torn.tolist() == [0, 0]
