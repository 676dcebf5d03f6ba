"""The rows of node selectors that allocations have: most name one node, and need no look at the others."""

from __future__ import annotations

import numpy as np

from cotenant.engine.encoding.encoder import Encoder
from cotenant.model.arrays import Mask
from cotenant.model.cluster.affinity import NAME_FIELD, NodeSelector

_MAX_KNOWN = 256


class RowsOfSelectors:
    """Rows by selector, until nodes change."""

    def __init__(self) -> None:
        self._encoder: Encoder | None = None
        self._known: dict[NodeSelector, tuple[int, Mask]] = {}

    def attach(self, encoder: Encoder) -> None:
        """Start over with this encoder's rows."""
        self._encoder = encoder
        self._known.clear()

    def of(self, nodes: NodeSelector) -> Mask:
        """The rows of a selector."""
        encoder = self._encoder
        assert encoder is not None
        if len(nodes.terms) == 1 and not nodes.terms[0].expressions and len(nodes.terms[0].fields) == 1:
            only = nodes.terms[0].fields[0]
            if only.key == NAME_FIELD and only.operator.value == "In" and len(only.values) == 1:
                mask = np.zeros(encoder.all_rows, dtype=np.bool_)
                row = encoder.node_rows.get(only.values[0])
                if row is not None:
                    mask[row] = True
                return mask
        revision, known = self._known.get(nodes, (-1, None))
        if known is None or revision != encoder.revision:
            known = np.zeros(encoder.all_rows, dtype=np.bool_)
            for name, row in encoder.node_rows.items():
                known[row] = nodes.matches(name, encoder.node(row).labels)
            if len(self._known) > _MAX_KNOWN:
                self._known.clear()
            self._known[nodes] = encoder.revision, known
        return known
