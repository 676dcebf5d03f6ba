"""Quota descriptions for queries, with every term of the runtime, and the status written to quota objects.

"why may my team use only 35 cores" depends on a dozen numbers, and the object must show the same numbers in the form
upstream's tools expect. A frozen description for queries, and a status that is emitted only if it has changed, for all
objects together every few seconds.
Limits: the status is output only and is never read back; for a quota that is not used, only the problem is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cotenant.engine.plugins.quotas.accounts import TreeAccounts
from cotenant.engine.plugins.quotas.trees import QuotaWorld
from cotenant.model.groups.quota import Levels, QuotaObject
from cotenant.model.machine.node_decision import Reason
from cotenant.policy.quota.explain import explain
from cotenant.policy.quota.forest import OUTSIDE
from cotenant.policy.quota.nodes import RuntimeTerms


@dataclass(frozen=True, slots=True)
class QuotaShare:
    """One resource of a quota: the terms of its runtime, and the message that explains them. Amounts are in the
    resource's unit.
    """

    terms: RuntimeTerms
    reason: Reason


@dataclass(frozen=True, slots=True)
class QuotaDescription:
    """The full state of one quota."""

    name: str
    object: str  # namespace/name; empty if no object exists (the default and the system quota)
    is_used: bool
    problems: tuple[str, ...] = ()  # why it is not used, or which violations are tolerated
    tree_id: str = ""
    parent: str = ""
    children: tuple[str, ...] = ()
    lends: bool = True
    namespaces: tuple[str, ...] = ()
    total: Levels = ()  # the amount that its tree divides
    used: Levels = ()
    lent: Levels = ()  # the part that other shards may use, and have not yet as far as is known
    held: Levels = ()  # the part used by non-preemptible pods
    maximum: Levels = ()
    shares: tuple[QuotaShare, ...] = ()  # empty outside trees, where only the maximum limits
    seated: int = 0  # assigned pods of this quota, without its descendants
    waiting: int = 0
    over_since_s: float | None = None  # since when it is over its runtime
    kept_for: str = ""  # the pod or gang for which pods of lower priority are being evicted


@dataclass(frozen=True, slots=True)
class QuotaStatus:
    """Status of a quota object; `problem` is empty if nothing is wrong."""

    key: str
    uid: str
    used: Levels = ()
    runtime: Levels = ()
    request: Levels = ()
    child_request: Levels = ()
    allocated: Levels | None = None  # None = use is not guaranteed
    guaranteed: Levels | None = None
    problem: str = ""
    kind: str = "ElasticQuota"


def describe(
    world: QuotaWorld, name: str, of_name: Sequence[QuotaObject], over_since_s: float | None, kept_for: str
) -> QuotaDescription | None:
    """The full state of the quota `name`, whose objects are `of_name`, or None if it does not exist."""
    used_object = world.sorted.used.get(name)
    problems = world.problems(of_name)
    if name in OUTSIDE:
        mine = [account for account in world.accounts.values() if account.quota == name]
        return QuotaDescription(
            name,
            used_object.key if used_object is not None else "",
            is_used=True,
            problems=problems,
            used=world.forest.used(name),
            maximum=world.forest.quota(name).maximum.items,
            seated=sum(1 for account in mine if account.node),
            waiting=sum(1 for account in mine if not account.node),
        )
    if used_object is None:
        return QuotaDescription(name, of_name[0].key, is_used=False, problems=problems) if of_name else None
    quota = world.forest.quota(name)
    books = world.trees[quota.tree_id]
    members = books.members[name].values()
    return QuotaDescription(
        name,
        used_object.key,
        is_used=True,
        problems=problems,
        tree_id=quota.tree_id,
        parent=quota.parent,
        children=books.tree.children(name),
        lends=quota.lends,
        namespaces=quota.namespaces,
        total=books.tree.total().items,
        used=books.tree.used(name),
        lent=books.lent(name).items,
        held=books.tree.nonpreemptible_used(name),
        maximum=quota.maximum.items,
        shares=_shares(books, name),
        seated=sum(1 for account in members if account.node),
        waiting=sum(1 for account in members if not account.node),
        over_since_s=over_since_s,
        kept_for=kept_for,
    )


def _shares(books: TreeAccounts, name: str) -> tuple[QuotaShare, ...]:
    """One share per resource in the quota's maximum."""
    reasons = explain(books.tree, name)
    resources = books.tree.quota(name).maximum.names()
    return tuple(
        QuotaShare(books.tree.runtime_terms(name, r), reason) for r, reason in zip(resources, reasons, strict=True)
    )


def status_of(world: QuotaWorld, written: QuotaObject, guarantees: bool) -> QuotaStatus:
    """The status to write to a quota object."""
    name = written.quota.name
    problem = "; ".join(world.problems((written,)))
    tree_id = world.tree_id_of(name) if world.sorted.used.get(name) is written else None
    if tree_id is None:
        used = world.forest.used(name) if name in OUTSIDE else ()
        return QuotaStatus(written.key, written.uid, used=used, problem=problem)
    books = world.trees[tree_id]
    stands = [books.tree.runtime_terms(name, resource) for resource in books.tree.quota(name).maximum.names()]
    lent = books.lent(name)
    return QuotaStatus(
        written.key,
        written.uid,
        used=tuple((s.resource, s.used - lent.get(s.resource)) for s in stands),
        runtime=tuple((s.resource, s.runtime) for s in stands),
        request=tuple((s.resource, s.request) for s in stands),
        child_request=tuple((s.resource, s.child_request) for s in stands),
        allocated=tuple((s.resource, s.allocated) for s in stands) if guarantees else None,
        guaranteed=tuple((s.resource, s.guaranteed) for s in stands) if guarantees else None,
        problem=problem,
    )


class LastStatuses:
    """The last status emitted for each object."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._last: dict[str, QuotaStatus] = {}
        self.due_s = 0.0

    def schedule(self, now_s: float) -> None:
        """Schedule the next update after all objects were checked."""
        self.due_s = now_s + self._every_s

    def is_new(self, status: QuotaStatus) -> bool:
        """Record the status. Returns whether it differs from the last one."""
        if self._last.get(status.key) == status:
            return False
        self._last[status.key] = status
        return True

    def forget(self, known: Mapping[str, QuotaObject]) -> None:
        """Drop the entries of deleted objects."""
        for key in self._last.keys() - known.keys():
            del self._last[key]
