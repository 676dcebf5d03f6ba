"""What a plugin's `filter` and `score` see of the nodes.

Rows are those of the arrays: a row without a node has no name, and is never feasible.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cotenant.engine.encoding.encoder import Encoder
from cotenant.model.arrays import Mask, NodeArrays
from cotenant.model.cluster.node import Node


class NodeView:
    """The nodes of one engine, to be read only."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    @property
    def rows(self) -> Mapping[str, int]:
        """The row of each node, by name."""
        return self._encoder.node_rows

    @property
    def arrays(self) -> NodeArrays:
        """What nodes have, and what their pods request."""
        return self._encoder.nodes()

    def node(self, row: int) -> Node:
        """The node of a row."""
        return self._encoder.node(row)

    def everywhere(self) -> Mask:
        """`bool[N]`, all true."""
        return np.ones(len(self._encoder.nodes().ready), dtype=np.bool_)
