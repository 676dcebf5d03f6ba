"""Selects the usable quota objects of a cluster, reports problems of the others, and maps pods to quotas.

Quota objects are written separately, and any of them may have an unknown parent, excessive amounts or a duplicate name;
pods may name quotas that do not exist. The largest consistent subset is used (policy/quota/usable.py), and every other
object gets problem messages. A pod of a quota whose object is not used waits with a message, because a typing error
must not make it unlimited. A pod that names a quota without an object, or a parent quota, belongs to the default quota,
as upstream does.
Limits: of two objects with the same name, the first by namespace is used.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cotenant.model.groups.quota import DEFAULT_QUOTA, NO_LIMIT, ROOT_QUOTA, Quota, QuotaObject
from cotenant.model.resources import NOTHING, Amounts
from cotenant.policy.quota.forest import DEFAULT_TREE, OUTSIDE, Forest
from cotenant.policy.quota.pods import closed_to
from cotenant.policy.quota.usable import defaulted, select_usable, tolerated


@dataclass(frozen=True, slots=True)
class PodQuota:
    """The quota of a pod and the reason; `held` = why it must wait regardless of free quota, empty if it need not."""

    quota: str
    because: str
    held: str = ""


class Sorted:
    """The quota objects of a cluster, classified as usable or refused."""

    def __init__(self, objects: Iterable[QuotaObject]) -> None:
        self.problems: dict[str, tuple[str, ...]] = {}  # object's key -> problem messages
        self.used: dict[str, QuotaObject] = {}  # quota's name -> its object
        self._refused: dict[str, str] = {}  # quota's name -> why
        self._spaces: dict[str, str] = {}  # namespace -> the refused quota that claims its pods
        self._found: dict[str, list[str]] = {}
        named: dict[str, QuotaObject] = {}
        for entry in sorted(objects, key=lambda quota_object: (quota_object.quota.name, quota_object.key)):
            name = entry.quota.name
            if name == ROOT_QUOTA:
                continue  # upstream creates this object; its contents are not needed
            if name in named:
                self._note(entry, f"{named[name].key} has this name, and is used")
                continue
            named[name] = entry
            for text in entry.wrong:
                self._refuse(entry, text)
        good = [quota_object.quota for quota_object in named.values() if not quota_object.wrong]
        kept, violations = select_usable(defaulted(good))
        self.quotas = kept
        names = {quota.name for quota in kept}
        for violation in violations:
            if violation.quota in names:
                self._note(named[violation.quota], violation.text)
            else:
                self._refuse(named[violation.quota], violation.text)
        for violation in tolerated(kept):
            self._note(named[violation.quota], f"it is used, but {violation.text}")
        self.used = {name: named[name] for name in names}
        self._by_name = {quota.name: quota for quota in kept}
        self._totals()
        self.problems = {key: tuple(dict.fromkeys(texts)) for key, texts in self._found.items()}

    def place(self, forest: Forest, namespace: str, label: str) -> PodQuota:
        """The place of a pod with this namespace and quota label."""
        foreign = closed_to(namespace, label, self._by_name, self._home_of) if label else ""
        if foreign:
            return PodQuota(DEFAULT_QUOTA, f"the pod's label names {label}, which it may not use", f"Q{foreign[1:]}")
        belongs = forest.membership(namespace, label)
        wanted = label
        if not label and belongs.quota in OUTSIDE:
            wanted = self._spaces.get(namespace, namespace)
        why = self._refused.get(wanted, "") if wanted else ""
        if not why:
            return PodQuota(belongs.quota, belongs.because)
        return PodQuota(DEFAULT_QUOTA, belongs.because, f"Quota {wanted} is not used: {why}")

    def _home_of(self, name: str) -> str:
        return self.used[name].key.partition("/")[0]

    def refused(self, name: str) -> str:
        """Why the quota is not used; empty if it is used or does not exist."""
        return self._refused.get(name, "")

    def _totals(self) -> None:
        """Compute the totals of all trees but the default, and the amounts they subtract from the default tree."""
        self.totals: dict[str, Amounts] = {}
        self.kept_out: Amounts = NOTHING
        trees: dict[str, list[Quota]] = {}
        for quota in self.quotas:
            if quota.tree_id != DEFAULT_TREE:
                trees.setdefault(quota.tree_id, []).append(quota)
        for tree_id, quotas in trees.items():
            total, out, is_known = NOTHING, NOTHING, False
            for quota in quotas:
                written = self.used[quota.name]
                if quota.parent == ROOT_QUOTA and (written.total is not None or quota.is_tree_root):
                    gives = quota.minimum if written.total is None else written.total
                    total, is_known = _sum(total, gives), True
                    out = _sum(out, gives) if written.keeps_out else out
            self.totals[tree_id] = total
            self.kept_out = _sum(self.kept_out, out)
            for quota in quotas:
                if not is_known and quota.parent == ROOT_QUOTA:
                    text = (
                        f"it is used, but its tree {tree_id} has nothing to divide: a quota with the label is-root "
                        "says how much there is"
                    )
                    self._note(self.used[quota.name], text)

    def _refuse(self, quota_object: QuotaObject, text: str) -> None:
        self._note(quota_object, text)
        self._refused.setdefault(quota_object.quota.name, text)
        for namespace in quota_object.quota.namespaces:
            self._spaces.setdefault(namespace, quota_object.quota.name)

    def _note(self, quota_object: QuotaObject, text: str) -> None:
        self._found.setdefault(quota_object.key, []).append(text)


def _sum(one: Amounts, other: Amounts) -> Amounts:
    names = {*one.names(), *other.names()}
    return Amounts.of({name: min(NO_LIMIT, one.get(name) + other.get(name)) for name in names})
