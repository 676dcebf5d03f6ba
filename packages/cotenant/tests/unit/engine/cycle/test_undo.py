"""What a simulation leaves behind: nothing, whatever was decided, seen or deleted in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Instruction, Preempt
from cotenant.engine.framework.pod_state import SchedulingState
from cotenant.model.cluster.labels import HOSTNAME, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

NOW_S = 100.0
QUEUED, BOUND = SchedulingState.QUEUED, SchedulingState.BOUND


def pod(name: str, priority: int = 0, cpu: int = 1000, on: str = "") -> ObservedPod:
    value = Pod(name, requests=Amounts.of({"cpu": cpu, "memory": 1 << 20}), priority=priority)
    return ObservedPod(value, f"uid-{name}", "cotenant", 0.0, node=on)


def node(name: str, cpu: int = 1000) -> Node:
    return Node(name, Amounts.of({"cpu": cpu, "memory": 8 << 30}), Labels.of({HOSTNAME: name}))


def world() -> Cluster:
    """A pod waits for the end of another, one was refused and rests, one was never judged."""
    made = Cluster(profile("least-allocated"), np.random.default_rng(1))
    made.node_seen(node("a"))
    made.pod_seen(pod("resident", on="a"), 0.0)
    made.pod_seen(pod("vip", 10), 0.0)
    made.pod_seen(pod("giant", 20, cpu=5000), 0.0)
    made.decide(0.0)
    made.pod_seen(pod("new", 5), NOW_S)
    return made


def told(given: tuple[Instruction, ...]) -> list[tuple[str, str]]:
    return sorted((type(said).__name__, getattr(said, "uid", "")) for said in given)


def nothing(c: Cluster) -> None:
    c.decide(NOW_S)


def a_bind(c: Cluster) -> None:
    c.pod_gone("uid-resident", NOW_S)
    given = c.decide(NOW_S)
    assert [said.uid for said in given if isinstance(said, Bind)] == ["uid-vip"]
    c.sending("uid-vip", NOW_S)
    c.bound("uid-vip", NOW_S)


def a_preemption(c: Cluster) -> None:
    c.pod_seen(pod("king", 30), NOW_S)
    given = c.decide(NOW_S)
    assert [said.uid for said in given if isinstance(said, Preempt)] == ["uid-king"]


def a_failed_preemption(c: Cluster) -> None:
    c.preempt_failed("uid-vip", NOW_S)
    assert c.reserved() == {}
    c.decide(NOW_S)


def deletions(c: Cluster) -> None:
    for name in ("vip", "giant", "new"):
        c.pod_gone(f"uid-{name}", NOW_S)
    c.decide(NOW_S)


def another_size(c: Cluster) -> None:
    c.pod_seen(replace(pod("giant", 20), pod=replace(pod("giant", 20).pod, labels=Labels.of({"x": "y"}))), NOW_S)
    c.decide(NOW_S)


@pytest.mark.parametrize("simulated", [nothing, a_bind, a_preemption, a_failed_preemption, deletions, another_size])
def test_it_decides_afterwards_what_it_would_have_decided_without_it(simulated: Callable[[Cluster], None]) -> None:
    c, same = world(), world()
    with c.tentative(NOW_S):
        simulated(c)
    c.validate()
    assert c.reserved() == same.reserved() == {"uid-vip": "a"}
    states = {name: c.state_of(f"uid-{name}") for name in ("resident", "vip", "giant", "new", "king")}
    gone = SchedulingState.GONE
    assert states == {"resident": BOUND, "vip": QUEUED, "giant": QUEUED, "new": QUEUED, "king": gone}
    assert c.next_s() == same.next_s()
    assert c.counts == same.counts
    for now_s in (NOW_S, NOW_S + 1.0, NOW_S + 400.0):
        assert told(c.decide(now_s)) == told(same.decide(now_s)), now_s
        assert c.next_s() == same.next_s()
    for made in (c, same):
        made.pod_gone("uid-resident", NOW_S + 500.0)
    assert told(c.decide(NOW_S + 500.0)) == told(same.decide(NOW_S + 500.0)) == [("Bind", "uid-vip")]
    c.validate()
