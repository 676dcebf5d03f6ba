"""Gangs in the cluster engine: all together or none, held until they are, and told why not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.cluster.gang_world import (
    BLOCK,
    RACK,
    binds,
    cluster,
    confirm,
    group,
    members,
    node,
    pod,
    see,
    settle,
    told,
)

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Instruction, Preempt
from cotenant.engine.framework.pod_state import SchedulingState
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.plugins.gangs.topology import topology_of
from cotenant.model.cluster.observed import PodPhase
from cotenant.model.groups.gang import GangMode, GangPhase, GangTopology, MatchPolicy, PodGroupStatus

# ---- the gate


def test_pods_wait_before_the_queue_until_enough_of_them_exist() -> None:
    c = cluster()
    a = members("a", 3)
    see(c, *a[:2])
    assert not settle(c, 0.0)  # the others may be on their way
    assert c.next_s() == pytest.approx(3.0)
    assert told(settle(c, 3.0))["a-1"] == "gang default/a has 2 of 3 members; waits for 1 more"
    see(c, a[2], now_s=4.0)
    assert set(binds(settle(c, 4.0))) == {"a-0", "a-1", "a-2"}


def test_earlier_pods_are_told_the_newer_count_after_a_while() -> None:
    c = cluster()
    a = members("a", 3)
    see(c, a[0])
    assert told(settle(c, 0.0) + settle(c, 3.0)) == {"a-0": "gang default/a has 1 of 3 members; waits for 2 more"}
    see(c, a[1], now_s=4.0)
    words = "gang default/a has 2 of 3 members; waits for 1 more"
    assert told(settle(c, 4.0) + settle(c, 7.0)) == {"a-0": words, "a-1": words}


def test_a_named_pod_group_that_does_not_exist_is_said() -> None:
    c = cluster()
    see(c, pod("p", label="a"))
    (words,) = told(settle(c, 0.0) + settle(c, 3.0)).values()
    assert "neither a PodGroup default/a nor its pods say how many" in words
    c.plugins.gangs.pod_group_seen(group("a", 1), 4.0)
    assert set(binds(settle(c, 4.0))) == {"p"}


def test_a_gang_that_is_bound_to_a_missing_one_waits_and_says_so() -> None:
    c = cluster()
    see(c, *members("a", 2, groups=("default/a", "other/b")))
    words = told(settle(c, 0.0) + settle(c, 3.0))["a-1"]
    assert words.startswith("gang default/a is bound to gang other/b: gang other/b cannot be judged")


def test_a_member_deleted_while_the_others_wait_closes_the_gate_again() -> None:
    c = cluster(2)
    a = members("a", 3)
    see(c, *a)
    settle(c, 0.0)
    c.pod_gone(a[0].uid, 1.0)
    out = settle(c, 1.0)
    assert c.state_of(a[1].uid) is SchedulingState.BLOCKED
    assert told(out)["a-1"] == "gang default/a has 2 of 3 members; waits for 1 more"


# ---- all or nothing


def test_a_gang_that_fits_is_bound_whole() -> None:
    c = cluster(4)
    see(c, *members("a", 4))
    assert sorted(binds(settle(c, 0.0)).values()) == ["n0", "n1", "n2", "n3"]


def test_a_gang_that_does_not_fit_binds_nobody_and_says_which_member_failed_and_why() -> None:
    c = cluster(5)
    see(c, *members("a", 8))
    out = settle(c, 0.0)
    assert not binds(out)
    (words,) = set(told(out).values())
    assert words.startswith(
        "gang default/a: 5 of 8 members fit; the 6th, default/a-5, does not: 0/5 nodes are available: 5 Insufficient "
        "cpu."
    )
    assert not c.assigned()
    seen = c.plugins.gangs.describe("default/a")
    assert seen is not None
    assert seen.why.startswith("gang default/a: 5 of 8 members fit")
    assert (seen.placed, seen.holding, seen.waiting) == (0, 0, 8)
    assert {member.state for member in seen.members} == {"queued"}


def test_a_refused_gang_leaves_room_for_others_in_the_same_round() -> None:
    c = cluster(5)
    see(c, *members("a", 8), pod("single", created_s=1.0))
    assert set(binds(settle(c, 0.0))) == {"single"}


def test_more_members_than_the_minimum() -> None:
    c = cluster(3)
    see(c, *members("a", 5, least=2))
    out = settle(c, 0.0)
    assert len(binds(out)) == 3
    assert all("Insufficient cpu" in words and "gang" not in words for words in told(out).values())
    c.node_seen(node("late"))
    assert len(binds(settle(c, 20.0))) == 1  # they go alone: the minimum was reached


def test_a_gang_larger_than_a_batch_is_not_split() -> None:
    c = cluster(40, settings=EngineSettings(max_pods=4))
    see(c, pod("first", created_s=-1.0), *members("a", 30), pod("last", created_s=1.0))
    out = list(c.decide(0.0))
    assert len([name for name in binds(out) if name.startswith("a-")]) in (0, 30)
    assert len(binds(out + settle(c, 0.0))) == 32


def test_the_largest_members_are_placed_first() -> None:
    c = cluster(2)
    small = [pod(f"a-{i}", "a", 3, cpu=500) for i in range(2)]
    see(c, *small, pod("a-2", "a", 3, cpu=1000))
    assert len(binds(settle(c, 0.0))) == 3


def test_two_gangs_that_each_need_more_than_half() -> None:
    c = cluster(5)
    see(c, *members("late", 3, created_s=2.0), *members("early", 3, created_s=1.0))
    out = settle(c, 0.0)
    assert set(binds(out)) == {"early-0", "early-1", "early-2"}
    assert told(out)["late-0"].startswith("gang default/late: 2 of 3 members fit")
    confirm(c, out, 0.0)
    for i in range(3):
        c.pod_gone(f"uid-default-early-{i}", 30.0)
    assert len(binds(settle(c, 30.0))) == 3


def test_the_more_important_gang_goes_first() -> None:
    c = cluster(5)
    see(c, *members("low", 3, created_s=1.0), *members("high", 3, created_s=2.0, priority=5))
    assert set(binds(settle(c, 0.0))) == {"high-0", "high-1", "high-2"}


def test_a_gang_is_as_important_as_its_least_important_member() -> None:
    c = cluster(3)
    mixed = [pod("a-0", "a", 2, priority=100), pod("a-1", "a", 2, priority=0)]
    see(c, *mixed, *members("b", 2, created_s=5.0, priority=50))
    assert set(binds(settle(c, 0.0))) == {"b-0", "b-1"}


def test_a_refused_gang_is_woken_by_what_may_help_and_by_nothing_else() -> None:
    c = cluster(2)
    see(c, *members("a", 3))
    settle(c, 0.0)
    attempts = c.find("default/a-0")
    assert attempts is not None
    assert c.next_s() > 100.0  # nothing is due: it is not tried again by the clock
    c.node_seen(node("small", cpu=10))
    assert not binds(settle(c, 20.0))
    c.node_seen(node("large"))
    assert len(binds(settle(c, 40.0))) == 3


def test_gangs_bound_together_go_together_or_not_at_all() -> None:
    both = ("default/a", "other/b")
    c = cluster(3)
    see(c, *members("a", 2, groups=both), *members("b", 2, groups=both, namespace="other"))
    out = settle(c, 0.0)
    assert not binds(out)
    assert "gangs default/a, other/b: 3 of 4 members fit" in told(out)["a-0"]
    c.node_seen(node("more"))
    assert len(binds(settle(c, 20.0))) == 4


def test_a_gang_that_is_named_without_naming_back_must_be_there_first() -> None:
    c = cluster(4)
    b = members("b", 2, groups=("default/a", "default/b"))
    a = members("a", 2)
    see(c, *b, a[0])
    assert (
        "gang default/b is bound to gang default/a: gang default/a has 1 of 2 members"
        in told(settle(c, 0.0) + settle(c, 3.0))["b-1"]
    )
    see(c, a[1], now_s=4.0)
    assert len(binds(settle(c, 4.0) + settle(c, 30.0))) == 4
    seen = c.plugins.gangs.describe("default/b")
    assert seen is not None
    assert seen.needs == ("default/a", "default/b")
    assert seen.judged_with == ("default/b",)


# ---- afterwards


def test_a_member_whose_bind_failed_is_tried_alone() -> None:
    c = cluster(3)
    see(c, *members("a", 3))
    out = settle(c, 0.0)
    *kept, lost = [instruction for instruction in out if isinstance(instruction, Bind)]
    confirm(c, list(kept), 0.0)
    assert c.sending(lost.uid, 0.0)
    c.bind_failed(lost.uid, "conflict", 1.0)
    again = settle(c, 30.0)
    assert [instruction.uid for instruction in again if isinstance(instruction, Bind)] == [lost.uid]


def test_a_scheduler_that_died_between_binds_places_the_rest_together() -> None:
    c = cluster(3)
    a = members("a", 4)
    see(c, replace(a[0], node="n0"), *a[1:])
    out = settle(c, 0.0)
    assert not binds(out)
    assert "2 of 3 members fit" in told(out)["a-1"]
    c.node_seen(node("more"))
    assert len(binds(settle(c, 20.0))) == 3


def test_a_replacement_goes_alone_where_others_have_ended() -> None:
    c = cluster(3)
    a = members("a", 4)
    see(
        c,
        *(replace(observed_pod, node="n0", phase=PodPhase.SUCCEEDED) for observed_pod in a[:2]),
        replace(a[2], node="n0"),
    )
    see(c, pod("a-new", "a", 4))
    assert set(binds(settle(c, 0.0))) == {"a-new"}


def test_waiting_and_running_counts_who_runs_and_only_waiting_does_not() -> None:
    for policy, placed in ((MatchPolicy.WAITING_AND_RUNNING, 1), (MatchPolicy.ONLY_WAITING, 0)):
        c = cluster(4)
        a = members("a", 3, match_policy=policy)
        see(c, replace(a[0], node="n0"), replace(a[1], node="n1"), a[2])
        assert len(binds(settle(c, 0.0))) == placed, policy


def test_a_pod_group_that_shrinks_or_grows_is_heard() -> None:
    c = cluster(2)
    c.plugins.gangs.pod_group_seen(group("a", 3), 0.0)
    see(c, *(pod(f"a-{i}", label="a") for i in range(3)))
    assert not binds(settle(c, 0.0))
    c.plugins.gangs.pod_group_seen(group("a", 4), 1.0)
    assert "has 3 of 4 members" in told(settle(c, 1.0))["a-0"]
    c.plugins.gangs.pod_group_seen(group("a", 2), 2.0)
    assert len(binds(settle(c, 2.0))) == 2


def test_a_pod_group_deleted_while_its_pods_wait() -> None:
    c = cluster(2)
    c.plugins.gangs.pod_group_seen(group("a", 3), 0.0)
    see(c, *(pod(f"a-{i}", label="a") for i in range(3)))
    settle(c, 0.0)
    c.plugins.gangs.pod_group_gone("default/a", 1.0)
    assert "neither a PodGroup default/a nor its pods say" in told(settle(c, 1.0))["a-0"]


def test_contradictions_are_told_and_stop_nobody() -> None:
    c = cluster(4)
    c.plugins.gangs.pod_group_seen(group("a", 2, total=1), 0.0)
    see(c, pod("a-0", "a", 5, mode=GangMode.NON_STRICT), pod("a-1", "a", 2))
    assert len(binds(settle(c, 0.0))) == 2
    seen = c.plugins.gangs.describe("default/a")
    assert seen is not None
    assert "total-number 1 is below the minimum 2: 2 counts" in seen.problems
    assert "pod default/a-0: min-available 5, 2 counts; mode NonStrict, Strict counts" in seen.problems


# ---- NonStrict


def test_members_of_a_non_strict_gang_keep_their_nodes_and_are_bound_together() -> None:
    c = cluster(2)
    a = members("a", 3, mode=GangMode.NON_STRICT)
    see(c, *a)
    out = settle(c, 0.0)
    assert not binds(out)
    assert sorted(c.state_of(observed_pod.uid).name for observed_pod in a) == ["QUEUED", "WAITING", "WAITING"]
    assert told(out)["a-2"].startswith("gang default/a: 2 of 3 members have a node: 0/2 nodes are available")
    c.node_seen(node("more"))
    assert len(binds(settle(c, 20.0))) == 3
    assert not c.plugins.gangs.holding()


def test_they_give_back_when_their_time_is_over() -> None:
    c = cluster(2)
    a = members("a", 3, mode=GangMode.NON_STRICT, wait_s=60.0)
    see(c, *a)
    settle(c, 0.0)
    see(c, pod("other", created_s=9.0), now_s=10.0)
    assert not binds(settle(c, 10.0))
    out = settle(c, 60.0) + settle(c, 75.0)
    assert set(binds(out)) == {"other"}
    assert set(c.assigned()) == {"uid-default-other"}


def test_a_deadlock_of_two_ends_with_the_younger_giving_way() -> None:
    c = cluster(5)
    old = members("old", 4, mode=GangMode.NON_STRICT, created_s=1.0)
    young = members("young", 4, mode=GangMode.NON_STRICT, created_s=2.0)
    see(c, *(observed_pod for pair in zip(young, old, strict=True) for observed_pod in pair))
    out = settle(c, 0.0) + settle(c, 15.0) + settle(c, 30.0)
    assert set(binds(out)) == {f"old-{i}" for i in range(4)}
    confirm(c, out, 30.0)
    for observed_pod in old:
        c.pod_gone(observed_pod.uid, 40.0)
    assert set(binds(settle(c, 40.0) + settle(c, 60.0))) == {f"young-{i}" for i in range(4)}


def test_a_member_that_holds_its_node_is_not_evicted_for_a_more_important_pod() -> None:
    c = cluster(2)
    see(c, *members("a", 3, mode=GangMode.NON_STRICT))
    settle(c, 0.0)
    see(c, pod("vip", priority=10), now_s=1.0)
    out = settle(c, 1.0) + settle(c, 15.0)
    assert all(not instruction.victims for instruction in out if isinstance(instruction, Preempt))
    assert "vip" in binds(out)


def test_a_held_member_that_is_deleted_or_loses_its_node() -> None:
    c = cluster(2)
    a = members("a", 3, mode=GangMode.NON_STRICT)
    see(c, *a)
    settle(c, 0.0)
    held = [observed_pod for observed_pod in a if c.state_of(observed_pod.uid) is SchedulingState.WAITING]
    c.pod_gone(held[0].uid, 1.0)
    settle(c, 1.0)
    c.node_gone(c.assigned().get(held[1].uid, "n0"), 2.0)
    settle(c, 2.0)
    c.rebuild(3.0)
    settle(c, 3.0)


def test_a_rebuild_keeps_what_is_held() -> None:
    c = cluster(2)
    see(c, *members("a", 3, mode=GangMode.NON_STRICT))
    settle(c, 0.0)
    c.rebuild(1.0)
    c.validate()
    assert len(c.assigned()) == 2
    c.node_seen(node("more"))
    assert len(binds(settle(c, 20.0))) == 3


# ---- PodGroups are told


def phases(out: list[Instruction]) -> list[tuple[str, int, int]]:
    return [
        (instruction.phase.value, instruction.scheduled, instruction.running)
        for instruction in out
        if isinstance(instruction, PodGroupStatus)
    ]


def test_a_pod_group_is_told_how_it_stands_only_when_that_is_news() -> None:
    c = cluster(3)
    c.plugins.gangs.pod_group_seen(group("a", 2), 0.0)
    assert phases(settle(c, 0.0)) == [("Pending", 0, 0)]
    a = [pod(f"a-{i}", label="a") for i in range(2)]
    see(c, a[0])
    assert phases(settle(c, 1.0)) == []
    see(c, a[1])
    out = settle(c, 2.0)
    assert phases(out)[-1] == ("Scheduled", 2, 0)
    confirm(c, out, 2.0)
    nodes = binds(out)
    running = [replace(observed_pod, node=nodes[observed_pod.pod.name], phase=PodPhase.RUNNING) for observed_pod in a]
    see(c, *running, now_s=3.0)
    assert phases(settle(c, 3.0)) == [("Running", 2, 2)]
    see(c, *(replace(observed_pod, phase=PodPhase.SUCCEEDED) for observed_pod in running), now_s=4.0)
    assert phases(settle(c, 4.0)) == [("Finished", 2, 0)]
    for observed_pod in running:
        c.pod_gone(observed_pod.uid, 5.0)
    assert phases(settle(c, 5.0)) == []
    seen = c.plugins.gangs.describe("default/a")
    assert seen is not None
    assert seen.phase is GangPhase.FINISHED


def test_a_pod_group_whose_members_were_deleted_counts_none() -> None:
    c = cluster(3)
    c.plugins.gangs.pod_group_seen(group("a", 2), 0.0)
    a = [replace(pod(f"a-{i}", label="a"), node=f"n{i}", phase=PodPhase.RUNNING) for i in range(2)]
    see(c, *a)
    assert phases(settle(c, 0.0))[-1] == ("Running", 2, 2)
    c.pod_gone(a[0].uid, 1.0)
    assert phases(settle(c, 1.0)) == [("Pending", 1, 1)]
    c.pod_gone(a[1].uid, 2.0)
    assert phases(settle(c, 2.0)) == [("Pending", 0, 0)]
    assert phases(settle(c, 3.0)) == []


# ---- topology


def racked(racks: dict[str, int], cpu: int = 1000) -> Cluster:
    c = cluster(0)
    for rack, count in racks.items():
        for i in range(count):
            c.node_seen(node(f"{rack}-{i}", cpu, rack=rack, block=rack[0]))
    return c


def racks_of(out: list[Instruction]) -> set[str]:
    return {name.partition("-")[0] for name in binds(out).values()}


def test_a_gang_is_kept_in_the_tightest_rack_that_holds_it() -> None:
    c = racked({"a1": 6, "a2": 4, "b1": 2})
    see(c, *members("a", 4, topology=GangTopology((RACK, BLOCK))))
    assert racks_of(settle(c, 0.0)) == {"a2"}


def test_then_in_a_block_then_anywhere() -> None:
    c = racked({"a1": 2, "a2": 2, "b1": 3})
    see(c, *members("a", 4, topology=GangTopology((RACK, BLOCK))))
    assert racks_of(settle(c, 0.0)) == {"a1", "a2"}
    c = racked({"a1": 2, "b1": 2})
    see(c, *members("a", 4, topology=GangTopology((RACK, BLOCK))))
    assert racks_of(settle(c, 0.0)) == {"a1", "b1"}


def test_required_means_not_outside() -> None:
    c = racked({"a1": 2, "b1": 2})
    see(c, *members("a", 3, topology=GangTopology((RACK,), True)))
    out = settle(c, 0.0)
    assert not binds(out)
    assert f"no domain of {RACK} has room for its 3 members" in told(out)["a-0"]
    c.node_seen(node("b1-9", rack="b1", block="b"))
    assert racks_of(settle(c, 20.0)) == {"b1"}


def test_a_member_that_comes_later_is_placed_where_the_others_are() -> None:
    c = racked({"a1": 4, "b1": 4})
    a = members("a", 3, topology=GangTopology((RACK,), True))
    see(c, *a)
    (rack,) = racks_of(settle(c, 0.0))
    see(c, pod("a-9", "a", 3, topology=GangTopology((RACK,), True)), now_s=1.0)
    assert racks_of(settle(c, 1.0)) == {rack}
    see(c, pod("a-10", "a", 3, topology=GangTopology((RACK,), True)), now_s=2.0)
    out = settle(c, 2.0)
    assert not binds(out)
    assert rack in told(out)["a-10"] or RACK in told(out)["a-10"]


# ---- what is told of placed members


def test_the_record_of_a_bound_member_names_its_gang() -> None:
    c = cluster(5)
    see(c, *members("a", 3))
    out = settle(c, 0.0)
    confirm(c, out, 0.0)
    (words,) = {instruction.record.gang_words() for instruction in out if isinstance(instruction, Bind)}
    assert words == "placed with gang default/a, 3 members in one step"
    see(c, pod("a-9", "a", 3), pod("lone"), now_s=1.0)
    said = {
        instruction.key: instruction.record.gang_words()
        for instruction in settle(c, 1.0)
        if isinstance(instruction, Bind)
    }
    assert said == {"default/a-9": "placed as a member of gang default/a, by itself", "default/lone": ""}
    answer = c.why.pod("default/a-0", 2.0)
    assert answer is not None
    assert answer.record is not None
    assert (answer.record.gang, answer.record.together) == ("default/a", 3)


def test_members_that_waited_with_their_nodes_were_placed_together() -> None:
    c = cluster(1)
    see(c, *members("a", 2, mode=GangMode.NON_STRICT))
    settle(c, 0.0)
    c.node_seen(node("late"))
    out = settle(c, 20.0)
    assert sum(isinstance(instruction, Bind) for instruction in out) == 2
    assert {instruction.record.gang for instruction in out if isinstance(instruction, Bind)} == {"default/a"}
    assert {instruction.record.together for instruction in out if isinstance(instruction, Bind)} == {2}


def test_a_gang_holds_its_nodes_until_the_gang_that_it_names_is_satisfied() -> None:
    """The named gang does not name it back: its members exist, which opens the gate, and have no room yet."""
    c = cluster(2)
    linking = members("a", 2, mode=GangMode.NON_STRICT, groups=("default/a", "default/b"))
    see(c, *linking, *members("b", 1, cpu=3000))
    assert not binds(settle(c, 0.0))
    assert {c.state_of(observed_pod.uid) for observed_pod in linking} == {SchedulingState.WAITING}
    c.node_seen(node("large", cpu=3000))
    assert set(binds(settle(c, 20.0))) == {"a-0", "a-1", "b-0"}


def test_a_strict_gang_is_not_placed_before_the_gang_that_it_names_is_satisfied() -> None:
    c = cluster(2)
    see(c, *members("a", 2, groups=("default/a", "default/b")), *members("b", 1, cpu=3000))
    assert not binds(settle(c, 0.0))
    c.node_seen(node("large", cpu=3000))
    assert set(binds(settle(c, 20.0) + settle(c, 60.0))) == {"a-0", "a-1", "b-0"}


def test_a_gang_never_lets_one_go_first_that_needs_it() -> None:
    """Both hold nodes and wait for c. Were b to give its node back for a, which needs b, neither could complete."""
    c = cluster(3)
    first = members("a", 1, mode=GangMode.NON_STRICT, groups=("default/a", "default/b"))
    second = members("b", 1, mode=GangMode.NON_STRICT, groups=("default/b", "default/c"))
    see(c, *first, *second, *members("c", 1, cpu=3000))
    assert not binds(settle(c, 0.0))
    c.node_seen(node("large", cpu=3000))
    assert set(binds(settle(c, 20.0))) == {"a-0", "b-0", "c-0"}


def test_a_gang_whose_time_is_over_does_not_wait_for_one_that_needs_it() -> None:
    both = ("default/a", "default/b", "default/c")
    c = cluster(2)
    short = members("a", 1, mode=GangMode.NON_STRICT, groups=both, wait_s=60.0)
    long = members("b", 1, mode=GangMode.NON_STRICT, groups=both, wait_s=600.0)
    see(c, *short, *long, *members("c", 1, cpu=3000))
    assert not binds(settle(c, 0.0) + settle(c, 60.0))
    c.node_seen(node("large", cpu=4000))
    assert set(binds(settle(c, 61.0) + settle(c, 100.0))) == {"a-0", "b-0", "c-0"}


def test_the_waiting_time_of_a_gang_begins_with_the_first_node_that_it_holds() -> None:
    c = cluster(1)
    a = members("a", 3, mode=GangMode.NON_STRICT, wait_s=60.0)
    see(c, *a)
    settle(c, 0.0)
    c.node_seen(node("more"))
    settle(c, 30.0)
    holding = [observed_pod for observed_pod in a if c.state_of(observed_pod.uid) is SchedulingState.WAITING]
    assert len(holding) == 2
    settle(c, 59.0)
    assert {c.state_of(observed_pod.uid) for observed_pod in holding} == {SchedulingState.WAITING}
    settle(c, 60.0)
    assert {c.state_of(observed_pod.uid) for observed_pod in holding} == {SchedulingState.QUEUED}
    assert not c.assigned()


# ---- the queue and Permit, as upstream has them


def test_the_first_queued_member_represents_all_gangs_that_are_placed_together() -> None:
    both = ("default/a", "default/b")
    c = cluster(1)
    see(c, *members("a", 2, groups=both), *members("b", 2, groups=both))
    settle(c, 0.0)
    views = [c.plugins.gangs.describe(key) for key in both]
    assert {view.representative for view in views if view is not None} == {"default/a-0"}
    for i in range(3):
        c.node_seen(node(f"more{i}"))
    confirm(c, settle(c, 20.0), 20.0)
    views = [c.plugins.gangs.describe(key) for key in both]
    assert {view.representative for view in views if view is not None} == {""}


def test_a_gang_without_a_specification_may_hold_no_node() -> None:
    c = cluster(1)
    see(c, pod("p", label="a"))
    settle(c, 0.0)
    gang = c.plugins.gangs.get("default/a")
    assert gang is not None
    assert gang.wait_s() == 0.0
    c.plugins.gangs.pod_group_seen(group("a", 2, wait_s=30.0), 1.0)
    assert gang.wait_s() == 30.0


def test_one_strict_gang_of_a_bundle_gives_it_the_topology_of_the_first_that_has_one() -> None:
    c = racked({"a1": 2, "b1": 4})
    both = ("default/a", "default/b")
    see(c, *members("a", 2, groups=both, mode=GangMode.NON_STRICT))
    see(c, *members("b", 2, groups=both, topology=GangTopology((RACK,), True)))
    assert racks_of(settle(c, 0.0)) == {"b1"}
    for mode, expected in ((GangMode.NON_STRICT, None), (GangMode.STRICT, GangTopology((RACK,)))):
        lone = racked({"a1": 2})
        see(lone, *members("x", 3, mode=mode, topology=GangTopology((RACK,))))
        settle(lone, 0.0)
        assert topology_of(lone.plugins.gangs, ("default/none", "default/x")) == expected
    assert topology_of(c.plugins.gangs, ("default/none",)) is None
