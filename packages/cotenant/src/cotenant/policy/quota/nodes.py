"""Per-quota records of a tree, and the terms of a runtime.

Dividing a resource among a parent's children needs a dozen current numbers of each child. Plain records, one per quota
and resource, written by tree.py only.
Limits: no arithmetic here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from cotenant.model.groups.quota import Quota

UNLIMITED = 1 << 62


class RuntimeTerms(NamedTuple):
    """All inputs of a quota's runtime in one resource."""

    resource: str
    own_request: int  # of its own pods
    child_request: int  # own pods and children, each child at most its maximum
    request: int  # the same, or the minimum where that is larger and not lent
    limited: int  # the request, at most the maximum
    used: int  # by its pods and its descendants'
    minimum: int
    scaled_minimum: int
    allocated: int  # used by its own pods, plus its children's guarantees; 0 without guarantees by use
    guaranteed: int  # the larger of allocated and the minimum; 0 without guarantees by use
    maximum: int | None  # None = absent
    weight: int
    total: int  # the parent's amount to divide
    start: int  # its amount before sharing
    runtime: int


@dataclass(slots=True)
class QuotaColumn:
    """One resource of one quota. Amounts in the resource's unit."""

    minimum: int = 0
    maximum: int = UNLIMITED
    weight: int = 0
    own: int = 0  # requested by its own pods
    asked: int = 0  # own and the children's limited requests
    limited: int = 0
    used_own: int = 0
    used: int = 0
    held: int = 0  # used by non-preemptible pods, descendants' included
    held_own: int = 0
    guaranteed: int = 0
    floor: int = 0  # scaled, as of the last division
    start: int = 0
    runtime: int = 0
    # division among its children
    children_minimum: int = 0
    children_guaranteed: int = 0
    targets: int = 0  # sum of the children's targets
    target: int = 0  # its runtime if nothing were short
    starving: int = 0  # number of children without weight that request more than their floor
    starves: bool = False
    all_satisfied: bool = False


class QuotaNode:
    """One quota of a tree, or its root."""

    __slots__ = ("children", "columns", "depth", "lends", "parent", "quota", "stale")

    def __init__(self, quota: Quota, parent: QuotaNode | None, columns: int) -> None:
        self.quota = quota
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.lends = quota.lends
        self.children: list[QuotaNode] = []
        self.columns = [QuotaColumn() for _ in range(columns)]
        self.stale: dict[int, dict[QuotaNode, None]] = {}  # column -> the children that changed

    def upwards(self) -> Iterator[QuotaNode]:
        """This quota, its parent, and so on up to the root."""
        at: QuotaNode | None = self
        while at is not None:
            yield at
            at = at.parent
