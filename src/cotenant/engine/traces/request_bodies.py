"""The bytes of requests whose spans are held, for their attributes.

Problem: a span's attributes are read seldom, and copying them out of every request costs more than counting the span. Choice: a request's bytes are kept until its last span is
released, and up to a bound; beyond it the oldest requests lose theirs, and their spans stay. Limits: one long-lived span keeps the bytes of its whole request.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray

MOST_BYTES = 64 << 20


class RequestBodies:
    """Bytes by request number."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bodies: OrderedDict[int, bytes] = OrderedDict()
        self._held: dict[int, int] = {}  # spans that are held, by request
        self._requests = 0
        self._bytes = 0
        self.dropped = 0

    def add(self, body: bytes, spans: int) -> int:
        """Keep the bytes of a request with so many held spans; its number."""
        number, self._requests = self._requests, self._requests + 1
        self._bodies[number] = body
        self._held[number] = spans
        self._bytes += len(body)
        while self._bytes > self._most_bytes and len(self._bodies) > 1:
            oldest, dropped = self._bodies.popitem(last=False)
            del self._held[oldest]
            self._bytes -= len(dropped)
            self.dropped += 1
        return number

    def message(self, request: int, offset: int, length: int) -> bytes:
        """A span's own bytes; empty where its request's were dropped."""
        return self._bodies.get(request, b"")[offset : offset + length]

    def release(self, requests: NDArray[np.int32]) -> None:
        """These spans are no longer held, given by their request."""
        numbers, counts = np.unique(requests, return_counts=True)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            if number in self._held:
                self._held[number] -= count
                if self._held[number] <= 0:
                    del self._held[number]
                    self._bytes -= len(self._bodies.pop(number))
