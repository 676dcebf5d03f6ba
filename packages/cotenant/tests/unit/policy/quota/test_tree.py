from __future__ import annotations

import pytest
from tests.unit.policy.quota.shapes import cpu, quota

from cotenant.model.errors import InvalidInput
from cotenant.model.groups.quota import ROOT_QUOTA, Quota
from cotenant.model.resources import NOTHING, Amounts
from cotenant.policy.quota.tree import QuotaTree


def runtime(tree: QuotaTree, name: str) -> int:
    return dict(tree.runtime(name))["cpu"]


def test_a_borrows_what_b_does_not_use_and_gives_it_back_when_b_comes() -> None:
    tree = QuotaTree([quota("a", 50), quota("b", 50)], cpu(100))
    tree.ask("a", cpu(100))
    assert runtime(tree, "a") == 100
    tree.use("a", cpu(100))
    tree.ask("b", cpu(100))
    assert (runtime(tree, "a"), runtime(tree, "b")) == (50, 50)
    assert dict(tree.used("a")) == {"cpu": 100}
    tree.withdraw("b", cpu(100))
    assert runtime(tree, "a") == 100
    tree.validate()


def test_a_quota_that_does_not_lend_keeps_its_minimum() -> None:
    tree = QuotaTree([quota("a", 50, lends=False), quota("b", 50)], cpu(100))
    tree.ask("b", cpu(100))
    assert (runtime(tree, "a"), runtime(tree, "b")) == (50, 50)


def test_each_resource_is_divided_by_itself() -> None:
    both = Amounts.of({"cpu": 10, "nvidia.com/gpu": 8})
    tree = QuotaTree([Quota("a", both), Quota("b", both)], both)
    tree.ask("a", Amounts.of({"cpu": 10}))
    tree.ask("b", Amounts.of({"nvidia.com/gpu": 8}))
    assert dict(tree.runtime("a")) == {"cpu": 10, "nvidia.com/gpu": 0}
    assert dict(tree.runtime("b")) == {"cpu": 0, "nvidia.com/gpu": 8}


def test_what_a_leaf_cannot_have_does_not_reach_its_parents_demand() -> None:
    tree = QuotaTree([quota("p", 0, 100, is_parent=True), quota("leaf", 0, 30, "p"), quota("other", 0, 100)], cpu(100))
    tree.ask("leaf", cpu(90))
    tree.ask("other", cpu(90))
    assert tree.runtime_terms("p", "cpu").request == 30
    assert (runtime(tree, "leaf"), runtime(tree, "other")) == (30, 70)


def test_a_smaller_cluster_scales_the_minima_and_a_larger_one_restores_them() -> None:
    tree = QuotaTree([quota("a", 60), quota("b", 40)], cpu(100))
    for name in "ab":
        tree.ask(name, cpu(100))
    tree.set_total(cpu(50))
    assert tree.runtime_terms("a", "cpu").scaled_minimum == 30
    assert (runtime(tree, "a"), runtime(tree, "b")) == (30, 20)
    tree.set_total(cpu(100))
    assert (runtime(tree, "a"), runtime(tree, "b")) == (60, 40)
    tree.validate()


def test_without_weight_in_a_resource_there_is_no_more_than_the_scaled_minimum_however_much_is_idle() -> None:
    weightless = Amounts.of({"memory": 1})
    tree = QuotaTree([quota("a", 60, shared_weight=weightless), quota("b", 60)], cpu(200))
    tree.ask("a", cpu(55))
    tree.ask("b", cpu(10))
    assert (runtime(tree, "a"), runtime(tree, "b")) == (55, 10)
    tree.set_total(cpu(100))
    assert (runtime(tree, "a"), runtime(tree, "b")) == (50, 10)
    tree.set_total(cpu(200))
    tree.ask("a", cpu(10))
    assert (runtime(tree, "a"), runtime(tree, "b")) == (60, 10)
    tree.validate()


def test_what_is_in_use_may_be_guaranteed() -> None:
    tree = QuotaTree([quota("a", 10), quota("b", 50)], cpu(100), guarantee_use=True)
    tree.ask("a", cpu(80))
    tree.use("a", cpu(80))
    tree.ask("b", cpu(50))
    assert (runtime(tree, "a"), runtime(tree, "b")) == (80, 50)  # both guaranteed, beyond the total
    tree.release("a", cpu(80))
    assert (runtime(tree, "a"), runtime(tree, "b")) == (50, 50)
    tree.validate()


def test_a_quota_may_be_resized_moved_and_removed_under_load() -> None:
    tree = QuotaTree(
        [quota("p", 40, is_parent=True), quota("q", 40, is_parent=True), quota("a", 40, 100, "p")], cpu(100)
    )
    tree.ask("a", cpu(70))
    tree.use("a", cpu(70), preemptible=False)
    tree.put(quota("a", 40, 60, "q"))
    assert dict(tree.used("p")) == {"cpu": 0}
    assert dict(tree.used("q")) == dict(tree.nonpreemptible_used("q")) == {"cpu": 70}
    assert tree.path("a") == ("a", "q")
    assert runtime(tree, "a") == 60
    tree.put(quota("b", 0, 100, "q"))
    tree.ask("b", cpu(100))
    tree.validate()
    tree.remove("a")
    assert (runtime(tree, "b"), dict(tree.used())) == (100, {"cpu": 0})
    tree.validate()


def test_what_would_not_hold_together_is_refused_and_nothing_changes() -> None:
    tree = QuotaTree([quota("p", is_parent=True), quota("a", 10, 20, "p")], cpu(100))
    tree.ask("a", cpu(15))
    with pytest.raises(InvalidInput, match="the name of a quota as its parent"):
        tree.put(quota("b", parent="nowhere"))
    with pytest.raises(InvalidInput, match="each name once"):
        QuotaTree([quota("b"), quota("b")], cpu(1))
    with pytest.raises(InvalidInput, match="ends at the root"):
        tree.put(quota("p", parent="a"))
    with pytest.raises(InvalidInput, match="below the root"):
        tree.put(quota(ROOT_QUOTA))
    with pytest.raises(InvalidInput, match="without children"):
        tree.remove("p")
    with pytest.raises(InvalidInput, match="of this tree"):
        tree.ask("b", cpu(1))
    with pytest.raises(InvalidInput, match="below the root"):
        tree.runtime_terms("a", "memory")
    assert [member.name for member in tree.quotas()] == ["a", "p"]
    assert tree.children() == ("p",)
    assert "b" not in tree
    assert runtime(tree, "a") == 15
    tree.validate()


def test_a_resource_that_no_maximum_mentions_is_counted_and_not_limited() -> None:
    tree = QuotaTree([quota("a", 10)], Amounts.of({"cpu": 100, "memory": 7}))
    tree.ask("a", Amounts.of({"pods": 1, "memory": 9}))
    tree.use("a", Amounts.of({"pods": 1, "memory": 9, "cpu": 0}))
    assert dict(tree.used("a")) == {"cpu": 0, "memory": 9, "pods": 1}
    assert tree.runtime("a") == (("cpu", 0),)
    tree.validate()


def test_validate_notices_what_was_taken_away_without_having_been_added() -> None:
    tree = QuotaTree([quota("a")], cpu(100))
    tree.release("a", cpu(1))
    with pytest.raises(AssertionError, match="more cpu was removed"):
        tree.validate()


def test_validate_notices_a_wrong_number() -> None:
    tree = QuotaTree([quota("a")], cpu(100))
    tree.ask("a", cpu(10))
    tree.refresh()
    tree._nodes["a"].columns[0].runtime += 1
    with pytest.raises(AssertionError, match="runtime of cpu is 11, by division 10"):
        tree.validate()


def test_an_empty_tree_has_nothing_to_divide() -> None:
    tree = QuotaTree([], NOTHING)
    tree.set_total(cpu(5))
    tree.validate()
    assert (tree.children(), tree.total(), tree.resources()) == ((), cpu(5), ("cpu",))
