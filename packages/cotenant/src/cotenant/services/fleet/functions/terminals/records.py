"""The journal of commands, and each terminal's output as it was shown.

`journal.jsonl` has a line when a terminal opens and one when it ends; at `max_journal_bytes` it becomes the older of
two. `SESSION.cast` is the output with times (asciicast 2, which terminal players read). Keys are not recorded: a
password is typed, and not shown. The oldest recordings go when all are larger than `max_total_bytes`; a terminal whose
own recording is full ends, so that nothing is shown that is not recorded.
"""

from __future__ import annotations

import codecs
import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from cotenant.model.fleet.terminals import OpenTerminal, WindowSize

JOURNAL, OLDER = "journal.jsonl", "journal.1.jsonl"


@dataclass(frozen=True, slots=True)
class RecordLimits:
    """In bytes."""

    max_bytes: int = 16 << 20  # of one recording
    max_total_bytes: int = 256 << 20
    max_journal_bytes: int = 8 << 20


class TerminalRecords:
    """In a folder, which is made. All raise `OSError` where something cannot be written."""

    def __init__(self, folder: Path, limits: RecordLimits | None = None) -> None:
        self._folder = folder
        self._limits = limits or RecordLimits()

    def begin(self, session: str, request: OpenTerminal, at_s: float) -> Recording:
        """A line and a recording for a terminal that is about to open."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._make_room()
        path = self._folder / f"{session}.cast"
        stream = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        recording = Recording(stream, at_s, self._limits.max_bytes)
        try:
            recording.head(request.size, " ".join(request.command))
            self.note(
                {
                    "at": at_s,
                    "what": "opened",
                    "session": session,
                    "operator": request.operator,
                    "viewer": request.viewer,
                    "guid": request.guid,
                    "command": request.command,
                }
            )
        except BaseException:
            recording.close()
            raise
        return recording

    def note(self, line: dict[str, object]) -> None:
        """A line of the journal."""
        data = msgspec.json.encode(line) + b"\n"
        path = self._folder / JOURNAL
        if path.exists() and path.stat().st_size + len(data) > self._limits.max_journal_bytes:
            path.replace(self._folder / OLDER)
        stream = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            _write(stream, data)
        finally:
            os.close(stream)

    def _make_room(self) -> None:
        found = sorted((path.stat().st_mtime, path.stat().st_size, path) for path in self._folder.glob("*.cast"))
        total = sum(size for _, size, _ in found) + self._limits.max_bytes
        for _, size, path in found:
            if total <= self._limits.max_total_bytes:
                break
            path.unlink()
            total -= size


class Recording:
    """One terminal's output."""

    def __init__(self, stream: int, began_s: float, max_bytes: int) -> None:
        self._stream, self._began_s, self._left = stream, began_s, max_bytes
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self.output_bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether no more is taken."""
        return self._left <= 0

    def head(self, size: WindowSize, command: str) -> None:
        """The first line."""
        self._line(
            {
                "version": 2,
                "width": size.columns,
                "height": size.rows,
                "timestamp": int(self._began_s),
                "command": command,
            }
        )

    def output(self, data: bytes, at_s: float) -> None:
        """What the command said."""
        self.output_bytes += len(data)
        text = self._decode(data)
        if text:
            self._line([round(max(0.0, at_s - self._began_s), 6), "o", text])

    def resized(self, size: WindowSize, at_s: float) -> None:
        """The window's new size."""
        self._line([round(max(0.0, at_s - self._began_s), 6), "r", f"{size.columns}x{size.rows}"])

    def close(self) -> None:
        """No more comes."""
        os.close(self._stream)

    def _line(self, line: object) -> None:
        data = msgspec.json.encode(line) + b"\n"
        _write(self._stream, data)
        self._left -= len(data)


def _write(stream: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(stream, rest) :]
