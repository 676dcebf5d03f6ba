"""A work queue: which keys a controller must reconcile, and when. A state machine without a clock of its own.

A thousand events on one Deployment need one reconcile, a key that keeps failing must not spin, and one key must not be
processed twice at the same time. Ready keys in order of arrival, delayed keys in a heap, a failure count per key. A key
added while it is being processed becomes ready again afterwards; an expensive key may have to wait for a cool-down
first.
Source: the contract of client-go's workqueue (its documentation).
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

FIRST_BACKOFF_S = 0.05
LAST_BACKOFF_S = 60.0


class WorkQueue(Generic[K]):
    """Keys to reconcile."""

    def __init__(self) -> None:
        self._ready: dict[K, None] = {}
        self._due: list[tuple[float, int, K]] = []
        self._due_at: dict[K, float] = {}
        self._processing: set[K] = set()
        self._dirty: set[K] = set()
        self._failures: dict[K, int] = {}
        self._cooling_until: dict[K, float] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._ready) + len(self._due_at)

    def add(self, key: K) -> None:
        """Queue the key for as soon as possible."""
        if key in self._processing:
            self._dirty.add(key)
        elif key in self._cooling_until:
            self.add_at(key, self._cooling_until[key])
        else:
            self._ready[key] = None

    def add_at(self, key: K, at_s: float) -> None:
        """Queue the key for this time; an earlier time already set stays."""
        scheduled = self._due_at.get(key)
        if scheduled is not None and scheduled <= at_s:
            return
        self._due_at[key] = at_s
        self._count += 1
        heapq.heappush(self._due, (at_s, self._count, key))

    def take(self, now_s: float) -> K | None:
        """The next ready key; it counts as being processed until `done`."""
        self._promote_due(now_s)
        for cooled in [k for k, at in self._cooling_until.items() if at <= now_s]:
            del self._cooling_until[cooled]
        if not self._ready:
            return None
        key = next(iter(self._ready))
        del self._ready[key]
        self._processing.add(key)
        return key

    def done(self, key: K, not_before_s: float | None = None) -> None:
        """Processing has ended. A key added meanwhile is queued again, not before `not_before_s` if that is given."""
        self._processing.discard(key)
        dirty = key in self._dirty
        self._dirty.discard(key)
        if not_before_s is not None:
            self._cooling_until[key] = not_before_s
        if dirty:
            self.add(key)

    def succeeded(self, key: K) -> None:
        """Reset the key's failure count."""
        self._failures.pop(key, None)

    def failed(self, key: K, now_s: float, min_s: float = 0.0) -> float:
        """Queue the key with exponential back-off, at least `min_s`. Returns the delay."""
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        delay = max(min_s, min(FIRST_BACKOFF_S * 2.0 ** min(count, 20), LAST_BACKOFF_S))
        self.add_at(key, now_s + delay)
        return delay

    def next_at(self) -> float | None:
        """When the next key becomes ready: 0 means now, None never."""
        if self._ready:
            return 0.0
        while self._due and self._due_at.get(self._due[0][2]) != self._due[0][0]:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def _promote_due(self, now_s: float) -> None:
        while self._due and self._due[0][0] <= now_s:
            at, _, key = heapq.heappop(self._due)
            if self._due_at.get(key) == at:
                del self._due_at[key]
                self._cooling_until.pop(key, None)
                self.add(key)
