"""Quotas and gangs: what a quota takes for or from a gang it takes whole, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tests.fakes.cluster.quota_world import World, bound, cpu, evicted, node, pod, quota, told

from cotenant.engine.framework.instructions import Evict, Instruction, Preempt
from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.labels import LabelSelector
from cotenant.model.cluster.observed import DisruptionBudget, ObservedPod
from cotenant.model.cluster.taints import Taint
from cotenant.model.groups.gang import LIGHT_MIN_AVAILABLE, LIGHT_NAME, GangNotes
from cotenant.model.groups.quota import PREEMPTIBLE
from cotenant.model.resources import Amounts


def gang(name: str, count: int, of: str, cores: int = 2, least: int | None = None, **more: object) -> list[ObservedPod]:
    said = {LIGHT_NAME: name, LIGHT_MIN_AVAILABLE: str(count if least is None else least)}
    labels = more.pop("labels", {})
    assert isinstance(labels, Mapping)
    return [pod(f"{name}{i}", cores, of, labels={**said, **labels}, **more) for i in range(count)]


def messages(given: list[Instruction]) -> set[str]:
    return {instruction.message for instruction in given if isinstance(instruction, Evict)}


def world_of(*pods: ObservedPod, most: int = 4) -> World:
    """Quota `a` with these in it, on a node with room for everybody."""
    world = World(node("n", 100))
    world.write(quota("a", 0, most), quota("b", 0, 10))
    world.create(*pods)
    world.go()
    assert all(observed_pod.node for observed_pod in world.pods.values())
    return world


# ---- a gang preempts within its quota


def test_a_whole_gang_preempts_within_its_quota_all_or_nothing() -> None:
    world = world_of(*(pod(f"low{i}", 2, "a") for i in range(2)))
    world.create(*gang("g", 2, "a", priority=9))
    given = world.go(5.0)
    assert evicted(given) == ["low0", "low1"]
    assert messages(given) == {"gang work/g of the same quota a is more important (9) and does not fit beside it"}
    about = world.quotas.describe("a")
    assert about is not None
    assert about.kept_for == "gang work/g"
    world.create(pod("thief", 1, "a", priority=1))
    world.delete("low0")
    given = world.go(3.0)
    assert bound(given) == []
    assert "keeps what comes free for gang work/g" in told(given)["thief"]
    world.delete("low1")
    assert bound(world.go(30.0)) == ["g0", "g1"]
    assert evicted(world.go(1.0)) == []


def test_it_evicts_nobody_where_that_would_not_be_enough() -> None:
    world = world_of(pod("low", 2, "a"), pod("even", 2, "a", priority=9))
    world.create(*gang("g", 2, "a", priority=9))
    assert evicted(world.go(5.0)) == []


def test_only_as_many_victims_as_the_minimum_takes() -> None:
    world = world_of(*(pod(f"low{i}", 2, "a", started_s=float(i)) for i in range(2)))
    world.create(*gang("g", 4, "a", cores=1, least=2, priority=9))
    assert evicted(world.go(5.0)) == ["low1"]


def test_who_never_preempts_keeps_its_gang_from_it() -> None:
    world = world_of(*(pod(f"low{i}", 2, "a") for i in range(2)))
    one, other = gang("g", 2, "a", priority=9)
    world.create(one, pod("meek", 2, "a", labels=dict(other.pod.labels.items), priority=9, preempts=False))
    assert evicted(world.go(5.0)) == []


def test_a_gang_of_two_quotas_preempts_in_both_or_in_none() -> None:
    for both in (True, False):
        world = world_of(pod("lowa", 2, "a"), pod("lowb", 10, "b", priority=0 if both else 9), most=2)
        mine, other = gang("g", 2, "a", priority=9), gang("g", 2, "b", priority=9)
        world.create(mine[0], other[1])
        assert evicted(world.go(5.0)) == (["lowa", "lowb"] if both else [])


def test_a_promise_to_a_gang_ends_with_a_member() -> None:
    world = world_of(*(pod(f"low{i}", 2, "a") for i in range(2)))
    world.create(*gang("g", 2, "a", priority=9))
    world.go(5.0)
    world.delete("g0")
    about = world.quotas.describe("a")
    assert about is not None
    assert about.kept_for == ""


# ---- a pod preempts members of gangs


def test_a_gang_is_spared_while_pods_of_its_own_will_do() -> None:
    world = world_of(*gang("g", 2, "a", cores=1), pod("lone", 2, "a", priority=5))
    world.create(pod("vip", 2, "a", priority=9))
    assert evicted(world.go()) == ["lone"]


def test_else_it_goes_whole() -> None:
    world = world_of(*gang("g", 2, "a"))
    world.create(pod("vip", 2, "a", priority=9))
    assert evicted(world.go()) == ["g0", "g1"]


def test_a_member_in_another_quota_is_not_placed_beside_a_gang_that_goes() -> None:
    world = world_of(*gang("g", 2, "a"))
    late = pod("late", 1, "b", labels={LIGHT_NAME: "g", LIGHT_MIN_AVAILABLE: "2"})
    world.create(pod("vip", 2, "a", priority=9), late)
    given = world.go()
    assert evicted(given) == ["g0", "g1"]
    assert not world.pods["uid-late"].node
    assert told(given)["late"] == "Gang work/g is being evicted; its members are placed together after that."
    world.delete("g0", "g1")
    assert "late" not in bound(world.go())
    world.create(pod("g2", 1, "b", labels={LIGHT_NAME: "g", LIGHT_MIN_AVAILABLE: "2"}))
    assert {"late", "g2"} <= set(bound(world.go(60.0)))


def test_what_it_can_spare_goes_first() -> None:
    world = world_of(*gang("g", 2, "a", least=1))
    world.create(pod("vip", 2, "a", priority=9))
    assert len(evicted(world.go())) == 1


def test_a_gang_that_cannot_go_whole_is_not_touched() -> None:
    kept = pod("kept", 1, "a", labels={PREEMPTIBLE: "false", LIGHT_NAME: "g", LIGHT_MIN_AVAILABLE: "2"})
    world = World(node("n", 100))
    world.write(quota("a", 4, 4))
    world.create(*gang("g", 2, "a", cores=1), kept, pod("x", 1, "a", priority=9))
    world.go()
    world.create(pod("vip", 2, "a", priority=9))  # one can be spared, the second would take them all
    assert evicted(world.go()) == []


def test_a_gang_with_members_in_another_quota_is_not_touched() -> None:
    world = world_of(gang("g", 2, "a", cores=4)[0], gang("g", 2, "b")[1])
    world.create(pod("vip", 4, "a", priority=9))
    assert evicted(world.go()) == []


def test_a_gang_whose_budget_does_not_bear_all_of_it_is_not_touched() -> None:
    """The API would evict one member and keep the other."""
    for allowed, gone in ((1, []), (2, ["g0", "g1"])):
        world = world_of(*gang("g", 2, "a", labels={"app": "train"}))
        world.cluster.budget_seen(DisruptionBudget("work", "b", LabelSelector.of({"app": "train"}), allowed))
        world.create(pod("vip", 2, "a", priority=9))
        assert evicted(world.go()) == gone


def allow(world: World, disruptions: int) -> None:
    """Of those labelled `train`."""
    world.cluster.budget_seen(DisruptionBudget("work", "b", LabelSelector.of({"app": "train"}), disruptions))


TRAIN = {"labels": {"app": "train"}}


def test_a_gang_goes_where_else_only_a_pod_could_whose_budget_is_spent() -> None:
    world = world_of(*gang("g", 2, "a", cores=1), pod("lone", 2, "a", **TRAIN))
    allow(world, 0)
    world.create(pod("vip", 2, "a", priority=9))
    given = world.go()
    assert evicted(given) == ["g0", "g1"]
    world.evict(given)
    assert bound(world.go(1.0)) == ["vip"]


def test_a_victim_of_a_node_whose_end_is_not_seen_yet_counts_in_the_budget_of_a_gang() -> None:
    """The API would evict one member and keep the other."""
    cards = Amounts.of({"cpu": 1000, "nvidia.com/gpu": 8})
    world = world_of(*gang("g", 2, "a", **TRAIN), pod("low", 1, requests=cards, **TRAIN))
    allow(world, 2)
    world.create(pod("pressing", 1, requests=cards, priority=9))
    plans = [instruction for instruction in world.go() if isinstance(instruction, Preempt)]
    assert [victim.uid for plan in plans for victim in plan.victims] == ["uid-low"]
    world.create(pod("vip", 2, "a", priority=9))
    assert evicted(world.go()) == []
    world.delete("low")
    assert evicted(world.go(200.0)) == ["g0", "g1"]


def test_gangs_that_one_budget_lets_go_one_after_another_go_so() -> None:
    """Both at once would leave a part of one of them."""
    world = world_of(*gang("g", 2, "a", cores=1, **TRAIN), *gang("h", 2, "a", cores=1, **TRAIN))
    allow(world, 2)
    world.create(pod("vip", 4, "a", priority=9))
    first = world.go()
    assert len({name[0] for name in evicted(first)}) == 1
    assert len(evicted(first)) == 2
    allow(world, 0)
    world.evict(first)
    assert evicted(world.go(70.0)) == []
    allow(world, 2)
    second = world.go(70.0)
    assert sorted([*evicted(first), *evicted(second)]) == ["g0", "g1", "h0", "h1"]
    world.evict(second)
    assert bound(world.go(30.0)) == ["vip"]


def test_gangs_of_two_quotas_under_one_budget_do_not_go_in_one_round() -> None:
    world = world_of(*gang("g", 2, "a", cores=2, **TRAIN), *gang("h", 2, "b", cores=5, **TRAIN))
    allow(world, 2)
    world.create(pod("vip", 4, "a", priority=9), pod("other", 10, "b", priority=9))
    given = world.go()
    assert len({name[0] for name in evicted(given)}) == 1


# ---- what is taken back between quotas


def lent(*pods: ObservedPod, owed: int = 2, cores: int = 10) -> World:
    """Quota `a` has borrowed all of ten cores, and `b`, which is owed some, comes."""
    world = World(node("n", cores), revoke_after_s=10.0)
    world.write(*(quota(name, least, 10, shared_weight=cpu(1)) for name, least in (("a", 0), ("b", owed), ("c", 0))))
    world.create(*pods)
    world.go()
    assert all(observed_pod.node for observed_pod in world.pods.values())
    return world


def taken_back(world: World, asks: int = 2) -> list[str]:
    world.create(pod("claim", asks, "b"))
    world.go(2.0)
    return evicted(world.go(11.0))


def test_of_equal_priority_pods_go_before_gangs() -> None:
    world = lent(*gang("g", 2, "a", cores=4, started_s=9.0), pod("lone", 2, "a", started_s=1.0))
    assert taken_back(world) == ["lone"]


def test_members_beyond_the_minimum_go_like_pods() -> None:
    world = lent(*gang("g", 5, "a", least=4))
    assert len(taken_back(world)) == 1


def test_a_gang_of_two_quotas_goes_whole() -> None:
    world = lent(gang("g", 2, "a", cores=8)[0], gang("g", 2, "c")[1])
    assert taken_back(world, 2) == ["g0", "g1"]


def test_or_not_at_all() -> None:
    world = lent(gang("g", 2, "a", cores=8)[0], gang("g", 2, "")[1])  # the second is of the default quota
    assert taken_back(world, 2) == []


def test_nor_where_its_budget_would_keep_a_part_of_it() -> None:
    world = lent(*gang("g", 2, "a", cores=5, labels={"app": "train"}))
    world.cluster.budget_seen(DisruptionBudget("work", "b", LabelSelector.of({"app": "train"}), 1))
    assert taken_back(world) == []


def test_nor_two_that_one_budget_lets_go_one_after_another_only() -> None:
    world = lent(*gang("g", 2, "a", cores=2, **TRAIN), *gang("h", 2, "a", cores=3, **TRAIN), owed=10)
    allow(world, 2)
    first = taken_back(world, 10)
    assert len({name[0] for name in first}) == 1
    world.delete(*first)
    assert sorted([*first, *evicted(world.go(60.0))]) == ["g0", "g1", "h0", "h1"]


def test_quota_goes_to_the_member_for_whom_a_pod_was_evicted() -> None:
    """The largest is admitted first otherwise, and fits nowhere, while the room of the other is kept for ever."""
    world = World(node("n", 1), node("m", 1), node("theirs", 9, taints=(Taint("team", "theirs"),)))
    world.write(quota("q", 0, 2))
    world.create(pod("low", 1, on="n"), pod("other", 1, "q", on="m", priority=9))
    of_gang = Demands(gang=GangNotes("g", 1))
    world.create(*(replace(pod(f"g-{i}", i + 1, "q", priority=3), demands=of_gang) for i in range(2)))
    (asked,) = [instruction for instruction in world.go() if isinstance(instruction, Preempt)]
    assert asked.key == "work/g-0"
    world.terminate("low")
    world.go(1.0)
    world.delete("other")
    world.cluster.node_gone("m", world.now_s)
    world.go(10.0)
    world.delete("low")
    assert bound(world.go(30.0)) == ["g-0"]
