"""Preemption within a quota for many pods: all that evictions can admit at once, and again when one more can be
evicted.
"""

from __future__ import annotations

from tests.fakes.cluster.quota_world import World, bound, evicted, node, pod, quota

from cotenant.model.cluster.labels import LabelSelector
from cotenant.model.cluster.observed import DisruptionBudget
from cotenant.model.cluster.qos import QoSClass


def test_pods_that_are_alike_preempt_together() -> None:
    world = World(node("n0", 16))
    world.write(quota("q", 0, 4))
    world.create(*(pod(f"low{i}", 1, "q", on="n0") for i in range(4)))
    world.create(*(pod(f"high{i}", 1, "q", priority=5) for i in range(6)))
    given = world.go()
    assert evicted(given) == ["low0", "low1", "low2", "low3"]
    world.evict(given)
    assert bound(world.go(1.0)) == ["high0", "high1", "high2", "high3"]
    later = world.go(300.0)
    assert (bound(later), evicted(later)) == ([], [])


def test_a_pod_that_becomes_evictable_wakes_its_quota() -> None:
    world = World(node("n0", 16))
    world.write(quota("q", 0, 2))
    world.create(pod("a", 1, "q", on="n0", priority=9), pod("b", 1, "q", on="n0"), pod("high", 2, "q", priority=5))
    assert evicted(world.go()) == []
    world.delete("a")
    given = world.go(10.0)
    assert evicted(given) == ["b"]
    world.evict(given)
    assert bound(world.go(10.0)) == ["high"]


def test_best_effort_work_evicts_only_its_like_in_a_quota_too() -> None:
    world = World(node("n0", 16))
    world.write(quota("q", 0, 2))
    world.create(pod("service", 1, "q", on="n0"), pod("be", 1, "q", on="n0", qos=QoSClass.BE))
    world.create(pod("batch", 1, "q", priority=5500, qos=QoSClass.BE))
    assert evicted(world.go()) == ["be"]


def test_pods_of_other_sizes_and_priorities_do_not_wait_for_one_anothers_victims() -> None:
    world = World(node("n0", 32))
    world.write(quota("q", 0, 12))
    world.create(*(pod(f"low{i}", 1, "q", on="n0") for i in range(12)))
    world.create(*(pod(f"high{i}", 1 + i % 3, "q", priority=5 + i) for i in range(4)))
    given = world.go()
    victims = evicted(given)
    assert len(victims) == 7
    for name in victims:
        world.terminate(name)
    assert evicted(world.go(10.0)) == []
    world.delete(*victims)
    given = world.go(30.0)
    assert (bound(given), evicted(given)) == ([f"high{i}" for i in range(4)], [])


def test_who_comes_while_victims_end_joins() -> None:
    world = World(node("n0", 16))
    world.write(quota("q", 0, 4))
    world.create(*(pod(f"low{i}", 1, "q", on="n0") for i in range(4)))
    world.create(pod("first", 1, "q", priority=5))
    (one,) = evicted(world.go())
    world.terminate(one)
    world.create(pod("second", 2, "q", priority=9))
    two = evicted(world.go(10.0))
    assert len(two) == 2
    assert one not in two
    assert world.quotas.is_kept_for("uid-first")
    assert world.quotas.is_kept_for("uid-second")
    world.delete(one, *two)
    assert bound(world.go(30.0)) == ["first", "second"]


def test_nobody_joins_where_a_budget_does_not_let_all_go() -> None:
    world = World(node("n0", 16))
    world.write(quota("q", 0, 3))
    world.create(*(pod(f"low{i}", 1, "q", on="n0", labels={"app": "low"}) for i in range(3)))
    world.cluster.budget_seen(DisruptionBudget("work", "low", LabelSelector.of({"app": "low"}), 1))
    world.create(pod("first", 1, "q", priority=5), pod("second", 1, "q", priority=9))
    assert len(evicted(world.go())) == 1


def test_nobody_joins_where_a_pod_that_is_to_go_would_not_be_needed_then() -> None:
    world = World(node("n0", 16))
    world.write(quota("q", 0, 4))
    world.create(pod("small", 1, "q", on="n0"), pod("large", 3, "q", on="n0", priority=1))
    world.create(pod("first", 1, "q", priority=9))
    assert evicted(world.go()) == ["small"]
    world.create(pod("second", 2, "q", priority=9))
    assert evicted(world.go(10.0)) == []
