"""Which keys a controller must look at, and when: a state machine without a clock of its own.

Problem: a thousand events on one Deployment need one look, a key that keeps failing must not be tried in a loop, and one key must not be
worked on twice at the same time. Choice: ready keys in order of arrival, delayed ones in a heap, a count of failures a key. A key that
arrives while it is worked on becomes ready again when that ends, and one that has cost much may have to rest first. Source: the contract of client-go's workqueue (its documentation).
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

FIRST_BACKOFF_S = 0.05
LAST_BACKOFF_S = 60.0


class WorkQueue(Generic[K]):
    """Keys to look at."""

    def __init__(self) -> None:
        self._ready: dict[K, None] = {}
        self._due: list[tuple[float, int, K]] = []
        self._due_at: dict[K, float] = {}
        self._working: set[K] = set()
        self._again: set[K] = set()
        self._failures: dict[K, int] = {}
        self._resting: dict[K, float] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._ready) + len(self._due_at)

    def add(self, key: K) -> None:
        """Look at it as soon as possible."""
        if key in self._working:
            self._again.add(key)
        elif key in self._resting:
            self.add_at(key, self._resting[key])
        else:
            self._ready[key] = None

    def add_at(self, key: K, at_s: float) -> None:
        """Look at it at this time, or earlier if something asks for that."""
        held = self._due_at.get(key)
        if held is not None and held <= at_s:
            return
        self._due_at[key] = at_s
        self._count += 1
        heapq.heappush(self._due, (at_s, self._count, key))

    def take(self, now_s: float) -> K | None:
        """The next key; it is being worked on until `done`."""
        self._ripen(now_s)
        for resting in [k for k, at in self._resting.items() if at <= now_s]:
            del self._resting[resting]
        if not self._ready:
            return None
        key = next(iter(self._ready))
        del self._ready[key]
        self._working.add(key)
        return key

    def done(self, key: K, not_before_s: float | None = None) -> None:
        """The work on it has ended; if it was asked for meanwhile, or is before this time, it waits until then."""
        self._working.discard(key)
        asked = key in self._again
        self._again.discard(key)
        if not_before_s is not None:
            self._resting[key] = not_before_s
        if asked:
            self.add(key)

    def succeeded(self, key: K) -> None:
        """Forget its failures."""
        self._failures.pop(key, None)

    def failed(self, key: K, now_s: float, least_s: float = 0.0) -> float:
        """Look again later, twice as late as the last time; the delay."""
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        delay = max(least_s, min(FIRST_BACKOFF_S * 2.0 ** min(count, 20), LAST_BACKOFF_S))
        self.add_at(key, now_s + delay)
        return delay

    def next_at(self) -> float | None:
        """When the next key is ready: 0 = now, None = never."""
        if self._ready:
            return 0.0
        while self._due and self._due_at.get(self._due[0][2]) != self._due[0][0]:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def _ripen(self, now_s: float) -> None:
        while self._due and self._due[0][0] <= now_s:
            at, _, key = heapq.heappop(self._due)
            if self._due_at.get(key) == at:
                del self._due_at[key]
                self._resting.pop(key, None)
                self.add(key)
