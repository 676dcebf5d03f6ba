"""A pod whose bind nobody was told of is never evicted: who needs its place takes it back, and it waits again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from tests.fakes.cluster import quota_world

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Evict, Instruction, Preempt, Unschedulable
from cotenant.engine.framework.pod_state import SchedulingState
from cotenant.engine.framework.settings import EngineSettings
from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.labels import HOSTNAME, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.taints import Match, Toleration
from cotenant.model.groups.gang import GangNotes
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

LARGE = tuple(Toleration(f"key-{i}", Match.EXISTS) for i in range(300))  # judged after all others of its round
PAIR = Demands(gang=GangNotes("pair", 2))


def node(name: str, cpu: int = 1000) -> Node:
    return Node(name, Amounts.of({"cpu": cpu, "memory": 8 << 30}), Labels.of({HOSTNAME: name}))


def pod(name: str, priority: int = 0, cpu: int = 1000, **more: object) -> ObservedPod:
    of_pod = {"tolerations": more.pop("tolerations")} if "tolerations" in more else {}
    value = Pod(name, requests=Amounts.of({"cpu": cpu, "memory": 1 << 20}), priority=priority, **of_pod)  # type: ignore[arg-type]
    return ObservedPod(value, f"uid-{name}", "cotenant", 0.0, **more)  # type: ignore[arg-type]


def cluster(*pods: ObservedPod, nodes: tuple[str, ...] = ("a",)) -> Cluster:
    made = Cluster(profile("least-allocated"), np.random.default_rng(1), EngineSettings(cpu_s=lambda: 0.0))
    for name in nodes:
        made.node_seen(node(name))
    for one in pods:
        made.pod_seen(one, 0.0)
    return made


def binds(out: tuple[Instruction, ...]) -> dict[str, str]:
    return {given.uid.removeprefix("uid-"): given.node for given in out if isinstance(given, Bind)}


def victims(out: tuple[Instruction, ...]) -> list[str]:
    def of(given: Instruction) -> Iterator[str]:
        if isinstance(given, Preempt):
            yield from (victim.uid for victim in given.victims)
        elif isinstance(given, Evict):
            yield given.victim.uid

    return sorted(uid.removeprefix("uid-") for given in out for uid in of(given))


def test_a_large_pod_takes_the_place_of_a_pod_that_was_decided_in_the_same_round() -> None:
    c = cluster(pod("low"), pod("vip", 10, tolerations=LARGE))
    out = c.decide(0.0)
    assert (binds(out), victims(out)) == ({}, [])
    assert c.state_of("uid-low") is SchedulingState.QUEUED
    c.validate()
    out = c.decide(1.0)
    assert (binds(out), victims(out)) == ({"vip": "a"}, [])
    assert [told.uid for told in out if isinstance(told, Unschedulable)] == ["uid-low"]
    c.validate()


@pytest.mark.parametrize(
    ("sent", "expected"),
    [(False, []), (True, ["low"])],
)
def test_a_bind_that_waits_to_be_sent_is_withheld_and_one_that_was_sent_is_evicted(
    sent: bool, expected: list[str]
) -> None:
    c = cluster(pod("low"))
    assert binds(c.decide(0.0)) == {"low": "a"}
    if sent:
        assert c.sending("uid-low", 0.5)
    c.pod_seen(pod("vip", 10), 1.0)
    out = c.decide(1.0)
    assert victims(out) == expected
    c.validate()
    assert not c.sending("uid-low", 1.0)
    if sent:
        c.pod_gone("uid-low", 1.0)
    assert binds(c.decide(1.0)) == {"vip": "a"}
    c.validate()
    if not sent:
        c.pod_gone("uid-vip", 2.0)
        assert binds(c.decide(2.0)) == {"low": "a"}  # it was never gone


def test_only_those_that_run_are_evicted_where_both_must_make_room() -> None:
    c = cluster(pod("runs", cpu=500, node="a"))
    c.pod_seen(pod("low", cpu=500), 0.0)
    assert binds(c.decide(0.0)) == {"low": "a"}
    c.pod_seen(pod("vip", 10), 1.0)
    out = c.decide(1.0)
    assert (binds(out), victims(out)) == ({}, ["runs"])
    c.validate()
    assert binds(c.decide(2.0)) == {}  # it waits for the end of the one
    c.pod_gone("uid-runs", 3.0)
    assert binds(c.decide(3.0)) == {"vip": "a"}


def test_a_gang_takes_the_places_of_pods_that_are_not_sent() -> None:
    c = cluster(pod("low-0"), pod("low-1"), nodes=("a", "b"))
    assert sorted(binds(c.decide(0.0))) == ["low-0", "low-1"]
    assert c.sending("uid-low-0", 0.0)
    for i in range(2):
        c.pod_seen(pod(f"vip-{i}", 10, demands=PAIR), 1.0)
    out = c.decide(1.0)
    assert victims(out) == ["low-0"]
    assert not c.sending("uid-low-1", 1.0)
    c.validate()
    c.pod_gone("uid-low-0", 2.0)
    assert sorted(binds(c.decide(2.0))) == ["vip-0", "vip-1"]
    c.validate()


def test_members_that_lose_one_of_them_before_the_bind_all_wait_again() -> None:
    members = [pod(f"m-{i}", demands=PAIR) for i in range(2)]
    c = cluster(*members, nodes=("a", "b"))
    assert sorted(binds(c.decide(0.0))) == ["m-0", "m-1"]
    c.pod_seen(pod("vip", 10), 1.0)
    out = c.decide(1.0)
    assert victims(out) == []
    assert sorted(c.sending(f"uid-m-{i}", 1.0) for i in range(2)) == [False, False]
    c.validate()
    assert list(binds(c.decide(1.0))) == ["vip"]
    c.validate()


def test_a_withheld_pod_that_changed_meanwhile_is_judged_as_it_is_now() -> None:
    c = cluster(pod("low"))
    c.decide(0.0)
    c.pod_seen(pod("vip", 10), 1.0)
    c.decide(1.0)
    c.pod_seen(replace(pod("low"), gates=("example/later",)), 1.0)
    assert c.state_of("uid-low") is SchedulingState.GATED
    c.validate()


@pytest.mark.parametrize(
    ("sent", "expected"),
    [(False, []), (True, ["low"])],
)
def test_a_more_important_pod_of_the_quota_takes_back_what_was_not_sent(sent: bool, expected: list[str]) -> None:
    world = quota_world.World(quota_world.node("a", 8))
    world.write(quota_world.quota("team", 1, 1))
    world.create(quota_world.pod("low", 1, "team"))
    assert binds(world.cluster.decide(0.0)) == {"low": "a"}
    if sent:
        assert world.cluster.sending("uid-low", 0.0)
    world.create(quota_world.pod("vip", 1, "team", priority=10))
    first = world.cluster.decide(0.0)
    assert victims(first) == expected
    world.cluster.validate()
    if sent:
        world.delete("low")
    else:
        assert not world.cluster.sending("uid-low", 0.0)
    assert binds((*first, *world.cluster.decide(20.0))) == {"vip": "a"}
    world.cluster.validate()
    if not sent:
        assert world.cluster.state_of("uid-low") is SchedulingState.QUEUED
        world.delete("vip")
        assert binds(world.cluster.decide(400.0)) == {"low": "a"}
