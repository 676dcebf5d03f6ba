"""The own time of requests when their spans arrive: duration without the calls to other services.

Whether a service or one that it calls is slow must be known when its latency is, and a trace is finished ten seconds
later. The calls of a request are CLIENT and PRODUCER spans of the same process, and a process exports spans when they
end, children before parents. So each span adds its calls to an entry of its parent, and a request finds its own calls
there. INTERNAL spans pass on those below them. Calls that overlap count once where that can be told from their sum and
their hull: the smaller of both. Spans of one batch are taken in the order of their ends, since a batch is grouped by
instrumentation.
Limits: a table of `SLOTS` entries without chaining, so an entry may be overwritten by another request, and a child that
arrives after its parent is not seen: both make the own time too long, which leaves the cause where it was looked for
before.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cotenant.model.compiled import njit
from cotenant.model.traces.spans import SpanColumns, SpanKind

SLOTS = 1 << 16
_SERVER, _CLIENT, _PRODUCER, _CONSUMER = (
    int(kind) for kind in (SpanKind.SERVER, SpanKind.CLIENT, SpanKind.PRODUCER, SpanKind.CONSUMER)
)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)  # of splitmix64
_SHIFT_1, _SHIFT_2 = np.uint64(30), np.uint64(27)


class OwnTimes:
    """The calls of requests that have not ended."""

    def __init__(self, slots: int = SLOTS) -> None:
        """`slots`: a power of 2."""
        self._keys = np.zeros(slots, np.uint64)
        self._calls = np.zeros((slots, 3), np.int64)  # sum, begin and end of the calls, ns

    def of(self, spans: SpanColumns) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """For each span its own time in ns, and whether a call was found below it."""
        order = np.argsort(spans.end_ns, kind="stable")
        return _own_times(
            spans.trace_low,
            spans.span_id,
            spans.parent_id,
            spans.kind,
            spans.start_ns,
            spans.end_ns,
            order,
            self._keys,
            self._calls,
        )


@njit
def _key(trace: np.uint64, span: np.uint64) -> np.uint64:
    mixed = trace ^ span * _MIX_1
    mixed = (mixed ^ (mixed >> _SHIFT_1)) * _MIX_1
    mixed = (mixed ^ (mixed >> _SHIFT_2)) * _MIX_2
    return mixed | np.uint64(1)  # 0 is a free slot


@njit
def _own_times(
    trace: NDArray[np.uint64],
    span: NDArray[np.uint64],
    parent: NDArray[np.uint64],
    kind: NDArray[np.uint8],
    start_ns: NDArray[np.int64],
    end_ns: NDArray[np.int64],
    order: NDArray[np.int64],
    keys: NDArray[np.uint64],
    calls: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    own_ns = np.zeros(order.size, np.int64)
    called = np.zeros(order.size, np.bool_)
    mask = np.uint64(keys.size - 1)
    for row in order:
        duration = end_ns[row] - start_ns[row]
        key = _key(trace[row], span[row])
        slot = np.int64((key >> np.uint64(8)) & mask)
        total, begin, end = 0, 0, 0
        if keys[slot] == key:
            total, begin, end = calls[slot, 0], calls[slot, 1], calls[slot, 2]
            keys[slot] = np.uint64(0)
        called[row] = total > 0
        own_ns[row] = max(0, duration - min(total, end - begin))
        if parent[row] == 0 or kind[row] == _SERVER or kind[row] == _CONSUMER:
            continue
        if kind[row] == _CLIENT or kind[row] == _PRODUCER:
            total, begin, end = duration, start_ns[row], end_ns[row]
        if total <= 0:
            continue
        key = _key(trace[row], parent[row])
        slot = np.int64((key >> np.uint64(8)) & mask)
        if keys[slot] == key:
            calls[slot, 0] += total
            calls[slot, 1] = min(calls[slot, 1], begin)
            calls[slot, 2] = max(calls[slot, 2], end)
        else:
            keys[slot] = key
            calls[slot, 0], calls[slot, 1], calls[slot, 2] = total, begin, end
    return own_ns, called
