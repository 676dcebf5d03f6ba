"""Validation of quotas: whether a quota may be created, changed or deleted, and which rules it violates.

Problem: one invalid quota (a cycle, a minimum above its maximum, children guaranteed more than their parent) invalidates the runtimes of the whole
tree. Choice: each rule is a small function that returns messages for users; `check` applies all of them to one quota among the existing ones;
`select_usable` takes the quotas found in a cluster and keeps the largest consistent part, with a reason for each rejected one. Limits: the
caller supplies which quotas have pods; no webhook calls this yet.

Source: Koordinator's pkg/webhook/elasticquota and the rules of its 0.7 release; names of rules are ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from cotenant.model.groups.quota import BUILT_IN, DEFAULT_QUOTA, ROOT_QUOTA, SYSTEM_QUOTA, Levels, Quota
from cotenant.model.resources import format_amount


@dataclass(frozen=True, slots=True)
class Violation:
    """A violated rule: its name, and a one-line message."""

    quota: str
    rule: str
    text: str


@dataclass(frozen=True, slots=True)
class Rules:
    """Optional rules of an installation."""

    key_subset: bool = False  # a child's maximum may mention fewer resources than its parent's
    strict_used: tuple[str, ...] = ()  # resources whose maximum must not be below current use


DEFAULT_RULES = Rules()


def check(
    quota: Quota,
    others: Iterable[Quota],
    old: Quota | None = None,
    with_pods: Iterable[str] = (),
    used: Levels = (),
    rules: Rules = DEFAULT_RULES,
) -> tuple[Violation, ...]:
    """Violations of this quota among `others`; `old` is what it replaces, `with_pods` names the quotas that have pods."""
    existing = tuple(other for other in others if other.name != quota.name)
    holding = frozenset(with_pods)
    return (
        *check_alone(quota, used, rules),
        *check_place(quota, existing, holding),
        *check_change(quota, old, existing, holding),
        *check_keys(quota, existing, rules),
        *check_minima(quota, existing),
    )


def check_alone(quota: Quota, used: Levels = (), rules: Rules = DEFAULT_RULES) -> list[Violation]:
    """Rules about a quota by itself."""
    found = []
    if quota.name == ROOT_QUOTA:
        found.append(Violation(quota.name, "built-in", "the root cannot be defined by an object"))
    elif quota.name in BUILT_IN and (quota.is_parent or quota.parent != ROOT_QUOTA):
        found.append(Violation(quota.name, "built-in", "a built-in quota must be a leaf below the root"))
    for resource, least in quota.minimum:
        if resource not in quota.maximum:
            found.append(Violation(quota.name, "min-keys", f"the minimum mentions {resource}, the maximum does not"))
        elif least > quota.maximum.get(resource):
            text = f"minimum {format_amount(resource, least)} of {resource} exceeds the maximum {format_amount(resource, quota.maximum.get(resource))}"
            found.append(Violation(quota.name, "min-over-max", text))
    for resource, amount in used:
        if resource in rules.strict_used and amount > quota.maximum.get(resource):
            text = f"{format_amount(resource, amount)} of {resource} is in use, the maximum is {format_amount(resource, quota.maximum.get(resource))}"
            found.append(Violation(quota.name, "max-under-used", text))
    return found


def check_place(quota: Quota, others: Sequence[Quota], with_pods: frozenset[str] = frozenset()) -> list[Violation]:
    """Rules about its parent, its tree and its namespaces."""
    by_name = {other.name: other for other in others}
    found = []
    for namespace in quota.namespaces:
        for other in others:
            if namespace in other.namespaces:
                text = f"the pods of namespace {namespace} already belong to {other.name}"
                found.append(Violation(quota.name, "namespace", text))
    for child in others:
        if child.parent == quota.name and not quota.is_parent:
            found.append(
                Violation(quota.name, "is-parent", f"it has the child {child.name} but is not marked as a parent")
            )
        if child.parent == quota.name and child.tree_id != quota.tree_id:
            text = f"its child {child.name} is in tree {child.tree_id or 'default'!r}, but it is in {quota.tree_id or 'default'!r}"
            found.append(Violation(quota.name, "tree-id", text))
    if quota.is_parent and quota.name in with_pods:
        found.append(Violation(quota.name, "parent-has-pods", "it has pods, which a parent must not have"))
    if quota.parent == ROOT_QUOTA:
        return found
    if quota.parent == quota.name or _is_in_cycle(quota, by_name):
        found.append(Violation(quota.name, "cycle", f"following its parents from {quota.parent} leads back to it"))
        return found
    parent = by_name.get(quota.parent)
    if parent is None:
        found.append(Violation(quota.name, "unknown-parent", f"there is no quota {quota.parent}"))
        return found
    if not parent.is_parent:
        found.append(Violation(quota.name, "parent-is-leaf", f"{parent.name} is not marked as a parent"))
    if parent.name in with_pods:
        found.append(Violation(quota.name, "parent-has-pods", f"{parent.name} has pods, which a parent must not have"))
    if parent.tree_id != quota.tree_id:
        text = f"it is in tree {quota.tree_id or 'default'!r}, but its parent is in {parent.tree_id or 'default'!r}"
        found.append(Violation(quota.name, "tree-id", text))
    return found


def check_change(
    quota: Quota, old: Quota | None, others: Sequence[Quota], with_pods: frozenset[str] = frozenset()
) -> list[Violation]:
    """Rules about changes of a quota that has children or pods."""
    if old is None:
        return []
    has_children = any(other.parent == old.name for other in others)
    has = "children" if has_children else "pods" if old.name in with_pods else ""
    found = []
    if has and quota.is_parent != old.is_parent:
        found.append(Violation(quota.name, "is-parent", f"is-parent cannot change while it has {has}"))
    if has and quota.parent != old.parent:
        found.append(Violation(quota.name, "parent-changed", f"its parent cannot change while it has {has}"))
    if quota.tree_id != old.tree_id:
        found.append(Violation(quota.name, "tree-id", "the tree of a quota cannot change"))
    return found


def check_keys(quota: Quota, others: Sequence[Quota], rules: Rules = DEFAULT_RULES) -> list[Violation]:
    """A child's maximum must mention the same resources as its parent's; its minimum must not mention others than its parent's."""
    found = []
    for parent, child in _pairs(quota, others):
        upper, lower = set(parent.maximum.names()), set(child.maximum.names())
        if not (lower <= upper if rules.key_subset else lower == upper):
            text = (
                f"the maximum of {child.name} mentions {_list(lower)}, that of its parent {parent.name} {_list(upper)}"
            )
            found.append(Violation(quota.name, "max-keys", text))
        beyond = set(child.minimum.names()) - set(parent.minimum.names())
        if beyond and not (parent.is_tree_root or child.allows_force_update):
            text = f"the minimum of {child.name} mentions {_list(beyond)}, that of its parent {parent.name} does not"
            found.append(Violation(quota.name, "parent-min-keys", text))
    return found


def check_minima(quota: Quota, others: Sequence[Quota]) -> list[Violation]:
    """Minima of children must not exceed their parent's: for this quota's children, and for this quota with its siblings."""
    found = []
    if not (quota.is_tree_root or quota.allows_force_update):
        found += _sum_of_minima(quota.name, quota, [other for other in others if other.parent == quota.name])
        for parent in others:
            if parent.name == quota.parent and not parent.is_tree_root:
                siblings = [other for other in others if other.parent == parent.name and other.name != quota.name]
                found += _sum_of_minima(quota.name, parent, [quota, *siblings])
    return found


def check_delete(quota: Quota, others: Iterable[Quota], with_pods: Iterable[str] = ()) -> tuple[Violation, ...]:
    """Reasons against deleting a quota."""
    found = []
    if quota.name in (ROOT_QUOTA, SYSTEM_QUOTA, DEFAULT_QUOTA):
        found.append(Violation(quota.name, "built-in", "a built-in quota cannot be deleted"))
    children = sorted(other.name for other in others if other.parent == quota.name)
    if children:
        found.append(Violation(quota.name, "has-children", f"it has children: {', '.join(children)}"))
    if quota.name in with_pods:
        found.append(Violation(quota.name, "has-pods", "it has pods"))
    return tuple(found)


def select_usable(quotas: Iterable[Quota]) -> tuple[tuple[Quota, ...], tuple[Violation, ...]]:
    """The quotas that form consistent trees, and why the others are not used.

    Only what would break a tree counts: a duplicate name, a missing, foreign or circular parent, a minimum above the maximum; descendants of a
    rejected quota are rejected too. A namespace claimed by two quotas stays with the first by name, and the other is kept without it. Sums of
    minima that are too large are tolerated, since minima are scaled.
    """
    kept: dict[str, Quota] = {}
    refused = []
    for quota in sorted(quotas, key=lambda quota: quota.name):
        if quota.name in kept:
            refused.append(Violation(quota.name, "name", "another quota has this name"))
            continue
        kept[quota.name] = quota
    while True:
        wrong = {name: found for name, quota in kept.items() if (found := _breaks(quota, kept))}
        if not wrong:
            break
        for name, violation in sorted(wrong.items()):
            refused.append(violation)
            del kept[name]
    taken: dict[str, str] = {}
    for name, quota in kept.items():
        for namespace in quota.namespaces:
            if taken.setdefault(namespace, name) != name:
                text = f"the pods of namespace {namespace} belong to {taken[namespace]}"
                refused.append(Violation(name, "namespace", text))
        kept[name] = replace(quota, namespaces=tuple(space for space in quota.namespaces if taken[space] == name))
    return tuple(kept.values()), tuple(refused)


def inherited(quotas: Iterable[Quota]) -> tuple[Quota, ...]:
    """Quotas with the tree id of their nearest ancestor where they have none, as upstream's webhook sets it."""
    given = tuple(quotas)
    by_name = {quota.name: quota for quota in given}
    return tuple(quota if quota.tree_id else replace(quota, tree_id=_tree_above(quota, by_name)) for quota in given)


def _tree_above(quota: Quota, by_name: dict[str, Quota]) -> str:
    at: Quota | None = quota
    for _ in range(len(by_name) + 1):  # bounded, in case of a cycle
        if at is None or at.tree_id:
            break
        at = by_name.get(at.parent)
    return at.tree_id if at is not None else ""


def tolerated(quotas: Iterable[Quota], rules: Rules = DEFAULT_RULES) -> tuple[Violation, ...]:
    """Problems of quotas that are used nevertheless: scaling and division handle them, and their owners should know."""
    given = {quota.name: quota for quota in quotas}
    below: dict[str, list[Quota]] = {}
    for quota in given.values():
        below.setdefault(quota.parent, []).append(quota)
    found: list[Violation] = []
    for name, children in below.items():
        parent = given.get(name)
        if parent is None:
            continue
        if not parent.is_parent:
            text = f"it has children ({_list(child.name for child in children)}) but is not marked as a parent"
            found.append(Violation(name, "is-parent", text))
        if not (parent.is_tree_root or parent.allows_force_update):
            found += _sum_of_minima(name, parent, [child for child in children if not child.allows_force_update])
        for child in children:
            found += check_keys(child, (parent,), rules)
    return tuple(found)


def _breaks(quota: Quota, by_name: dict[str, Quota]) -> Violation | None:
    for violation in check_alone(quota):
        return violation
    if quota.parent == ROOT_QUOTA:
        return None
    if _is_in_cycle(quota, by_name):
        return Violation(quota.name, "cycle", f"following its parents from {quota.parent} leads back to it")
    parent = by_name.get(quota.parent)
    if parent is None:
        return Violation(quota.name, "unknown-parent", f"there is no usable quota {quota.parent}")
    if parent.tree_id != quota.tree_id:
        text = f"it is in tree {quota.tree_id or 'default'!r}, but its parent is in {parent.tree_id or 'default'!r}"
        return Violation(quota.name, "tree-id", text)
    return None


def _is_in_cycle(quota: Quota, by_name: dict[str, Quota]) -> bool:
    at: str | None = quota.parent
    for _ in range(len(by_name) + 1):
        if at == quota.name:
            return True
        above = by_name.get(at) if at is not None else None
        if above is None:
            return False
        at = above.parent
    return False


def _pairs(quota: Quota, others: Sequence[Quota]) -> list[tuple[Quota, Quota]]:
    above = [(other, quota) for other in others if other.name == quota.parent]
    return above + [(quota, other) for other in others if other.parent == quota.name]


def _sum_of_minima(name: str, parent: Quota, children: Sequence[Quota]) -> list[Violation]:
    found = []
    for resource in sorted({resource for child in children for resource, _ in child.minimum}):
        total = sum(child.minimum.get(resource) for child in children)
        if total > parent.minimum.get(resource):
            text = f"the minima of the children of {parent.name} add up to {format_amount(resource, total)} of {resource}, its own is {format_amount(resource, parent.minimum.get(resource))}"
            found.append(Violation(name, "min-sum", text))
    return found


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"
