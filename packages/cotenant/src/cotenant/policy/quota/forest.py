"""All quota trees of a cluster, pods outside of them, and the assignment of pods to quotas.

A cluster may be divided into pools, each with its own tree and total, while some pods belong to no tree: system pods
and pods without a quota. One QuotaTree per tree id; the use of the system and default quotas is subtracted from the
default tree's total. A pod belongs to the quota that its label names, else to that of its namespace, else to the
default quota; a name that does not exist, or that of a parent, also leads to the default quota, and the result says so.
Limits: quotas must be consistent (usable.select_usable); the caller supplies totals.

Source: Koordinator's group_quota_manager.go and elasticquota/plugin.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cotenant.model.errors import InvalidInput
from cotenant.model.groups.quota import DEFAULT_QUOTA, NO_LIMIT, SYSTEM_QUOTA, Levels, Quota
from cotenant.model.resources import NOTHING, Amounts
from cotenant.policy.quota.headroom import DEFAULT_RULES, HeadroomRules, LimitKind, Shortage, compare, shortages
from cotenant.policy.quota.tree import QuotaTree

DEFAULT_TREE = ""
OUTSIDE = (SYSTEM_QUOTA, DEFAULT_QUOTA)
SYSTEM_NAMESPACE = "kube-system"


@dataclass(frozen=True, slots=True)
class QuotaMembership:
    """The quota of a pod, and the reason."""

    quota: str
    because: str


class Forest:
    """Every tree of a cluster, and the two quotas outside of them."""

    def __init__(self, quotas: Iterable[Quota], scale_minima: bool = True, guarantee_use: bool = False) -> None:
        given = tuple(quotas)
        if len({quota.name for quota in given}) < len(given):
            raise InvalidInput(
                "quotas", ", ".join(sorted(quota.name for quota in given)), "each name once, in all trees"
            )
        self._rules = scale_minima, guarantee_use
        self._outside = {name: Quota(name) for name in OUTSIDE}
        self._outside_used: dict[str, dict[str, int]] = {name: {} for name in OUTSIDE}
        members: dict[str, list[Quota]] = {DEFAULT_TREE: []}
        self._tree_ids: dict[str, str] = {}
        self._by_namespace: dict[str, str] = {}
        for quota in given:
            if quota.name in OUTSIDE:
                self._outside[quota.name] = quota
            else:
                members.setdefault(quota.tree_id, []).append(quota)
                self._tree_ids[quota.name] = quota.tree_id
                self._add_namespaces(quota)
        self._trees = {tree_id: QuotaTree(of, NOTHING, *self._rules) for tree_id, of in sorted(members.items())}
        self._cluster = NOTHING  # the default tree's total before use outside of the trees is subtracted
        self._is_default_stale = False

    def tree_ids(self) -> tuple[str, ...]:
        """Ids of all trees, the default one first."""
        return tuple(self._trees)

    def tree(self, tree_id: str = DEFAULT_TREE) -> QuotaTree:
        """One tree; raises `InvalidInput` for an unknown id."""
        if tree_id not in self._trees:
            raise InvalidInput("tree-id", tree_id, f"one of {', '.join(map(repr, self._trees))}")
        self.refresh_default()
        return self._trees[tree_id]

    def tree_of(self, name: str) -> QuotaTree | None:
        """The tree of a quota; None = outside of all trees. Raises `InvalidInput` for an unknown quota."""
        if name in OUTSIDE:
            return None
        if name not in self._tree_ids:
            raise InvalidInput("quota", name, "the name of a quota")
        self.refresh_default()
        return self._trees[self._tree_ids[name]]

    def quota(self, name: str) -> Quota:
        """One quota, in any tree or outside; raises `InvalidInput` for an unknown name."""
        tree = self.tree_of(name)
        return tree.quota(name) if tree is not None else self._outside[name]

    def membership(self, namespace: str, label: str = "") -> QuotaMembership:
        """The quota of a pod by the label that names one, else by its namespace."""
        if label:
            return self._membership(label, f"the pod's label names {label}")
        if namespace in self._by_namespace:
            return self._membership(self._by_namespace[namespace], f"it takes the pods of namespace {namespace}")
        if namespace in self._tree_ids:
            return self._membership(namespace, f"it is named after namespace {namespace}")
        if namespace == SYSTEM_NAMESPACE:
            return QuotaMembership(SYSTEM_QUOTA, "system pods")
        return QuotaMembership(DEFAULT_QUOTA, f"no label, and no quota for namespace {namespace}")

    def set_total(self, total: Amounts, tree_id: str = DEFAULT_TREE) -> None:
        """Set the resources that a tree divides; from the default tree's, use outside of all trees is subtracted."""
        if tree_id != DEFAULT_TREE:
            self.tree(tree_id).set_total(total)
            return
        self._cluster = total
        self._update_default_total()

    def put(self, quota: Quota) -> None:
        """Add or replace a quota in its tree; raises `InvalidInput` where that would be inconsistent, without any
        change.
        """
        if quota.name in OUTSIDE:
            self._outside[quota.name] = quota
            return
        if self._tree_ids.get(quota.name, quota.tree_id) != quota.tree_id:
            raise InvalidInput(
                f"quota {quota.name}", quota.tree_id, "the tree it is in", "recreate it in the other tree"
            )
        for namespace in quota.namespaces:
            if self._by_namespace.get(namespace, quota.name) != quota.name:
                raise InvalidInput("quota.namespaces", namespace, "each namespace in one quota")
        tree = self._trees.get(quota.tree_id) or QuotaTree((), NOTHING, *self._rules)
        tree.put(quota)
        self._trees[quota.tree_id] = tree
        self._tree_ids[quota.name] = quota.tree_id
        self._remove_namespaces(quota.name)
        self._add_namespaces(quota)

    def remove(self, name: str) -> None:
        """Remove a quota without children, with its pods' requests and use. A built-in one is only reset."""
        tree = self.tree_of(name)
        if tree is None:
            self._outside[name] = Quota(name)
            return
        tree.remove(name)
        del self._tree_ids[name]
        self._remove_namespaces(name)

    def ask(self, name: str, amounts: Amounts, gone: bool = False) -> None:
        """Add a pod's request, or withdraw it (`gone`)."""
        tree = self.tree_of(name)
        if tree is not None:
            (tree.withdraw if gone else tree.ask)(name, amounts)

    def use(self, name: str, amounts: Amounts, preemptible: bool = True, gone: bool = False) -> None:
        """Add a placed pod's use, or release it (`gone`)."""
        tree = self.tree_of(name)
        if tree is not None:
            (tree.release if gone else tree.use)(name, amounts, preemptible)
            return
        used = self._outside_used[name]
        for resource, amount in amounts:
            used[resource] = used.get(resource, 0) + (-amount if gone else amount)
            if not used[resource]:
                del used[resource]  # as before the first pod that used it
        self._is_default_stale = True

    def used(self, name: str) -> Levels:
        """Use of a quota's pods."""
        tree = self.tree_of(name)
        return tree.used(name) if tree is not None else tuple(sorted(self._outside_used[name].items()))

    def shortages(
        self, name: str, request: Amounts, preemptible: bool = True, rules: HeadroomRules = DEFAULT_RULES
    ) -> tuple[Shortage, ...]:
        """Every limit that a pod exceeds. Outside of the trees only a configured maximum applies."""
        tree = self.tree_of(name)
        if tree is not None:
            return shortages(tree, name, request, preemptible, rules)
        most = self._outside[name].maximum.items
        return tuple(compare(name, LimitKind.MAXIMUM, most, self.used(name), request))

    def refresh_default(self) -> None:
        """Subtract current use outside of all trees from the default tree; done when a tree is read, not per pod."""
        if self._is_default_stale:
            self._update_default_total()

    def validate(self) -> None:
        """Recompute every tree; raises AssertionError with the first difference."""
        self.refresh_default()
        for tree in self._trees.values():
            tree.validate()
        outside = (bounded(used.items()) for used in self._outside_used.values())
        if self.tree().total() != distributable(self._cluster, *outside):
            raise AssertionError("the default tree's total is not the remainder of the cluster's")

    def _add_namespaces(self, quota: Quota) -> None:
        for namespace in quota.namespaces:
            if self._by_namespace.setdefault(namespace, quota.name) != quota.name:
                raise InvalidInput("quota.namespaces", namespace, "each namespace in one quota")

    def _remove_namespaces(self, name: str) -> None:
        self._by_namespace = {space: owner for space, owner in self._by_namespace.items() if owner != name}

    def _update_default_total(self) -> None:
        self._is_default_stale = False
        outside = (bounded(used.items()) for used in self._outside_used.values())
        self.tree().set_total(distributable(self._cluster, *outside))

    def _membership(self, name: str, because: str) -> QuotaMembership:
        if name in OUTSIDE:
            return QuotaMembership(name, because)
        if name not in self._tree_ids:
            return QuotaMembership(DEFAULT_QUOTA, f"{because}, which does not exist")
        if self.tree(self._tree_ids[name]).quota(name).is_parent:
            return QuotaMembership(DEFAULT_QUOTA, f"{because}, a parent, which cannot have pods")
        return QuotaMembership(name, because)


def bounded(levels: Iterable[tuple[str, int]]) -> Amounts:
    """Sums over many pods as amounts, capped to the largest amount."""
    return Amounts.of({resource: min(amount, NO_LIMIT) for resource, amount in levels})


def distributable(total: Amounts, *outside: Amounts) -> Amounts:
    """A cluster's total less the use of pods outside the tree (system and default quotas), at least 0."""
    left = dict(total)
    for used in outside:
        for resource, amount in used:
            if resource in left:
                left[resource] = max(0, left[resource] - amount)
    return Amounts.of(left) if left else NOTHING
