"""The audit trail: which knob was written for which client, why, from what to what, and with which result.

"what throttled this group last night" must have an answer after the agent is gone, in bounded space. JSON lines,
appended once per round; at `max_bytes` the file becomes the older of two.
Limits: not synced, so a crash of the machine may lose the last seconds; lines that cannot be written are counted in
`lost`, never waited for. Renewals of a lease are no changes and have no line.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from cotenant.model.errors import CotenantError
from cotenant.model.machine.knob import KnobChange

NAME = "audit.jsonl"
OLDER = "audit.1.jsonl"


class AuditTrail:
    """Appends to a folder's trail, which is created if absent."""

    def __init__(self, folder: Path, max_bytes: int = 8 << 20) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self.lost = 0  # lines that could not be written

    def write(self, changes: Sequence[KnobChange]) -> None:
        """Append these changes."""
        data = b"".join(map(_line, changes))
        if not data:
            return
        path = self._folder / NAME
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            if path.exists() and path.stat().st_size + len(data) > self._max_bytes:
                path.replace(self._folder / OLDER)
            fd = os.open(path, flags, 0o600)
            try:
                size = os.fstat(fd).st_size
                if os.write(fd, data) < len(data):  # no space for all: half a line would corrupt the next
                    self.lost += len(changes)
                    os.ftruncate(fd, size)
            finally:
                os.close(fd)
        except OSError:
            self.lost += len(changes)


def changes(folder: Path, most: int = 1000) -> tuple[KnobChange, ...]:
    """The last changes, oldest first. Lines that cannot be read are left out."""
    last: deque[KnobChange] = deque(maxlen=most)
    for name in (OLDER, NAME):
        last.extend(_read(folder / name))
    return tuple(last)


def _read(path: Path) -> Iterator[KnobChange]:
    with contextlib.suppress(FileNotFoundError), path.open("rb") as lines:
        for line in lines:
            with contextlib.suppress(msgspec.MsgspecError, CotenantError, UnicodeDecodeError):
                yield msgspec.json.decode(line, type=KnobChange)


def _line(change: KnobChange) -> bytes:
    try:
        return msgspec.json.encode(change) + b"\n"
    except UnicodeEncodeError:  # a group whose name is not Unicode text
        return repr(change).encode("ascii", "backslashreplace") + b"\n"
