"""Messages of ttrpc: requests and answers on one connection.

The runtime speaks gRPC's calls without HTTP/2, and there is no library for Python. A header of ten bytes (length,
stream, type, flags), then a protobuf message; a stream is one call. A request that is too long is read to its end and
reported, so that it can be answered: the caller waits.
Limits: no streaming calls, which the plugin interface does not have.

Source: containerd/ttrpc, PROTOCOL.md and channel.go.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

REQUEST, RESPONSE = 1, 2
MAX_BYTES = 4 << 20
_HEADER = struct.Struct(">IIBB")

# Status codes, those of gRPC.
OK, INVALID_ARGUMENT, RESOURCE_EXHAUSTED, UNIMPLEMENTED = 0, 3, 8, 12


@dataclass(frozen=True, slots=True)
class TtrpcMessage:
    """One message. `body` None: it was longer than allowed, and is gone."""

    stream: int
    type: int
    body: bytes | None


class Messages:
    """Takes a connection's bytes, in any pieces, and returns its messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._skip = 0  # bytes of a message that is too long
        self._skipped: TtrpcMessage | None = None

    def feed(self, data: bytes) -> Iterator[TtrpcMessage]:
        """The messages that are complete now."""
        self._buffer += data
        while True:
            if self._skipped is not None:
                gone = min(self._skip, len(self._buffer))
                del self._buffer[:gone]
                self._skip -= gone
                if self._skip:
                    return
                skipped, self._skipped = self._skipped, None
                yield skipped
            if len(self._buffer) < _HEADER.size:
                return
            length, stream, type_, _flags = _HEADER.unpack_from(self._buffer)
            if length > MAX_BYTES:
                del self._buffer[: _HEADER.size]
                self._skip, self._skipped = length, TtrpcMessage(stream, type_, None)
                continue
            end = _HEADER.size + length
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[_HEADER.size : end])
            del self._buffer[:end]
            yield TtrpcMessage(stream, type_, body)


def encoded(stream: int, type_: int, body: bytes) -> bytes:
    """A message as bytes of its connection."""
    return _HEADER.pack(len(body), stream, type_, 0) + body
