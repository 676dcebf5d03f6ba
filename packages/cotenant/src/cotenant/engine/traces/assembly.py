"""Spans of finished traces into trees.

Spans arrive in any order, twice, without their parents, or with parents in a circle. Compiled: a table of span ids per
trace, parents by lookup, then an order in which parents stand before children. The second span of an id is dropped. A
span whose parent is missing, or that stands in a circle, becomes a root of its own and the trace is partial; the root
that starts first among those without a parent id is the trace's.
Limits: a trace has at most `MAX_IN_TRACE` spans; those that arrived later are dropped and counted, and so are those
whose ids are made to meet in the table.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cotenant.model.compiled import njit

MAX_IN_TRACE = 10_000
_MAX_PROBES = (
    256  # places of a table in which an id is looked for: ids that are chosen to meet cost no more than others
)

Ids = NDArray[np.uint64]
Times = NDArray[np.int64]
Rows = NDArray[np.int64]


class Trees(NamedTuple):
    """Traces as trees over the rows of their spans."""

    parent: Rows  # row, -1 = none
    order: Rows  # rows of each trace, parents before children, at places first_of[i] to first_of[i + 1]
    first_of: Rows  # traces + 1
    root_of: Rows  # by trace
    orphan: NDArray[np.bool_]  # by row: the parent is missing
    dropped: NDArray[np.bool_]  # by row: a second span of its id, or beyond the bound
    partial: NDArray[np.bool_]  # by trace


def trees_of(span_id: Ids, parent_id: Ids, start_ns: Times, begins: Rows) -> Trees:
    """`begins`: where each trace begins among the rows, and one more at the end."""
    return Trees(*_trees(span_id, parent_id, start_ns, begins, MAX_IN_TRACE))


@njit
def _find(table: Rows, span_id: Ids, wanted: np.uint64) -> np.int64:
    """The slot that has this id, or the empty one where it belongs, or after `_MAX_PROBES` one of another."""
    mask = np.uint64(table.size - 1)
    slot = (wanted * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20) & mask
    for _ in range(_MAX_PROBES):
        if table[slot] < 0 or span_id[table[slot]] == wanted:
            break
        slot = (slot + np.uint64(1)) & mask
    return np.int64(slot)


@njit
def _trees(
    span_id: Ids, parent_id: Ids, start_ns: Times, begins: Rows, most: int
) -> tuple[Rows, Rows, Rows, Rows, NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    rows, traces = span_id.size, begins.size - 1
    parent, order = np.full(rows, -1, np.int64), np.empty(rows, np.int64)
    first_of, root_of = np.zeros(traces + 1, np.int64), np.full(traces, -1, np.int64)
    orphan, dropped, partial = np.zeros(rows, np.bool_), np.zeros(rows, np.bool_), np.zeros(traces, np.bool_)
    first_child, next_sibling = np.full(rows, -1, np.int64), np.full(rows, -1, np.int64)
    reached = np.zeros(rows, np.bool_)
    placed = 0
    for trace in range(traces):
        begin, end = begins[trace], begins[trace + 1]
        slots = 4
        while slots < 2 * min(end - begin, most):
            slots *= 2
        table = np.full(slots, -1, np.int64)
        for row in range(begin, end):
            if row - begin >= most:
                dropped[row] = True
                continue
            slot = _find(table, span_id, span_id[row])
            if table[slot] >= 0:
                dropped[row] = True
            else:
                table[slot] = row
        for row in range(begin, end):
            if dropped[row] or parent_id[row] == 0:
                continue
            above = table[_find(table, span_id, parent_id[row])]
            if above < 0 or above == row or span_id[above] != parent_id[row]:
                orphan[row] = True
            else:
                parent[row] = above
                next_sibling[row] = first_child[above]
                first_child[above] = row
        placed_before = placed
        roots = 0
        for circles in range(2):  # first from the roots, then from what stands in circles
            for row in range(begin, end):
                if dropped[row] or reached[row] or (circles == 0 and parent[row] >= 0):
                    continue
                if circles == 1:
                    orphan[row] = True
                    parent[row] = -1  # it stays among the children of its parent, which is reached after it
                roots += 1
                reached[row] = True
                order[placed] = row
                done, placed = placed, placed + 1
                while done < placed:
                    child = first_child[order[done]]
                    while child >= 0:
                        if not reached[child]:
                            reached[child] = True
                            order[placed] = child
                            placed += 1
                        child = next_sibling[child]
                    done += 1
        best = np.int64(-1)
        for place in range(placed_before, placed):
            row = order[place]
            if parent[row] < 0 and (
                best < 0
                or (orphan[best] and not orphan[row])
                or (orphan[best] == orphan[row] and start_ns[row] < start_ns[best])
            ):
                best = row
        root_of[trace] = best
        partial[trace] = roots > 1 or orphan[best]
        first_of[trace + 1] = placed
    return parent, order, first_of, root_of, orphan, dropped, partial
