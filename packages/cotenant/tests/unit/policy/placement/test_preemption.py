"""Which node preemption clears: the criteria of kube-scheduler's pickOneNodeForPreemption, each on its own."""

from __future__ import annotations

from collections.abc import Mapping
from math import nan

import numpy as np
import pytest

from cotenant.policy.placement.preemption import (
    Candidates,
    ConstraintColumn,
    Exact,
    Preemption,
    find_victims,
    ineligible,
)


def chosen(
    *residents: tuple[int, int, float], needs: int = 1, guarded: tuple[int, ...] = (), exact: Exact | None = None
) -> Preemption:
    """Residents are (row, priority, start time), each of size 1 on rows of size 1 each; `guarded` residents may not
    be disrupted.
    """
    row, priority, started_s = (np.array(resident) for resident in zip(*residents, strict=True))
    count, size = len(residents), int(row.max()) + 1
    held = np.bincount(row, minlength=size).astype(np.int64)
    candidates = Candidates(
        pod=np.arange(count),
        row=row,
        priority=priority,
        started_s=started_s.astype(np.float64),
        group=np.array([number in guarded for number in range(count)], dtype=np.int64),
        covered=np.array([[False], [True]]),
        bears=np.zeros(1, dtype=np.int64),
        job=np.full(count, -1),
    )
    column = ConstraintColumn("Insufficient cpu", held, held - needs, np.ones(count, dtype=np.int64))
    everywhere = np.ones(size, dtype=np.bool_)
    return find_victims(everywhere, everywhere, (column,), candidates, exact)


def test_of_equally_good_nodes_the_one_whose_victim_started_latest_is_cleared() -> None:
    assert chosen((0, 5, 100.0), (1, 5, 300.0), (2, 5, 200.0)).row == 1


def test_of_several_victims_the_earliest_start_of_the_most_important_ones_counts() -> None:
    """Node 0: the most important victims started at 50 and 900; node 1: at 60 and 70; less important ones do not
    count.
    """
    residents = ((0, 5, 900.0), (0, 5, 50.0), (0, 1, 1.0), (1, 5, 60.0), (1, 5, 70.0), (1, 1, 0.0))
    assert chosen(*residents, needs=3).row == 1


def test_a_victim_that_has_not_started_counts_as_the_latest() -> None:
    assert chosen((0, 5, 1e9), (1, 5, nan)).row == 1


def test_of_nodes_that_are_equal_in_everything_the_first_is_cleared() -> None:
    assert chosen((0, 5, 100.0), (1, 5, 100.0)).row == 0


@pytest.mark.parametrize(
    ("residents", "needs", "guarded", "row"),
    [
        (((0, 1, 900.0), (1, 9, 1.0)), 1, (0,), 1),  # no violated budget, though its victim is more important
        (((0, 5, 900.0), (1, 4, 1.0)), 1, (), 1),  # the lower highest priority, though it started earlier
        (((0, 5, 900.0), (0, 3, 900.0), (1, 5, 1.0), (1, 2, 1.0)), 2, (), 1),  # the lower sum of priorities
    ],
)
def test_start_times_only_break_ties(
    residents: tuple[tuple[int, int, float], ...], needs: int, guarded: tuple[int, ...], row: int
) -> None:
    assert chosen(*residents, needs=needs, guarded=guarded).row == row


def test_on_one_node_the_pod_that_started_last_is_the_victim() -> None:
    assert chosen((0, 5, 100.0), (0, 5, 300.0), (0, 5, 200.0)).victims == (1,)


def test_a_pod_waits_for_a_terminating_pod_of_lower_priority_only() -> None:
    assert ineligible(True, 5, np.array([4]), False)
    assert not ineligible(True, 5, np.array([5]), False)
    assert not ineligible(True, 5, np.array([4]), True)


class Room:
    """What a node rule says of a row: whether the pod fits without all candidates."""

    sizes: Mapping[int, int] = {}

    def __init__(self, fits: bool) -> None:
        self._fits, self.reason = fits, "" if fits else "no slot"

    def fits(self, removed: frozenset[int]) -> bool:
        return self._fits


def test_rows_after_one_that_the_exact_answer_refuses_are_tried() -> None:
    """By the columns row 0 is the cheapest; by the node rules it is of no use."""
    found = chosen((0, 1, 100.0), (1, 5, 100.0), (2, 9, 100.0), exact=lambda row: Room(row != 0))
    assert (found.row, found.victims) == (1, (1,))
    none = chosen((0, 1, 100.0), (1, 5, 100.0), exact=lambda row: Room(False))
    assert none.row == -1
    assert ("no slot", 2) in [(rejection.reason, rejection.nodes) for rejection in none.rejections]
