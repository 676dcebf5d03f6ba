"""Requests, errors and latency by operation: totals, and a sliding window of sketches.

Problem: ten thousand operations times twelve windows times four kilobytes is half a gigabyte. Choice: only the open slot is dense; a slot that closes keeps its counts as sorted pairs
(operation x bucket, count), which most operations hardly have. Sums since the start are exact. Limits: a request counts in the slot in which its span
arrived, not in the one in which it ended.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cotenant.model.compiled import njit
from cotenant.policy.objective.latency_buckets import BUCKETS, bucket_of

SLOT_S = 30.0
SLOTS = 10  # closed ones that belong to the window


@dataclass(frozen=True, slots=True)
class OperationFigures:
    """An operation in the window. `buckets` are counts as in policy/objective/latency_buckets.py."""

    requests: int
    errors: int
    window_s: float
    buckets: NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class _Slot:
    begun_s: float
    cells: NDArray[np.int64]  # operation x BUCKETS + bucket, ascending
    counts: NDArray[np.uint32]
    errors: NDArray[np.int64]


class LatencySeries:
    """Counts by operation number."""

    def __init__(self, now_s: float) -> None:
        self._open = np.zeros((64, BUCKETS), np.uint32)
        self._errors = np.zeros(64, np.int64)
        self._begun_s = now_s
        self._closed: deque[_Slot] = deque(maxlen=SLOTS)
        self.requests = np.zeros(64, np.int64)  # since the start
        self.errors = np.zeros(64, np.int64)
        self.duration_ns = np.zeros(64, np.int64)

    def add(self, operation: NDArray[np.int32], duration_ns: NDArray[np.int64], failed: NDArray[np.bool_]) -> None:
        """Count spans."""
        if operation.size:
            self._grow(int(operation.max()) + 1)
            _add(
                operation,
                duration_ns,
                failed,
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
        self._closed.append(_Slot(self._begun_s, cells, self._open.ravel()[cells], self._errors.copy()))
        self._open[:] = 0
        self._errors[:] = 0
        self._begun_s = now_s
        while self._closed and not 0.0 <= now_s - self._closed[0].begun_s <= SLOT_S * (SLOTS + 1):
            self._closed.popleft()

    def window(self, operation: int, now_s: float) -> OperationFigures:
        """What the window has of an operation."""
        buckets = np.zeros(BUCKETS, np.uint32)
        errors, begun_s = 0, self._begun_s
        if operation < self._errors.size:
            buckets += self._open[operation]
            errors += int(self._errors[operation])
        for slot in self._closed:
            begun_s = min(begun_s, slot.begun_s)
            first, after = np.searchsorted(slot.cells, (operation * BUCKETS, (operation + 1) * BUCKETS))
            buckets[slot.cells[first:after] - operation * BUCKETS] += slot.counts[first:after]
            errors += int(slot.errors[operation]) if operation < slot.errors.size else 0
        return OperationFigures(int(buckets.sum()), errors, max(1.0, now_s - begun_s), buckets)

    def _grow(self, size: int) -> None:
        if size <= self._errors.size:
            return
        more = max(size, self._errors.size * 5 // 4) - self._errors.size
        self._open = np.concatenate([self._open, np.zeros((more, BUCKETS), np.uint32)])
        self._errors, self.requests, self.errors, self.duration_ns = (
            np.concatenate([each, np.zeros(more, np.int64)])
            for each in (self._errors, self.requests, self.errors, self.duration_ns)
        )


@njit
def _add(
    operation: NDArray[np.int32],
    duration_ns: NDArray[np.int64],
    failed: NDArray[np.bool_],
    buckets: NDArray[np.uint32],
    errors: NDArray[np.int64],
    all_requests: NDArray[np.int64],
    all_errors: NDArray[np.int64],
    all_duration_ns: NDArray[np.int64],
) -> None:
    for row in range(operation.size):
        number = operation[row]
        buckets[number, bucket_of(duration_ns[row])] += np.uint32(1)
        all_requests[number] += 1
        all_duration_ns[number] += duration_ns[row]
        if failed[row]:
            errors[number] += 1
            all_errors[number] += 1
