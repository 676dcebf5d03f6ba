"""The order in which requests of exporters are taken.

One sender's large requests must not hold the others, nor the event loop. Bodies have a common room of `MAX_BYTES`, of
which no sender takes everything (engine/traces/shares.py); requests are worked on one at a time, the senders in turn;
what takes longer than a moment is decoded in a thread. A sender is the namespace that it has proven to be of, else the
address that a request comes from; a part of the room is kept from the latter.
Limits: senders behind one proxy are one; gRPC has received a whole request before it can be refused.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import TypeVar

from cotenant.engine.traces.shares import HolderShares
from cotenant.model.errors import Transient

MAX_BYTES = 256 << 20
RETRY_AFTER_S = 2.0
INLINE_WEIGHT = 256 << 10  # bytes of protobuf that the event loop may decode itself, which is about a millisecond

T = TypeVar("T")


class QueueRoom:
    """Room for what waits, in bytes or in requests."""

    def __init__(self, most: int, what: str) -> None:
        self.refused = 0
        self._what = what
        self._room: HolderShares[str] = HolderShares(most)

    @contextmanager
    def room(self, sender: str, size: int, *, is_proven: bool = True) -> Iterator[None]:
        """Room for a request. Raises `Transient`."""
        if not self._room.has_room(sender, size, is_proven=is_proven):
            self.refused += 1
            held = self._room.of(sender)
            raise Transient(f"{held} {self._what} of the same sender wait, {self._room.held} of all", RETRY_AFTER_S)
        self._room.take(sender, size)
        try:
            yield
        finally:
            self._room.give_back(sender, size)


class Intake(QueueRoom):
    """Room for bodies, in bytes, and turns of senders."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        super().__init__(max_bytes, "bytes")
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._is_busy = False
        self._thread = ThreadPoolExecutor(1, "decoding")

    def close(self) -> None:
        """Start nothing more in the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    @asynccontextmanager
    async def turn(self, sender: str) -> AsyncIterator[None]:
        """Wait until it is this sender's turn."""
        if self._is_busy:
            mine = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(sender, deque()).append(mine)
            try:
                await mine
            except asyncio.CancelledError:
                if mine.done() and not mine.cancelled():
                    self._next()
                raise
        self._is_busy = True
        try:
            yield
        finally:
            self._next()

    async def work(self, weight: int, work: Callable[[], T]) -> T:
        """The result of a decoder: at once where its weight is small, else from the thread."""
        if weight <= INLINE_WEIGHT:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _next(self) -> None:
        while self._waiting:
            sender, waiting = self._waiting.popitem(last=False)
            turn = waiting.popleft()
            if waiting:
                self._waiting[sender] = waiting  # behind all others
            if not turn.done():
                turn.set_result(None)
                return
        self._is_busy = False
