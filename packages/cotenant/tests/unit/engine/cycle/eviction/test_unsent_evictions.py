"""A plugin evicts a pod whose bind is decided in the same round: nobody was told of either, so it waits again, and
whoever it makes room for is placed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.fakes.cluster.quota_world import World, bound, evicted, node, pod, quota, told

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Evict, Preempt, Unschedulable, Victim
from cotenant.engine.framework.outbox import Outbox
from cotenant.engine.framework.plugin import Plugin
from cotenant.engine.framework.pod_state import PodInfo, SchedulingState
from cotenant.engine.registry import PluginRegistry
from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.taints import Match, Toleration
from cotenant.model.decisions.record import DecisionRecord
from cotenant.model.groups.gang import GangMode, GangNotes
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

LARGE = tuple(Toleration(f"key-{i}", Match.EXISTS) for i in range(300))  # judged after all others of its round
PAIR = Demands(gang=GangNotes("pair", 2))


# ---- quotas


def test_a_quota_takes_back_what_it_gave_in_the_same_round() -> None:
    world = World(node("n", 100))
    world.write(quota("a", 0, 4))
    world.create(pod("low", 4, "a"), pod("vip", 4, "a", priority=9, tolerations=LARGE))
    given = world.go()
    assert (evicted(given), bound(given)) == ([], ["vip"])
    assert "4 of 4 cpu used" in told(given)["low"]
    assert world.cluster.state_of("uid-low") is SchedulingState.QUEUED
    world.delete("vip")
    assert bound(world.go(60.0)) == ["low"]  # it was never gone, and nothing is kept from it


def test_a_quota_evicts_who_runs_and_takes_back_who_does_not() -> None:
    world = World(node("n", 100))
    world.write(quota("a", 0, 4))
    world.create(pod("runs", 2, "a"))
    assert bound(world.go()) == ["runs"]
    world.create(pod("low", 2, "a"), pod("vip", 4, "a", priority=9, tolerations=LARGE))
    given = world.go(1.0)
    assert (evicted(given), bound(given)) == (["runs"], [])
    world.evict(given)
    assert bound(world.go(1.0)) == ["vip"]


def test_a_pod_that_gives_its_node_back_instead_is_not_taken_for_one_that_leaves() -> None:
    """A quota revokes what a member holds that waits for its gang."""
    world = World(node("n", 10), node("m", 4), revoke_after_s=20.0)
    world.write(quota("a", 2, 20), quota("b", 8, 10))
    gang = Demands(gang=GangNotes("g", 2, mode=GangMode.NON_STRICT))
    world.create(*(replace(pod(name, cores, "a"), demands=gang) for name, cores in (("a0", 8), ("a1", 6))))
    world.go()
    assert world.cluster.state_of("uid-a0") is SchedulingState.WAITING
    world.create(pod("b0", 8, "b"))
    given = [*world.go(10.0), *world.go(30.0)]
    assert evicted(given) == []
    assert world.cluster.state_of("uid-a0") is SchedulingState.QUEUED
    assert not world.quotas.is_leaving("uid-a0")


# ---- a plugin of others


class Evicting(Plugin):
    """Says at one point of a round that a pod is to be evicted, once."""

    name = "Evicting"

    def __init__(self, at: str, uid: str) -> None:
        self.at, self.uid = at, uid
        self.gone: list[str] = []

    def skips(self, pod: Pod, demands: Demands) -> bool:
        return False

    def _say(self, point: str) -> None:
        if self.at == point:
            self.at = ""
            self.host.say(Evict(Victim(self.uid, f"default/{self.uid}", "n"), "Test", "it must go"))

    def turn(self, now_s: float) -> None:
        self._say("turn")

    def reserve(self, entry: PodInfo, node: str) -> None:
        if entry.seen.uid == self.uid:
            self._say("reserve")

    def unreserve(self, entry: PodInfo) -> None:
        if entry.node:
            self.gone.append(entry.seen.uid)


def seen(uid: str, **more: Any) -> ObservedPod:
    return ObservedPod(Pod(uid, requests=Amounts.of({"cpu": 1000})), uid, "cotenant", 0.0, **more)


def cluster(plugin: Plugin, *pods: ObservedPod, nodes: int = 1) -> Cluster:
    made = Cluster(profile("least-allocated"), np.random.default_rng(1), plugins=PluginRegistry(more=(plugin,)))
    for at in range(nodes):
        made.node_seen(node(f"n{at}", 1))
    for one in pods:
        made.pod_seen(one, 0.0)
    return made


def of(kind: type, given: tuple[object, ...]) -> list[str]:
    return [said.victim.uid if isinstance(said, Evict) else said.uid for said in given if isinstance(said, kind)]  # type: ignore[attr-defined]


def test_neither_the_bind_nor_the_eviction_of_one_round_is_told() -> None:
    plugin = Evicting("reserve", "p")
    c = cluster(plugin, seen("p"))
    given = c.decide(0.0)
    assert (of(Bind, given), of(Evict, given), plugin.gone) == ([], [], ["p"])
    assert c.state_of("p") is SchedulingState.QUEUED
    c.validate()
    assert of(Bind, c.decide(1.0)) == ["p"]  # the plugin wanted it gone once
    c.validate()


@pytest.mark.parametrize("is_sent", [False, True])
def test_a_bind_of_an_earlier_round_may_be_under_way_so_its_pod_is_evicted(is_sent: bool) -> None:
    plugin = Evicting("", "p")
    c = cluster(plugin, seen("p"))
    (bind,) = [said for said in c.decide(0.0) if isinstance(said, Bind)]
    if is_sent:
        assert c.sending(bind.uid, 0.5, bind.number)
    plugin.at = "turn"
    assert of(Evict, c.decide(1.0)) == ["p"]
    assert plugin.gone == []
    c.validate()


def test_a_member_that_holds_a_node_for_its_gang_gives_it_back_instead() -> None:
    plugin = Evicting("", "one")
    c = cluster(plugin, seen("one", demands=PAIR), nodes=2)
    c.decide(0.0)
    plugin.at = "turn"
    c.pod_seen(seen("two", demands=PAIR), 1.0)
    given = c.decide(1.0)
    assert of(Evict, given) == []
    c.validate()
    later = [uid for now_s in (2.0, 30.0, 60.0) for uid in of(Bind, c.decide(now_s))]
    assert sorted([*of(Bind, given), *later]) == ["one", "two"]
    c.validate()


# ---- the outbox

RECORD = DecisionRecord("p", 0.0, 1, "n")


def bind(uid: str) -> Bind:
    return Bind(uid, f"default/{uid}", "n", RECORD)


def victim(uid: str) -> Victim:
    return Victim(uid, f"default/{uid}", "n")


def test_who_is_to_be_evicted_is_named_once() -> None:
    outbox = Outbox()
    outbox.say(Preempt("vip", "default/vip", "n", (victim("a"), victim("b"))))
    outbox.say(Evict(victim("b"), "Test", ""))
    outbox.say(Evict(victim("c"), "Test", ""))
    outbox.say(bind("d"))
    assert outbox.victims() == ("a", "b", "c")
    outbox.take()
    assert outbox.victims() == ()


def test_only_what_concerns_the_pod_is_withdrawn_and_the_rest_keeps_its_order() -> None:
    outbox = Outbox()
    waits = Unschedulable("b", "default/b", "Unschedulable", "no room", RECORD)
    preempt = Preempt("b", "default/b", "n", (victim("a"), victim("b")))
    for said in (bind("a"), preempt, bind("b"), Evict(victim("c"), "Test", ""), Evict(victim("d"), "Test", ""), waits):
        outbox.say(said)
    outbox.withdraw("b")
    outbox.withdraw("c")
    left = Preempt("b", "default/b", "n", (victim("a"),))
    assert outbox.take() == (bind("a"), left, Evict(victim("d"), "Test", ""), waits)
    outbox.say(Evict(victim("c"), "Test", ""))
    assert outbox.take() == (Evict(victim("c"), "Test", ""),)  # it may be told again


def test_a_pod_is_told_once_to_go_and_by_a_preemption_where_there_is_one() -> None:
    outbox = Outbox()
    first, again = Evict(victim("a"), "Test", "first"), Evict(victim("a"), "Test", "again")
    preempt = Preempt("vip", "default/vip", "n", (victim("a"),))
    for said, left in ((first, (first,)), (again, (first,)), (preempt, (preempt,)), (again, (preempt,))):
        outbox.say(said)
        assert tuple(outbox.pending) == left
    outbox.take()
    outbox.say(again)
    assert outbox.take() == (again,)
