"""A preemption that an API server carries out in part: the rest of the gang follows, and whoever was promised room
gets it in the end.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.cluster.gang_world import RACK, binds, cluster, members, node, pod, preempted, see, settle

from cotenant.engine.framework.instructions import Instruction, Preempt
from cotenant.model.groups.gang import GangTopology


def victims(out: list[Instruction]) -> list[str]:
    return sorted(victim for names in preempted(out).values() for victim in names)


@pytest.mark.parametrize("refused", [0, 1, 2])
def test_the_rest_of_a_gang_follows_where_one_deletion_failed(refused: int) -> None:
    c = cluster(3)
    old = [replace(member, node=f"n{i}") for i, member in enumerate(members("old", 3))]
    see(c, *old, pod("vip", priority=10))
    out = settle(c, 0.0)
    assert victims(out) == ["old-0", "old-1", "old-2"]
    for i, observed_pod in enumerate(old):
        if i != refused:
            see(c, replace(observed_pod, ends_s=31.0), now_s=1.0)
    (said,) = [instruction for instruction in out if isinstance(instruction, Preempt)]
    c.preempt_failed(said.uid, 1.0)
    for i, observed_pod in enumerate(old):
        if i != refused:
            c.pod_gone(observed_pod.uid, 31.0)
    assert set(binds(settle(c, 60.0))) == {"vip"}
    assert c.state_of(old[refused].uid).name == "BOUND"  # nobody needed its node any more


def test_a_scheduler_that_starts_while_a_gang_is_going_takes_no_other() -> None:
    old = [replace(member, node=f"n{i}") for i, member in enumerate(members("old", 2))]
    more = [replace(member, node=f"n{i + 2}") for i, member in enumerate(members("more", 2))]
    vip = replace(pod("vip", priority=10), nominated_node="n0")
    c = cluster(4)
    see(c, *(replace(observed_pod, ends_s=30.0) for observed_pod in old), *more, vip)
    assert not victims(settle(c, 0.0))
    for observed_pod in old:
        c.pod_gone(observed_pod.uid, 5.0)
    assert binds(settle(c, 5.0)) == {"vip": "n0"}


def test_a_domain_that_is_lost_while_it_is_cleared() -> None:
    """Another node of the rack goes away: the gang is promised nothing there any more, and clears another rack."""
    c = cluster(0)
    for rack in ("a", "b"):
        for i in range(2):
            c.node_seen(node(f"{rack}-{i}", rack=rack))
    see(c, *(pod(f"low-{name}", on=name, priority=int(name[0] == "b")) for name in ("a-0", "a-1", "b-0", "b-1")))
    see(c, *members("vip", 2, priority=10, topology=GangTopology((RACK,), True)))
    assert victims(settle(c, 0.0)) == ["low-a-0", "low-a-1"]
    c.node_gone("a-1", 1.0)
    c.pod_gone("uid-default-low-a-0", 2.0)
    c.pod_gone("uid-default-low-a-1", 2.0)
    out = settle(c, 2.0) + settle(c, 30.0) + settle(c, 60.0)
    assert victims(out) == ["low-b-0", "low-b-1"]
    for name in ("b-0", "b-1"):
        c.pod_gone(f"uid-default-low-{name}", 61.0)
    got = binds(settle(c, 61.0) + settle(c, 90.0))
    assert sorted(got.values()) == ["b-0", "b-1"]
