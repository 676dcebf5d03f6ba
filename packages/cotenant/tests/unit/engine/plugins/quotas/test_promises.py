"""Room that is kept for a pod while others of its quota leave: what ends the promise, and what outlives it."""

from __future__ import annotations

import pytest
from tests.fakes.cluster.quota_world import World, bound, evicted, node, pod, quota, statuses, told


def promised() -> World:
    """`low` is to leave for `vip`, and `small` waits behind it."""
    world = World(node("n", 100))
    world.write(quota("a", 0, 10))
    world.create(pod("low", 6, "a"))
    world.go()
    world.create(pod("vip", 10, "a", priority=9), pod("small", 4, "a"))
    assert evicted(world.go()) == ["low"]
    assert kept_for(world) == "work/vip"
    return world


def kept_for(world: World) -> str:
    about = world.quotas.describe("a")
    return "" if about is None else about.kept_for


def test_a_promise_ends_with_the_last_quota() -> None:
    world = promised()
    world.quotas.quota_gone("quotas/a", world.now_s)
    assert bound(world.go(1.0)) == ["small", "vip"]  # without a quota there is room
    world.write(quota("a", 0, 25))
    world.create(pod("later", 5, "a"))
    assert bound(world.go(1.0)) == ["later"]
    assert kept_for(world) == ""


def test_a_promise_outlives_a_change_of_its_quota() -> None:
    world = promised()
    world.write(quota("a", 0, 11))
    assert bound(world.go(1.0)) == []
    assert kept_for(world) == "work/vip"
    world.delete("low")
    assert bound(world.go(30.0)) == ["vip"]
    assert kept_for(world) == ""


@pytest.mark.parametrize(
    ("priority", "waits"), [(0, True), (8, True), (9, False), (10, False)], ids=["less", "just less", "as", "more"]
)
def test_only_less_important_pods_wait_behind_a_promise(priority: int, waits: bool) -> None:
    world = promised()
    world.create(pod("other", 1, "a", priority=priority))
    given = world.go(1.0)
    assert ("keeps what comes free for work/vip" in told(given).get("other", "")) == waits
    assert (bound(given) == ["other"]) == (not waits)


def test_other_quotas_do_not_wait_behind_a_promise() -> None:
    world = promised()
    world.write(quota("b", 0, 5))
    world.create(pod("beside", 5, "b"))
    assert bound(world.go(1.0)) == ["beside"]


def test_while_a_pod_of_the_quota_terminates_no_further_one_is_evicted() -> None:
    world = World(node("n", 100))
    world.write(quota("a", 0, 10))
    world.create(pod("leaving", 5, "a"), pod("low", 5, "a"))
    world.go()
    world.terminate("leaving")
    world.create(pod("vip", 5, "a", priority=9))
    assert evicted(world.go(1.0)) == []
    world.delete("leaving")
    given = world.go(30.0)
    assert (bound(given), evicted(given)) == (["vip"], [])


def test_who_waited_for_a_pod_to_leave_may_evict_once_it_has_left_and_room_lacks_still() -> None:
    world = World(node("n", 100))
    world.write(quota("a", 0, 10))
    world.create(pod("leaving", 2, "a"), pod("low", 8, "a"))
    world.go()
    world.terminate("leaving")
    world.create(pod("vip", 5, "a", priority=9))
    assert evicted(world.go(1.0)) == []
    world.delete("leaving")
    assert evicted(world.go(30.0)) == ["low"]


def test_only_the_quota_that_changed_is_told_its_status() -> None:
    world = World(node("n", 100), status_every_s=5.0)
    world.write(quota("a", 0, 10), quota("b", 0, 10))
    world.create(pod("x", 4, "a"), pod("y", 4, "b"))
    world.go()
    assert set(statuses(world.go(10.0))) == {"quotas/a", "quotas/b"}
    world.create(pod("z", 4, "a"))
    assert set(statuses(world.go(10.0))) == {"quotas/a"}


def test_who_was_kept_waiting_goes_when_the_promised_pod_finds_no_node() -> None:
    """It is admitted, which ends the promise, and withdrawn again: its quota is free for others."""
    world = World(node("n", 2), node("m", 1), revoke=False)
    world.write(quota("q", 0, 2), quota("r", 0, 1))
    world.create(pod("fixed", 1, "r", on="n", priority=9), pod("low", 1, "q", on="n"))
    world.create(pod("high", 2, "q", priority=5), pod("small", 1, "q", priority=1))
    given = world.go()
    assert evicted(given) == ["low"]
    assert "keeps what comes free for work/high" in told(given)["small"]
    world.evict(given)
    assert bound(world.go(10.0)) == ["small"]
