from __future__ import annotations

from tests.unit.policy.quota.shapes import cpu, pod, quota

from cotenant.model.groups.quota import QuotaPod
from cotenant.model.resources import Amounts
from cotenant.policy.quota.revocation import DELAY_US, NO_OVERUSE, Overuse, over, revoke, watch
from cotenant.policy.quota.tree import QuotaTree


def test_overuse_must_last_and_an_end_of_it_starts_the_time_anew() -> None:
    state, due = watch(NO_OVERUSE, True, 100, delay_us=50)
    assert (state, due) == (Overuse(100), False)
    assert watch(state, True, 150, delay_us=50) == (state, False)
    assert watch(state, True, 151, delay_us=50) == (Overuse(151), True)
    assert watch(state, False, 151, delay_us=50) == (NO_OVERUSE, False)


def test_only_limited_resources_are_overused() -> None:
    assert over((("cpu", 5), ("memory", 9)), (("cpu", 5), ("pods", 0))) == ()
    assert over((("cpu", 6), ("memory", 9)), (("cpu", 5),)) == ("cpu",)


def test_the_least_important_go_and_what_still_fits_comes_back() -> None:
    pods = [pod("old", 40, 1), pod("small", 10, 0, started_us=1), pod("late", 50, 0, started_us=2)]
    assert revoke(pods, (("cpu", 50),)) == (pods[2],)
    assert revoke(pods, (("cpu", 49),)) == (pods[1], pods[2])
    assert revoke(pods, (("cpu", 100),)) == ()
    assert revoke([pod("big", 60, 0), pod("small", 10, 1), pod("mid", 50, 2)], (("cpu", 60),)) == (pod("big", 60, 0),)


def test_pods_that_may_not_be_preempted_stay() -> None:
    fixed = pod("fixed", 60, 0, preemptible=False)
    assert revoke([fixed, pod("a", 10, 9)], (("cpu", 65),)) == (pod("a", 10, 9),)
    assert revoke([fixed, pod("a", 10, 9)], (("cpu", 30),)) == (pod("a", 10, 9),)


def test_the_founding_story_a_gives_back_what_it_borrowed_from_b() -> None:
    tree = QuotaTree([quota("a", 50, 100), quota("b", 50, 100)], cpu(100))
    of_a = [pod(f"a{i}", 10, 0, started_us=i) for i in range(10)]
    for running in of_a:
        tree.ask("a", running.request)
        tree.use("a", running.request)
    assert over(tree.used("a"), tree.runtime("a")) == ()
    tree.ask("b", cpu(100))
    assert over(tree.used("a"), tree.runtime("a")) == ("cpu",)
    state, due = watch(NO_OVERUSE, True, 0)
    assert not due
    state, due = watch(state, True, DELAY_US + 1)
    assert due
    gone = revoke(of_a, tree.runtime("a"))
    assert gone == tuple(of_a[5:])
    for left in gone:
        tree.release("a", left.request)  # its job makes it anew, so the quota goes on asking
    assert tree.used("a") == tree.runtime("a") == tree.runtime("b") == (("cpu", 50),)
    assert watch(state, False, DELAY_US + 2) == (NO_OVERUSE, False)
    tree.validate()


def test_pods_that_do_not_use_the_overused_resource_stay() -> None:
    gpus = Amounts.of({"nvidia.com/gpu": 8})
    kept = QuotaPod("kept", gpus, 0, preemptible=False)
    loose = QuotaPod("loose", Amounts.of({"nvidia.com/gpu": 1, "cpu": 1}), 5)
    beside = [pod(f"c{i}", 2, 0) for i in range(3)]
    assert revoke([kept, loose, *beside], (("cpu", 10), ("nvidia.com/gpu", 6))) == (loose,)
    late = pod("late", 2, 0, started_us=1)
    assert revoke([kept, *beside, late], (("cpu", 6), ("nvidia.com/gpu", 6))) == (late,)
