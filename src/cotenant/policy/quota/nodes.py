"""What is kept of each quota of a tree, and the terms that this tells to others.

Problem: the division of a resource among a parent's children needs a dozen numbers of each child, at hand and up to date. Choice: plain records, one a quota
and resource, that only tree.py writes. Limits: no arithmetic here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from cotenant.model.groups.quota import Quota

UNLIMITED = 1 << 62


class Standing(NamedTuple):
    """Everything that decides a quota's runtime in one resource."""

    resource: str
    own_request: int  # by its own pods
    child_request: int  # own pods and children, each at most its maximum
    request: int  # the same, or the minimum where that is more and not lent
    limited: int  # the request, at most the maximum
    used: int  # by its pods and those below
    minimum: int
    scaled_minimum: int
    allocated: int  # used by its own pods, and guaranteed to its children; 0 without guarantees by use
    guaranteed: int  # the larger of allocated and the minimum; 0 without guarantees by use
    maximum: int | None  # None = not mentioned
    weight: int
    total: int  # what its parent has to divide
    start: int  # what it had before anything was shared
    runtime: int


@dataclass(slots=True)
class Column:
    """One resource at one quota. Amounts in the resource's unit."""

    minimum: int = 0
    maximum: int = UNLIMITED
    weight: int = 0
    own: int = 0  # asked for by its own pods
    asked: int = 0  # own and the children's limited requests
    limited: int = 0
    used_own: int = 0
    used: int = 0
    held: int = 0  # used by own and lower pods that may not be preempted
    held_own: int = 0
    guaranteed: int = 0
    floor: int = 0  # scaled, as of the last division
    start: int = 0
    runtime: int = 0
    # about the division among its children
    children_minimum: int = 0
    children_guaranteed: int = 0
    wished: int = 0  # what all children would have if nothing were short
    wish: int = 0  # what this one would have
    starving: int = 0  # children without weight that want more than their floor
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
        self.columns = [Column() for _ in range(columns)]
        self.stale: dict[int, dict[QuotaNode, None]] = {}  # column -> the children that changed

    def upwards(self) -> Iterator[QuotaNode]:
        """This quota, its parent, and so on up to the root."""
        at: QuotaNode | None = self
        while at is not None:
            yield at
            at = at.parent
