"""NonStrict gangs that released their nodes incomplete: how long they hold none, and what they may take meanwhile."""

from __future__ import annotations

import pytest
from tests.fakes.cluster.gang_world import binds, cluster, group, members, node, pod, preempted, see, settle, told

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.pod_state import SchedulingState
from cotenant.engine.plugins.gangs.back_off import MAX_DOUBLINGS, GangBackOffs
from cotenant.model.groups.gang import GangMode


def held(c: Cluster) -> set[str]:
    """Names of the pods that hold a node without being bound."""
    found = {entry.seen.pod.name: entry for entry in c._pods.by_uid.values() if entry.state is SchedulingState.WAITING}
    return set(found)


def times_of_change(c: Cluster, until_s: float) -> list[tuple[float, bool]]:
    """When the cluster began (True) or stopped (False) to have held nodes, from time 0 on."""
    found: list[tuple[float, bool]] = []
    now_s, before = 0.0, False
    while now_s <= until_s:
        settle(c, now_s)
        if bool(held(c)) != before:
            before = not before
            found.append((now_s, before))
        now_s = max(now_s + 0.5, c.next_s())
    return found


def test_a_gang_that_can_never_complete_leaves_room_for_a_plain_pod() -> None:
    """Two members of 8 on one node of 8: without a back-off of the queued one it takes the room as soon as the
    other releases it.
    """
    c = cluster(1, cpu=8000)
    see(c, *members("a", 2, cpu=8000, mode=GangMode.NON_STRICT, wait_s=6.0))
    settle(c, 0.0)
    assert len(held(c)) == 1
    see(c, pod("plain", cpu=1000, created_s=1.0), now_s=1.0)
    now_s = 1.0
    while not binds(settle(c, now_s)):
        now_s = max(now_s + 0.25, min(c.next_s(), now_s + 5.0))
        assert now_s < 17.0
    assert c.assigned() == {"uid-default-plain": "n0"}


def test_each_back_off_is_twice_as_long_as_the_one_before() -> None:
    c = cluster(1)
    see(c, *members("a", 2, mode=GangMode.NON_STRICT, wait_s=30.0))
    assert times_of_change(c, 350.0) == [
        (0.0, True),
        (30.0, False),
        (60.0, True),
        (90.0, False),
        (150.0, True),
        (180.0, False),
        (300.0, True),
        (330.0, False),
    ]


def test_a_back_off_is_longer_than_that_of_any_pod() -> None:
    c = cluster(1)
    see(c, *members("a", 2, mode=GangMode.NON_STRICT, wait_s=1.0))
    assert times_of_change(c, 30.0) == [(0.0, True), (1.0, False), (21.0, True), (22.0, False)]


def test_back_offs_grow_to_a_limit() -> None:
    back_offs = GangBackOffs()
    for _ in range(MAX_DOUBLINGS + 5):
        back_offs.start(("a",), 10.0, 0.0)
    assert back_offs.length_s("a") == 10.0 * 2.0**MAX_DOUBLINGS
    assert not back_offs.end_due(10.0)
    assert back_offs.end_due(20000.0) == ("a",)
    assert not back_offs.is_active("a")
    assert back_offs.times("a") == MAX_DOUBLINGS + 5


def test_a_gang_in_back_off_is_bound_as_soon_as_it_fits() -> None:
    c = cluster(2)
    see(c, *members("a", 4, mode=GangMode.NON_STRICT, wait_s=30.0))
    settle(c, 0.0)
    out = settle(c, 30.0)
    assert not held(c)
    assert (
        "The gang backs off: it released its nodes incomplete once, and for 30 s takes nodes only all together"
        in (told(out)["a-0"])
    )
    c.node_seen(node("n8"))
    assert not binds(settle(c, 45.0))
    assert not held(c)
    c.node_seen(node("n9"))
    assert len(binds(settle(c, 50.0) + settle(c, 59.0))) == 4


def test_a_member_that_arrives_in_back_off_takes_no_node_alone() -> None:
    c = cluster(2)
    see(c, *members("a", 3, mode=GangMode.NON_STRICT, wait_s=30.0))
    settle(c, 0.0)
    settle(c, 30.0)
    see(c, pod("a-3", "a", 3, mode=GangMode.NON_STRICT, wait_s=30.0, created_s=31.0), now_s=31.0)
    settle(c, 31.0)
    settle(c, 50.0)
    assert not held(c)
    settle(c, 60.0)
    assert len(held(c)) == 2


def test_gangs_that_are_placed_together_release_their_nodes_together() -> None:
    both = ("default/a", "default/b")
    c = cluster(3)
    see(c, *members("a", 2, mode=GangMode.NON_STRICT, wait_s=30.0, groups=both))
    see(c, *members("b", 2, mode=GangMode.NON_STRICT, wait_s=90.0, groups=both))
    settle(c, 0.0)
    assert len(held(c)) == 3
    settle(c, 30.0)
    assert not held(c)
    see(c, pod("plain", created_s=31.0), now_s=31.0)
    assert set(binds(settle(c, 31.0))) == {"plain"}
    settle(c, 59.0)
    assert not held(c)
    c.node_seen(node("n8"))
    c.node_seen(node("n9"))
    assert len(binds(settle(c, 59.5) + settle(c, 75.0))) == 4


def test_a_gang_that_needs_another_does_not_make_it_back_off() -> None:
    c = cluster(2)
    see(c, *members("a", 1, mode=GangMode.NON_STRICT, wait_s=30.0, groups=("default/a", "default/b")))
    see(c, *members("b", 2, mode=GangMode.NON_STRICT, wait_s=300.0))
    settle(c, 0.0)
    settle(c, 30.0)
    b = c.plugins.gangs.describe("default/b")
    assert b is not None
    assert b.backs_off_until_s < 0.0


@pytest.mark.parametrize("what", ["minimum", "members"])
def test_a_gang_that_changed_starts_with_a_short_back_off_again(what: str) -> None:
    c = cluster(1)
    c.plugins.gangs.pod_group_seen(group("a", 2, mode=GangMode.NON_STRICT, wait_s=30.0), 0.0)
    a = [pod(f"a-{i}", label="a") for i in range(2)]
    see(c, *a)
    settle(c, 0.0)
    settle(c, 30.0)
    assert not held(c)
    if what == "minimum":
        c.plugins.gangs.pod_group_seen(group("a", 1, mode=GangMode.NON_STRICT, wait_s=30.0), 31.0)
        assert len(binds(settle(c, 31.0) + settle(c, 45.0))) == 1
    else:
        for observed_pod in a:
            c.pod_gone(observed_pod.uid, 31.0)
        see(c, *(pod(f"again-{i}", label="a", created_s=32.0) for i in range(2)), now_s=32.0)
        settle(c, 32.0)
        assert len(held(c)) == 1


def test_a_gang_in_back_off_evicts_only_for_all_that_must_run() -> None:
    c = cluster(2)
    see(c, pod("low-0", on="n0", priority=-5), pod("low-1", on="n1", priority=-5))
    a = members("a", 3, mode=GangMode.NON_STRICT, wait_s=30.0, priority=5)
    see(c, *a)
    out = settle(c, 0.0)
    for i in range(2):
        assert f"low-{i}" in {victim for victims in preempted(out).values() for victim in victims}
        c.pod_gone(f"uid-default-low-{i}", 1.0)
    settle(c, 2.0)
    assert len(held(c)) == 2
    see(c, pod("low-2", priority=-5, created_s=3.0), pod("low-3", priority=-5, created_s=3.0), now_s=3.0)
    now_s, out = 3.0, []
    while now_s < 61.0:
        out += settle(c, now_s)
        now_s += 1.0
    assert set(binds(out)) == {"low-2", "low-3"}
    assert not preempted(out)


def test_a_rebuild_keeps_the_back_off() -> None:
    c = cluster(1)
    see(c, *members("a", 2, mode=GangMode.NON_STRICT, wait_s=30.0))
    settle(c, 0.0)
    settle(c, 30.0)
    c.rebuild(31.0)
    settle(c, 31.0)
    settle(c, 50.0)
    assert not held(c)
