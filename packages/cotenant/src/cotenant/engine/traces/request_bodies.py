"""The requests whose spans are held: who sent them, and their bytes for the spans' attributes.

A span's attributes are read seldom, and copying them out of every request costs more than counting the span. A
request's bytes are kept until its last span is released, and up to a bound; beyond it the oldest requests lose theirs,
and their spans stay. How many spans each sender has held is counted here, too, so that none takes all the room
(`shares.py`).
Limits: one long-lived span keeps the bytes of its whole request; a span of more than `MAX_MESSAGE_BYTES` is shown
without attributes.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray

from cotenant.engine.traces.shares import HolderShares

MAX_BYTES = 64 << 20
MAX_MESSAGE_BYTES = 64 << 10


class RequestBodies:
    """Bytes by request number."""

    def __init__(self, max_spans: int, max_bytes: int = MAX_BYTES) -> None:
        self.senders: HolderShares[str] = HolderShares(max_spans)
        self._max_bytes = max_bytes
        self._bodies: OrderedDict[int, bytes] = OrderedDict()
        self._held: dict[int, int] = {}  # spans that are held, by request
        self._sender: dict[int, str] = {}
        self._requests = 0
        self._bytes = 0
        self.dropped = 0

    def add(self, body: bytes, spans: int, sender: str = "") -> int:
        """Keep the bytes of a request with so many held spans; its number."""
        number, self._requests = self._requests, self._requests + 1
        self._bodies[number] = body
        self._held[number], self._sender[number] = spans, sender
        self.senders.take(sender, spans)
        self._bytes += len(body)
        while self._bytes > self._max_bytes and len(self._bodies) > 1:
            _, dropped = self._bodies.popitem(last=False)
            self._bytes -= len(dropped)
            self.dropped += 1
        return number

    def message(self, request: int, offset: int, length: int) -> bytes:
        """A span's own bytes; empty where its request's were dropped, or where they are too many."""
        if length > MAX_MESSAGE_BYTES:
            return b""
        return self._bodies.get(request, b"")[offset : offset + length]

    def release(self, requests: NDArray[np.int32]) -> None:
        """These spans are no longer held, given by their request."""
        numbers, counts = np.unique(requests, return_counts=True)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            if number in self._held:
                self._held[number] -= count
                self.senders.give_back(self._sender[number], count)
                if self._held[number] <= 0:
                    del self._held[number], self._sender[number]
                    self._bytes -= len(self._bodies.pop(number, b""))
