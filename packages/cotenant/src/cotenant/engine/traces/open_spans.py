"""Spans whose traces are not finished.

Nothing in the protocol says that a trace is complete. A trace is finished when none of its spans has arrived for
`QUIET_S` (Grafana Tempo waits as long for an edge), or `LONGEST_S` after its first. Spans are held in columns and
sorted by trace when traces are taken out. The ids of finished traces are remembered for a while, so that a late span is
known as one.
Limits: taking out sorts all that is held; the engine divides traces over several of these tables.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cotenant.model.traces.spans import SpanColumns, columns_of

QUIET_S = 10.0
LONGEST_S = 120.0
REMEMBER_FINISHED_S = 60.0


class ArrivedSpans(NamedTuple):
    """Spans with what the engine knows of them; arrays of equal length."""

    columns: SpanColumns
    operation: NDArray[np.int32]
    host: NDArray[np.int32]  # 0 = unknown
    source: NDArray[np.int32]  # the engine's number
    peer: NDArray[np.int32]  # the engine's number of what the span says that it calls; 0 = nothing
    request: NDArray[np.int32]  # the number of the request whose bytes have the span (request_bodies.py)
    arrived_s: NDArray[np.float64]

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> ArrivedSpans:
        """These rows."""
        return ArrivedSpans._make((self.columns.take(rows), *(column[rows] for column in self[1:])))


class OpenSpans:
    """The spans, in order of arrival."""

    def __init__(self) -> None:
        self._parts: list[ArrivedSpans] = []
        self._finished: deque[tuple[float, NDArray[np.uint64]]] = deque()
        self._finished_ids = np.zeros(0, np.uint64)  # low halves, sorted
        self.size = 0

    def late(self, trace_low: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which of these belong to traces that are finished."""
        if not self._finished_ids.size:
            return np.zeros(trace_low.size, np.bool_)
        places = np.searchsorted(self._finished_ids, trace_low).clip(max=self._finished_ids.size - 1)
        return self._finished_ids[places] == trace_low

    def add(self, spans: ArrivedSpans) -> None:
        """Hold spans."""
        if spans.operation.size:
            self._parts.append(spans)
            self.size += spans.operation.size

    def take_finished(self, now_s: float) -> tuple[ArrivedSpans, NDArray[np.int64]]:
        """Take out the spans of finished traces, sorted by trace: the spans, and where each trace begins (one more
        at the end).
        """
        spans = self._joined()
        order = _by_trace(spans.columns)
        high, low = spans.columns.trace_high[order], spans.columns.trace_low[order]
        begins = np.flatnonzero(np.concatenate([[True], (high[1:] != high[:-1]) | (low[1:] != low[:-1])])[: self.size])
        arrived = spans.arrived_s[order]
        finished = np.zeros(begins.size, np.bool_)
        if self.size:
            last, first = np.maximum.reduceat(arrived, begins), np.minimum.reduceat(arrived, begins)
            finished = (now_s - last >= QUIET_S) | (now_s - first >= LONGEST_S) | (last > now_s + QUIET_S)
        sizes = np.diff(np.append(begins, self.size))
        leaving = np.repeat(finished, sizes)
        taken = spans.take(order[leaving])
        if taken.operation.size:
            staying = np.sort(order[~leaving])
            self._parts = [spans.take(staying)] if staying.size else []
            self.size = int(staying.size)
        self._remember(np.unique(taken.columns.trace_low), now_s)
        return taken, np.concatenate([[0], np.cumsum(sizes[finished])]).astype(np.int64)

    def _remember(self, finished: NDArray[np.uint64], now_s: float) -> None:
        before = len(self._finished)
        while self._finished and not 0.0 <= now_s - self._finished[0][0] <= REMEMBER_FINISHED_S:
            self._finished.popleft()
        if finished.size:
            self._finished.append((now_s, finished))
        if finished.size or len(self._finished) != before:
            parts = [ids for _, ids in self._finished]
            self._finished_ids = np.sort(np.concatenate(parts)) if parts else np.zeros(0, np.uint64)

    def _joined(self) -> ArrivedSpans:
        if not self._parts:
            empty = np.zeros(0, np.int32)
            return ArrivedSpans(columns_of(0), empty, empty, empty, empty, empty, np.zeros(0))
        if len(self._parts) > 1:
            columns = SpanColumns._make(map(np.concatenate, zip(*(part.columns for part in self._parts), strict=True)))
            rest = [np.concatenate(entry) for entry in zip(*(part[1:] for part in self._parts), strict=True)]
            self._parts = [ArrivedSpans._make((columns, *rest))]
        return self._parts[0]


def _by_trace(columns: SpanColumns) -> NDArray[np.intp]:
    """Rows in order of trace id, by arrival within a trace."""
    order = np.argsort(columns.trace_low, kind="stable")
    low, high = columns.trace_low[order], columns.trace_high[order]
    if ((low[1:] == low[:-1]) & (high[1:] != high[:-1])).any():  # two traces share the low half of their ids
        return np.lexsort((columns.trace_low, columns.trace_high))
    return order
