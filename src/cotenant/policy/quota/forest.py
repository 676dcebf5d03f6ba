"""Several trees beside one another, the pods outside of all of them, and which quota a pod belongs to.

Problem: a cluster may be cut into pools, each with its own tree and total, while some pods belong to no tree: those of the system and those that nobody gave a
quota. Choice: one QuotaTree for each tree id; what the pods of the system and default quotas use is taken off the default tree's total. A pod belongs to
the quota that its label names, else to that of its namespace, else to the default quota; a name that does not exist, or that of a
parent, leads to the default quota as well, and the answer says so. Limits: quotas must hold together (admission.sort_out); totals of trees come from outside.

Source: Koordinator's group_quota_manager.go and elasticquota/plugin.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cotenant.model.errors import InvalidInput
from cotenant.model.groups.quota import DEFAULT_QUOTA, NO_LIMIT, SYSTEM_QUOTA, Levels, Quota
from cotenant.model.resources import NOTHING, Amounts
from cotenant.policy.quota.headroom import DEFAULT_RULES, HeadroomRules, Limit, Shortage, compare, shortages
from cotenant.policy.quota.tree import QuotaTree

DEFAULT_TREE = ""
OUTSIDE = (SYSTEM_QUOTA, DEFAULT_QUOTA)
SYSTEM_NAMESPACE = "kube-system"


@dataclass(frozen=True, slots=True)
class Belonging:
    """The quota of a pod, and why it is this one."""

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
                self._take_namespaces(quota)
        self._trees = {tree_id: QuotaTree(of, NOTHING, *self._rules) for tree_id, of in sorted(members.items())}
        self._cluster = NOTHING  # the total that the default tree divides, with what is used outside
        self._is_rest_stale = False

    def tree_ids(self) -> tuple[str, ...]:
        """Every tree, the default one first."""
        return tuple(self._trees)

    def tree(self, tree_id: str = DEFAULT_TREE) -> QuotaTree:
        """One tree; `InvalidInput` where there is none."""
        if tree_id not in self._trees:
            raise InvalidInput("tree-id", tree_id, f"one of {', '.join(map(repr, self._trees))}")
        self.settle()
        return self._trees[tree_id]

    def tree_of(self, name: str) -> QuotaTree | None:
        """The tree of a quota; None = it is outside of all trees. `InvalidInput` where there is no such quota."""
        if name in OUTSIDE:
            return None
        if name not in self._tree_ids:
            raise InvalidInput("quota", name, "the name of a quota")
        self.settle()
        return self._trees[self._tree_ids[name]]

    def quota(self, name: str) -> Quota:
        """One quota, of any tree or outside; `InvalidInput` where there is none of that name."""
        tree = self.tree_of(name)
        return tree.quota(name) if tree is not None else self._outside[name]

    def belonging(self, namespace: str, label: str = "") -> Belonging:
        """The quota of a pod by the label that names one, else by its namespace."""
        if label:
            return self._holds_pods(label, f"the pod's label names {label}")
        if namespace in self._by_namespace:
            return self._holds_pods(self._by_namespace[namespace], f"it takes the pods of namespace {namespace}")
        if namespace in self._tree_ids:
            return self._holds_pods(namespace, f"it is named after namespace {namespace}")
        if namespace == SYSTEM_NAMESPACE:
            return Belonging(SYSTEM_QUOTA, "pods of the system")
        return Belonging(DEFAULT_QUOTA, f"no label, and no quota for namespace {namespace}")

    def set_total(self, total: Amounts, tree_id: str = DEFAULT_TREE) -> None:
        """What a tree's nodes have to give; of the default tree's, what pods outside of all trees use is taken off."""
        if tree_id != DEFAULT_TREE:
            self.tree(tree_id).set_total(total)
            return
        self._cluster = total
        self._divide_rest()

    def put(self, quota: Quota) -> None:
        """A new quota, or a new form of one in the same tree; `InvalidInput` where that would not hold together, and then nothing has changed."""
        if quota.name in OUTSIDE:
            self._outside[quota.name] = quota
            return
        if self._tree_ids.get(quota.name, quota.tree_id) != quota.tree_id:
            raise InvalidInput(
                f"quota {quota.name}", quota.tree_id, "the tree it is in", "make it anew in the other tree"
            )
        for namespace in quota.namespaces:
            if self._by_namespace.get(namespace, quota.name) != quota.name:
                raise InvalidInput("quota.namespaces", namespace, "each namespace at one quota")
        tree = self._trees.get(quota.tree_id) or QuotaTree((), NOTHING, *self._rules)
        tree.put(quota)
        self._trees[quota.tree_id] = tree
        self._tree_ids[quota.name] = quota.tree_id
        self._drop_namespaces(quota.name)
        self._take_namespaces(quota)

    def remove(self, name: str) -> None:
        """A quota without children is gone, and with it what its pods ask for and use. A built-in one only loses what was written about it."""
        tree = self.tree_of(name)
        if tree is None:
            self._outside[name] = Quota(name)
            return
        tree.remove(name)
        del self._tree_ids[name]
        self._drop_namespaces(name)

    def ask(self, name: str, amounts: Amounts, gone: bool = False) -> None:
        """A pod asks, placed or not, or has gone."""
        tree = self.tree_of(name)
        if tree is not None:
            (tree.ask_no_more if gone else tree.ask)(name, amounts)

    def use(self, name: str, amounts: Amounts, preemptible: bool = True, gone: bool = False) -> None:
        """A pod has been placed, or has left its place."""
        tree = self.tree_of(name)
        if tree is not None:
            (tree.use_no_more if gone else tree.use)(name, amounts, preemptible)
            return
        used = self._outside_used[name]
        for resource, amount in amounts:
            used[resource] = used.get(resource, 0) + (-amount if gone else amount)
        self._is_rest_stale = True

    def used(self, name: str) -> Levels:
        """What a quota's pods use."""
        tree = self.tree_of(name)
        return tree.used(name) if tree is not None else tuple(sorted(self._outside_used[name].items()))

    def shortages(
        self, name: str, request: Amounts, preemptible: bool = True, rules: HeadroomRules = DEFAULT_RULES
    ) -> tuple[Shortage, ...]:
        """Every limit that a pod does not fit under. Outside of the trees only a maximum limits, where one was given."""
        tree = self.tree_of(name)
        if tree is not None:
            return shortages(tree, name, request, preemptible, rules)
        most = self._outside[name].maximum.items
        return tuple(compare(name, Limit.MAXIMUM, most, self.used(name), request))

    def settle(self) -> None:
        """Take off the default tree what pods outside of all trees use by now: done where a tree is asked for, and not for every such pod."""
        if self._is_rest_stale:
            self._divide_rest()

    def validate(self) -> None:
        """Recompute every tree; AssertionError names the first difference."""
        self.settle()
        for tree in self._trees.values():
            tree.validate()
        outside = (bounded(used.items()) for used in self._outside_used.values())
        if self.tree().total() != distributable(self._cluster, *outside):
            raise AssertionError("the default tree's total is not what is left of the cluster's")

    def _take_namespaces(self, quota: Quota) -> None:
        for namespace in quota.namespaces:
            if self._by_namespace.setdefault(namespace, quota.name) != quota.name:
                raise InvalidInput("quota.namespaces", namespace, "each namespace at one quota")

    def _drop_namespaces(self, name: str) -> None:
        self._by_namespace = {space: owner for space, owner in self._by_namespace.items() if owner != name}

    def _divide_rest(self) -> None:
        self._is_rest_stale = False
        outside = (bounded(used.items()) for used in self._outside_used.values())
        self.tree().set_total(distributable(self._cluster, *outside))

    def _holds_pods(self, name: str, because: str) -> Belonging:
        if name in OUTSIDE:
            return Belonging(name, because)
        if name not in self._tree_ids:
            return Belonging(DEFAULT_QUOTA, f"{because}, which does not exist")
        if self.tree(self._tree_ids[name]).quota(name).is_parent:
            return Belonging(DEFAULT_QUOTA, f"{because}, a parent, which holds no pods")
        return Belonging(name, because)


def bounded(levels: Iterable[tuple[str, int]]) -> Amounts:
    """Sums of many pods as amounts: one that is larger than an amount may be is the largest."""
    return Amounts.of({resource: min(amount, NO_LIMIT) for resource, amount in levels})


def distributable(total: Amounts, *outside: Amounts) -> Amounts:
    """What is left for a tree of a cluster's total after pods outside it, those of the system and default quotas, never less than nothing."""
    left = dict(total)
    for used in outside:
        for resource, amount in used:
            if resource in left:
                left[resource] = max(0, left[resource] - amount)
    return Amounts.of(left) if left else NOTHING
