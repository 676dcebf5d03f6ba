"""The last words of a container that is about to be removed, before its log could be followed."""

from __future__ import annotations

from pathlib import Path

from cotenant.drivers.logs.tail import Tail
from cotenant.engine.logs.log_stream import LogStream
from cotenant.engine.logs.ring import LogRing

_LOOKED_AT_BYTES = 16 << 10
_MAX_CHARACTERS = 200


def last_line(path: Path) -> str:
    """The last line of a runtime's file that is not blank, shortened; empty where none can be read."""
    ring = LogRing(1 << 20, float(1 << 32))
    stream, tail = LogStream(ring), Tail(path, backlog_bytes=_LOOKED_AT_BYTES)
    try:
        while (piece := tail.poll()) is not None:
            stream.feed(piece)
    except OSError:
        return ""
    finally:
        tail.close()
    lines = [" ".join(line.text.split()) for _, line in ring.after(0)]
    return next((line[:_MAX_CHARACTERS] for line in reversed(lines) if line), "")
