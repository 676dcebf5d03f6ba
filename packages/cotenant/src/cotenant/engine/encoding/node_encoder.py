"""Encodes nodes as rows of arrays: their sizes, labels, taints and conditions, and which of them are closed.

Everything that the arrays have of a node, whatever the pods are; `Encoder` adds pods and their shapes. A removed node's
row and its taints' bits go to the next new node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cotenant.engine.encoding.capacity import CapacityWriter, ResourcesOf
from cotenant.engine.encoding.columns import EncodedArrays, longer, wider
from cotenant.engine.encoding.node_changes import NodeChanges
from cotenant.engine.encoding.taints import TaintBits
from cotenant.model.arrays import Int, Mask, NodeArrays
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.topology import Domains
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import ResourceAxis


def _ignored(row: int) -> None:
    pass


class NodeEncoder:
    """The nodes of one cluster."""

    def __init__(self) -> None:
        self.node_rows: dict[str, int] = {}
        self.closed: set[str] = set()  # names of nodes on which this engine must not place; they need not be known
        self._closed_rows: Mask | None = None
        self._closed_count = 0
        self.labels_revision = 0  # increases when a node is added or removed, or its labels change
        self.on_row_changed: Callable[[int], None] = (
            _ignored  # called with a row that changed other than by its Node object
        )
        self.on_row_tightened: Callable[[int], None] = _ignored  # called with a row whose withheld CPU changed
        self._arrays = EncodedArrays()
        self._capacity = CapacityWriter(self._arrays)
        self._taints = TaintBits(self._arrays)
        self._demands = self._taints.demands
        self._changes = NodeChanges()
        self._free_rows: list[int] = []
        self.soft_taints = self._taints.soft  # that nodes have; read only

    # ---- arrays

    @property
    def axis(self) -> ResourceAxis:
        """The resources and their columns."""
        return self._arrays.axis

    @property
    def all_rows(self) -> int:
        """Rows of nodes: in use, and free."""
        return len(self._arrays.row_nodes)

    def nodes(self) -> NodeArrays:
        """One row per node, in the order of `node_rows`; the row of a removed node is not ready."""
        return NodeArrays._make(column[: len(self._arrays.row_nodes)] for column in self._arrays.nodes)

    def node(self, row: int) -> Node:
        """The node of a row; `InvalidInput` if it was removed."""
        node = self._arrays.row_nodes[row]
        if node is None:
            raise InvalidInput("node row", row, "the row of a node that exists")
        return node

    @property
    def revision(self) -> int:
        """Increases with every change of a node."""
        return self._changes.revision

    def changed_since(self, revision: int) -> Sequence[int]:
        """Rows whose node was added, changed or removed since then, possibly repeated; all rows if more changes
        than are kept.
        """
        return self._changes.since(revision, len(self._arrays.row_nodes))

    def domains(self, key: str) -> Domains:
        """The domains of a topology key over all rows."""
        return Domains.of(key, self._arrays.row_nodes)

    @property
    def taints_overflow(self) -> bool:
        """Whether some repelling taint has no bit of its own and is checked by demand bits."""
        return self._taints.overflow

    def taint_lists(self) -> Int:
        """`int64[N]`: equal numbers for nodes with equal taints, 0 for none."""
        return self._taints.list_numbers()

    # ---- nodes

    def add_node(self, node: Node) -> int:
        """The new node's row. `InvalidInput` if the name is taken."""
        if node.name in self.node_rows:
            raise InvalidInput("node", node.name, "a name that no other node has", "use update_node for a changed node")
        arrays = self._arrays
        if self._free_rows:
            row = self._free_rows.pop()
        else:
            row = len(arrays.row_nodes)
            arrays.row_nodes.append(None)
            if row >= len(arrays.nodes.ready):
                arrays.nodes = NodeArrays._make(longer(column, 2 * row) for column in arrays.nodes)
        self.node_rows[node.name] = row
        self.labels_revision += 1
        arrays.nodes.report[row] = np.nan
        self._write_node(row, node)
        self._demands.labels_changed()
        self._taints.write_node(row, (), node)
        self._demands.write_node(row, node)
        return row

    def update_node(self, node: Node) -> int:
        """Write a node's new allocatable, labels, taints and condition; its residents stay. `InvalidInput` for an
        unknown name.
        """
        row = self._row_of(node.name)
        before = self.node(row)
        self._write_node(row, node)
        if node.labels != before.labels:
            self._demands.labels_changed()
        if node.effective_taints != before.effective_taints:
            self._taints.write_node(row, before.effective_taints, node)
        elif node.labels == before.labels:
            return row
        if node.labels != before.labels:
            self.labels_revision += 1
        self._demands.write_node(row, node)
        return row

    def remove_node(self, name: str) -> int:
        """Remove a node. Its residents must have been removed before: the next new node gets the row."""
        row = self._row_of(name)
        nodes = self._arrays.nodes
        if nodes.requested[row].any():
            raise InvalidInput("node", name, "a node without residents", "remove its pods first")
        self._changes.note(row)
        self.labels_revision += 1
        del self.node_rows[name]
        self._taints.clear_node(row, self.node(row))
        self._arrays.row_nodes[row] = None
        self._demands.labels_changed()
        nodes.ready[row] = False
        self._closed_rows = None
        nodes.labels[row] = 0
        self._free_rows.append(row)
        return row

    def set_unlimited(self, name: str, resources: ResourcesOf | None) -> None:
        """Skip the capacity check for resources that a node does not advertise: a node rule checks them. The node
        need not be known yet.
        """
        row = self.node_rows.get(name)
        if self._capacity.set_unlimited(name, resources) and row is not None:
            self._changes.note(row)
            self._capacity.write(row, self.node(row))

    def set_provided(self, resources: frozenset[str]) -> None:
        """Skip the capacity check for these resources on every node that does not advertise them: a node rule checks
        them there.
        """
        if self._capacity.set_provided(resources):
            for row in self.node_rows.values():
                self._changes.note(row)
                self._capacity.write(row, self.node(row))
                self.on_row_changed(row)

    def set_withheld(self, name: str, cpu_m: int) -> None:
        """Withhold milli-CPU of a node: residents take that much beside their requests. The node need not be known
        yet.
        """
        row = self.node_rows.get(name)
        if self._capacity.set_withheld(name, cpu_m) and row is not None:
            self._capacity.write(row, self.node(row))
            self.on_row_tightened(row)

    def withheld_m(self) -> Int:
        """`int64[N]`: withheld milli-CPU."""
        return self._capacity.withheld_m(self.node_rows, len(self._arrays.row_nodes))

    def _row_of(self, name: str) -> int:
        try:
            return self.node_rows[name]
        except KeyError:
            raise InvalidInput("node", name, "a node that was added") from None

    def _write_node(self, row: int, node: Node) -> None:
        self._changes.note(row)
        self._closed_rows = None
        self._arrays.row_nodes[row] = node
        self._extend_axis(node.allocatable.names())
        self._capacity.write(row, node)
        self._arrays.nodes.ready[row] = node.takes_pods and node.name not in self.closed

    def set_closed(self, name: str, is_closed: bool) -> None:
        """Exclude a node from placement, whatever its object says, or no longer."""
        (self.closed.add if is_closed else self.closed.discard)(name)
        self._closed_rows = None
        row = self.node_rows.get(name)
        if row is not None:
            self._changes.note(row)
            self._arrays.nodes.ready[row] = self.node(row).takes_pods and not is_closed

    def closed_rows(self) -> Mask:
        """`bool[N]`: nodes that would take pods but for being closed; read only."""
        if self._closed_rows is None or len(self._closed_rows) != self.all_rows:
            self._closed_rows = rows = np.zeros(self.all_rows, dtype=np.bool_)
            for name in self.closed:
                row = self.node_rows.get(name)
                if row is not None:
                    rows[row] = self.node(row).takes_pods
            self._closed_count = int(rows.sum())
        return self._closed_rows

    def closed_count(self) -> int:
        """How many these are."""
        self.closed_rows()
        return self._closed_count

    # ---- columns

    def _extend_axis(self, names: tuple[str, ...]) -> None:
        arrays = self._arrays
        axis = arrays.axis.extended(names)
        if axis is not arrays.axis:
            new = frozenset(axis.names[len(arrays.axis) :])
            arrays.axis = axis
            capacity, requested = (wider(c, len(axis)) for c in (arrays.nodes.capacity, arrays.nodes.requested))
            arrays.nodes = arrays.nodes._replace(capacity=capacity, requested=requested)
            arrays.shapes = arrays.shapes._replace(request=wider(arrays.shapes.request, len(axis)))
            self._capacity.write_new(new, self.node_rows)
