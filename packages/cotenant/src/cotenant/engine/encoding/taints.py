"""Bits of the nodes' taint word, and numbers for lists of taints.

Compiled filters check taints with one word, which has 64 bits, and a cluster may have more distinct taints. Each
distinct repelling taint has a bit while there is one; further taints are checked by demand bits
(engine/encoding/demands.py), one for each distinct list of tolerations ("all overflowing taints of this node are
tolerated"), which is as exact and costs one bit per list. PreferNoSchedule taints have demand bits, for scores.
Limits: a taint that overflowed keeps no bit until every node has lost it.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from cotenant.engine.encoding.columns import FIRST_ROWS, EncodedArrays, longer
from cotenant.engine.encoding.demands import WORD_BITS, DemandBits, HasTaint, Tolerates
from cotenant.engine.encoding.interning import Bits
from cotenant.model.arrays import Int
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.pod import Shape
from cotenant.model.cluster.taints import Taint, Toleration, is_unfiltered, tolerated


class TaintBits:
    """The taints of all nodes and the tolerations of all shapes, as words."""

    def __init__(self, arrays: EncodedArrays) -> None:
        self._arrays = arrays
        self._bits: Bits[Taint] = Bits()
        self._overflowing: Counter[Taint] = (
            Counter()
        )  # repelling taints without a bit -> number of nodes that have them
        self.soft: Counter[Taint] = Counter()  # PreferNoSchedule taints -> number of nodes that have them
        self._lists: dict[tuple[Taint, ...], int] = {(): 0}  # a node's taints -> their number
        self._list_of: Int = np.zeros(FIRST_ROWS, dtype=np.int64)  # by node's row
        self.demands = DemandBits(arrays, self._overflowing)

    @property
    def overflow(self) -> bool:
        """Whether some repelling taint has no bit of its own and is checked by demand bits."""
        return bool(self._overflowing)

    def list_numbers(self) -> Int:
        """`int64[N]`: equal numbers for nodes with equal taints, 0 for none."""
        return self._list_of[: len(self._arrays.row_nodes)]

    def write_node(self, row: int, before: tuple[Taint, ...], node: Node) -> None:
        """Write the taint word of a node whose taints were `before`."""
        arrays = self._arrays
        word = 0
        overflowed = False
        for taint in node.effective_taints:
            if not taint.repels:
                self.demands.use(HasTaint(taint))
                self.soft[taint] += 1
            elif taint in self._bits or (taint not in self._overflowing and len(self._bits) < WORD_BITS):
                word |= 1 << self._use(taint)
            else:
                overflowed |= taint not in self._overflowing
                self._overflowing[taint] += 1
        self._drop(before)
        arrays.nodes.taints[row] = np.uint64(word)
        if row >= len(self._list_of):
            self._list_of = longer(self._list_of, len(arrays.nodes.ready))
        self._list_of[row] = self._lists.setdefault(node.effective_taints, len(self._lists))
        if overflowed:
            for k, shape in enumerate(arrays.row_shapes):
                if shape is not None:
                    self.demands.require(k, Tolerates(shape.tolerations, shape.unfiltered))

    def clear_node(self, row: int, node: Node) -> None:
        """Remove the taints of a node that is removed."""
        self._drop(node.effective_taints)
        self._arrays.nodes.taints[row] = 0
        self._list_of[row] = 0

    def write_shape(self, k: int, shape: Shape) -> None:
        """Write the word of taints that a shape tolerates."""
        word = 0
        for taint, bit in self._bits:
            if is_let(taint, shape):
                word |= 1 << bit
        self._arrays.shapes.tolerated[k] = np.uint64(word)

    def require_overflowing(self, k: int, shape: Shape) -> None:
        """Where taints overflow, require of nodes that the shape tolerates those without a bit."""
        if self._overflowing:
            self.demands.require(k, Tolerates(shape.tolerations, shape.unfiltered))

    def untolerated_soft(self, tolerations: tuple[Toleration, ...]) -> Int:
        """Demand bits of the PreferNoSchedule taints in the cluster that are not tolerated."""
        bits = [self.demands[HasTaint(taint)] for taint in self.soft if not tolerated(taint, tolerations)]
        return np.array(bits, dtype=np.int64)

    def has_untolerated_soft(self, tolerations: tuple[Toleration, ...]) -> bool:
        """Whether some PreferNoSchedule taint in the cluster is not tolerated."""
        return bool(self.soft) and not all(tolerated(taint, tolerations) for taint in self.soft)

    def compact_lists(self) -> None:
        """Renumber the lists of taints where most of the numbered ones are no longer in use."""
        row_nodes = self._arrays.row_nodes
        in_use = {node.effective_taints for node in row_nodes if node is not None} | {()}
        if len(self._lists) > 2 * len(in_use):
            self._lists = {taints: i for i, taints in enumerate(sorted(in_use, key=lambda taints: taints != ()))}
            for row, node in enumerate(row_nodes):
                self._list_of[row] = self._lists[node.effective_taints] if node is not None else 0

    def _drop(self, taints: tuple[Taint, ...]) -> None:
        for taint in taints:
            if not taint.repels:
                self.demands.drop(HasTaint(taint))
                self.soft[taint] -= 1
                if not self.soft[taint]:
                    del self.soft[taint]
            elif taint in self._overflowing:
                self._overflowing[taint] -= 1
                if not self._overflowing[taint]:
                    del self._overflowing[taint]
            else:
                self._bits.drop(taint)

    def _use(self, taint: Taint) -> int:
        bit, new = self._bits.use(taint)
        if new:
            mark = np.uint64(1 << bit)
            tolerated_word = self._arrays.shapes.tolerated
            for k, shape in enumerate(self._arrays.row_shapes):
                if shape is not None and is_let(taint, shape):
                    tolerated_word[k] |= mark
                else:
                    tolerated_word[k] &= ~mark
        return bit


def is_let(taint: Taint, shape: Shape) -> bool:
    """Whether pods of a shape may be on a node with the taint: tolerated, or not looked at."""
    return is_unfiltered(taint, shape.unfiltered) or tolerated(taint, shape.tolerations)
