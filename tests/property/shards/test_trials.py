"""Trials of the protocol of shards, and that they notice what is left out of it.

`python -m tests.property.shards 5000` tries more.
"""

from __future__ import annotations

import pytest
from tests.property.shards.trials import trial
from tests.property.shards.world import Broken, Server, SimPod

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("first", range(0, 24, 4))
def test_whatever_happens_no_node_and_no_quota_is_overrun_and_all_work_ends(first: int) -> None:
    found = [trial(seed) for seed in range(first, first + 4)]
    assert all(one.bound for one in found)
    assert all(one.moved >= 2 for one in found)


@pytest.mark.parametrize("first", range(0, 16, 4))
def test_so_it_is_with_resizes_reservations_ends_large_gangs_and_clocks_of_their_own(first: int) -> None:
    found = [trial(seed, crossings=True) for seed in range(first, first + 4)]
    assert all(one.bound for one in found)


@pytest.mark.parametrize("first", range(100, 116, 4))
def test_so_it_is_where_room_of_quotas_is_lent(first: int) -> None:
    found = [trial(seed, crossings=first % 8 == 0, quotas=True) for seed in range(first, first + 4)]
    assert all(one.bound for one in found)
    assert sum(one.rooms for one in found)


@pytest.mark.parametrize("first", range(0, 8, 4))
def test_so_it_is_while_replicas_of_an_older_version_come_and_go_that_erase_room_of_quotas(first: int) -> None:
    found = [trial(seed, quotas=True, versions=True) for seed in range(first, first + 4)]
    assert all(one.bound for one in found)
    assert sum(one.rooms for one in found)


def test_a_new_shard_of_a_quota_lends_nothing_before_it_has_seen_the_binds_of_the_one_before() -> None:
    assert trial(1013, crossings=True, quotas=True).bound


def late_bind(is_fenced: bool) -> str:
    """A member is stopped before it sends its bind; another fills the node; the first goes on. What the server says."""
    server = Server({"node": 2}, {})
    for name in ("first", "second"):
        server.put(SimPod(name, 2, f"work-{name}"))
    known = server.pods["first"].version
    if is_fenced:
        server.touch("first")
    assert not server.bind("second", "node", server.pods["second"].version)
    return server.bind("first", "node", known)


def test_a_bind_of_a_stopped_member_is_refused_by_the_fence_and_by_nothing_else() -> None:
    assert late_bind(is_fenced=True) == "conflict"
    with pytest.raises(Broken, match="node holds 4 of 2"):
        late_bind(is_fenced=False)


def test_trials_notice_a_fence_that_is_left_out() -> None:
    """Of about 700 seeds this one sends a late bind onto a node that was filled meanwhile."""
    assert trial(254).refused == 1
    with pytest.raises(Broken, match="holds 7 of 6"):
        trial(254, fences=False)
