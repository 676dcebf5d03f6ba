"""`minResources` of a PodGroup: what must be free before any member is placed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.cluster.gang_world import binds, cluster, confirm, group, node, pod, preempted, see, settle, told

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.pod_state import SchedulingState
from cotenant.model.cluster.node import Node
from cotenant.model.groups.gang import GangMode, PodGroup
from cotenant.model.resources import Amounts

BOTH = pytest.mark.parametrize("mode", [GangMode.STRICT, GangMode.NON_STRICT])


def wants(mode: GangMode, least: int = 2, **amounts: int) -> PodGroup:
    return replace(group("a", least, mode=mode, wait_s=30.0), min_resources=Amounts.of(amounts))


def gang(c: Cluster, given: PodGroup, count: int = 2, cpu: int = 1000, priority: int = 0) -> None:
    c.plugins.gangs.pod_group_seen(given, 0.0)
    see(c, *(pod(f"a-{i}", label="a", cpu=cpu, priority=priority) for i in range(count)))


@BOTH
def test_no_member_is_placed_while_less_is_free(mode: GangMode) -> None:
    c = cluster(3)
    gang(c, wants(mode, cpu=4000))
    out = settle(c, 0.0)
    assert not c.assigned()
    words = "gang default/a: the cluster has less free than its minResources. Free are 3 of 4 cpu."
    assert words in told(out)["a-0"]
    c.node_seen(node("n8"))
    assert len(binds(settle(c, 20.0))) == 2


@BOTH
def test_a_pod_that_leaves_lets_the_gang_be_placed(mode: GangMode) -> None:
    c = cluster(4)
    see(c, pod("x", on="n0"))
    gang(c, wants(mode, cpu=4000))
    settle(c, 0.0)
    assert set(c.assigned()) == {"uid-default-x"}
    c.pod_gone("uid-default-x", 5.0)
    assert len(binds(settle(c, 20.0))) == 2


def test_what_members_hold_counts_as_free() -> None:
    c = cluster(2)
    gang(c, wants(GangMode.NON_STRICT, least=3, cpu=2000), count=3)
    settle(c, 0.0)
    assert len(c.assigned()) == 2
    see(c, pod("a-3", label="a", created_s=1.0), now_s=1.0)
    out = settle(c, 1.0)
    assert "minResources" not in told(out)["a-3"]


@BOTH
def test_a_satisfied_gang_is_not_checked_again(mode: GangMode) -> None:
    c = cluster(4)
    gang(c, wants(mode, cpu=4000))
    confirm(c, settle(c, 0.0), 0.0)
    c.node_gone("n3", 1.0)
    see(c, pod("a-2", label="a", created_s=2.0), now_s=2.0)
    assert set(binds(settle(c, 2.0))) == {"a-2"}


def test_as_many_pod_slots_as_the_minimum_must_be_free() -> None:
    c = cluster(0)
    for name in ("n0", "n1"):
        c.node_seen(Node(name, Amounts.of({"cpu": 9000, "memory": 64 << 30, "pods": 1})))
    gang(c, wants(GangMode.STRICT, least=3, cpu=1000), count=3)
    assert "Free are 2 of 3 pods" in told(settle(c, 0.0))["a-0"]


def test_a_resource_that_no_node_has_is_missing() -> None:
    c = cluster(3)
    gang(c, wants(GangMode.STRICT, **{"example.com/card": 1}))
    assert "Free are 0 of 1 example.com/card" in told(settle(c, 0.0))["a-0"]


def test_no_pod_is_evicted_for_min_resources() -> None:
    c = cluster(3)
    see(c, pod("low", on="n0", priority=-5))
    gang(c, wants(GangMode.STRICT, cpu=3000), priority=5)
    assert not preempted(settle(c, 0.0))
    assert c.state_of("uid-default-a-0") is SchedulingState.QUEUED


def test_a_change_of_min_resources_counts_at_once() -> None:
    c = cluster(3)
    gang(c, wants(GangMode.STRICT, cpu=4000))
    settle(c, 0.0)
    c.plugins.gangs.pod_group_seen(wants(GangMode.STRICT, cpu=3000), 1.0)
    assert len(binds(settle(c, 1.0))) == 2
