"""What is known of gangs stays known when the engine is built again, and ends with the gang."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.cluster.gang_world import binds, cluster, confirm, group, members, pod, see, settle

from cotenant.engine.cluster import Cluster
from cotenant.model.cluster.observed import PodPhase

BOTH = pytest.mark.parametrize("again", [False, True], ids=["running on", "built again"])


def running(c: Cluster, count: int = 3) -> list[str]:
    """A gang `a` of so many that runs; its uids."""
    pods = [pod(f"a-{i}", label="a") for i in range(count)]
    see(c, *pods)
    out = settle(c, 0.0)
    confirm(c, out, 0.0)
    there = binds(out)
    assert len(there) == count
    see(
        c,
        *(replace(observed_pod, node=there[observed_pod.pod.name], phase=PodPhase.RUNNING) for observed_pod in pods),
        now_s=1.0,
    )
    settle(c, 1.0)
    return [observed_pod.uid for observed_pod in pods]


def go_on(c: Cluster, again: bool, now_s: float) -> None:
    if again:
        c.rebuild(now_s)
    settle(c, now_s)


@BOTH
def test_what_a_pod_group_asks_for(again: bool) -> None:
    c = cluster(3)
    c.plugins.gangs.pod_group_seen(group("a", 3), 0.0)
    go_on(c, again, 0.0)
    see(c, *(pod(f"a-{i}", label="a") for i in range(2)))
    assert not binds(settle(c, 1.0))
    see(c, pod("a-2", label="a"), now_s=2.0)
    assert len(binds(settle(c, 2.0))) == 3


@BOTH
def test_that_a_gang_was_complete_once_so_that_a_replacement_goes_alone(again: bool) -> None:
    c = cluster(3)
    c.plugins.gangs.pod_group_seen(group("a", 3), 0.0)
    uids = running(c)
    for uid in uids[:2]:
        c.pod_gone(uid, 2.0)
    go_on(c, again, 3.0)
    see(c, pod("new", label="a", created_s=4.0), now_s=4.0)
    assert set(binds(settle(c, 4.0))) == {"new"}


@BOTH
def test_members_that_have_ended(again: bool) -> None:
    c = cluster(3)
    c.plugins.gangs.pod_group_seen(group("a", 3), 0.0)
    uids = running(c)
    for i, uid in enumerate(uids):
        ended = replace(
            pod(f"a-{i}", label="a", on=f"n{i}"), uid=uid, phase=PodPhase.SUCCEEDED if i < 2 else PodPhase.FAILED
        )
        see(c, ended, now_s=50.0 + i)
        settle(c, 50.0 + i)
    go_on(c, again, 60.0)
    see(c, pod("last", label="a", created_s=61.0), now_s=61.0)
    assert set(binds(settle(c, 61.0))) == {"last"}


@BOTH
def test_a_gang_that_left_and_comes_again_is_a_new_one(again: bool) -> None:
    c = cluster(3)
    c.plugins.gangs.pod_group_seen(group("a", 3), 0.0)
    for uid in running(c):
        c.pod_gone(uid, 2.0)
    c.plugins.gangs.pod_group_gone("default/a", 3.0)
    go_on(c, again, 4.0)
    c.plugins.gangs.pod_group_seen(group("a", 3, uid="another"), 5.0)
    see(c, *(pod(f"b-{i}", label="a", created_s=5.0) for i in range(2)), now_s=5.0)
    assert not binds(settle(c, 5.0))
    see(c, pod("b-2", label="a", created_s=6.0), now_s=6.0)
    assert len(binds(settle(c, 6.0))) == 3


@BOTH
def test_which_members_wait(again: bool) -> None:
    c = cluster(2)
    see(c, *members("a", 3))
    assert not binds(settle(c, 0.0))
    go_on(c, again, 1.0)
    c.pod_gone("uid-default-a-2", 2.0)
    see(c, pod("a-3", "a", 3, created_s=3.0), now_s=3.0)
    c.pod_gone("uid-default-a-3", 4.0)
    assert not binds(settle(c, 400.0))
    assert not c.assigned()
