"""Preemption and gangs: a Strict gang goes whole or stays, whoever preempts, and a gang that preempts gets all that
it needs.
"""

from __future__ import annotations

from dataclasses import replace

from tests.fakes.cluster.gang_world import (
    RACK,
    binds,
    cluster,
    members,
    node,
    pod,
    preempted,
    see,
    settle,
)

from cotenant.engine.cluster import Cluster
from cotenant.engine.cycle.history import DecisionHistory
from cotenant.engine.framework.instructions import Instruction, Preempt
from cotenant.model.cluster.affinity import PodTerm
from cotenant.model.cluster.labels import Labels, LabelSelector
from cotenant.model.cluster.observed import DisruptionBudget, ObservedPod
from cotenant.model.groups.gang import GangMode, GangTopology

# ---- a gang preempts


def test_victims_are_evicted_only_if_the_whole_gang_fits_then() -> None:
    c = cluster(4)
    see(c, *(pod(f"low-{i}", on=f"n{i}") for i in range(3)), pod("king", on="n3", priority=99))
    see(c, *members("vip", 4, priority=10))
    assert not preempted(settle(c, 0.0))
    assert not c.reserved()


def test_all_or_nothing_preemption() -> None:
    c = cluster(5)
    see(c, *(pod(f"low-{i}", on=f"n{i}") for i in range(3)), pod("king", on="n3", priority=99))
    see(c, *members("vip", 4, priority=10))
    out = settle(c, 0.0)
    assert sorted(victim for victims in preempted(out).values() for victim in victims) == ["low-0", "low-1", "low-2"]
    assert len(c.reserved()) == 4
    assert not binds(out)
    see(c, pod("thief", priority=5), now_s=1.0)
    assert not binds(settle(c, 1.0))  # the room is kept
    for i in range(3):
        c.pod_gone(f"uid-default-low-{i}", 2.0 + i)
        out = settle(c, 2.0 + i)
        assert not preempted(out)
        assert len(binds(out)) == (4 if i == 2 else 0)
    assert not c.reserved()


def test_members_of_gangs_are_spared_where_it_goes_without_them() -> None:
    c = cluster(4)
    see(c, *(replace(member, node=f"n{i}") for i, member in enumerate(members("old", 2))))
    see(c, *(pod(f"low-{i}", on=f"n{i + 2}", priority=1) for i in range(2)))
    see(c, *members("vip", 2, priority=10))
    assert sorted(v for vs in preempted(settle(c, 0.0)).values() for v in vs) == ["low-0", "low-1"]


def test_a_strict_gang_that_would_fall_short_goes_whole() -> None:
    c = cluster(4)
    see(c, *(replace(member, node=f"n{i}") for i, member in enumerate(members("old", 3))))
    see(c, *members("vip", 2, priority=10))
    out = settle(c, 0.0)
    assert sorted(v for vs in preempted(out).values() for v in vs) == ["old-0", "old-1", "old-2"]
    c = cluster(4)
    a = [replace(member, node=f"n{i}") for i, member in enumerate(members("old", 3))]
    see(c, replace(a[0], pod=replace(a[0].pod, priority=50)), *a[1:], *members("vip", 2, priority=10))
    assert not preempted(settle(c, 0.0))  # it cannot go whole


def test_the_rest_of_a_gang_goes_from_its_own_nodes() -> None:
    c = cluster(3)
    see(c, *(replace(member, node=f"n{i}") for i, member in enumerate(members("old", 3))))
    see(c, pod("vip", priority=10))
    out = settle(c, 0.0)
    at = {f"old-{i}": f"n{i}" for i in range(3)}
    assert {
        v.key.partition("/")[2]: v.node
        for instruction in out
        if isinstance(instruction, Preempt)
        for v in instruction.victims
    } == at
    past = DecisionHistory()
    past.note(out, 0.0)
    for name, place in at.items():
        assert [entry.node for entry in past.about(f"default/{name}")] == [place]
    own = next(instruction.node for instruction in out if isinstance(instruction, Preempt))
    of_vip = past.about("default/vip")
    assert [entry.node for entry in of_vip] == [own, *sorted({"n0", "n1", "n2"} - {own})]
    assert {entry.words for entry in of_vip} == {"1 evicted for it"}


def test_a_gang_gives_its_promises_up_when_too_few_are_left() -> None:
    c = cluster(2)
    see(c, *(pod(f"low-{i}", on=f"n{i}") for i in range(2)), *members("vip", 2, priority=10))
    settle(c, 0.0)
    assert len(c.reserved()) == 2
    c.pod_gone("uid-default-vip-0", 1.0)
    settle(c, 1.0)
    assert not c.reserved()


def test_a_failed_eviction_is_tried_again() -> None:
    c = cluster(2)
    see(c, *(pod(f"low-{i}", on=f"n{i}") for i in range(2)), *members("vip", 2, priority=10))
    out = settle(c, 0.0)
    failed = next(instruction for instruction in out if isinstance(instruction, Preempt))
    c.preempt_failed(failed.uid, 1.0)
    again = settle(c, 1.0) + settle(c, 20.0)
    assert preempted(again)
    c.validate()


# ---- a pod preempts


def victims(out: list[Instruction]) -> list[str]:
    return sorted(victim for names in preempted(out).values() for victim in names)


def seated(of: str, count: int, least: int | None = None, at: int = 0, **more: object) -> list[ObservedPod]:
    return [replace(member, node=f"n{i + at}") for i, member in enumerate(members(of, count, least, **more))]


def test_a_pod_takes_a_more_important_pod_rather_than_break_a_gang() -> None:
    c = cluster(3)
    see(c, *seated("old", 2), pod("lone", on="n2", priority=5), pod("vip", priority=10))
    assert victims(settle(c, 0.0)) == ["lone"]


def test_where_nothing_else_would_do_the_gang_goes_whole() -> None:
    c = cluster(3)
    see(c, *seated("old", 2), pod("king", on="n2", priority=99), pod("vip", priority=10))
    out = settle(c, 0.0)
    assert victims(out) == ["old-0", "old-1"]
    (said,) = [instruction for instruction in out if isinstance(instruction, Preempt)]
    assert said.rule == "lower priority, and gangs that cannot do without them"
    c.pod_gone("uid-default-old-0", 1.0)
    c.pod_gone("uid-default-old-1", 1.0)
    assert set(binds(settle(c, 1.0))) == {"vip"}


def test_a_gang_with_a_member_that_may_not_be_evicted_is_not_touched() -> None:
    c = cluster(2)
    a = seated("old", 2)
    see(c, replace(a[0], pod=replace(a[0].pod, priority=50)), a[1], pod("vip", priority=10))
    assert not victims(settle(c, 0.0))


def test_members_beyond_the_minimum_are_as_good_as_any_pod() -> None:
    c = cluster(3)
    see(c, *seated("old", 3, 2), pod("vip", priority=10))
    (first,) = victims(settle(c, 0.0))
    see(c, pod("vip-2", priority=10), now_s=1.0)
    assert victims(settle(c, 1.0)) == sorted({"old-0", "old-1", "old-2"} - {first})  # no other one can be spared


def test_of_several_gangs_the_one_that_loses_least_goes() -> None:
    c = cluster(6)
    see(c, *seated("large", 4), *seated("small", 2, at=4), pod("vip", priority=10))
    assert victims(settle(c, 0.0)) == ["small-0", "small-1"]
    c = cluster(6)
    see(c, *seated("small", 2, at=4, priority=3), *seated("large", 4), pod("vip", priority=10))
    assert victims(settle(c, 0.0)) == ["large-0", "large-1", "large-2", "large-3"]  # priority counts before size


def test_members_of_non_strict_gangs_are_pods_like_others() -> None:
    c = cluster(2)
    see(c, *seated("old", 2, mode=GangMode.NON_STRICT), pod("vip", priority=10))
    assert len(victims(settle(c, 0.0))) == 1


def test_gangs_that_are_placed_together_go_together() -> None:
    c = cluster(4)
    both = ("default/a", "default/b")
    see(c, *seated("a", 2, groups=both), *seated("b", 2, at=2, groups=both), pod("vip", priority=10))
    assert victims(settle(c, 0.0)) == ["a-0", "a-1", "b-0", "b-1"]


def test_a_pod_whose_company_would_go_with_the_gang_spares_it() -> None:
    """It wants to be in the rack of a member that falls with its gang: then it would not fit after all."""
    c = cluster(0)
    for i in range(2):
        c.node_seen(node(f"n{i}", rack="r"))
    friends = LabelSelector.of({"with": "me"})
    a = seated("old", 2)
    a[1] = replace(a[1], pod=replace(a[1].pod, labels=Labels.of({"with": "me"})))
    vip = pod("vip", priority=10)
    vip = replace(vip, pod=replace(vip.pod, affinity=(PodTerm(RACK, friends),)))
    see(c, *a, vip)
    out = settle(c, 0.0)
    assert not victims(out)
    c.validate()


def test_a_budget_of_members_elsewhere_counts() -> None:
    c = cluster(4)
    see(c, *seated("kept", 2), *seated("free", 2, at=2, created_s=5.0), pod("vip", priority=10))
    c.budget_seen(DisruptionBudget("default", "b", LabelSelector.of({"app": "kept"}), 0))
    kept = seated("kept", 2)
    for observed_pod in kept:
        see(c, replace(observed_pod, pod=replace(observed_pod.pod, labels=Labels.of({"app": "kept"}))))
    assert victims(settle(c, 0.0)) == ["free-0", "free-1"]


def test_why_says_that_a_gang_would_go_whole() -> None:
    c = cluster(2)
    see(c, *seated("old", 2), pod("vip", priority=0))
    settle(c, 0.0)
    answer = c.why.pod("default/vip", 1.0)
    assert answer is not None
    assert answer.waiting is not None
    assert any(
        "would be evicted on n" in entry.words and ", with default/old-" in entry.words
        for entry in answer.waiting.helps
    )


# ---- a gang that preempts, and others' gangs


def test_a_gang_that_goes_anyway_leaves_its_room_to_the_other_members() -> None:
    """The first member cannot do without it; the second then needs no further victim."""
    c = cluster(0)
    c.node_seen(node("n0", 2000))
    c.node_seen(node("n1"))
    c.node_seen(node("n2"))
    see(c, *seated("old", 2), pod("half", on="n0"), pod("lone", on="n2", priority=5))
    see(c, pod("a-0", "a", 2, cpu=2000, priority=10), pod("a-1", "a", 2, priority=10))
    assert victims(settle(c, 0.0)) == ["half", "old-0", "old-1"]


# ---- inside one domain


def racks(c: Cluster, number: int, **names: int) -> None:
    """So many nodes of so many pods' room in each rack."""
    for name, count in names.items():
        for i in range(count):
            c.node_seen(node(f"{name}-{i}", number * 1000, rack=name))


REQUIRED = GangTopology((RACK,), True)


def test_a_gang_with_a_required_topology_clears_the_domain_with_the_least_loss() -> None:
    c = cluster(0)
    racks(c, 1, a=3, b=3)
    see(c, *(pod(f"low-{i}", on=f"a-{i}", priority=3) for i in range(3)))
    see(c, *(pod(f"less-{i}", on=f"b-{i}", priority=1) for i in range(3)))
    see(c, *members("vip", 2, priority=10, topology=REQUIRED))
    out = settle(c, 0.0)
    gone = victims(out)
    assert len(gone) == 2
    assert all(name.startswith("less") for name in gone)
    assert {name[0] for name in c.reserved().values()} == {"b"}
    for name in gone:
        c.pod_gone(f"uid-default-{name}", 1.0)
    assert {name[0] for name in binds(settle(c, 1.0)).values()} == {"b"}


def test_it_evicts_nobody_where_no_domain_could_hold_it() -> None:
    c = cluster(0)
    racks(c, 1, a=3, b=3)
    see(c, *(pod(f"low-{i}", on=f"a-{i}") for i in range(3)), pod("king", on="b-0", priority=99))
    see(c, *members("vip", 4, priority=10, topology=REQUIRED))
    assert not victims(settle(c, 0.0))
    assert not c.reserved()


def test_half_free_here_and_half_free_there_is_no_domain() -> None:
    """Two nodes are free in each rack: the gang of three needs one victim, in one of them."""
    c = cluster(0)
    racks(c, 1, a=3, b=3)
    see(c, pod("low", on="a-0"), pod("king", on="b-0", priority=99))
    see(c, *members("vip", 3, priority=10, topology=REQUIRED))
    out = settle(c, 0.0)
    assert victims(out) == ["low"]
    c.pod_gone("uid-default-low", 1.0)
    assert {name[0] for name in binds(settle(c, 1.0)).values()} == {"a"}


def test_a_member_that_comes_later_preempts_in_its_gangs_domain_only() -> None:
    c = cluster(0)
    racks(c, 1, a=3, b=3)
    see(
        c,
        *(replace(member, node=f"a-{i}") for i, member in enumerate(members("vip", 2, priority=10, topology=REQUIRED))),
    )
    see(c, pod("other", on="a-2", priority=5), *(pod(f"low-{i}", on=f"b-{i}") for i in range(3)))
    see(c, pod("vip-9", "vip", 2, priority=10, topology=REQUIRED))
    assert victims(settle(c, 0.0)) == ["other"]
    assert c.reserved() == {"uid-default-vip-9": "a-2"}


def test_a_gang_elsewhere_is_spared_for_a_domain_without_one() -> None:
    c = cluster(0)
    racks(c, 1, a=2, b=2)
    see(c, *(replace(member, node=f"a-{i}") for i, member in enumerate(members("old", 2))))
    see(c, *(pod(f"low-{i}", on=f"b-{i}", priority=5) for i in range(2)))
    see(c, *members("vip", 2, priority=10, topology=REQUIRED))
    assert victims(settle(c, 0.0)) == ["low-0", "low-1"]
