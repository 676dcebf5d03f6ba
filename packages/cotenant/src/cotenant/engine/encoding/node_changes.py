"""A log of changed rows, for readers that keep something per node.

Limits: keeps the last changes; a reader that lags behind more than that reads all rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice

_MOST = 4096


class NodeChanges:
    """Changes of nodes; `revision` increases with each."""

    def __init__(self) -> None:
        self.revision = 0
        self._rows: deque[int] = deque(maxlen=_MOST)  # the last ones, one per revision

    def note(self, row: int) -> None:
        """A row changed."""
        self.revision += 1
        self._rows.append(row)

    def since(self, revision: int, rows: int) -> Sequence[int]:
        """Rows that changed since then, possibly repeated; all of `rows` if more changed than are kept."""
        changes = self.revision - revision
        return range(rows) if changes > len(self._rows) else tuple(islice(reversed(self._rows), changes))
