"""Splits a stream of chunks into lines.

A watch sends one JSON document a line, lines may exceed what stream readers of libraries allow (aiohttp's readline
stops at 512 KiB), and a chunk may end in the middle of a character. Bytes are kept until a newline arrives and are
decoded only then.
Limits: a line longer than `max_bytes` is an error, so that a faulty server cannot fill the memory.
"""

from __future__ import annotations

from cotenant.drivers.kube.client.errors import Unavailable

MAX_LINE_BYTES = 64 * 2**20  # etcd's own limit is 1.5 MiB an object; aggregated API servers allow more


class Lines:
    """Feed chunks, get whole lines without their newline. Empty lines are dropped."""

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max = max_bytes
        self._parts: list[bytes] = []  # of the line that is not complete
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes. `Unavailable` where a line is too long."""
        if b"\n" not in chunk:
            self._keep(chunk)
            return []
        first, *rest = chunk.split(b"\n")
        if self._parts:
            self._parts.append(first)
            first = b"".join(self._parts)
            self._parts.clear()
            self._size = 0
        last = rest.pop()
        self._keep(last)
        return [line for line in (first, *rest) if line and not line.isspace()]

    @property
    def rest(self) -> int:
        """Bytes of a line that has not ended: lost if the stream ends now."""
        return self._size

    def _keep(self, part: bytes) -> None:
        if not part:
            return
        self._size += len(part)
        if self._size > self._max:
            raise Unavailable(f"a line of a watch is longer than {self._max} bytes")
        self._parts.append(part)
