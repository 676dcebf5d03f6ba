"""The capacity column of nodes: allocatable, as node rules change it.

A node's allocatable is not always what requests may add up to. Devices are allocated by a node rule, and their
resources may not be advertised at all; pods with exclusive CPUs on a node with amplified CPU take more than they
request. Two changes by node name, applied whenever the row is written: resources without a limit, because a node rule
checks them, and milli-CPU that residents take beside their requests.
Limits: what is withheld changes the scores of the node like a smaller node would.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cotenant.engine.encoding.columns import EncodedArrays
from cotenant.model.arrays import CPU, Int
from cotenant.model.cluster.node import Node
from cotenant.model.resources import MAX_AMOUNT

ResourcesOf = Callable[[Node], frozenset[str]]


class CapacityWriter:
    """Writes `NodeArrays.capacity`."""

    def __init__(self, arrays: EncodedArrays) -> None:
        self._arrays = arrays
        self._unlimited: dict[str, ResourcesOf] = {}  # by node name
        self._withheld_m: dict[str, int] = {}  # by node name
        self._provided: frozenset[str] = frozenset()

    def set_unlimited(self, name: str, resources: ResourcesOf | None) -> bool:
        """Set which resources a node rule checks on a node; None = none. Whether that is a change."""
        if self._unlimited.get(name) == resources:
            return False
        if resources is None:
            del self._unlimited[name]
        else:
            self._unlimited[name] = resources
        return True

    def set_provided(self, resources: frozenset[str]) -> bool:
        """Set resources that a node rule checks on every node that does not advertise them. Whether that is a
        change.
        """
        before, self._provided = self._provided, resources
        return before != resources

    def is_provided(self, name: str) -> bool:
        """Whether a node rule checks a resource on every node that does not advertise it."""
        return name in self._provided

    def set_withheld(self, name: str, cpu_m: int) -> bool:
        """Set the milli-CPU that residents of a node take beside their requests. Whether that is a change."""
        if self._withheld_m.get(name, 0) == cpu_m:
            return False
        self._withheld_m[name] = cpu_m
        if not cpu_m:
            del self._withheld_m[name]
        return True

    def withheld_m(self, rows: dict[str, int], size: int) -> Int:
        """`int64[size]`: withheld milli-CPU by row; `rows`: the row of each node."""
        found = np.zeros(size, dtype=np.int64)
        for name, cpu_m in self._withheld_m.items():
            if name in rows:
                found[rows[name]] = cpu_m
        return found

    def write(self, row: int, node: Node) -> None:
        """Write a node's row."""
        axis = self._arrays.axis
        capacity = axis.row(node.allocatable)
        unlimited = self._unlimited.get(node.name)
        for name in unlimited(node) if unlimited is not None else ():
            if name in axis.names and name not in node.allocatable:
                capacity[axis.column(name)] = MAX_AMOUNT
        for name in self._provided:
            if name in axis.names and not node.allocatable.get(name):
                capacity[axis.column(name)] = MAX_AMOUNT
        capacity[CPU] -= self._withheld_m.get(node.name, 0)
        self._arrays.nodes.capacity[row] = capacity

    def write_new(self, added: frozenset[str], rows: dict[str, int]) -> None:
        """Write the rows on which resources that were added to the axis have no limit."""
        if added & self._provided:
            for row in rows.values():
                node = self._arrays.row_nodes[row]
                if node is not None:
                    self.write(row, node)
        for name, resources in self._unlimited.items():
            row = rows.get(name, -1)
            node = self._arrays.row_nodes[row] if row >= 0 else None
            if node is not None and added & resources(node):
                self.write(row, node)
