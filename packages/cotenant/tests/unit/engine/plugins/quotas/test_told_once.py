"""A pod that several want to go is told once, whoever asks first."""

from __future__ import annotations

import pytest
from tests.fakes.cluster.quota_world import World, bound, evicted, node, pod, quota

from cotenant.engine.framework.instructions import Evict, Instruction, Preempt


def told_to_go(given: list[Instruction]) -> list[str]:
    """How each is told, in order."""
    found = []
    for instruction in given:
        if isinstance(instruction, Preempt):
            found += [f"preempted {victim.key.partition('/')[2]}" for victim in instruction.victims]
        elif isinstance(instruction, Evict):
            found.append(f"evicted {instruction.victim.key.partition('/')[2]}")
    return found


def full() -> World:
    """`low` has the whole node, and all of its quota."""
    world = World(node("n", 10))
    world.write(quota("a", 0, 10))
    world.create(pod("low", 10, "a"))
    assert bound(world.go()) == ["low"]
    return world


@pytest.mark.parametrize("first", ["vip", "node"])
def test_a_pod_that_its_quota_and_a_node_need_gone_in_one_round_is_preempted_only(first: str) -> None:
    world = full()
    priorities = {"vip": 5, "node": 9} if first == "node" else {"vip": 9, "node": 5}
    world.create(pod("vip", 10, "a", priority=priorities["vip"]), pod("node", 10, priority=priorities["node"]))
    assert told_to_go(world.go()) == ["preempted low"]
    world.delete("low")
    assert bound(world.go(1.0)) == [max(priorities, key=lambda name: priorities[name])]


def test_a_quota_evicts_nobody_beside_a_pod_that_is_told_to_go_already() -> None:
    world = full()
    world.create(pod("node", 10, priority=9))
    assert told_to_go(world.go()) == ["preempted low"]
    world.create(pod("vip", 10, "a", priority=5))
    assert told_to_go(world.go(1.0)) == []  # its watch has not reported it yet
    world.cluster.eviction_withdrawn("uid-low", world.now_s)
    world.cluster.preempt_failed("uid-node", world.now_s)
    world.delete("node")
    assert evicted(world.go(1.0)) == ["low"]


def test_a_quota_that_is_over_gives_up_nobody_beside_a_pod_that_is_told_to_go() -> None:
    world = World(node("n", 10), node("m", 10), revoke_after_s=5.0)
    world.write(quota("a", 0, 20), quota("b", 10, 20))
    world.create(pod("low", 10, "a"), pod("other", 10, "a", priority=3))
    world.go()
    world.create(pod("node", 10, priority=9), pod("owed", 10, "b"))
    assert told_to_go(world.go()) == ["preempted low"]
    assert told_to_go(world.go(6.0) + world.go(6.0)) == []
