"""One container's log: pieces of its files go in, lines stand in its ring.

A record ends at a line break; a line may need several records, and records of the two streams may alternate. Where
reading can go on is kept with each line: a place before which no line is incomplete, and how many lines behind it were
taken already, so that after a restart no line is taken twice and none is left out.
"""

from __future__ import annotations

from cotenant.engine.logs.records import parse_record
from cotenant.engine.logs.ring import KeptLine, LogRing
from cotenant.model.fleet.logs import MAX_LINE, FileIdentity, LogPiece, LogPlace

_MAX_RECORD = 6 * MAX_LINE + 4096  # bytes; JSON may escape each byte of a line to six
_ALL = 1 << 62


class _Open:
    """An incomplete line."""

    __slots__ = ("over", "size", "texts")

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.size = 0
        self.over = 0  # characters left out

    def add(self, text: str) -> None:
        room = MAX_LINE - self.size
        if text:
            self.texts.append(text[:room])
        self.size += min(room, len(text))
        self.over += max(0, len(text) - room)


class LogStream:
    """`place`: where reading goes on. `source`: names the file, where several stand in one ring."""

    def __init__(self, ring: LogRing, place: LogPlace | None = None, source: str = "") -> None:
        self.ring = ring
        self.lost = 0  # gaps in what was read
        self.unreadable = 0  # records of no known form, or incomplete for ever
        self.cut = 0  # lines longer than `MAX_LINE`
        self._place = place
        self._source = source
        self._last: KeptLine | None = None
        self._rest = b""  # an incomplete record
        self._passing = False  # the end of a record that was too long
        self._open: dict[str, _Open] = {}  # by stream
        self._skip = place.skip if place is not None else 0
        self._is_old = False
        self._base: tuple[FileIdentity, int] | None = None  # where the oldest incomplete line begins
        self._taken = 0  # lines that ended behind it

    @property
    def place(self) -> LogPlace | None:
        """Where reading can go on behind the last line; None before the first."""
        return self._last.place if self._last is not None else self._place

    def feed(self, piece: LogPiece) -> int:
        """Take a piece; how many lines ended in it."""
        if piece.lost:
            self.lost += 1
            self._skip = _ALL if self._last is None else 0  # where the place is gone, times say what was taken
        if piece.lost or piece.is_old != self._is_old:
            self._forget()
            self._is_old = piece.is_old
        if piece.start == 0 and self._rest:  # the file before ended within a record
            self._rest = b""
            self.unreadable += 1
        before = self.ring.last
        offset = piece.start - len(self._rest)
        lines = (self._rest + piece.data if self._rest else piece.data).split(b"\n")
        self._rest = lines.pop()
        file = piece.file
        for line in lines:
            offset += len(line) + 1
            self._record(line, file, offset)
        if len(self._rest) > _MAX_RECORD:
            self._rest, self._passing = b"", True
            self.unreadable += 1
        return self.ring.last - before

    def _record(self, line: bytes, file: FileIdentity, end: int) -> None:
        if self._passing:
            self._passing = False
            return
        record = parse_record(line)
        if record is None:
            self.unreadable += bool(line)
            return
        at_ns, stream, text, is_partial = record
        if not is_partial and not self._open and len(text) <= MAX_LINE:  # the usual case
            self._take(KeptLine(at_ns, stream, text, 0, file, end, 0, self._source, self._is_old))
            return
        if not self._open:
            self._base, self._taken = (file, end - len(line) - 1), 0
        opened = self._open.setdefault(stream, _Open())
        opened.add(text)
        if is_partial:
            return
        del self._open[stream]
        self.cut += opened.over > 0
        place = (file, end, 0)
        if self._open and self._base is not None:
            self._taken += 1
            place = (*self._base, self._taken)
        text = "".join(opened.texts)
        self._take(KeptLine(at_ns, stream, text, opened.over, *place, self._source, self._is_old))

    def _take(self, line: KeptLine) -> None:
        if self._skip and not line.is_old:
            if self._place is not None and line.at_ns <= self._place.at_ns:
                self._skip -= self._skip != _ALL
                return
            self.lost += self._skip != _ALL  # what was to be passed over is gone
            self._skip = 0
        if not line.is_old:
            self._last = line
        self.ring.append(line)

    def _forget(self) -> None:
        """What is incomplete is never completed."""
        self._rest, self._passing = b"", False
        self._open.clear()
