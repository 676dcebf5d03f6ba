"""Topology domains: which nodes share a zone, a rack, a host.

Spread and anti-affinity count pods per value of a node label. Each node has the number of its domain, so that counting
is an indexed sum.
Limits: numbers are valid only for the list of nodes they were computed from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cotenant.model.arrays import Int, Mask
from cotenant.model.cluster.node import Node


class Domains(NamedTuple):
    """The domains of one topology key. D domains, N nodes."""

    key: str
    names: tuple[str, ...]  # [D] label values in the order they were first seen
    of_node: Int  # [N] domain of each node, -1 where the node lacks the key

    @classmethod
    def of(cls, key: str, nodes: Sequence[Node | None]) -> Domains:
        """Number the values of a label key over the nodes. A row without a node belongs to no domain."""
        numbers: dict[str, int] = {}
        of_node = np.full(len(nodes), -1, dtype=np.int64)
        for row, node in enumerate(nodes):
            value = node.labels.get(key) if node is not None else None
            if value is not None:
                of_node[row] = numbers.setdefault(value, len(numbers))
        return cls(key, tuple(numbers), of_node)

    def total(self, per_node: Int, where: Mask | None = None) -> Int:
        """`int64[D]`: sums of `per_node[N]` over each domain's nodes, only those of `where[N]` if given."""
        counted = per_node if where is None else np.where(where, per_node, 0)
        # sums of integers below 2^53 are exact in float64; nodes outside any domain fall into the first bin
        sums = np.bincount(self.of_node + 1, weights=counted, minlength=len(self.names) + 1)
        return sums[1:].astype(np.int64)

    def spread_out(self, per_domain: Int) -> Int:
        """`int64[N]`: the value of each node's domain, 0 where a node belongs to none."""
        return np.append(per_domain, 0)[self.of_node]

    def present(self, where: Mask) -> Mask:
        """`bool[D]`: domains that have at least one node of `where[N]`."""
        found = np.zeros(len(self.names), dtype=np.bool_)
        found[self.of_node[where & (self.of_node >= 0)]] = True
        return found
