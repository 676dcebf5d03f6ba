"""Which of a cluster's quotas can be used together.

Quotas are objects that people write one by one, without a webhook that refuses a bad one, and one inconsistent quota
invalidates the runtimes of its tree. Keep the largest consistent part; each rejected quota has its reason, and so has
each problem that is tolerated.
Limits: the rules are those of admission.py that would break a tree; sums of minima that are too large are scaled, and
reported.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from cotenant.model.groups.quota import ROOT_QUOTA, Quota
from cotenant.model.resources import Amounts
from cotenant.policy.quota.admission import (
    DEFAULT_RULES,
    QuotaRules,
    QuotaViolation,
    check_alone,
    check_keys,
    is_in_cycle,
    listed,
    sum_of_minima,
)


def select_usable(quotas: Iterable[Quota]) -> tuple[tuple[Quota, ...], tuple[QuotaViolation, ...]]:
    """The quotas that form consistent trees, and why the others are not used.

    Only what would break a tree counts: a duplicate name, a missing, foreign or circular parent, a minimum above the
    maximum; descendants of a rejected quota are rejected too. A namespace claimed by two quotas stays with the first by
    name, and the other is kept without it. Sums of minima that are too large are tolerated, since minima are scaled.
    """
    kept: dict[str, Quota] = {}
    refused = []
    for quota in sorted(quotas, key=lambda quota: quota.name):
        if quota.name in kept:
            refused.append(QuotaViolation(quota.name, "name", "another quota has this name"))
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
                refused.append(QuotaViolation(name, "namespace", text))
        kept[name] = replace(quota, namespaces=tuple(space for space in quota.namespaces if taken[space] == name))
    return tuple(kept.values()), tuple(refused)


def defaulted(quotas: Iterable[Quota]) -> tuple[Quota, ...]:
    """Quotas with what upstream's webhook would fill in: the tree of the nearest ancestor that has one, and one weight
    per resource of the maximum.

    Unlike upstream's, weights are aligned whenever the quota is read: a resource that was added to the maximum later is
    shared too.
    """
    given = tuple(quotas)
    by_name = {quota.name: quota for quota in given}
    return tuple(
        replace(
            quota,
            tree_id=quota.tree_id or _tree_above(quota, by_name),
            shared_weight=_aligned(quota.shared_weight, quota.maximum),
        )
        for quota in given
    )


def _aligned(weight: Amounts, maximum: Amounts) -> Amounts:
    """The shared weight of each resource of the maximum, whose amount is the default; nothing stays nothing, which
    means the maximum.
    """
    if not weight.items or weight.names() == maximum.names():
        return weight
    return Amounts.of({name: weight.get(name) if name in weight else amount for name, amount in maximum})


def _tree_above(quota: Quota, by_name: dict[str, Quota]) -> str:
    at: Quota | None = quota
    for _ in range(len(by_name) + 1):  # bounded, in case of a cycle
        if at is None or at.tree_id:
            break
        at = by_name.get(at.parent)
    return at.tree_id if at is not None else ""


def tolerated(quotas: Iterable[Quota], rules: QuotaRules = DEFAULT_RULES) -> tuple[QuotaViolation, ...]:
    """Problems of quotas that are used nevertheless: scaling and division handle them, and their owners should know."""
    given = {quota.name: quota for quota in quotas}
    below: dict[str, list[Quota]] = {}
    for quota in given.values():
        below.setdefault(quota.parent, []).append(quota)
    found: list[QuotaViolation] = []
    for name, children in below.items():
        parent = given.get(name)
        if parent is None:
            continue
        if not parent.is_parent:
            text = f"it has children ({listed(child.name for child in children)}) but is not marked as a parent"
            found.append(QuotaViolation(name, "is-parent", text))
        if not (parent.is_tree_root or parent.allows_force_update):
            found += sum_of_minima(name, parent, [child for child in children if not child.allows_force_update])
        for child in children:
            found += check_keys(child, (parent,), rules)
    return tuple(found)


def _breaks(quota: Quota, by_name: dict[str, Quota]) -> QuotaViolation | None:
    for violation in check_alone(quota):
        return violation
    if quota.parent == ROOT_QUOTA:
        return None
    if is_in_cycle(quota, by_name):
        return QuotaViolation(quota.name, "cycle", f"following its parents from {quota.parent} leads back to it")
    parent = by_name.get(quota.parent)
    if parent is None:
        return QuotaViolation(quota.name, "unknown-parent", f"there is no usable quota {quota.parent}")
    if parent.tree_id != quota.tree_id:
        text = f"it is in tree {quota.tree_id or 'default'!r}, but its parent is in {parent.tree_id or 'default'!r}"
        return QuotaViolation(quota.name, "tree-id", text)
    return None
