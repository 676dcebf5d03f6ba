"""How much of the metrics page operations and edges may take.

Ten thousand names of two hundred characters are tens of megabytes a scrape. Each label set is reckoned with the lines
that it makes, in the order in which it was first seen, so a series that is shown stays; of the room no namespace takes
everything (engine/traces/shares.py). What has no room is summed up by the caller.
Limits: what a line has beside its labels is reckoned as `_LINE_BYTES`.
"""

from __future__ import annotations

from cotenant.engine.traces.shares import HolderShares

OPERATIONS_MAX_BYTES, EDGES_MAX_BYTES = 4 << 20, 4 << 20
_LINE_BYTES = 130  # name, names of labels, number
_ESCAPED = ("\\", "\n", '"')


class PageRoom:
    """The room of one kind of series while a page is made."""

    def __init__(self, max_bytes: int, lines: int) -> None:
        self._room: HolderShares[str] = HolderShares(max_bytes)
        self._lines = lines

    def takes(self, namespace: str, labels: tuple[str, ...]) -> bool:
        """Whether these labels have room; it is taken then."""
        text = "".join(labels)
        size = self._lines * (_LINE_BYTES + len(text.encode()) + sum(map(text.count, _ESCAPED)))
        if not self._room.has_room(namespace, size):
            return False
        self._room.take(namespace, size)
        return True
