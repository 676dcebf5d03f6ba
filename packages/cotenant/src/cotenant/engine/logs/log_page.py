"""One page of a container's log for one reader."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice

from cotenant.engine.logs.ring import KeptLine, LogRing
from cotenant.engine.logs.trace_ids import trace_of
from cotenant.model.fleet.logs import MAX_SHOWN, LogCursor, LogPage, ReadLogs, ShownLine

MAX_PAGE_LINES = 5000
_PAGE_BYTES = 512 << 10  # a message holds 1 MiB
_LINE_BYTES = 120  # of JSON beside the text
_SLICE = 2000  # lines


class LogReading:
    """A page in the making. `matches`: None takes every line. `ring_id`: names this ring in cursors."""

    def __init__(
        self, ring: LogRing, ring_id: str, request: ReadLogs, matches: Callable[[str], object] | None = None
    ) -> None:
        self._ring = ring
        self._ring_id = ring_id
        self._matches = matches
        self._is_tail = request.cursor is None and request.tail is not None
        self._max = max(1, min(request.max_lines, MAX_PAGE_LINES))
        if self._is_tail and request.tail is not None:
            self._max = max(1, min(request.tail, self._max))
        self._number, self._at_ns, self._missed = self._begin(request)
        self._found: deque[tuple[ShownLine, int]] = deque()
        self._bytes = 0
        self._is_end = False

    def _begin(self, request: ReadLogs) -> tuple[int, int, int]:
        """The number and time of the last line that is not wanted, and how many were dropped behind it."""
        cursor = request.cursor
        if cursor is None:
            since_ns = 0 if request.since_s is None else int(request.since_s * 1e9)
            return self._ring.number_before(since_ns), since_ns, 0
        if cursor.ring == self._ring_id:
            return cursor.number, cursor.at_ns, self._ring.missed(cursor.number)
        return self._ring.number_before(cursor.at_ns + 1), cursor.at_ns, 0

    @property
    def is_empty(self) -> bool:
        """Whether no line was found yet."""
        return not self._found

    def step(self) -> bool:
        """Look at some lines; whether the page is whole, or nothing more is there now."""
        self._is_end = True
        for number, line in islice(self._ring.after(self._number), _SLICE):
            if not self._is_tail and (len(self._found) >= self._max or self._bytes >= _PAGE_BYTES):
                self._is_end = False
                return True
            self._number, self._at_ns = number, line.at_ns
            if self._matches is None or self._matches(line.text):
                self._add(line)
        self._is_end = self._number >= self._ring.last
        return self._is_end

    def _add(self, line: KeptLine) -> None:
        shown = line.text[:MAX_SHOWN]
        found = ShownLine(line.at_ns, line.stream, shown, *trace_of(line.text), line.cut + len(line.text) - len(shown))
        size = 2 * len(shown) + _LINE_BYTES  # JSON escapes some characters
        self._found.append((found, size))
        self._bytes += size
        while self._is_tail and (len(self._found) > self._max or self._bytes > _PAGE_BYTES + size):
            self._bytes -= self._found.popleft()[1]

    def page(self, lost: int) -> LogPage:
        """What was found."""
        cursor = LogCursor(self._ring_id, self._number, self._at_ns)
        return LogPage(tuple(line for line, _ in self._found), cursor, self._is_end, self._missed, lost)
