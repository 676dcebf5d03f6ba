from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.policy.quota.shapes import cpu, quota

from cotenant.model.groups.quota import DEFAULT_QUOTA, ROOT_QUOTA, Levels, Quota
from cotenant.model.resources import Amounts
from cotenant.policy.quota.admission import QuotaRules, check, check_amounts, check_delete, check_guarantee
from cotenant.policy.quota.usable import defaulted, select_usable

P = quota("p", 50, 100, is_parent=True)
A = quota("a", 30, 60, "p")
MEMORY = Amounts.of({"cpu": 60, "memory": 1})


def rules_broken(of: Quota, *others: Quota, **more: object) -> list[str]:
    return [violation.rule for violation in check(of, others, **more)]  # type: ignore[arg-type]


def test_a_good_tree_breaks_no_rule() -> None:
    assert rules_broken(P, A) == []
    assert rules_broken(A, P, A, old=A, with_pods=["a"], used=(("cpu", 1000),)) == []


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        (quota(ROOT_QUOTA), "built-in"),
        (quota(DEFAULT_QUOTA, parent="p"), "built-in"),
        (quota("x", 70, 60), "min-over-max"),
        (Quota("x", cpu(5), Amounts.of({"memory": 1})), "min-keys"),
        (quota("x", 0, 9, "nowhere"), "unknown-parent"),
        (quota("x", 0, 9, "x"), "cycle"),
        (quota("p", 50, 100, "a", is_parent=True), "cycle"),
        (quota("x", 0, 9, "a"), "parent-is-leaf"),
        (quota("x", 0, 9, "p", tree_id="gpu"), "tree-id"),
        (quota("p", 50, 100, is_parent=True, tree_id="gpu"), "tree-id"),
        (quota("p", 50, 100), "is-parent"),
        (quota("x", 21, 60, "p"), "min-sum"),
        (quota("p", 29, 100, is_parent=True), "min-sum"),
        (Quota("x", MEMORY, cpu(1), "p"), "max-keys"),
        (Quota("x", MEMORY, Amounts.of({"memory": 1}), "p"), "parent-min-keys"),
    ],
)
def test_each_rule_of_the_tree(wrong: Quota, rule: str) -> None:
    assert rule in rules_broken(wrong, P, A)


def test_only_leaves_hold_pods() -> None:
    assert rules_broken(P, A, with_pods=["p"]) == ["parent-has-pods"]
    assert rules_broken(A, P, with_pods=["p"]) == ["parent-has-pods"]


def test_a_namespace_belongs_to_one_quota() -> None:
    assert rules_broken(quota("x", namespaces=("n", "m")), quota("y", namespaces=("m",))) == ["namespace"]


@pytest.mark.parametrize(
    ("new", "rule"),
    [
        (replace(A, parent=ROOT_QUOTA), "parent-changed"),
        (replace(A, is_parent=True), "is-parent"),
        (replace(A, tree_id="gpu"), "tree-id"),
    ],
)
def test_what_may_not_change_while_there_are_pods(new: Quota, rule: str) -> None:
    assert rule in rules_broken(new, P, old=A, with_pods=["a"])


def test_without_pods_and_children_a_quota_may_move() -> None:
    assert rules_broken(replace(A, parent=ROOT_QUOTA), P, old=A) == []


def test_what_an_installation_may_relax_or_demand() -> None:
    narrow = quota("x", 1, 2, "m")
    parent = Quota("m", MEMORY, MEMORY, is_parent=True)
    assert rules_broken(narrow, parent) == ["max-keys"]
    assert rules_broken(narrow, parent, rules=QuotaRules(key_subset=True)) == []
    assert rules_broken(quota("x", 0, 5), used=(("cpu", 6),), rules=QuotaRules(strict_used=("cpu",))) == [
        "max-under-used"
    ]
    assert rules_broken(quota("x", 21, 60, "p", allows_force_update=True), P, A) == []
    assert rules_broken(replace(A, minimum=cpu(60)), replace(P, is_tree_root=True)) == []


def test_a_violation_reads_as_a_sentence_with_amounts() -> None:
    (violation,) = check(quota("x", 21_000, 60_000, "p"), [replace(P, minimum=cpu(20_000))])
    assert violation.text == "the minima of the children of p add up to 21 of cpu, its own is 20"


def test_only_an_empty_quota_can_be_deleted() -> None:
    assert [violation.rule for violation in check_delete(P, [P, A], ["p"])] == ["has-children", "has-pods"]
    assert [violation.rule for violation in check_delete(quota(DEFAULT_QUOTA), [])] == ["built-in"]
    assert check_delete(A, [P, A]) == ()


def test_a_heap_of_quotas_is_sorted_out_with_what_hangs_below_the_bad_ones() -> None:
    heap = [P, A, quota("a"), quota("x", parent="y"), quota("y", parent="x"), quota("z", parent="x"), quota("w", 9, 1)]
    kept, refused = select_usable(heap)
    assert [good.name for good in kept] == ["a", "p"]
    assert [(violation.quota, violation.rule) for violation in refused] == [
        ("a", "name"),
        ("w", "min-over-max"),
        ("x", "cycle"),
        ("y", "cycle"),
        ("z", "unknown-parent"),
    ]


def test_a_namespace_that_two_claim_stays_with_the_first() -> None:
    kept, refused = select_usable([quota("b", namespaces=("n", "m")), quota("a", namespaces=("n",))])
    assert [(good.name, good.namespaces) for good in kept] == [("a", ("n",)), ("b", ("m",))]
    assert [(violation.quota, violation.rule) for violation in refused] == [("b", "namespace")]


@pytest.mark.parametrize("field", ["maximum", "minimum", "shared_weight"])
def test_negative_amounts_are_named_before_they_become_a_quota(field: str) -> None:
    good: dict[str, Levels] = {"maximum": (("cpu", 4000),), "minimum": (("cpu", 0),), "shared_weight": ()}
    assert check_amounts("q", **good | {field: (("cpu", 0), ("memory", 0))}) == []
    (found,) = check_amounts("q", **good | {field: (("cpu", 5), ("memory", -1))})
    assert (found.rule, "memory is negative: -1" in found.text) == ("negative", True)


def test_a_name_is_taken_only_for_a_new_quota() -> None:
    assert rules_broken(P, P) == ["name"]
    assert rules_broken(replace(P, maximum=cpu(99)), P, old=P) == []


def test_an_unchanged_quota_breaks_no_rule_of_what_changed_around_it() -> None:
    assert rules_broken(A, replace(P, is_parent=False), old=A) == []


def test_a_shared_weight_has_the_resources_of_the_maximum() -> None:
    both = Amounts.of({"cpu": 60, "memory": 5})
    (short,) = defaulted([Quota("q", both, shared_weight=Amounts.of({"cpu": 7, "gpu": 9}))])
    assert short.weight == Amounts.of({"cpu": 7, "memory": 5})  # a resource without a weight would never be shared
    (zero,) = defaulted([Quota("q", both, shared_weight=Amounts.of({"cpu": 0}))])
    assert zero.weight == Amounts.of({"cpu": 0, "memory": 5})
    (none,) = defaulted([Quota("q", cpu(3), shared_weight=Amounts.of({"cpu": 0, "memory": 0}))])
    assert none.weight == cpu(3)
    (absent,) = defaulted([Quota("q", both)])
    assert absent.weight == both


def test_a_guarantee_climbs_to_the_first_ancestor_that_covers_it() -> None:
    top = quota("top", 10, is_parent=True, tree_id="t", is_tree_root=True)
    mid = quota("mid", 2, parent="top", is_parent=True, tree_id="t")
    leaf = quota("leaf", 4, parent="mid", tree_id="t")
    has = {"top": cpu(10), "mid": cpu(3), "leaf": cpu(1)}
    assert check_guarantee(leaf, [top, mid], has) == []  # mid has 3, top has 10
    assert [v.rule for v in check_guarantee(leaf, [top, mid], has | {"top": cpu(3)})] == ["guarantee"]
    assert check_guarantee(replace(leaf, minimum=cpu(1)), [top, mid], {"leaf": cpu(1)}) == []
    assert check_guarantee(replace(leaf, allows_force_update=True), [top, mid], {}) == []
