"""Lazy division of a tree's amounts among its quotas, from the root downwards.

A thousand quotas cannot be divided anew for every pod that arrives or leaves. Each quota records for which resources,
and for which children, its division is out of date, and divisions are computed when a runtime is read. Where a division
satisfies all children before and after, only the changed ones are updated; a child that was short and requests even
more changes nothing; otherwise the division is recomputed by the plain arithmetic of runtime.py, and continues only
below children whose runtime changed.
Limits: demand and use are those of the nodes' columns, kept by tree.py.
"""

from __future__ import annotations

from cotenant.policy.quota.nodes import QuotaNode
from cotenant.policy.quota.runtime import QuotaSibling, apportion, scaled_minima, share, start


class Division:
    """The runtimes of one tree's quotas. `scale`: minima that do not fit are scaled; `guarantee`: use is guaranteed
    and minima are not lent.
    """

    def __init__(self, scale: bool, guarantee: bool) -> None:
        self.changes = 0  # incremented whenever a runtime may have changed
        self.divided = 0  # the first columns, whose resources are limited by some quota
        self._scale = scale
        self._guarantee = guarantee
        self._stale_nodes: list[dict[QuotaNode, None]] = [{}]  # by depth

    def begin(self, divided: int, depth: int) -> None:
        """Start with a new structure: so many divided columns, and the depth of its deepest quota."""
        self.divided = divided
        self._stale_nodes = [{} for _ in range(depth + 1)]

    def refresh(self) -> None:
        """Bring every runtime up to date."""
        for level in self._stale_nodes:  # a division marks only nodes of the next level
            while level:
                node, _ = level.popitem()
                self._divide(node)

    def refresh_path(self, node: QuotaNode) -> None:
        """Bring the runtimes of a quota and its ancestors up to date."""
        for at in reversed(list(node.upwards())):
            if at.stale:
                del self._stale_nodes[at.depth][at]
                self._divide(at)

    def _divide(self, node: QuotaNode) -> None:
        stale, node.stale = node.stale, {}
        for i, changed in stale.items():
            column = node.columns[i]
            satisfied_before = column.all_satisfied
            minima_fit = not self._scale or column.children_minimum <= column.runtime
            column.all_satisfied = minima_fit and not column.starving and column.targets <= column.runtime
            if not column.all_satisfied:
                self._divide_fully(node, i)
                continue
            for child in changed if satisfied_before else node.children:
                mine = child.columns[i]
                mine.floor = max(mine.minimum, mine.guaranteed)
                mine.start = mine.target if mine.limited <= mine.floor else mine.floor
                self._set_runtime(child, i, mine.target)

    def _divide_fully(self, node: QuotaNode, i: int) -> None:
        total = node.columns[i].runtime
        minima = self.scaled(node, i)
        wants, weights, left = [], [], total
        for child, minimum in zip(node.children, minima):
            column = child.columns[i]
            column.floor = max(minimum, column.guaranteed)
            column.start = start(column.limited, column.floor, child.lends and not self._guarantee)
            left -= column.start
            wants.append(max(0, column.limited - column.floor))
            weights.append(column.weight)
        for child, gained in zip(node.children, apportion(left, wants, weights)):
            self._set_runtime(child, i, child.columns[i].start + gained)

    def _set_runtime(self, node: QuotaNode, i: int, runtime: int) -> None:
        column = node.columns[i]
        if column.runtime != runtime:
            column.runtime = runtime
            self.mark(node, i)

    def scaled(self, node: QuotaNode, i: int) -> list[int]:
        """The minima of a quota's children, scaled to its runtime if they exceed it."""
        minima = [child.columns[i].minimum for child in node.children]
        if not self._scale:
            return minima
        return scaled_minima(node.columns[i].runtime, minima, [True] * len(minima))

    def scaled_minimum(self, node: QuotaNode, i: int) -> int:
        """That of one child, without a look at its siblings."""
        parent, minimum = node.parent, node.columns[i].minimum
        if parent is None or not self._scale:
            return minimum
        above = parent.columns[i]
        if above.children_minimum <= above.runtime or not above.children_minimum:
            return minimum
        return max(0, above.runtime) * minimum // above.children_minimum

    def update_target(self, node: QuotaNode, parent: QuotaNode, i: int, limited_before: int = 0) -> None:
        """Update a quota's target, its runtime if nothing were short, and mark its parent's division as out of date for
        it.

        Not marked where it was short and still is: by how much its request exceeds its runtime does not affect a
        division.
        """
        column = node.columns[i]
        floor = column.minimum if column.minimum > column.guaranteed else column.guaranteed
        kept = floor > column.limited and (self._guarantee or not node.lends)
        target = floor if kept else column.limited
        starves = column.weight == 0 and column.limited > floor
        above = parent.columns[i]
        above.targets += target - column.target
        above.starving += starves - column.starves
        column.target = target
        column.starves = starves
        had = column.runtime if column.runtime > column.floor else column.floor
        if above.all_satisfied or i in parent.stale or limited_before <= had or column.limited <= had:
            self.mark(parent, i, node)

    def mark(self, parent: QuotaNode, i: int, child: QuotaNode | None = None) -> None:
        """Mark a quota's division of one resource as out of date, for one of its children or for all."""
        if not parent.children or i >= self.divided:
            return
        self.changes += 1
        changed = parent.stale.setdefault(i, {})
        if child is not None:
            changed[child] = None
        self._stale_nodes[parent.depth][parent] = None

    def validate(self, node: QuotaNode, i: int, resource: str) -> None:
        """Compare one division with the plain arithmetic. Raises AssertionError."""
        minima = self.scaled(node, i)
        for child, minimum in zip(node.children, minima, strict=True):
            if self.scaled_minimum(child, i) != minimum:
                raise AssertionError(
                    f"quota {child.quota.name}: scaled minimum of {resource} is {self.scaled_minimum(child, i)}, by "
                    f"its siblings {minimum}"
                )
        members = [
            QuotaSibling(
                child.columns[i].limited,
                max(minimum, child.columns[i].guaranteed),
                child.columns[i].weight,
                child.lends and not self._guarantee,
            )
            for child, minimum in zip(node.children, minima, strict=True)
        ]
        for child, runtime in zip(node.children, share(node.columns[i].runtime, members), strict=True):
            kept = child.columns[i].runtime
            if kept != runtime:
                raise AssertionError(
                    f"quota {child.quota.name}: runtime of {resource} is {kept}, by division {runtime}"
                )
