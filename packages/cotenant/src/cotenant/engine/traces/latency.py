"""Requests, errors and latency by operation: totals, and a sliding window of sketches.

Ten thousand operations times twelve windows times four kilobytes is half a gigabyte. Only the open slot is dense; a
slot that closes keeps its counts as sorted pairs (operation x bucket, count), which most operations hardly have. Sums
since the start are exact. For the hour before the window, the closed slots keep the `MAX_KEPT` operations with the most
requests only.
Limits: a request counts in the slot in which its span arrived, not in the one in which it ended; one that ended long
before it arrived is in the sums only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cotenant.model.compiled import njit
from cotenant.policy.objective.latency_buckets import BUCKETS, bucket_of

SLOT_S = 30.0
SLOTS = 10  # closed ones that belong to the window
KEPT_SLOTS = 120  # closed ones that are kept: an hour
MAX_KEPT = 100  # operations of a slot that has left the window


@dataclass(frozen=True, slots=True)
class OperationFigures:
    """An operation in the window. `buckets` are counts as in policy/objective/latency_buckets.py."""

    requests: int
    errors: int
    window_s: float
    buckets: NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class SlotFigures:
    """Some operations in one slot, the open one included. Times by the clock that is given to `tick`."""

    begun_s: float
    ended_s: float
    requests: int
    errors: int
    buckets: NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class _Slot:
    begun_s: float
    ended_s: float
    cells: NDArray[np.int64]  # operation x BUCKETS + bucket, ascending
    counts: NDArray[np.uint32]
    errors: NDArray[np.int64]


class OperationLatency:
    """Counts by operation number."""

    def __init__(self, now_s: float) -> None:
        self._open = np.zeros((64, BUCKETS), np.uint32)
        self._errors = np.zeros(64, np.int64)
        self._begun_s = now_s
        self._closed: deque[_Slot] = deque(maxlen=SLOTS)
        self._kept: deque[_Slot] = deque(maxlen=KEPT_SLOTS - SLOTS)  # that have left the window
        self.requests = np.zeros(64, np.int64)  # since the start
        self.errors = np.zeros(64, np.int64)
        self.duration_ns = np.zeros(64, np.int64)

    def add(
        self,
        operation: NDArray[np.int32],
        duration_ns: NDArray[np.int64],
        failed: NDArray[np.bool_],
        old: NDArray[np.bool_],
    ) -> None:
        """Count spans; the old ones in the sums only."""
        if operation.size:
            self._grow(int(operation.max()) + 1)
            _add(
                operation,
                duration_ns,
                failed,
                old,
                self._open,
                self._errors,
                self.requests,
                self.errors,
                self.duration_ns,
            )

    def tick(self, now_s: float) -> None:
        """Close the slot when its time is over."""
        if 0.0 <= now_s - self._begun_s < SLOT_S:
            return
        cells = np.flatnonzero(self._open)
        if len(self._closed) == SLOTS:
            self._kept.append(_busiest(self._closed[0]))
        self._closed.append(_Slot(self._begun_s, now_s, cells, self._open.ravel()[cells], self._errors.copy()))
        self._open[:] = 0
        self._errors[:] = 0
        self._begun_s = now_s
        while self._closed and not 0.0 <= now_s - self._closed[0].begun_s <= SLOT_S * (SLOTS + 1):
            self._kept.append(_busiest(self._closed.popleft()))
        while self._kept and not 0.0 <= now_s - self._kept[0].begun_s <= SLOT_S * (KEPT_SLOTS + 1):
            self._kept.popleft()

    def window(self, operation: int, now_s: float) -> OperationFigures:
        """What the window has of an operation."""
        buckets = np.zeros(BUCKETS, np.uint32)
        errors, begun_s = 0, self._begun_s
        if operation < self._errors.size:
            buckets += self._open[operation]
            errors += int(self._errors[operation])
        for slot in self._closed:
            begun_s = min(begun_s, slot.begun_s)
            buckets += _of(slot, operation)
            errors += int(slot.errors[operation]) if operation < slot.errors.size else 0
        return OperationFigures(int(buckets.sum()), errors, max(1.0, now_s - begun_s), buckets)

    def slots(self, operations: Collection[int], now_s: float) -> list[SlotFigures]:
        """What the slots of the last hour have of these operations together, oldest first; slots without a request
        are left out.
        """
        found = []
        for slot in (*self._kept, *self._closed):
            buckets, errors = np.zeros(BUCKETS, np.uint32), 0
            for operation in operations:
                buckets += _of(slot, operation)
                errors += int(slot.errors[operation]) if operation < slot.errors.size else 0
            found.append(SlotFigures(slot.begun_s, slot.ended_s, int(buckets.sum()), errors, buckets))
        known = [operation for operation in operations if operation < self._errors.size]
        buckets = self._open[known].sum(axis=0, dtype=np.uint32)
        errors = int(self._errors[known].sum())
        found.append(SlotFigures(self._begun_s, max(now_s, self._begun_s), int(buckets.sum()), errors, buckets))
        return [slot_figures for slot_figures in found if slot_figures.requests]

    def _grow(self, size: int) -> None:
        if size <= self._errors.size:
            return
        more = max(size, self._errors.size * 5 // 4) - self._errors.size
        self._open = np.concatenate([self._open, np.zeros((more, BUCKETS), np.uint32)])
        self._errors, self.requests, self.errors, self.duration_ns = (
            np.concatenate([row, np.zeros(more, np.int64)])
            for row in (self._errors, self.requests, self.errors, self.duration_ns)
        )


def _of(slot: _Slot, operation: int) -> NDArray[np.uint32]:
    """The buckets of one operation in a closed slot."""
    buckets = np.zeros(BUCKETS, np.uint32)
    first, after = np.searchsorted(slot.cells, (operation * BUCKETS, (operation + 1) * BUCKETS))
    buckets[slot.cells[first:after] - operation * BUCKETS] = slot.counts[first:after]
    return buckets


def _busiest(slot: _Slot) -> _Slot:
    """The slot with the operations only that served the most requests."""
    operations = slot.cells // BUCKETS
    requests = np.bincount(operations, weights=slot.counts, minlength=1)
    if np.count_nonzero(requests) <= MAX_KEPT:
        return slot
    chosen = np.argpartition(requests, -MAX_KEPT)[-MAX_KEPT:]
    is_kept = np.isin(operations, chosen)
    return _Slot(slot.begun_s, slot.ended_s, slot.cells[is_kept], slot.counts[is_kept], slot.errors)


@njit
def _add(
    operation: NDArray[np.int32],
    duration_ns: NDArray[np.int64],
    failed: NDArray[np.bool_],
    old: NDArray[np.bool_],
    buckets: NDArray[np.uint32],
    errors: NDArray[np.int64],
    all_requests: NDArray[np.int64],
    all_errors: NDArray[np.int64],
    all_duration_ns: NDArray[np.int64],
) -> None:
    for row in range(operation.size):
        number = operation[row]
        if not old[row]:
            buckets[number, bucket_of(duration_ns[row])] += np.uint32(1)
        all_requests[number] += 1
        all_duration_ns[number] += duration_ns[row]
        if failed[row]:
            all_errors[number] += 1
            if not old[row]:
                errors[number] += 1
