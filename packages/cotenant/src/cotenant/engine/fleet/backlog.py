"""What waits to be forwarded, bounded by size: the oldest is dropped, and counted."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Export:
    """One request as it came."""

    path: str
    body: bytes
    content_type: str
    content_encoding: str
    items: int = 1  # which are counted where it is dropped


class Backlog:
    """First in, first out."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._waiting: deque[Export] = deque()
        self.size_bytes = 0
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, export: Export) -> None:
        """Take it. One larger than all that may wait is dropped itself."""
        self._waiting.append(export)
        self.size_bytes += len(export.body)
        while self.size_bytes > self._max_bytes:
            self.dropped += self._pop().items

    def first(self) -> Export | None:
        """The oldest."""
        return self._waiting[0] if self._waiting else None

    def done(self, export: Export) -> None:
        """It was sent, or is refused for ever; nothing where it was dropped meanwhile."""
        if self._waiting and self._waiting[0] is export:
            self._pop()

    def _pop(self) -> Export:
        export = self._waiting.popleft()
        self.size_bytes -= len(export.body)
        return export
