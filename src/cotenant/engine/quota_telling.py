"""What is said about a quota: every term of its runtime for whoever asks, and what its object is told.

Problem: "why may my team use only 35 cores" has a dozen numbers, and the same numbers stand on the object as upstream's tools expect them. Choice: a
frozen description for questions, and a status that is said again only when something of it has changed, all objects together every few seconds. Limits: what
is written on an object is a result and is never read; of a quota that is not used only the problem is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cotenant.engine.quota_books import TreeBooks
from cotenant.model.node_decision import Reason
from cotenant.model.quota import Levels, QuotaObject
from cotenant.policy.quota.explain import explain
from cotenant.policy.quota.nodes import Standing


@dataclass(frozen=True, slots=True)
class Share:
    """One resource at a quota: the terms of its runtime, and the sentence that they make. Amounts in the resource's unit."""

    terms: Standing
    reason: Reason


@dataclass(frozen=True, slots=True)
class QuotaDescription:
    """All that is known of one quota."""

    name: str
    object: str  # namespace/name; empty = nobody wrote one (the default and the system quota)
    is_used: bool
    problems: tuple[str, ...] = ()  # why it is not used, or what is borne
    tree_id: str = ""
    parent: str = ""
    children: tuple[str, ...] = ()
    lends: bool = True
    namespaces: tuple[str, ...] = ()
    total: Levels = ()  # what its tree divides
    used: Levels = ()
    held: Levels = ()  # the part of it that may not be preempted
    maximum: Levels = ()
    shares: tuple[Share, ...] = ()  # none outside of trees: only the maximum limits there
    seated: int = 0  # its own pods
    waiting: int = 0
    over_since_s: float | None = None  # since when it uses more than its runtime
    kept_for: str = ""  # the pod for which less important ones are being evicted


@dataclass(frozen=True, slots=True)
class QuotaStatus:
    """What a quota's object is told. `problem` empty = nothing is wrong."""

    key: str
    uid: str
    used: Levels = ()
    runtime: Levels = ()
    request: Levels = ()
    child_request: Levels = ()
    allocated: Levels | None = None  # None = use is not guaranteed here
    guaranteed: Levels | None = None
    problem: str = ""
    kind: str = "ElasticQuota"


def shares_of(books: TreeBooks, name: str) -> tuple[Share, ...]:
    """Every resource that the quota's maximum mentions."""
    reasons = explain(books.tree, name)
    resources = books.tree.quota(name).maximum.names()
    return tuple(Share(books.tree.standing(name, r), reason) for r, reason in zip(resources, reasons, strict=True))


def status_of(written: QuotaObject, books: TreeBooks, problem: str, guarantees: bool) -> QuotaStatus:
    """What the object of a quota in use is told."""
    name = written.quota.name
    mentioned = books.tree.quota(name).maximum.names()
    stands = [books.tree.standing(name, resource) for resource in mentioned]
    return QuotaStatus(
        written.key,
        written.uid,
        used=tuple((s.resource, s.used) for s in stands),
        runtime=tuple((s.resource, s.runtime) for s in stands),
        request=tuple((s.resource, s.request) for s in stands),
        child_request=tuple((s.resource, s.child_request) for s in stands),
        allocated=tuple((s.resource, s.allocated) for s in stands) if guarantees else None,
        guaranteed=tuple((s.resource, s.guaranteed) for s in stands) if guarantees else None,
        problem=problem,
    )


class Told:
    """What was last told of each object."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._last: dict[str, QuotaStatus] = {}
        self.due_s = 0.0

    def put_off(self, now_s: float) -> None:
        """Everything was looked at."""
        self.due_s = now_s + self._every_s

    def news(self, status: QuotaStatus) -> bool:
        """Whether the object has not been told exactly this."""
        if self._last.get(status.key) == status:
            return False
        self._last[status.key] = status
        return True

    def forget(self, known: Mapping[str, QuotaObject]) -> None:
        """Objects that are gone need not be remembered."""
        for key in self._last.keys() - known.keys():
            del self._last[key]
