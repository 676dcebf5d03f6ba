"""Validation of quotas: whether a quota may be created, changed or deleted, and which rules it violates.

One invalid quota (a cycle, a minimum above its maximum, children guaranteed more than their parent) invalidates the
runtimes of the whole tree. Each rule is a small function that returns messages for users; `check` applies all of them
to one quota among the existing ones. An object that is already there is never refused but selected (usable.py).
Limits: the caller supplies which quotas have pods; no webhook calls this yet, so only a cluster's existing quotas are
judged, and reported in their annotation and events.

Source: Koordinator's pkg/webhook/elasticquota and the rules of its 0.7 release; names of rules are ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cotenant.model.groups.quota import BUILT_IN, DEFAULT_QUOTA, ROOT_QUOTA, SYSTEM_QUOTA, Levels, Quota
from cotenant.model.resources import NOTHING, Amounts, format_amount


@dataclass(frozen=True, slots=True)
class QuotaViolation:
    """A violated rule: its name, and a one-line message."""

    quota: str
    rule: str
    text: str


@dataclass(frozen=True, slots=True)
class QuotaRules:
    """Optional rules of an installation."""

    key_subset: bool = False  # a child's maximum may mention fewer resources than its parent's
    strict_used: tuple[str, ...] = ()  # resources whose maximum must not be below current use


DEFAULT_RULES = QuotaRules()


def check(
    quota: Quota,
    others: Iterable[Quota],
    old: Quota | None = None,
    with_pods: Iterable[str] = (),
    used: Levels = (),
    rules: QuotaRules = DEFAULT_RULES,
) -> tuple[QuotaViolation, ...]:
    """Violations of this quota among `others`; `old` is what it replaces, `with_pods` names the quotas that have pods.

    A quota that is as it was violates nothing: rules that its surroundings break since then must not block a change of
    its labels.
    """
    if quota == old:
        return ()
    given = tuple(others)
    existing = tuple(other for other in given if other.name != quota.name)
    holding = frozenset(with_pods)
    taken = (
        [QuotaViolation(quota.name, "name", "another quota has this name")] if old is None and existing != given else []
    )
    return (
        *taken,
        *check_alone(quota, used, rules),
        *check_place(quota, existing, holding),
        *check_change(quota, old, existing, holding),
        *check_keys(quota, existing, rules),
        *check_minima(quota, existing),
    )


def check_amounts(name: str, maximum: Levels, minimum: Levels, shared_weight: Levels) -> list[QuotaViolation]:
    """Amounts as written, before they become a `Quota`: none may be negative."""
    groups = (("maximum", maximum), ("minimum", minimum), ("shared weight", shared_weight))
    return [
        QuotaViolation(name, "negative", f"the {what} of {resource} is negative: {amount}")
        for what, levels in groups
        for resource, amount in levels
        if amount < 0
    ]


def check_alone(quota: Quota, used: Levels = (), rules: QuotaRules = DEFAULT_RULES) -> list[QuotaViolation]:
    """Rules about a quota by itself."""
    found = []
    if quota.name == ROOT_QUOTA:
        found.append(QuotaViolation(quota.name, "built-in", "the root cannot be defined by an object"))
    elif quota.name in BUILT_IN and (quota.is_parent or quota.parent != ROOT_QUOTA):
        found.append(QuotaViolation(quota.name, "built-in", "a built-in quota must be a leaf below the root"))
    for resource, least in quota.minimum:
        if resource not in quota.maximum:
            found.append(
                QuotaViolation(quota.name, "min-keys", f"the minimum mentions {resource}, the maximum does not")
            )
        elif least > quota.maximum.get(resource):
            text = (
                f"minimum {format_amount(resource, least)} of {resource} exceeds the maximum "
                f"{format_amount(resource, quota.maximum.get(resource))}"
            )
            found.append(QuotaViolation(quota.name, "min-over-max", text))
    for resource, amount in used:
        if resource in rules.strict_used and amount > quota.maximum.get(resource):
            text = (
                f"{format_amount(resource, amount)} of {resource} is in use, the maximum is "
                f"{format_amount(resource, quota.maximum.get(resource))}"
            )
            found.append(QuotaViolation(quota.name, "max-under-used", text))
    return found


def check_place(quota: Quota, others: Sequence[Quota], with_pods: frozenset[str] = frozenset()) -> list[QuotaViolation]:
    """Rules about its parent, its tree and its namespaces."""
    by_name = {other.name: other for other in others}
    found = []
    for namespace in quota.namespaces:
        for other in others:
            if namespace in other.namespaces:
                text = f"the pods of namespace {namespace} already belong to {other.name}"
                found.append(QuotaViolation(quota.name, "namespace", text))
    for child in others:
        if child.parent == quota.name and not quota.is_parent:
            found.append(
                QuotaViolation(quota.name, "is-parent", f"it has the child {child.name} but is not marked as a parent")
            )
        if child.parent == quota.name and child.tree_id != quota.tree_id:
            text = (
                f"its child {child.name} is in tree {child.tree_id or 'default'!r}, but it is in "
                f"{quota.tree_id or 'default'!r}"
            )
            found.append(QuotaViolation(quota.name, "tree-id", text))
    if quota.is_parent and quota.name in with_pods:
        found.append(QuotaViolation(quota.name, "parent-has-pods", "it has pods, which a parent must not have"))
    if quota.parent == ROOT_QUOTA:
        return found
    if quota.parent == quota.name or is_in_cycle(quota, by_name):
        found.append(QuotaViolation(quota.name, "cycle", f"following its parents from {quota.parent} leads back to it"))
        return found
    parent = by_name.get(quota.parent)
    if parent is None:
        found.append(QuotaViolation(quota.name, "unknown-parent", f"there is no quota {quota.parent}"))
        return found
    if not parent.is_parent:
        found.append(QuotaViolation(quota.name, "parent-is-leaf", f"{parent.name} is not marked as a parent"))
    if parent.name in with_pods:
        found.append(
            QuotaViolation(quota.name, "parent-has-pods", f"{parent.name} has pods, which a parent must not have")
        )
    if parent.tree_id != quota.tree_id:
        text = f"it is in tree {quota.tree_id or 'default'!r}, but its parent is in {parent.tree_id or 'default'!r}"
        found.append(QuotaViolation(quota.name, "tree-id", text))
    return found


def check_change(
    quota: Quota, old: Quota | None, others: Sequence[Quota], with_pods: frozenset[str] = frozenset()
) -> list[QuotaViolation]:
    """Rules about changes of a quota that has children or pods."""
    if old is None:
        return []
    has_children = any(other.parent == old.name for other in others)
    has = "children" if has_children else "pods" if old.name in with_pods else ""
    found = []
    if has and quota.is_parent != old.is_parent:
        found.append(QuotaViolation(quota.name, "is-parent", f"is-parent cannot change while it has {has}"))
    if has and quota.parent != old.parent:
        found.append(QuotaViolation(quota.name, "parent-changed", f"its parent cannot change while it has {has}"))
    if quota.tree_id != old.tree_id:
        found.append(QuotaViolation(quota.name, "tree-id", "the tree of a quota cannot change"))
    return found


def check_keys(quota: Quota, others: Sequence[Quota], rules: QuotaRules = DEFAULT_RULES) -> list[QuotaViolation]:
    """A child's maximum must mention the same resources as its parent's; its minimum must not mention others than
    its parent's.
    """
    found = []
    for parent, child in _pairs(quota, others):
        upper, lower = set(parent.maximum.names()), set(child.maximum.names())
        if not (lower <= upper if rules.key_subset else lower == upper):
            text = (
                f"the maximum of {child.name} mentions {listed(lower)}, that of its parent {parent.name} "
                f"{listed(upper)}"
            )
            found.append(QuotaViolation(quota.name, "max-keys", text))
        beyond = set(child.minimum.names()) - set(parent.minimum.names())
        if beyond and not (parent.is_tree_root or child.allows_force_update):
            text = f"the minimum of {child.name} mentions {listed(beyond)}, that of its parent {parent.name} does not"
            found.append(QuotaViolation(quota.name, "parent-min-keys", text))
    return found


def check_minima(quota: Quota, others: Sequence[Quota]) -> list[QuotaViolation]:
    """Minima of children must not exceed their parent's: for this quota's children, and for this quota with its
    siblings.
    """
    found = []
    if not (quota.is_tree_root or quota.allows_force_update):
        found += sum_of_minima(quota.name, quota, [other for other in others if other.parent == quota.name])
        for parent in others:
            if parent.name == quota.parent and not parent.is_tree_root:
                siblings = [other for other in others if other.parent == parent.name and other.name != quota.name]
                found += sum_of_minima(quota.name, parent, [quota, *siblings])
    return found


def check_guarantee(quota: Quota, others: Iterable[Quota], guaranteed: Mapping[str, Amounts]) -> list[QuotaViolation]:
    """With guaranteed use: a raised minimum must be covered by what an ancestor is guaranteed already. `guaranteed`:
    the current guarantees by quota.

    The need climbs the tree until some ancestor's guarantee covers its children's; at the root of the tree nothing can
    cover it any more. Only quotas of a tree with an id are checked, as upstream (checkGuaranteedForMin).
    """
    if quota.allows_force_update or quota.is_tree_root or not quota.tree_id:
        return []
    by_name = {other.name: other for other in others}
    own = guaranteed.get(quota.name, NOTHING)
    if all(amount <= own.get(resource) for resource, amount in quota.minimum):
        return []
    at, needed = quota, own.maximum(quota.minimum)
    for _ in range(len(by_name) + 1):  # bounded, in case of a cycle
        parent = by_name.get(at.parent)
        if parent is None:
            break
        for other in by_name.values():
            if other.parent == parent.name and other.name != at.name:
                needed = needed + guaranteed.get(other.name, NOTHING)
        needed = needed.maximum(parent.minimum)
        has = guaranteed.get(parent.name, NOTHING)
        if all(amount <= has.get(resource) for resource, amount in needed):
            return []
        at = parent
    return [QuotaViolation(quota.name, "guarantee", f"nothing above it in tree {quota.tree_id} guarantees its minimum")]


def check_delete(quota: Quota, others: Iterable[Quota], with_pods: Iterable[str] = ()) -> tuple[QuotaViolation, ...]:
    """Reasons against deleting a quota."""
    found = []
    if quota.name in (ROOT_QUOTA, SYSTEM_QUOTA, DEFAULT_QUOTA):
        found.append(QuotaViolation(quota.name, "built-in", "a built-in quota cannot be deleted"))
    children = sorted(other.name for other in others if other.parent == quota.name)
    if children:
        found.append(QuotaViolation(quota.name, "has-children", f"it has children: {', '.join(children)}"))
    if quota.name in with_pods:
        found.append(QuotaViolation(quota.name, "has-pods", "it has pods"))
    return tuple(found)


def is_in_cycle(quota: Quota, by_name: Mapping[str, Quota]) -> bool:
    """Whether following its parents leads back to the quota."""
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


def sum_of_minima(name: str, parent: Quota, children: Sequence[Quota]) -> list[QuotaViolation]:
    """Where the minima of these children exceed their parent's, as violations by quota `name`."""
    found = []
    for resource in sorted({resource for child in children for resource, _ in child.minimum}):
        total = sum(child.minimum.get(resource) for child in children)
        if total > parent.minimum.get(resource):
            text = (
                f"the minima of the children of {parent.name} add up to {format_amount(resource, total)} of "
                f"{resource}, its own is {format_amount(resource, parent.minimum.get(resource))}"
            )
            found.append(QuotaViolation(name, "min-sum", text))
    return found


def listed(names: Iterable[str]) -> str:
    """Names for a message."""
    return ", ".join(sorted(names)) or "nothing"
