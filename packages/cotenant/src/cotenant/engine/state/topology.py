"""Topology domains of nodes, and the rows that a node selector matches, cached until labels change.

Rules need a zone's nodes thousands of times between two changes of a label, and a cluster may have a volume per node,
each with its own selector. Domains and matching rows are cached per key and selector; a selector with `In` values looks
them up in an index and evaluates only the nodes found.
Limits: any change of labels, and any node added or removed, empties the caches (about 1 us per node and key).
"""

from __future__ import annotations

import numpy as np

from cotenant.engine.encoding.encoder import Encoder
from cotenant.model.arrays import Int, Mask
from cotenant.model.cluster.affinity import NodeSelector, NodeSelectorTerm
from cotenant.model.cluster.labels import SelectorOperator
from cotenant.model.cluster.observed import StorageRoom
from cotenant.model.cluster.topology import Domains

_MANY_KEYS = 32


class Regions:
    """Domains and selector matches over the rows of one encoder."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._revision = -1
        self._domains: dict[str, Domains] = {}
        self._nowhere: Domains | None = None  # those of a key that no node has
        self._keys: set[str] = set()  # of all nodes' labels, once many topology keys were asked for
        self._by_value: dict[str, dict[str, list[int]]] = {}  # label key -> value -> rows
        self._matching: dict[NodeSelector | StorageRoom, Int] = {}

    def size(self) -> int:
        """The number of rows, with and without a node."""
        return self._encoder.all_rows

    def known(self) -> Mask:
        """`bool[N]`: rows that have a node."""
        known = np.zeros(self.size(), dtype=np.bool_)
        known[list(self._encoder.node_rows.values())] = True
        return known

    def only(self, name: str) -> Mask:
        """`bool[N]`: the row of the node of this name, if there is one."""
        mask = np.zeros(self.size(), dtype=np.bool_)
        row = self._encoder.node_rows.get(name)
        if row is not None:
            mask[row] = True
        return mask

    def domains(self, key: str) -> Domains:
        """The domains of a topology key over all rows."""
        self._refresh()
        found = self._domains.get(key)
        if found is None:
            if len(self._domains) >= _MANY_KEYS and key not in self._label_keys():
                if self._nowhere is None:
                    self._nowhere = Domains("", (), np.full(self.size(), -1, dtype=np.int64))
                return self._nowhere
            found = self._domains[key] = self._encoder.domains(key)
        return found

    def _label_keys(self) -> set[str]:
        """One pod may name ten thousand keys that no node has: they are neither looked for on every node nor kept."""
        if not self._keys:
            nodes = map(self._encoder.node, self._encoder.node_rows.values())
            self._keys = {key for node in nodes for key, _ in node.labels}
        return self._keys

    def matching(self, selector: NodeSelector | StorageRoom | None) -> Int | None:
        """Rows of the nodes that a selector matches, ascending; None = all rows, without a selector.

        A `StorageRoom` is looked up by identity, because its selector may have a term for every node.
        """
        terms = selector.nodes if isinstance(selector, StorageRoom) else selector
        if selector is None or terms is None:
            return None
        self._refresh()
        found = self._matching.get(selector)
        if found is None:
            rows = {row for term in terms.terms for row in self._rows(term)}
            found = self._matching[selector] = np.array(sorted(rows), dtype=np.int64)
        return found

    def _rows(self, term: NodeSelectorTerm) -> list[int]:
        return [
            row for row in self._candidates(term) if term.matches((node := self._encoder.node(row)).name, node.labels)
        ]

    def _candidates(self, term: NodeSelectorTerm) -> list[int]:
        """A superset of the rows that match the term."""
        for field in term.fields:
            if field.operator is SelectorOperator.IN:
                return [self._encoder.node_rows[name] for name in field.values if name in self._encoder.node_rows]
        for expression in term.expressions:
            if expression.operator is SelectorOperator.IN:
                index = self._index(expression.key)
                return [row for value in dict.fromkeys(expression.values) for row in index.get(value, ())]
        return list(self._encoder.node_rows.values())

    def _index(self, key: str) -> dict[str, list[int]]:
        found = self._by_value.get(key)
        if found is None:
            found = self._by_value[key] = {}
            for row in self._encoder.node_rows.values():
                value = self._encoder.node(row).labels.get(key)
                if value is not None:
                    found.setdefault(value, []).append(row)
        return found

    def _refresh(self) -> None:
        if self._revision != self._encoder.labels_revision:
            self._revision = self._encoder.labels_revision
            self._domains.clear()
            self._keys.clear()
            self._nowhere = None
            self._by_value.clear()
            self._matching.clear()
