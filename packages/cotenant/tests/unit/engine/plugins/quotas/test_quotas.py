"""Quotas in the cluster's engine, by example."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.fakes.cluster.quota_world import World, bound, cpu, evicted, node, pod, quota, statuses, told

from cotenant.engine.framework.instructions import Evict, Preempt
from cotenant.engine.plugins.quotas.settings import QuotaSettings
from cotenant.model.cluster.labels import HOSTNAME, Labels, LabelSelector
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import DisruptionBudget, ObservedPod
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.groups.quota import DEFAULT_QUOTA, NAME, NO_LIMIT, PREEMPTIBLE, Quota, QuotaObject
from cotenant.model.resources import Amounts

# ---- the founding examples


def test_a_b_c_and_d_of_the_founding_document() -> None:
    """In whole units, as it counts; in milli-CPU the fractions are not rounded away (35.385 and 39.615)."""
    units = "example.com/unit"
    room = Amounts.of({"cpu": 1000, "memory": 1 << 40, "pods": 500, units: 100})
    world = World(Node("n", room, Labels.of({HOSTNAME: "n"})))
    for name, least, weight, asks in (("a", 10, 40, 5), ("b", 15, 60, 20), ("c", 20, 50, 40), ("d", 15, 80, 70)):
        most, owed, share = (Amounts.of({units: n}) for n in (100, least, weight))
        world.write(QuotaObject(f"q/{name}", f"u-{name}", Quota(name, most, owed, shared_weight=share)))
        world.create(*(pod(f"{name}{i}", 0, name, requests=Amounts.of({units: 1})) for i in range(asks)))
    world.go()
    found = {name: world.quotas.describe(name).shares[0].terms.runtime for name in "abcd"}  # type: ignore[union-attr]
    assert found == {"a": 5, "b": 20, "c": 35, "d": 40}
    assert {name: world.seated(name) for name in "abcd"} == {"a": 5, "b": 20, "c": 35, "d": 40}


def test_what_was_borrowed_is_given_back_after_the_delay() -> None:
    world = World(node("n", 100), revoke_after_s=120.0)
    world.write(quota("a", 50, 100), quota("b", 50, 100))
    world.create(*(pod(f"a{i}", 1, "a", started_s=float(i)) for i in range(100)))
    world.go()
    assert world.seated("a") == 100
    world.create(*(pod(f"b{i}", 1, "b") for i in range(100)))
    assert evicted(world.go(10.0)) == []
    assert (world.runtime("a"), world.runtime("b")) == (50, 50)
    assert evicted(world.go(119.0)) == []
    given = world.go(3.0)
    assert len(evicted(given)) == 50
    first = next(instruction for instruction in given if isinstance(instruction, Evict))
    assert first.reason == "QuotaOverused"
    assert first.message == (
        "quota a has used 100 cpu where it may use 50 for more than 120 s; b is owed cpu 50 more and waits for it"
    )
    world.evict(given)
    world.go(20.0)
    assert (world.seated("a"), world.seated("b")) == (50, 50)
    assert not evicted(world.go(500.0))  # and it rests there


# ---- who is let through


def test_no_quota_no_rule() -> None:
    world = World(node("n", 10))
    world.create(pod("x", 1, "nobody"))
    assert bound(world.go()) == ["x"]
    assert world.quotas.describe("nobody") is None
    assert world.quotas.next_s() == np.inf


def test_pods_beyond_the_runtime_wait_and_are_told_the_figures() -> None:
    world = World(node("n", 100))
    world.write(quota("a", 0, 10))
    world.create(*(pod(f"x{i}", 4, "a") for i in range(3)))
    given = world.go()
    assert len(bound(given)) == 2
    assert list(told(given).values()) == ["Insufficient quota a: cpu of its runtime. a: 8 of 10 cpu used, 4 requested."]
    world.delete(bound(given)[0])
    assert len(bound(world.go(2.0))) == 1


def test_a_pod_larger_than_the_maximum_is_told_that_it_never_fits() -> None:
    world = World(node("n", 100))
    world.write(quota("a", 0, 10))
    world.create(pod("x", 12, "a"))
    assert told(world.go())["x"] == (
        "Quota a can never have enough: the pod asks for more cpu than its maximum. 12 cpu are asked, the maximum is "
        "10."
    )


def test_what_may_not_be_preempted_stays_within_the_minimum() -> None:
    world = World(node("n", 100))
    world.write(quota("a", 3, 10))
    world.create(*(pod(f"x{i}", 2, "a", labels={PREEMPTIBLE: "false"}) for i in range(2)), pod("y", 2, "a"))
    given = world.go()
    assert len(bound(given)) == 2
    assert "y" in bound(given)
    (words,) = told(given).values()
    assert "cpu of its minimum, which limits pods that cannot be preempted" in words
    assert "a: 2 of 3 cpu used, 2 requested" in words


def test_an_ancestor_holds_where_parents_are_checked() -> None:
    tree = (
        quota("org", 0, 10, is_parent=True),
        quota("x", 0, 10, "org", shared_weight=cpu(1)),
        quota("y", 0, 10, "org", shared_weight=cpu(1)),
    )
    for checked, words in ((False, "of its runtime"), (True, "of its runtime")):
        world = World(node("n", 100), check_parents=checked)
        world.write(*tree)
        world.create(pod("x0", 10, "x"))
        world.go()
        world.create(pod("y0", 5, "y"))
        given = world.go()
        if checked:
            assert "cpu of org's runtime" in told(given)["y0"]
        else:
            assert bound(given) == ["y0"], words


def test_a_pod_belongs_by_label_then_namespace_then_nowhere() -> None:
    world = World(node("n", 100))
    world.write(quota("a", 0, 1, namespaces=("one", "two")), quota("home", 0, 1), quota("b", 0, 1))
    world.create(
        pod("x", 1, namespace="one"),
        pod("y", 1, namespace="home"),
        pod("z", 1, "b", namespace="one"),
        pod("w", 1, namespace="elsewhere"),
        pod("v", 1, "unknown"),
    )
    world.go()
    found = {name: world.quotas.quota_of(f"uid-{name}")[0] for name in "xyzwv"}
    assert found == {"x": "a", "y": "home", "z": "b", "w": DEFAULT_QUOTA, "v": DEFAULT_QUOTA}
    assert "does not exist" in world.quotas.quota_of("uid-v")[1]


def test_the_default_quota_limits_by_its_maximum_and_takes_from_the_tree() -> None:
    world = World(node("n", 100))
    world.write(quota(DEFAULT_QUOTA, 0, 3), quota("a", 0, 100))
    world.create(*(pod(f"x{i}", 2) for i in range(2)), *(pod(f"a{i}", 20, "a") for i in range(5)))
    given = world.go()
    assert len([name for name in bound(given) if name.startswith("x")]) == 1
    assert world.runtime("a") == 98
    assert world.seated("a") == 4
    about = world.quotas.describe(DEFAULT_QUOTA)
    assert about is not None
    assert (about.seated, about.waiting, about.maximum) == (1, 1, (("cpu", 3000),))


def test_any_resource_may_be_limited() -> None:
    world = World(node("n", 100))
    limited = QuotaObject("q/a", "u", Quota("a", Amounts.of({"nvidia.com/gpu": 2, "pods": 3})))
    world.write(limited)
    gpus = Amounts.of({"cpu": 100, "nvidia.com/gpu": 1})
    world.create(*(pod(f"g{i}", 0, "a", requests=gpus) for i in range(3)))
    assert "nvidia.com/gpu of its runtime" in next(iter(told(world.go()).values()))
    world.create(*(pod(f"x{i}", 1, "a") for i in range(2)))
    given = world.go()
    assert len(bound(given)) == 1
    assert any("pods of its runtime" in words for words in told(given).values())


def test_trees_share_nothing_and_take_their_total_off_the_default_one() -> None:
    world = World(node("n", 100))
    world.write(
        quota("pool", 30, NO_LIMIT // 1000, tree_id="t", is_parent=True, is_tree_root=True, total=cpu(30)),
        quota("p", 0, 100, "pool"),  # its tree is its parent's
        quota("a", 0, 100),
        quota("lost", 0, 100, tree_id="nowhere"),
    )
    world.create(*(pod(f"{name}{i}", 10, name) for name in ("p", "a", "lost") for i in range(10)))
    given = world.go(6.0)
    assert {name: world.seated(name) for name in ("p", "a", "lost")} == {"p": 3, "a": 7, "lost": 0}
    assert "has nothing to divide" in statuses(given)["quotas/lost"].problem


# ---- objects


def test_a_bad_object_is_told_and_its_pods_wait() -> None:
    world = World(node("n", 100))
    world.write(quota("bad", 5, 3), quota("under", 0, 3, "bad"), quota("good", 1, 3))
    world.create(pod("x", 1, "bad"), pod("y", 1, "under"), pod("z", 1, "good"))
    given = world.go()
    assert bound(given) == ["z"]
    assert told(given)["x"] == "Quota bad is not used: minimum 5 of cpu exceeds the maximum 3."
    assert told(given)["y"] == "Quota under is not used: there is no usable quota bad."
    assert statuses(given)["quotas/bad"].problem == "minimum 5 of cpu exceeds the maximum 3"
    assert statuses(given)["quotas/good"].problem == ""
    about = world.quotas.describe("bad")
    assert about is not None
    assert (about.is_used, about.problems) == (False, ("minimum 5 of cpu exceeds the maximum 3",))
    world.write(quota("bad", 3, 5, is_parent=True))
    assert bound(world.go(2.0)) == ["x", "y"]  # bad is a parent now, so that x belongs to the default quota
    assert "a parent, which cannot have pods" in world.quotas.quota_of("uid-x")[1]


def test_what_is_borne_is_told_too() -> None:
    world = World(node("n", 100))
    world.write(quota("org", 2, 10), quota("x", 2, 10, "org"), quota("y", 2, 10, "org"))
    world.create(pod("p", 1, "x"))
    given = world.go()
    assert bound(given) == ["p"]
    assert "add up to 4 of cpu, its own is 2" in statuses(given)["quotas/org"].problem
    assert "is not marked as a parent" in statuses(given)["quotas/org"].problem


def test_of_two_objects_of_a_name_one_is_used() -> None:
    world = World(node("n", 100))
    world.write(quota("a", 0, 1), quota("a", 0, 50, key="another/a"))
    world.create(*(pod(f"x{i}", 10, "a") for i in range(9)))
    given = world.go()
    assert len(bound(given)) == 5
    assert statuses(given)["quotas/a"].problem == "another/a has this name, and is used"


def test_statuses_are_told_once_and_not_too_often() -> None:
    world = World(node("n", 100), status_every_s=5.0)
    world.write(quota("a", 2, 10))
    world.create(pod("x", 4, "a"))
    world.go()
    assert statuses(world.go(1.0)) == {}
    status = statuses(world.go(5.0))["quotas/a"]
    assert (status.used, status.runtime, status.request) == ((("cpu", 4000),),) * 3
    assert statuses(world.go(50.0)) == {}
    world.create(pod("y", 4, "a"))
    assert statuses(world.go(50.0))["quotas/a"].request == (("cpu", 8000),)


def test_a_quota_that_goes_lets_its_pods_go() -> None:
    world = World(node("n", 100))
    world.write(quota("a", 0, 4))
    world.create(*(pod(f"x{i}", 4, "a") for i in range(3)))
    assert len(bound(world.go())) == 1
    world.quotas.quota_gone("quotas/a", world.now_s)
    assert len(bound(world.go(2.0))) == 2
    assert world.quotas.describe("a") is None


def test_resize_relabel_and_reparent_under_load() -> None:
    world = World(node("n", 100))
    world.write(quota("org", 0, 100, is_parent=True), quota("a", 0, 4, "org"), quota("b", 0, 100))
    world.create(*(pod(f"x{i}", 4, "a") for i in range(4)))
    assert len(bound(world.go())) == 1
    world.write(quota("a", 0, 8, "org"))
    assert len(bound(world.go(2.0))) == 1
    world.write(quota("a", 0, 8))
    assert bound(world.go(5.0)) == []
    seated = next(observed_pod for observed_pod in world.pods.values() if observed_pod.node)
    world.create(replace(seated, pod=replace(seated.pod, labels=Labels.of({NAME: "b"}))))
    assert len(bound(world.go(20.0))) == 1
    about = world.quotas.describe("b")
    assert about is not None
    assert about.used == (("cpu", 4000),)


# ---- waking


def test_a_refused_pod_is_tried_when_it_may_help_and_not_before() -> None:
    world = World(node("n", 100))
    world.write(quota("a", 0, 10), quota("b", 0, 10))
    world.create(pod("big", 10, "a"), pod("other", 10, "b"))
    world.go()
    world.create(pod("x", 8, "a"))
    assert "x" in told(world.go())
    attempts = world.cluster.queue.incoming.copy()
    world.delete("other")  # of another quota
    world.create(pod("small", 1, "b"))
    world.go(60.0)
    assert world.cluster.queue.incoming.get(("ElasticQuotaUpdate", "active")) == attempts.get(
        ("ElasticQuotaUpdate", "active")
    )
    world.delete("big")
    assert bound(world.go(60.0)) == ["x"]


def test_a_growing_cluster_wakes_who_waits_for_a_share() -> None:
    world = World(node("n", 10))
    world.write(quota("a", 0, 100), quota("b", 0, 100))
    world.create(*(pod(f"{name}{i}", 5, name) for name in "ab" for i in range(2)))
    assert len(bound(world.go())) == 2
    world.cluster.node_seen(node("m", 10))
    assert len(bound(world.go(60.0))) == 2


def test_a_cordoned_node_gives_what_its_pods_hold() -> None:
    world = World(node("n", 10), node("m", 10))
    world.write(quota("a", 0, 100))
    world.create(pod("x", 4, "a", on="n"), pod("y", 30, "a"))
    world.go()
    assert world.runtime("a") == 20
    world.cluster.node_seen(node("n", 10, unschedulable=True))
    world.go()
    assert world.runtime("a") == 14
    world.cluster.node_gone("n", world.now_s)
    world.go()
    assert world.runtime("a") == 14
    world.delete("x")
    world.go()
    assert world.runtime("a") == 10


def test_a_pod_that_found_no_node_gives_its_room_in_the_quota_to_another() -> None:
    world = World(node("n", 10))
    world.write(quota("a", 0, 20))
    world.cluster.node_seen(node("m", 10))
    world.create(pod("huge", 15, "a", priority=5), pod("x", 10, "a"))
    given = world.go()
    given += world.go(5.0)
    assert bound(given) == ["x"]
    assert "Insufficient cpu" in told(given)["huge"]


# ---- preemption within a quota


def test_a_more_important_pod_takes_the_place_of_another_of_its_quota() -> None:
    world = World(node("n", 100))
    world.write(quota("a", 0, 10), quota("b", 0, 10))
    world.create(*(pod(f"low{i}", 5, "a") for i in range(2)), pod("spared", 5, "b"), pod("vip", 5, "a", priority=9))
    first = world.go()
    assert "vip" in bound(first)  # it comes first where nobody sits yet
    world.create(pod("vip2", 5, "a", priority=9))
    given = world.go()
    (victim,) = evicted(given)
    assert victim.startswith("low")
    assert next(instruction for instruction in given if isinstance(instruction, Evict)).message == (
        "work/vip2 of the same quota a is more important (9) and does not fit beside it"
    )
    world.evict(given)
    assert bound(world.go(30.0)) == ["vip2"]


def test_what_comes_free_is_kept_for_whom_it_was_freed() -> None:
    world = World(node("n", 100))
    world.write(quota("a", 0, 10))
    world.create(*(pod(f"low{i}", 5, "a") for i in range(2)))
    world.go()
    world.create(pod("vip", 10, "a", priority=9), pod("thief", 1, "a", priority=1))
    given = world.go()
    assert evicted(given) == ["low0", "low1"]
    assert "thief" in told(given)
    about = world.quotas.describe("a")
    assert about is not None
    assert about.kept_for == "work/vip"
    world.delete("low0")
    assert bound(world.go(3.0)) == []
    world.delete("low1")
    assert bound(world.go(30.0)) == ["vip"]


def test_who_may_not_be_preempted_and_who_preempts_not() -> None:
    world = World(node("n", 100))
    world.write(quota("a", 10, 10))
    world.create(pod("kept", 5, "a", labels={PREEMPTIBLE: "false"}), pod("even", 5, "a", priority=9))
    world.go()
    world.create(pod("vip", 5, "a", priority=9), pod("meek", 5, "a", priority=10, preempts=False))
    assert evicted(world.go()) == []


def test_a_victim_within_its_budget_is_chosen_first() -> None:
    world = World(node("n", 100))
    world.write(quota("a", 0, 10))
    world.cluster.budget_seen(DisruptionBudget("work", "b", LabelSelector.of({"app": "web"}), 0))
    world.create(pod("web", 5, "a", labels={"app": "web"}), pod("free", 5, "a", priority=1))
    world.go()
    world.create(pod("vip", 5, "a", priority=9))
    assert evicted(world.go()) == ["free"]


def test_a_promise_ends_with_its_pod_and_with_time() -> None:
    for ends in ("gone", "time"):
        world = World(node("n", 100))
        world.write(quota("a", 0, 10))
        world.create(pod("low", 6, "a"))
        world.go()
        world.create(pod("vip", 10, "a", priority=9), pod("x", 4, "a"))
        given = world.go()
        assert evicted(given) == ["low"]
        assert "keeps what comes free for work/vip, which is more important" in told(given)["x"]
        if ends == "gone":
            world.delete("vip")
            assert bound(world.go(5.0)) == ["x"]
        else:
            assert evicted(world.go(59.0)) == []
            assert evicted(world.go(30.0)) == ["low"]  # its budget kept it; it is asked again


# ---- revocation


def borrowed(**settings: object) -> World:
    world = World(node("n", 10), revoke_after_s=10.0, **settings)
    world.write(quota("a", 2, 10, shared_weight=cpu(1)), quota("b", 2, 10, shared_weight=cpu(1)))
    world.create(*(pod(f"a{i}", 2, "a", started_s=float(i)) for i in range(5)))
    world.go()
    return world


def test_nobody_is_evicted_where_nobody_gains() -> None:
    world = borrowed()
    world.cluster.node_seen(node("n", 4))
    world.go()
    assert world.runtime("a") == 4
    assert evicted(world.go(100.0)) == []


def test_who_is_owed_gets_it_and_then_everybody_their_share() -> None:
    world = borrowed()
    world.create(*(pod(f"b{i}", 2, "b") for i in range(5)))
    world.go(2.0)
    given = world.go(11.0)
    assert evicted(given) == ["a2", "a3", "a4"]  # the youngest: one for what b is owed, two down to a's runtime of 5
    whys = {
        instruction.victim.key: instruction.message.rpartition("; ")[2]
        for instruction in given
        if isinstance(instruction, Evict)
    }
    assert whys["work/a4"] == "b is owed cpu 2 more and waits for it"
    assert whys["work/a2"] == whys["work/a3"] == "b waits for its share"


def test_a_waiting_pod_is_told_whom_another_quota_will_give_up_for_it_and_when() -> None:
    world = borrowed()
    world.create(*(pod(f"b{i}", 2, "b") for i in range(5)))
    world.go(2.0)
    answer = world.cluster.why.pod("work/b0", world.now_s)
    assert answer is not None
    (concern,) = [found for found in answer.concerns if found.kind == "quota"]
    assert concern.lines[0] == "work/a2 of quota a and 2 more will be evicted for what quota b is owed, in 10 s"
    assert evicted(world.go(9.0)) == []
    assert evicted(world.go(2.0)) == ["a2", "a3", "a4"]
    world = borrowed(revoke=False)
    world.create(pod("b0", 2, "b"))
    world.go(2.0)
    assert world.quotas.returned_for("uid-b0", world.now_s) == ""


def test_a_gang_goes_whole() -> None:
    world = World(node("n", 10), revoke_after_s=10.0)
    world.write(quota("a", 0, 10, shared_weight=cpu(1)), quota("b", 2, 10, shared_weight=cpu(1)))
    light = "pod-group.scheduling.sigs.k8s.io/"
    gang = {light + "name": "train", light + "min-available": "2"}
    world.create(*(pod(f"g{i}", 2, "a", labels=gang, started_s=9.0) for i in range(2)), pod("old", 6, "a", priority=1))
    world.go()
    assert world.seated("a") == 3
    world.create(pod("b0", 2, "b"))
    world.go(2.0)
    assert evicted(world.go(11.0)) == ["g0", "g1"]


def test_revocation_can_be_turned_off() -> None:
    world = borrowed(revoke=False)
    world.create(*(pod(f"b{i}", 2, "b") for i in range(5)))
    world.go()
    assert evicted(world.go(1000.0)) == []


def test_pods_that_are_going_are_not_named_again_at_once() -> None:
    world = borrowed()
    world.create(pod("b0", 2, "b"))
    world.go(2.0)
    first = evicted(world.go(11.0))
    assert first == ["a4"]
    assert evicted(world.go(5.0)) == []
    seen = world.pods["uid-a4"]
    world.create(replace(seen, ends_s=world.now_s + 30.0))
    assert evicted(world.go(40.0)) == []
    world.delete("a4")
    assert bound(world.go(20.0)) == ["b0"]


# ---- self-examination


def test_validation_finds_what_was_not_told() -> None:
    world = World(node("n", 10))
    world.write(quota("a", 0, 10))
    world.create(pod("x", 4, "a"))
    world.go()
    world.quotas.unreserve(world.cluster.find("work/x"))  # type: ignore[arg-type]
    with pytest.raises(Permanent):
        world.cluster.validate()


def test_a_rebuilt_engine_says_the_same() -> None:
    world = World(node("n", 10))
    world.write(quota("a", 0, 6), quota("b", 0, 10))
    world.create(*(pod(f"{name}{i}", 2, name) for name in "ab" for i in range(4)))
    world.go()
    before = world.quotas.describe("a")
    world.cluster.rebuild(world.now_s)
    world.go()
    assert world.quotas.describe("a") == before


def test_settings_are_checked() -> None:
    with pytest.raises(InvalidInput, match="revoke_after_s"):
        QuotaSettings(revoke_after_s=-1.0)


def test_in_a_tree_whose_total_is_written_down_use_beyond_it_is_given_back() -> None:
    world = World(node("n", 100), revoke_after_s=10.0)
    world.write(
        quota("pool", 8, 8, tree_id="t", is_parent=True, is_tree_root=True, total=cpu(8)),
        quota("a", 4, 8, "pool"),
        quota("b", 4, 8, "pool"),
    )
    world.create(*(pod(f"a{i}", 1, "a", started_s=float(i)) for i in range(8)))
    world.go()
    world.create(*(pod(f"b{i}", 1, "b") for i in range(4)))
    world.go(2.0)
    assert (world.seated("a"), world.seated("b")) == (8, 4)  # the nodes have room
    given = world.go(11.0)
    assert evicted(given) == ["a4", "a5", "a6", "a7"]
    assert all(
        "tree t uses more than it has to divide" in instruction.message
        for instruction in given
        if isinstance(instruction, Evict)
    )


def test_what_stands_for_a_reservation_is_counted_by_no_quota() -> None:
    world = World(node("n", 100))
    world.write(quota("a", 0, 10))
    stands = replace(pod("kept", 10, "a", on="n"), reservation="kept")
    world.cluster.pod_seen(stands, 0.0)
    world.create(pod("x", 10, "a"))
    assert bound(list(world.cluster.decide(0.0))) == ["x"]
    assert world.quotas.quota_of("uid-kept") == ("", "it stands for a reservation, whose owners are counted")


def test_a_gang_claims_whole_or_not_at_all() -> None:
    for owed, gone in ((2, 0), (4, 2)):
        world = World(node("n", 10), revoke_after_s=10.0)
        world.write(quota("a", 0, 10, shared_weight=cpu(1)), quota("b", owed, 10))
        world.create(*(pod(f"a{i}", 2, "a", started_s=float(i)) for i in range(5)))
        world.go()
        gang = {"pod-group.scheduling.sigs.k8s.io/name": "g", "pod-group.scheduling.sigs.k8s.io/min-available": "2"}
        world.create(*(pod(f"b{i}", 2, "b", labels=gang) for i in range(2)))
        world.go(2.0)
        given = world.go(11.0)
        owing = [
            instruction for instruction in given if isinstance(instruction, Evict) and "is owed" in instruction.message
        ]
        assert len(owing) == gone, owed


def test_a_cluster_larger_than_an_amount_stops_nobody() -> None:
    world = World(
        *(
            Node(f"n{i}", Amounts.of({"cpu": 10_000, "memory": NO_LIMIT}), Labels.of({HOSTNAME: f"n{i}"}))
            for i in range(3)
        )
    )
    world.write(QuotaObject("q/a", "u", Quota("a", Amounts.of({"cpu": 30_000, "memory": NO_LIMIT}))))
    most = Amounts.of({"cpu": 1000, "memory": NO_LIMIT})
    world.create(*(pod(f"x{i}", 0, requests=most) for i in range(2)), pod("y", 1, "a"))
    assert bound(world.go()) == ["x0", "x1", "y"]


def test_a_node_is_not_kept_for_a_pod_that_its_quota_refuses() -> None:
    """It preempted, and before its victim was gone another took what was left of the quota."""
    much = 1 << 40

    def sized(name: str, cores: int, memory: int, of: str = "", on: str = "", priority: int = 0) -> ObservedPod:
        asked = Amounts.of({"cpu": cores * 1000, "memory": memory})
        return pod(name, cores, of, requests=asked, on=on, priority=priority)

    world = World(node("n", 10), node("m", 10))
    world.write(quota("q", 4, 4))
    world.create(sized("high", 1, much, on="m", priority=100), sized("low", 10, 1, on="n"))
    world.go()
    world.create(sized("p", 4, 1, "q", priority=5))
    assert [instruction.victims[0].key for instruction in world.go(5.0) if isinstance(instruction, Preempt)] == [
        "work/low"
    ]
    world.create(sized("rival", 4, 0, "q", priority=5))
    assert bound(world.go(1.0)) == ["rival"]
    world.create(sized("small", 8, 1))
    assert bound(world.go(1.0)) == []  # the node is kept while the victim still goes
    world.delete("low")
    assert bound(world.go(20.0)) == ["small"]
    assert not world.cluster.reserved()


def test_who_met_a_promise_to_another_may_preempt_when_it_is_kept() -> None:
    world = World(node("n", 100))
    world.write(quota("q", 10, 10))
    world.create(*(pod(f"l{i}", 2, "q") for i in range(5)))
    world.go()
    world.create(pod("p", 2, "q", priority=10))
    first = evicted(world.go(5.0))
    assert len(first) == 1
    world.create(pod("x", 10, "q", priority=20))
    assert not evicted(world.go(1.0))  # it does not fit beside the other, so it cannot join
    world.delete(*first)
    given = world.go(1.0) + world.go(5.0)
    assert bound(given) == ["p"]
    assert len(evicted(given)) == 5
    world.evict(given)
    assert bound(world.go(20.0)) == ["x"]


def test_a_quota_that_lists_namespaces_is_not_another_tenants_to_name() -> None:
    world = World(node("n", 100))
    most, owed = Amounts.of({"cpu": 10_000}), Amounts.of({"cpu": 5_000})
    world.write(QuotaObject("home/theirs", "u-theirs", Quota("theirs", most, owed, namespaces=("team",))))
    world.create(*(pod(name, 1, "theirs", namespace=name) for name in ("elsewhere", "team", "home")))
    given = world.go()
    assert {entry.partition("/")[0] for entry in bound(given)} == {"team", "home"}
    (said,) = (text for key, text in told(given).items() if "elsewhere" in key)
    assert "Quota theirs is of the namespaces that it lists (team), and not of elsewhere" in said
