"""Which of a cluster's quota objects are used, what is wrong with the others, and where a pod belongs.

Problem: objects are written one by one by people, and any of them may name a parent that is not there, ask for too much, or have another's name; pods name
quotas that do not exist. Choice: the largest part that holds together is used (policy/quota/admission.py) and everything else gets its sentences. A pod whose
quota has an object that is not used waits and says so: a slip of the pen must not let it go unlimited. One that names a quota without any object, or
a parent, belongs to the default quota, as upstream has it. Limits: of two objects of one name, the first by namespace is used.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cotenant.model.groups.quota import DEFAULT_QUOTA, NO_LIMIT, ROOT_QUOTA, Quota, QuotaObject
from cotenant.model.resources import NOTHING, Amounts
from cotenant.policy.quota.admission import inherited, select_usable, tolerated
from cotenant.policy.quota.forest import DEFAULT_TREE, OUTSIDE, Forest


@dataclass(frozen=True, slots=True)
class Place:
    """The quota of a pod, and why; `held` = why it waits whatever is free, empty if it need not."""

    quota: str
    because: str
    held: str = ""


class Sorted:
    """The objects of a cluster, sorted out."""

    def __init__(self, objects: Iterable[QuotaObject]) -> None:
        self.problems: dict[str, tuple[str, ...]] = {}  # object's key -> sentences
        self.used: dict[str, QuotaObject] = {}  # quota's name -> its object
        self._refused: dict[str, str] = {}  # quota's name -> why
        self._spaces: dict[str, str] = {}  # namespace -> the quota that would take its pods, and is refused
        self._found: dict[str, list[str]] = {}
        named: dict[str, QuotaObject] = {}
        for each in sorted(objects, key=lambda each: (each.quota.name, each.key)):
            name = each.quota.name
            if name == ROOT_QUOTA:
                continue  # upstream writes one; what it says is known
            if name in named:
                self._note(each, f"{named[name].key} has this name, and is used")
                continue
            named[name] = each
            for text in each.wrong:
                self._refuse(each, text)
        good = [each.quota for each in named.values() if not each.wrong]
        kept, violations = select_usable(inherited(good))
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
        self._totals()
        self.problems = {key: tuple(dict.fromkeys(texts)) for key, texts in self._found.items()}

    def place(self, forest: Forest, namespace: str, label: str) -> Place:
        """Where a pod of this namespace, with this label that names a quota, belongs."""
        belongs = forest.membership(namespace, label)
        wanted = label
        if not label and belongs.quota in OUTSIDE:
            wanted = self._spaces.get(namespace, namespace)
        why = self._refused.get(wanted, "") if wanted else ""
        if not why:
            return Place(belongs.quota, belongs.because)
        return Place(DEFAULT_QUOTA, belongs.because, f"Quota {wanted} is not used: {why}")

    def refused(self, name: str) -> str:
        """Why the quota of this name is not used; empty if it is, or is not there."""
        return self._refused.get(name, "")

    def _totals(self) -> None:
        """What each tree but the default divides, and what is taken off the default one's for it."""
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
                    text = f"it is used, but its tree {tree_id} has nothing to divide: a quota with the label is-root says how much there is"
                    self._note(self.used[quota.name], text)

    def _refuse(self, each: QuotaObject, text: str) -> None:
        self._note(each, text)
        self._refused.setdefault(each.quota.name, text)
        for namespace in each.quota.namespaces:
            self._spaces.setdefault(namespace, each.quota.name)

    def _note(self, each: QuotaObject, text: str) -> None:
        self._found.setdefault(each.key, []).append(text)


def _sum(one: Amounts, other: Amounts) -> Amounts:
    names = {*one.names(), *other.names()}
    return Amounts.of({name: min(NO_LIMIT, one.get(name) + other.get(name)) for name in names})
