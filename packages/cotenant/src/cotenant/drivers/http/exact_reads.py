"""Input of a connection as bytes of just the size that arrived.

For a connection with TLS, asyncio and uvloop allocate 256 KiB for each read and cut the rest off again. Small objects
of other requests come to lie in what was cut off, so the next read finds no such place and takes a new one: the heap of
a busy API server came to hold 60 MB of such holes within an hour while what was in use stayed the same. Both loops let
a protocol bring its own buffer (`asyncio.BufferedProtocol`); one buffer for all connections of a server or a pool,
since a read and its delivery are one step of the loop. The protocol behind it remains an ordinary one.
Limits: connections that share a buffer belong to one event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

READ_BYTES: Final = 64 << 10


class ReadBuffer:
    """What connections of one loop read into, one at a time."""

    __slots__ = ("view",)

    def __init__(self) -> None:
        self.view = memoryview(bytearray(READ_BYTES))

    def before(self, make: Callable[[], asyncio.Protocol]) -> Callable[[], ExactReads]:
        """A factory of protocols for the loop, each of which gives its input to one that `make` made."""
        return lambda: ExactReads(make(), self)


class ExactReads(asyncio.BufferedProtocol):
    """Gives `protocol` what was read."""

    __slots__ = ("_view", "protocol")

    def __init__(self, protocol: asyncio.Protocol, buffer: ReadBuffer) -> None:
        self.protocol = protocol
        self._view = buffer.view

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next read goes."""
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        """So much was read."""
        self.protocol.data_received(bytes(self._view[:nbytes]))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`, as the rest."""
        self.protocol.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        self.protocol.connection_lost(exc)

    def eof_received(self) -> bool | None:
        """The other side will send no more."""
        return self.protocol.eof_received()

    def pause_writing(self) -> None:
        """What is written waits."""
        self.protocol.pause_writing()

    def resume_writing(self) -> None:
        """What was written is sent."""
        self.protocol.resume_writing()
