"""A pod whose bind is decided in a round is not evicted in the same round: who needs its place has it, and it waits
again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

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


@pytest.mark.parametrize("sent", [False, True])
def test_a_bind_that_was_fetched_may_be_under_way_so_its_pod_is_evicted(sent: bool) -> None:
    c = cluster(pod("low"))
    assert binds(c.decide(0.0)) == {"low": "a"}
    if sent:
        assert c.sending("uid-low", 0.5)
    c.pod_seen(pod("vip", 10), 1.0)
    out = c.decide(1.0)
    assert (binds(out), victims(out)) == ({}, ["low"])
    c.validate()


def test_only_those_that_run_are_evicted_where_both_must_make_room() -> None:
    c = cluster(pod("runs", cpu=500, node="a"), pod("low", cpu=500), pod("vip", 10, tolerations=LARGE))
    out = c.decide(0.0)
    assert (binds(out), victims(out)) == ({}, ["runs"])
    c.validate()
    assert binds(c.decide(2.0)) == {}  # it waits for the end of the one
    c.pod_gone("uid-runs", 3.0)
    assert binds(c.decide(3.0)) == {"vip": "a"}
    c.pod_gone("uid-vip", 4.0)
    assert binds(c.decide(30.0)) == {"low": "a"}  # it was never gone
    c.validate()


def test_members_that_lose_one_of_them_before_the_bind_wait_again() -> None:
    members = [pod(f"m-{i}", demands=PAIR) for i in range(2)]
    c = cluster(*members, pod("vip", 10, tolerations=LARGE), nodes=("a", "b"))
    out = c.decide(0.0)
    assert victims(out) == []
    c.validate()
    assert list(binds(c.decide(1.0))) == ["vip"]
    c.validate()


def test_a_withheld_pod_that_changed_meanwhile_is_judged_as_it_is_now() -> None:
    c = cluster(pod("low"), pod("vip", 10, tolerations=LARGE))
    c.decide(0.0)
    c.pod_seen(replace(pod("low"), gates=("example/later",)), 1.0)
    assert c.state_of("uid-low") is SchedulingState.GATED
    c.validate()
