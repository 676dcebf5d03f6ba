"""The total amounts that a cluster's nodes provide for quotas to divide.

A cordoned or NotReady node accepts no pods, while its pods still run and count as used. Removing its whole capacity
would put all quotas over their runtime at once. A node that accepts pods contributes its allocatable; any other node,
including an unknown one (not yet added, or deleted), contributes exactly the requests of its pods.
Limits: only pods known to the scheduler count; a total is capped at the largest valid amount.
"""

from __future__ import annotations

from collections.abc import Iterable

from cotenant.model.cluster.node import Node
from cotenant.model.errors import Permanent
from cotenant.model.groups.quota import NO_LIMIT
from cotenant.model.resources import PODS_NAME, Amounts


class QuotaTotals:
    """Sums over all nodes, updated incrementally."""

    def __init__(self) -> None:
        self.has_changed = False  # the caller resets it to False
        self._nodes: dict[str, Node] = {}
        self._on: dict[str, dict[str, Amounts]] = {}  # node -> uid -> requests of the pod
        self._sums: dict[str, int] = {}

    def node_seen(self, node: Node) -> None:
        """Record a new or changed node."""
        self._take(node.name, -1)
        self._nodes[node.name] = node
        self._take(node.name, 1)

    def node_gone(self, name: str) -> None:
        """Remove a deleted node; its pods may remain for a while."""
        self._take(name, -1)
        self._nodes.pop(name, None)
        self._take(name, 1)

    def assign(self, name: str, uid: str, holds: Amounts) -> None:
        """Record a pod assigned to a node; the node may be unknown."""
        self._on.setdefault(name, {})[uid] = holds
        if not self._takes_pods(name):
            self._add(_with_slot(holds), 1)

    def unassign(self, name: str, uid: str) -> None:
        """Remove an unassigned pod from its node."""
        here = self._on[name]
        holds = here.pop(uid)
        if not here:
            del self._on[name]
        if not self._takes_pods(name):
            self._add(_with_slot(holds), -1)

    def forget_pods(self) -> None:
        """Forget all pods and recompute the sums."""
        self._on.clear()
        self._sums = self._counted()
        self.has_changed = True

    def amounts(self, limited: Iterable[str]) -> Amounts:
        """The sums of the `limited` resources; resources with sum 0 are omitted."""
        return Amounts.of({name: min(self._sums[name], NO_LIMIT) for name in limited if self._sums.get(name)})

    def validate(self) -> None:
        """Check the sums against nodes and pods. Raises `Permanent`."""
        counted = self._counted()
        if {name: n for name, n in self._sums.items() if n} != {name: n for name, n in counted.items() if n}:
            raise Permanent(f"nodes provide {counted}, the recorded sums are {self._sums}")

    def _counted(self) -> dict[str, int]:
        sums: dict[str, int] = {}
        for name in self._nodes.keys() | self._on.keys():
            for resource, amount in self._gives(name):
                sums[resource] = sums.get(resource, 0) + amount
        return sums

    def _takes_pods(self, name: str) -> bool:
        node = self._nodes.get(name)
        return node is not None and node.ready and not node.unschedulable

    def _gives(self, name: str) -> Iterable[tuple[str, int]]:
        if self._takes_pods(name):
            return self._nodes[name].allocatable.items
        return [pair for holds in self._on.get(name, {}).values() for pair in _with_slot(holds)]

    def _take(self, name: str, sign: int) -> None:
        self._add(self._gives(name), sign)

    def _add(self, amounts: Iterable[tuple[str, int]], sign: int) -> None:
        for resource, amount in amounts:
            self._sums[resource] = self._sums.get(resource, 0) + sign * amount
            self.has_changed = True


def _with_slot(holds: Amounts) -> tuple[tuple[str, int], ...]:
    return (*holds.items, (PODS_NAME, 1))
