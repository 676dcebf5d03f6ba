"""Victims in a quota whose disruption budget is spent: nobody is evicted in vain, it is said once, and tried when the
budget has room.
"""

from __future__ import annotations

from tests.fakes.cluster.quota_world import World, bound, evicted, node, pod, quota, told

from cotenant.model.cluster.labels import LabelSelector
from cotenant.model.cluster.observed import DisruptionBudget

AWAITED = "work/low of the same quota would leave for it: that waits for their disruption budgets."


def allow(world: World, disruptions: int) -> None:
    world.cluster.budget_seen(DisruptionBudget("work", "low", LabelSelector.of({"app": "low"}), disruptions))


def spent() -> World:
    """`vip` needs what `low`, whose budget is spent, and `free` have."""
    world = World(node("n", 100))
    world.write(quota("a", 0, 10))
    world.create(pod("low", 6, "a", labels={"app": "low"}), pod("free", 4, "a"))
    world.go()
    allow(world, 0)
    world.create(pod("vip", 10, "a", priority=9))
    return world


def test_nobody_is_evicted_and_it_is_said_once_what_is_awaited() -> None:
    world = spent()
    given = world.go()
    assert evicted(given) == []
    assert AWAITED in told(given)["vip"]
    later = [world.go(30.0) for _ in range(20)]
    assert [evicted(given) for given in later] == [[]] * 20
    assert [told(given) for given in later if told(given)] == []


def test_they_go_as_soon_as_the_budget_has_room() -> None:
    world = spent()
    world.go()
    world.go(200.0)
    allow(world, 1)
    given = world.go(30.0)
    assert evicted(given) == ["free", "low"]
    world.evict(given)
    assert bound(world.go(30.0)) == ["vip"]


def test_what_comes_free_meanwhile_is_kept() -> None:
    world = spent()
    world.go()
    world.delete("free")
    world.create(pod("small", 4, "a"))
    assert bound(world.go(300.0)) == []
    world.delete("low")
    assert bound(world.go(30.0)) == ["vip"]


def test_who_is_as_important_and_can_be_helped_does_not_wait_for_the_budget_of_others() -> None:
    world = spent()
    world.go()
    world.create(pod("other", 4, "a", priority=9))
    given = world.go(30.0)
    assert evicted(given) == ["free"]
    world.evict(given)
    assert bound(world.go(30.0)) == ["other"]


def test_who_can_be_helped_as_little_leaves_the_promise_where_it_is() -> None:
    world = spent()
    world.go()
    world.create(pod("other", 10, "a", priority=9))
    given = [world.go(30.0), world.go(70.0), world.go(70.0)]
    assert [evicted(part) for part in given] == [[], [], []]
    allow(world, 1)
    given_back = world.go(30.0)
    assert evicted(given_back) == ["free", "low"]
    world.evict(given_back)
    assert len(bound(world.go(30.0))) == 1
