"""A pod that was told to go counts as going until it is gone, its eviction is withdrawn, or nothing is heard of it."""

from __future__ import annotations

from dataclasses import replace

from tests.fakes.cluster.gang_world import cluster, members, node, pod, preempted, see, settle

from cotenant.engine.cluster import Cluster
from cotenant.engine.cycle.eviction.nominations import GOING_S
from cotenant.engine.framework.instructions import Instruction


def victims(out: list[Instruction]) -> list[str]:
    return sorted(victim for names in preempted(out).values() for victim in names)


def without_its_preemptor() -> Cluster:
    """`low` was told to go, the pod that it was to make room for is gone, and another one came."""
    c = cluster(1)
    see(c, pod("low", on="n0"), pod("vip", priority=10))
    assert victims(settle(c, 0.0)) == ["low"]
    c.pod_gone("uid-default-vip", 1.0)
    see(c, pod("next", priority=10), now_s=2.0)
    assert preempted(settle(c, 2.0)) == {"next": ()}  # it waits for the pod that goes anyway
    return c


def test_a_gang_is_not_left_below_its_minimum_by_a_second_preemption() -> None:
    c = cluster(4)
    see(c, *(replace(member, node=f"n{i}") for i, member in enumerate(members("old", 4, 3))), pod("vip", priority=10))
    (first,) = victims(settle(c, 0.0))
    c.pod_gone("uid-default-vip", 1.0)
    at = first.replace("old-", "n")
    c.node_seen(node(at, 500))  # too small for the next one, which must look elsewhere
    see(c, pod("next", priority=10), now_s=2.0)
    assert victims(settle(c, 2.0)) == sorted({f"old-{i}" for i in range(4)} - {first})  # three cannot spare one


def test_it_is_told_again_where_nothing_is_heard_of_its_eviction() -> None:
    c = without_its_preemptor()
    assert not preempted(settle(c, GOING_S - 1.0))
    assert GOING_S - 1.0 < c.next_s() <= GOING_S
    assert preempted(settle(c, GOING_S)) == {"next": ("low",)}


def test_one_that_ends_slowly_is_not_told_again() -> None:
    c = without_its_preemptor()
    see(c, replace(pod("low", on="n0"), ends_s=2 * GOING_S), now_s=3.0)
    assert not preempted(settle(c, GOING_S + 1.0))
    c.pod_gone("uid-default-low", GOING_S + 2.0)
    assert c.next_s() <= GOING_S + 2.0


def test_a_withdrawn_eviction_is_asked_for_anew_by_who_waits() -> None:
    c = without_its_preemptor()
    assert c.is_awaited("uid-default-low")
    c.eviction_withdrawn("uid-default-low", 5.0)
    assert preempted(settle(c, 5.0)) == {"next": ("low",)}


def test_a_withdrawn_eviction_leaves_the_pod_to_the_next_preemptor() -> None:
    c = cluster(1)
    see(c, pod("low", on="n0"), pod("vip", priority=10))
    settle(c, 0.0)
    c.pod_gone("uid-default-vip", 1.0)
    assert not c.is_awaited("uid-default-low")
    c.eviction_withdrawn("uid-default-low", 1.0)
    see(c, pod("next", priority=10), now_s=2.0)
    assert preempted(settle(c, 2.0)) == {"next": ("low",)}


def test_of_a_failed_preemption_only_what_was_not_evicted_is_told_again() -> None:
    c = cluster(1, cpu=2000)
    see(c, pod("low-0", on="n0"), pod("low-1", on="n0"), pod("vip", priority=10, cpu=2000))
    assert victims(settle(c, 0.0)) == ["low-0", "low-1"]
    c.preempt_failed("uid-default-vip", 1.0, evicted={"uid-default-low-0"})
    assert preempted(settle(c, 20.0)) == {"vip": ("low-1",)}


def test_a_failed_preemption_leaves_what_another_one_asked_for() -> None:
    c = without_its_preemptor()
    c.preempt_failed("uid-default-next", 3.0)
    assert preempted(settle(c, 20.0)) == {"next": ()}


def test_a_preemption_that_fails_after_its_pod_is_gone_gives_its_victims_back() -> None:
    c = without_its_preemptor()
    c.preempt_failed("uid-default-vip", 3.0)
    assert preempted(settle(c, 3.0)) == {"next": ("low",)}


def test_a_rebuilt_engine_knows_it_too() -> None:
    c = cluster(1)
    see(c, pod("low", on="n0"), pod("vip", priority=10))
    settle(c, 0.0)
    c.pod_gone("uid-default-vip", 1.0)
    c.rebuild(1.0)
    see(c, pod("next", priority=10), now_s=2.0)
    assert preempted(settle(c, 2.0)) == {"next": ()}
