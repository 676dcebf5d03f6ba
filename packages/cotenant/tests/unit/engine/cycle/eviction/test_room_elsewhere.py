"""Nobody is preempted on a shard's own nodes while closed ones, which belong to others, have room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cotenant.engine.cluster import Cluster
from cotenant.engine.cycle.eviction.room_elsewhere import AGAIN_S, PATIENCE_S
from cotenant.engine.framework.instructions import Bind, Instruction, Preempt, Unschedulable
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

GIB = 1 << 30


def pod(name: str, node: str = "", cores: int = 2, priority: int = 0) -> ObservedPod:
    made = Pod(name, requests=Amounts.of({"cpu": 1000 * cores, "memory": GIB}), priority=priority)
    return ObservedPod(made, f"uid-{name}", "cotenant", 0.0, node=node)


def crowded() -> Cluster:
    """The own node is full of a pod that may be preempted; those of others, b and c, are empty."""
    made = Cluster(profile("cotenant-requests"), np.random.default_rng(1))
    for name in ("a", "b", "c"):
        made.node_seen(Node(name, Amounts.of({"cpu": 4000, "memory": 8 * GIB})))
    made.closed.close(("b", "c"), 0.0)
    made.pod_seen(pod("there", "a", 4), 0.0)
    return made


def preempted(said: Sequence[Instruction]) -> list[str]:
    return [victim.key for one in said if isinstance(one, Preempt) for victim in one.victims]


def test_it_asks_for_room_and_says_so_and_is_placed_at_once_when_a_node_is_lent() -> None:
    made = crowded()
    made.pod_seen(pod("urgent", priority=10), 0.0)
    said = made.decide(0.0)
    assert not preempted(said)
    (told,) = [one for one in said if isinstance(one, Unschedulable)]
    assert "no pod is preempted for it yet, as 2 node(s) of other shards have room" in told.message
    assert list(made.closed.helpful(4)) == [(1, {"b": 2, "c": 2})]
    made.pod_seen(pod("small", "a", 0), 0.1)
    made.pod_gone("uid-small", 0.1)  # an event that may help wakes it into its back-off
    made.decide(0.1)
    made.closed.open(("b",))
    assert [one.node for one in made.decide(0.2) if isinstance(one, Bind)] == ["b"]
    made.validate()


def test_it_preempts_where_nobody_lends_a_node_with_room() -> None:
    made = crowded()
    made.pod_seen(pod("urgent", priority=10), 0.0)
    made.decide(0.0)
    made.closed.refused(frozenset("b"))
    assert not preempted(made.decide(0.5))
    made.closed.refused(frozenset("bc"))
    assert preempted(made.decide(0.6)) == ["default/there"]
    made.validate()


def test_it_preempts_at_once_where_no_closed_node_has_room() -> None:
    made = crowded()
    for name in ("b", "c"):
        made.pod_seen(pod(f"on-{name}", name, 3), 0.0)
    made.pod_seen(pod("urgent", priority=10), 0.0)
    assert preempted(made.decide(0.0)) == ["default/there"]


def test_it_waits_no_longer_than_its_patience_and_all_alike_wait_at_the_same_time() -> None:
    made = crowded()
    made.pod_gone("uid-there", 0.0)
    for number in range(4):
        made.pod_seen(pod(f"low-{number}", "a", 1), 0.0)
    made.pod_seen(pod("urgent-0", cores=1, priority=10), 0.0)
    made.pod_seen(pod("urgent-1", cores=1, priority=10), 0.0)
    made.decide(0.0)
    made.pod_seen(pod("late", cores=1, priority=10), PATIENCE_S / 2)
    assert not preempted(made.decide(PATIENCE_S / 2))
    assert made.next_s() <= PATIENCE_S
    assert len(preempted(made.decide(PATIENCE_S))) == 2
    assert not preempted(made.decide(1.9 * PATIENCE_S))
    assert len(preempted(made.decide(2 * PATIENCE_S))) == 1  # from its first judgement on


def test_after_a_while_it_waits_again() -> None:
    made = crowded()
    made.pod_seen(pod("urgent", priority=10), 0.0)
    made.decide(0.0)
    assert preempted(made.decide(PATIENCE_S)) == ["default/there"]
    made.preempt_failed("uid-urgent", PATIENCE_S + 0.5)
    said = made.decide(AGAIN_S + 1)
    made.pod_seen(pod("other", "a", 0), AGAIN_S + 5)
    said = [*said, *made.decide(AGAIN_S + 5)]
    assert not preempted(said)


def test_without_shards_nothing_waits() -> None:
    made = crowded()
    made.closed.open(("b", "c"))
    for name in ("b", "c"):
        made.pod_seen(replace(pod(f"on-{name}", name, 4), pod=pod(f"on-{name}", name, 4, priority=5).pod), 0.0)
    made.pod_seen(pod("urgent", priority=10), 0.0)
    assert preempted(made.decide(0.0)) == ["default/there"]


def test_a_pod_that_waits_once_more_is_judged_when_its_patience_is_over() -> None:
    made = crowded()
    made.pod_seen(pod("urgent", priority=10), 0.0)
    made.decide(0.0)
    made.closed.refused(frozenset("bc"))
    assert preempted(made.decide(0.5)) == ["default/there"]
    made.preempt_failed("uid-urgent", 1.0)
    made.closed.refused(frozenset())
    for now_s in (3.0, 5.0):  # it is judged again after its back-off, and there is room elsewhere again
        made.pod_seen(pod("small", "a", 0), now_s)
        made.pod_gone("uid-small", now_s)
        assert not preempted(made.decide(now_s))
    assert made.next_s() <= PATIENCE_S
    assert preempted(made.decide(PATIENCE_S)) == ["default/there"]
