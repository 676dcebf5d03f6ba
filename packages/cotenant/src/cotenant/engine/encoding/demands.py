"""Bits of the nodes' label words: one for each distinct requirement on a node.

Compiled filters compare words, while pods state selectors and affinity expressions of any size. Each distinct *whole*
demand (a nodeSelector, a required affinity, a preferred term) has one bit, set on the nodes for which the plain
evaluation holds, so a check of any size is one operation per word. A new selector is evaluated by the rows of label
values (engine/encoding/label_rows.py), a new or changed node on every demand in plain Python.
Limits: a demand has its bit for all nodes, so ten thousand of one pod would be paid for by all: readers limit preferred
terms.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

import numpy as np

from cotenant.engine.encoding.columns import EncodedArrays, wider
from cotenant.engine.encoding.interning import Bits
from cotenant.engine.encoding.label_rows import LabelRows
from cotenant.model.cluster.affinity import NodeSelector, NodeSelectorTerm
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.taints import Taint, Toleration, first_repelling

WORD_BITS = 64


@dataclass(frozen=True, slots=True)
class Tolerates:
    """Demand: these tolerations cover all taints of the node that have no bit in the taint word."""

    tolerations: tuple[Toleration, ...]
    unfiltered: frozenset[str] = frozenset()  # `Shape.unfiltered`


@dataclass(frozen=True, slots=True)
class HasTaint:
    """The node has this PreferNoSchedule taint; used for scores only."""

    taint: Taint


Demand = Labels | NodeSelector | NodeSelectorTerm | Tolerates | HasTaint


class DemandBits:
    """The demands in use, their bits, and the words of nodes and shapes that hold them.

    `overflowing` are the repelling taints without a bit in the taint word (engine/encoding/taints.py).
    """

    def __init__(self, arrays: EncodedArrays, overflowing: Container[Taint]) -> None:
        self._arrays = arrays
        self._overflowing = overflowing
        self._bits: Bits[Demand] = Bits()
        self._of_shapes: list[list[Demand]] = []  # by shape's row
        self._label_rows = LabelRows(arrays.row_nodes)

    def add_shape(self) -> None:
        """Extend by one shape row, without demands."""
        self._of_shapes.append([])

    def drop_shape(self, k: int) -> None:
        """Remove the uses of a shape that is reclaimed."""
        for demand in self._of_shapes[k]:
            self.drop(demand)
        self._of_shapes[k] = []

    def require(self, k: int, demand: Demand) -> None:
        """Add a demand to a shape's required ones."""
        if demand in self._of_shapes[k] and isinstance(demand, Tolerates):
            return
        bit = self.use(demand)
        self._of_shapes[k].append(demand)
        self._arrays.shapes.selector[k, bit // WORD_BITS] |= np.uint64(1 << bit % WORD_BITS)

    def select_instead(self, copied: EncodedArrays, k: int, before: Labels, after: Labels) -> None:
        """In a copy of the arrays, replace the nodeSelector of shape `k`; the demands in use and their bits stay as
        they are.
        """
        word = copied.nodes.labels.shape[1]
        labels, selector = wider(copied.nodes.labels, word + 1), wider(copied.shapes.selector, word + 1)
        if before:
            bit = self[before]
            selector[k, bit // WORD_BITS] &= ~np.uint64(1 << bit % WORD_BITS)
        if after:
            selector[k, word] = 1
            rows = [
                row for row, node in enumerate(copied.row_nodes) if node is not None and self._satisfies(node, after)
            ]
            labels[rows, word] = 1
        copied.nodes, copied.shapes = copied.nodes._replace(labels=labels), copied.shapes._replace(selector=selector)

    def prefer(self, k: int, terms: list[NodeSelectorTerm]) -> list[int]:
        """The bits of a shape's preferred terms."""
        bits = [self.use(term) for term in terms]
        self._of_shapes[k].extend(terms)
        return bits

    def __getitem__(self, demand: Demand) -> int:
        return self._bits[demand]

    def use(self, demand: Demand) -> int:
        """Add a use of a demand; its bit is set on all nodes that satisfy it."""
        bit, new = self._bits.use(demand)
        if not new:
            return bit
        arrays = self._arrays
        words = bit // WORD_BITS + 1
        if words > arrays.nodes.labels.shape[1]:
            arrays.nodes = arrays.nodes._replace(labels=wider(arrays.nodes.labels, words))
            arrays.shapes = arrays.shapes._replace(selector=wider(arrays.shapes.selector, words))
        mark = np.uint64(1 << bit % WORD_BITS)
        if isinstance(demand, Labels | NodeSelector | NodeSelectorTerm):
            arrays.nodes.labels[self._label_rows.satisfying(demand), bit // WORD_BITS] |= mark
            return bit
        for row, node in enumerate(arrays.row_nodes):
            if node is not None and self._satisfies(node, demand):
                arrays.nodes.labels[row, bit // WORD_BITS] |= mark
        return bit

    def satisfying(self, *selectors: Labels | NodeSelector) -> list[int]:
        """Rows with a node that satisfies all of these, whether or not they have bits."""
        found = {row for row, node in enumerate(self._arrays.row_nodes) if node is not None}
        for selector in selectors:
            found &= set(self._label_rows.satisfying(selector))
        return sorted(found)

    def labels_changed(self) -> None:
        """A node was added or removed, or its labels changed."""
        self._label_rows.changed()

    def drop(self, demand: Demand) -> None:
        """Remove a use of a demand; the bit of one without uses is cleared on all nodes."""
        bit = self._bits.drop(demand)
        if bit is not None:
            self._arrays.nodes.labels[:, bit // WORD_BITS] &= ~np.uint64(1 << bit % WORD_BITS)

    def write_node(self, row: int, node: Node) -> None:
        """Evaluate all demands on a new or changed node."""
        labels = self._arrays.nodes.labels
        words = [0] * labels.shape[1]
        for demand, bit in self._bits:
            if self._satisfies(node, demand):
                words[bit // WORD_BITS] |= 1 << bit % WORD_BITS
        labels[row] = np.array(words, dtype=np.uint64)

    def _satisfies(self, node: Node, demand: Demand) -> bool:
        """The plain evaluation of a demand, which its bit caches."""
        match demand:
            case Labels():
                return node.labels.contains(demand)
            case NodeSelector() | NodeSelectorTerm():
                return demand.matches(node.name, node.labels)
            case HasTaint(taint):
                return taint in node.effective_taints
            case Tolerates(tolerations, unfiltered):
                hidden = (taint for taint in node.effective_taints if taint in self._overflowing)
                return first_repelling(hidden, tolerations, unfiltered) is None
