"""Which domains have room for a gang at once, and in which order they are tried."""

from __future__ import annotations

import numpy as np

from cotenant.model.arrays import Int
from cotenant.model.cluster.topology import Domains
from cotenant.policy.placement.gangs.together import with_room, within_reach

# two racks of two nodes each; columns: cpu, memory
RACKS = Domains("rack", ("r0", "r1"), np.array([0, 0, 1, 1]))
READY = np.ones(4, dtype=np.bool_)


def numbers(*rows: tuple[int, ...]) -> Int:
    return np.array(rows, dtype=np.int64)


def test_a_resource_that_no_member_requests_does_not_count() -> None:
    free = numbers((4, 0), (4, 0), (2, 0), (2, 0))
    assert with_room(RACKS, READY, free, numbers((2, 0)), np.array([2])) == (1, 0)  # the one that is left fuller first
    assert with_room(RACKS, READY, free, numbers((2, 0)), np.array([3])) == (0,)
    assert with_room(RACKS, READY, free, numbers((2, 1)), np.array([1])) == ()


def test_a_member_does_not_fit_into_what_nodes_have_together() -> None:
    free = numbers((3, 9), (3, 9), (4, 9), (0, 9))
    assert with_room(RACKS, READY, free, numbers((4, 1)), np.array([1])) == (1,)
    assert with_room(RACKS, READY, numbers((5, 0), (0, 5), (1, 1), (0, 0)), numbers((1, 1)), np.array([1])) == (1,)
    assert with_room(RACKS, READY & (np.arange(4) != 2), free, numbers((4, 1)), np.array([1])) == ()


def test_of_domains_within_reach_the_one_that_lacks_least_comes_first() -> None:
    free, yielding = numbers((1, 9), (0, 9), (2, 9), (0, 9)), numbers((4, 0), (0, 0), (2, 0), (0, 0))
    assert within_reach(RACKS, READY, free, yielding, np.array([4, 0])) == (1, 0)
    assert within_reach(RACKS, READY, free, yielding, np.array([5, 0])) == (0,)
