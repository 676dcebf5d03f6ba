"""The last lines of one container, bounded by size and age; the oldest are dropped, and counted.

A line has a number, which counts up from 1; a reader keeps the number of the last line that it took, and learns how
many were dropped since.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from itertools import islice
from sys import getsizeof
from typing import NamedTuple

from cotenant.model.fleet.logs import FileIdentity, LogPlace

LINE_OVERHEAD = 200  # bytes that a line takes beside its text


class KeptLine(NamedTuple):
    """A line in the ring. `file`, `offset` and `skip`: where reading can go on after it, as in `LogPlace`."""

    at_ns: int
    stream: str
    text: str
    cut: int
    file: FileIdentity
    offset: int
    skip: int
    source: str  # which of the files that stand in this ring
    is_old: bool  # from before the place where reading was to go on

    @property
    def place(self) -> LogPlace:
        """Where reading can go on after it."""
        return LogPlace(self.file, self.offset, self.skip, self.at_ns)


class LogRing:
    """One container's lines."""

    def __init__(self, max_bytes: int, max_age_s: float) -> None:
        self._max_bytes = max_bytes
        self._max_age_ns = int(max_age_s * 1e9)
        self._lines: deque[KeptLine] = deque()
        self._first = 1  # number of the oldest line
        self.size_bytes = 0
        self.dropped = 0  # because of size
        self.expired = 0  # because of age

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def last(self) -> int:
        """The number of the newest line; 0 before the first."""
        return self._first + len(self._lines) - 1

    def append(self, line: KeptLine) -> None:
        """Take a line, and drop what is too much. A line that alone is larger than the ring is dropped, too."""
        self._lines.append(line)
        self.size_bytes += LINE_OVERHEAD + getsizeof(line.text)
        while self.size_bytes > self._max_bytes:
            self._drop()
            self.dropped += 1

    def expire(self, now_s: float) -> None:
        """Drop what is too old."""
        oldest_ns = int(now_s * 1e9) - self._max_age_ns
        while self._lines and self._lines[0].at_ns < oldest_ns:
            self._drop()
            self.expired += 1

    def after(self, number: int) -> Iterator[tuple[int, KeptLine]]:
        """Numbers and lines behind this number, oldest first; the ring must not change meanwhile."""
        start = max(number + 1, self._first)
        lines = self._lines
        if start - self._first > len(lines) // 2:  # a deque is entered at its nearer end
            found = list(islice(reversed(lines), self.last - start + 1))
            return zip(range(start, self.last + 1), reversed(found), strict=True)
        return zip(range(start, self.last + 1), islice(lines, start - self._first, None), strict=True)

    def missed(self, number: int) -> int:
        """How many lines behind this number are no longer here."""
        return max(0, self._first - 1 - number)

    def number_before(self, at_ns: int) -> int:
        """The number of the last line before the first one of this time or later. Lines are nearly in order of time."""
        return self._first + bisect_left(self._lines, at_ns, key=lambda line: line.at_ns) - 1

    def _drop(self) -> None:
        line = self._lines.popleft()
        self.size_bytes -= LINE_OVERHEAD + getsizeof(line.text)
        self._first += 1
