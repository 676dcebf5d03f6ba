"""Gangs of which something went wrong or came to its end: whether who comes then goes with the others, alone, or
not at all.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.cluster.gang_world import binds, cluster, confirm, group, members, node, pod, preempted, see, settle
from tests.fakes.cluster.quota_world import World, bound, evicted, quota
from tests.fakes.cluster.quota_world import node as quota_node
from tests.fakes.cluster.quota_world import pod as quota_pod

from cotenant.engine.framework.instructions import Preempt
from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.labels import LabelSelector
from cotenant.model.cluster.observed import DisruptionBudget, ObservedPod, PodPhase
from cotenant.model.groups.gang import GangMode, GangNotes
from cotenant.model.groups.quota import PREEMPTIBLE


def test_a_gang_whose_binds_all_failed_is_judged_together_again() -> None:
    c = cluster(3)
    see(c, *members("a", 3))
    assert len(binds(settle(c, 0.0))) == 3
    for i in range(3):
        c.sending(f"uid-default-a-{i}", 0.0)
        c.bind_failed(f"uid-default-a-{i}", "HTTP 500", 1.0)
    see(c, pod("x", on="n0"), pod("y", on="n1"), now_s=1.5)
    assert not binds(settle(c, 60.0))
    c.pod_gone("uid-default-x", 61.0)
    c.pod_gone("uid-default-y", 61.0)
    assert len(binds(settle(c, 61.0) + settle(c, 400.0))) == 3


def test_a_gang_whose_node_went_before_its_binds_is_judged_together_again() -> None:
    c = cluster(1, cpu=3000)
    see(c, *members("a", 3))
    assert len(binds(settle(c, 0.0))) == 3
    c.node_gone("n0", 1.0)
    c.node_seen(node("n9", 1000))
    assert not binds(settle(c, 2.0) + settle(c, 60.0))


def test_members_that_succeeded_count_while_fewer_than_the_total_have() -> None:
    """A gang of at least 2 of 3 in all: the third one's second try needs only itself, though two have succeeded."""
    c = cluster(3)
    pods = members("a", 3, least=2, total=3)
    see(c, *pods)
    confirm(c, settle(c, 0.0), 0.0)
    for i, observed_pod in enumerate(pods):
        see(
            c,
            replace(observed_pod, node=f"n{i}", phase=PodPhase.SUCCEEDED if i < 2 else PodPhase.FAILED),
            now_s=50.0 + i,
        )
        settle(c, 50.0 + i)
    see(c, pod("again", "a", 2, total=3, created_s=61.0), now_s=61.0)
    assert set(binds(settle(c, 61.0))) == {"again"}


@pytest.mark.parametrize("succeeded", [1, 2])
def test_the_second_try_of_the_last_member_needs_only_itself(succeeded: int) -> None:
    c = cluster(3)
    c.plugins.gangs.pod_group_seen(group("a", 3), 0.0)
    pods = [pod(f"a-{i}", label="a") for i in range(3)]
    see(c, *pods)
    out = settle(c, 0.0)
    confirm(c, out, 0.0)
    there = binds(out)
    running = [
        replace(observed_pod, node=there[observed_pod.pod.name], phase=PodPhase.RUNNING) for observed_pod in pods
    ]
    see(c, *running, now_s=1.0)
    for i, observed_pod in enumerate(running):
        see(c, replace(observed_pod, phase=PodPhase.SUCCEEDED if i < succeeded else PodPhase.FAILED), now_s=50.0 + i)
        settle(c, 50.0 + i)
    again = [pod(f"a-{i}-again", label="a", created_s=61.0) for i in range(succeeded, 3)]
    see(c, *again[:-1], now_s=61.0)
    assert not binds(settle(c, 61.0))  # those that failed come all together
    see(c, again[-1], now_s=62.0)
    assert len(binds(settle(c, 62.0))) == len(again)


def test_a_gang_that_has_run_to_its_end_and_is_filled_anew_begins_anew() -> None:
    c = cluster(3)
    c.plugins.gangs.pod_group_seen(group("a", 2), 0.0)
    see(c, *(replace(pod(f"a-{i}", label="a"), phase=PodPhase.SUCCEEDED) for i in range(2)))
    see(c, pod("a-2", label="a"), now_s=1.0)
    assert not binds(settle(c, 1.0) + settle(c, 60.0))
    see(c, pod("a-3", label="a"), now_s=61.0)
    assert set(binds(settle(c, 61.0))) == {"a-2", "a-3"}


def test_a_preemption_that_failed_for_one_member_is_tried_again_for_all() -> None:
    c = cluster(3)
    see(c, *(pod(f"l{i}") for i in range(3)))
    confirm(c, settle(c, 0.0), 0.0)
    see(c, *members("g", 3, priority=10), now_s=10.0)
    asked = [instruction for instruction in settle(c, 10.0) if isinstance(instruction, Preempt)]
    assert len(asked) == 3
    c.preempt_failed(asked[2].uid, 11.0)  # its victim's eviction was refused
    for preempt in asked[:2]:
        c.pod_gone(preempt.victims[0].uid, 12.0)
    again = preempted(settle(c, 12.0) + settle(c, 60.0))
    assert [name for names in again.values() for name in names] == [asked[2].victims[0].key.partition("/")[2]]
    c.pod_gone(asked[2].victims[0].uid, 61.0)
    assert set(binds(settle(c, 61.0) + settle(c, 400.0))) == {"g-0", "g-1", "g-2"}


# ---- a gang whose first member is not the one that can be helped


def _in_gang(name: str, cores: int, of: str, priority: int = 0) -> ObservedPod:
    notes = GangNotes(name="g", min_available=2)
    return replace(quota_pod(name, cores, of, priority=priority), demands=Demands(gang=notes))


def test_a_gang_is_woken_by_room_for_members_behind_its_first() -> None:
    world = World(quota_node("n", 100))
    world.write(quota("full", 2, 2), quota("q", 4, 4))
    world.create(quota_pod("for-good", 2, "full", priority=9), quota_pod("for-now", 4, "q", priority=9))
    world.go()
    world.create(_in_gang("g0", 2, "full"), _in_gang("g1", 2, "q"), _in_gang("g2", 2, "q"))
    assert not bound(world.go(5.0))
    world.delete("for-now")
    assert bound(world.go(5.0)) == ["g1", "g2"]


def test_a_promise_to_other_members_does_not_hold_their_gang_back() -> None:
    """The first member waits for what is kept for the others: together they are enough, and nobody is evicted twice
    for them.
    """
    world = World(quota_node("n", 100))
    world.write(quota("q", 8, 8))
    world.create(*(quota_pod(f"l{i}", 4, "q", priority=3) for i in range(2)))
    world.go()
    world.create(_in_gang("g0", 2, "q", 1), _in_gang("g1", 4, "q", 5), _in_gang("g2", 4, "q", 5))
    given = world.go(5.0)
    assert evicted(given) == ["l0", "l1"]
    for name in evicted(given):
        world.delete(name)
        world.create(quota_pod(f"again-{name}", 4, "q", priority=3))
    assert bound(world.go(5.0)) == ["g1", "g2"]
    assert not evicted(world.go(100.0))


def test_what_a_non_strict_gang_gives_back_others_may_have_though_it_is_alone() -> None:
    c = cluster(2)
    see(c, *members("a", 3, mode=GangMode.NON_STRICT, wait_s=30.0), pod("p", created_s=1.0))
    assert not binds(settle(c, 0.0))
    assert set(binds(settle(c, 30.0))) == {"p"}
    assert not binds(settle(c, 60.0))
    c.node_seen(node("n8"))
    c.node_seen(node("n9"))
    assert set(binds(settle(c, 70.0))) == {"a-0", "a-1", "a-2"}


# ---- beside a gang that falls, nobody goes who need not


def _of_three(name: str, least: int, of: str = "", priority: int = 1) -> ObservedPod:
    notes = GangNotes(name="g", min_available=least)
    return replace(quota_pod(name, 4, of, priority=priority), demands=Demands(gang=notes))


def test_on_its_node() -> None:
    """The bystander's budget is spent, and it would be given back last: what the gang's last member held is enough
    for it.
    """
    world = World(quota_node("n", 16))
    world.cluster.budget_seen(DisruptionBudget("work", "x", LabelSelector.of({"app": "x"}), 0))
    world.create(*(_of_three(f"g{i}", 3) for i in range(3)), quota_pod("x", 4, priority=5, labels={"app": "x"}))
    world.go()
    world.create(quota_pod("vip", 12, priority=10))
    (asked,) = (instruction for instruction in world.go(5.0) if isinstance(instruction, Preempt))
    assert sorted(victim.key for victim in asked.victims) == ["work/g0", "work/g1", "work/g2"]


def test_within_a_quota() -> None:
    world = World(quota_node("n", 100))
    world.write(quota("q", 16, 16))
    world.create(*(_of_three(f"g{i}", 2, "q") for i in range(3)), quota_pod("x", 4, "q"))
    world.go()
    world.create(quota_pod("vip", 12, "q", priority=10))
    assert evicted(world.go(5.0)) == ["g0", "g1", "g2"]


def test_between_quotas() -> None:
    world = World(quota_node("n", 24), revoke_after_s=120.0)
    world.write(quota("a", 0, 24), quota("b", 12, 24))
    world.create(*(_of_three(f"g{i}", 2, "a") for i in range(3)), quota_pod("x", 4, "a"))
    world.create(*(quota_pod(f"v{i}", 4, "a", priority=9) for i in range(2)))
    world.go()
    world.create(quota_pod("b0", 12, "b"))
    world.go(10.0)
    assert evicted(world.go(130.0)) == ["g0", "g1", "g2"]


# ---- nobody goes for those who could not run even then


def _borrowed() -> World:
    """All is used by quota a; b may have 8 cores, is owed 2, and its share is between 6 and 7."""
    world = World(quota_node("n", 20), revoke_after_s=120.0)
    world.write(quota("a", 2, 20), quota("b", 2, 8))
    world.create(*(quota_pod(f"a{i}", 2, "a") for i in range(10)))
    world.go()
    return world


def _taken_back(world: World) -> int:
    """How many were evicted in ten minutes; those evicted are gone at once."""
    count = 0
    for _ in range(60):
        given = world.go(10.0)
        count += len(evicted(given))
        world.evict(given)
    return count


@pytest.mark.parametrize(("least", "gone"), [(3, 3), (4, 0)])
def test_a_gang_that_is_larger_than_its_share_takes_nothing_back(least: int, gone: int) -> None:
    world = _borrowed()
    notes = Demands(gang=GangNotes(name="g", min_available=least))
    world.create(*(replace(quota_pod(f"g{i}", 2, "b"), demands=notes) for i in range(least)))
    assert _taken_back(world) == gone


def test_pods_that_may_not_be_preempted_take_back_no_more_than_the_minimum() -> None:
    world = _borrowed()
    world.create(*(quota_pod(f"s{i}", 4, "b", labels={PREEMPTIBLE: "false"}) for i in range(2)))
    assert _taken_back(world) == 0


def test_one_that_is_too_large_does_not_hide_the_others() -> None:
    world = _borrowed()
    world.create(quota_pod("big", 9, "b", priority=9), *(quota_pod(f"s{i}", 2, "b") for i in range(4)))
    assert _taken_back(world) == 4
    assert world.seated("b") == 4


def test_a_gang_of_which_a_part_is_of_a_quota_that_cannot_hold_it_takes_nothing_back() -> None:
    world = _borrowed()
    world.write(quota("tiny", 1, 1))
    notes = Demands(gang=GangNotes(name="g", min_available=3))
    world.create(*(replace(quota_pod(f"g{i}", 2, "b"), demands=notes) for i in range(2)))
    world.create(replace(quota_pod("g2", 2, "tiny"), demands=notes))
    assert _taken_back(world) == 0


class Unread(dict[str, object]):
    """Gangs that nobody may go through."""

    def values(self) -> object:  # type: ignore[override]
        raise AssertionError("every gang is looked at")

    items = __iter__ = values  # type: ignore[assignment]


def test_a_decision_does_not_look_at_gangs_that_neither_hold_nodes_nor_yield(monkeypatch: pytest.MonkeyPatch) -> None:
    c = cluster(4)
    see(c, *members("runs", 2), *members("holds", 2, 3, mode=GangMode.NON_STRICT))
    assert set(binds(settle(c, 0.0))) == {"runs-0", "runs-1"}
    see(c, pod("holds-2", "holds", 3, mode=GangMode.NON_STRICT), now_s=1.0)
    settle(c, 1.0)
    gangs = c.plugins.gangs
    assert [gang.key for gang in gangs.holding()] == ["default/holds"]
    monkeypatch.setattr(gangs, "_gangs", Unread(gangs._gangs))
    c.node_seen(node("more"))
    c.node_seen(node("other"))
    see(c, pod("alone"), now_s=2.0)
    out = [instruction for _ in range(5) for instruction in c.decide(20.0)]
    assert {"holds-0", "holds-1", "holds-2"} <= set(binds(out))
    assert not gangs.holding()


def test_a_gang_that_yields_is_looked_at_until_it_need_not_or_is_gone() -> None:
    c = cluster(2)
    a = members("a", 3, mode=GangMode.NON_STRICT)
    see(c, *a, *members("b", 2))
    settle(c, 0.0)
    gangs = c.plugins.gangs
    holds, waits = gangs.get("default/a"), gangs.get("default/b")
    assert holds is not None
    assert waits is not None
    assert gangs.holding() == (holds,)
    gangs.start_yielding(waits, "default/a", 50.0)
    assert gangs.holding() == (holds, waits)
    gangs.stop_yielding(waits)
    assert gangs.holding() == (holds,)
    gangs.start_yielding(holds, "default/b", 50.0)
    gangs.stop_yielding(holds)
    assert gangs.holding() == (holds,)
    gangs.start_yielding(holds, "default/b", 50.0)
    for observed_pod in a:
        assert gangs.holding() == (holds,)
        c.pod_gone(observed_pod.uid, 1.0)
        c.validate()
    assert not gangs.holding()
