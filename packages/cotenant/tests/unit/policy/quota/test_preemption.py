from __future__ import annotations

from tests.unit.policy.quota.shapes import cpu, pod, quota

from cotenant.model.groups.quota import QuotaPod
from cotenant.policy.quota.headroom import HeadroomRules, LimitKind
from cotenant.policy.quota.preemption import QuotaVictims, preempt
from cotenant.policy.quota.tree import QuotaTree


def holding(*pods: QuotaPod) -> QuotaTree:
    tree = QuotaTree(
        [quota("p", 40, 100, is_parent=True), quota("q", 20, 100, "p"), quota("r", 20, 100, "p")], cpu(100)
    )
    tree.ask("q", cpu(100))
    for held in pods:
        tree.use("q", held.request, held.preemptible)
    return tree


def test_the_least_important_go_and_no_more_than_needed() -> None:
    pods = [pod("a", 40, 1), pod("b", 30, 0), pod("c", 30, 0, started_us=9)]
    assert preempt(holding(*pods), "q", pod("new", 30, 5), pods).victims == (pods[2],)
    assert preempt(holding(*pods), "q", pod("new", 50, 5), pods).victims == (pods[1], pods[2])
    assert preempt(holding(*pods[:2]), "q", pod("new", 30, 5), pods[:2]) == QuotaVictims()


def test_pods_that_budgets_protect_stay_where_others_can_go() -> None:
    pods = [pod("a", 50, 3), pod("b", 50, 0, breaks_budget=True)]
    told = preempt(holding(*pods), "q", pod("new", 50, 5), pods)
    assert (told.victims, told.violations) == ((pods[0],), 0)
    told = preempt(holding(*pods), "q", pod("new", 60, 5), pods)
    assert (told.victims, told.violations) == ((pods[0], pods[1]), 1)


def test_without_effect_no_pod_is_preempted() -> None:
    pods = [pod("a", 50, 9), pod("b", 50, 0, preemptible=False)]
    told = preempt(holding(*pods), "q", pod("new", 10, 5), pods)
    assert told.victims == ()
    assert [short.limit for short in told.still_short] == [LimitKind.RUNTIME]
    told = preempt(holding(pod("b", 20, 0, preemptible=False)), "q", pod("new", 10, 5, preemptible=False), [])
    assert [short.limit for short in told.still_short] == [LimitKind.MINIMUM]


def test_what_leaves_the_quota_leaves_its_parents_too() -> None:
    pods = [pod("a", 50, 0)]
    tree = holding(*pods)
    tree.ask("r", cpu(50))
    tree.use("r", cpu(50))
    told = preempt(tree, "q", pod("new", 50, 5), pods, HeadroomRules(check_parents=True))
    assert told.victims == (pods[0],)
