"""Preemption within a quota for many pods: all that evictions can admit at once, and again when one more can be
evicted.
"""

from __future__ import annotations

from tests.fakes.cluster.quota_world import World, bound, evicted, node, pod, quota

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
