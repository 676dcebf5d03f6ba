"""The two logical connections of a plugin on one socket.

The runtime calls the plugin and the plugin calls the runtime over a single socket. Frames of a connection's number, a
length (both 32 bits, big-endian) and that many bytes; a frame is any piece of its connection's stream. We write pieces
of 4 KiB: the runtime's readers have buffers of that size, and versions before NRI 0.7 drop a longer frame that does not
fit.
Limits: 16 MiB a frame, as the other side has it.

Source: containerd/nri, pkg/net/multiplex.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from cotenant.model.errors import Permanent

PLUGIN, RUNTIME = 1, 2  # served by the plugin; by the runtime
MAX_BYTES = 16 << 20
_PIECE = 4096
_HEADER = struct.Struct(">II")


class Frames:
    """Takes a socket's bytes, in any pieces, and returns what belongs to each connection."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """The frames that are complete now: connection and bytes. Raises `Permanent` for one that is too long."""
        self._buffer += data
        while len(self._buffer) >= _HEADER.size:
            connection, length = _HEADER.unpack_from(self._buffer)
            if length > MAX_BYTES:
                raise Permanent(f"a frame of {length} bytes, at most {MAX_BYTES} are allowed")
            end = _HEADER.size + length
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[_HEADER.size : end])
            del self._buffer[:end]
            yield connection, body


def frames_of(connection: int, data: bytes) -> bytes:
    """Data of a connection as frames."""
    pieces = (data[at : at + _PIECE] for at in range(0, len(data), _PIECE))
    return b"".join(_HEADER.pack(connection, len(piece)) + piece for piece in pieces)
