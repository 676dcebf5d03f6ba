"""The critical path of a request: which span is responsible for which part of its duration.

The sum of all spans says nothing about what made a request slow where work overlaps. Backwards from the end of the
root, the child that finished last is responsible until its start, then the one that finished last before that, and so
on in each child. Children are clipped to their (clipped) parents, so the self times on the path always sum to the
duration of the root, whatever the clocks did. Compiled for every request, with a plain form that the tests compare.
Limits: a CONSUMER works after its producer has gone on, so it and what is below it have no part in the path
(`blocking_parents`).

Sources: CRISP (Zhang et al., USENIX ATC 2022, section 4), which drops children that start before and end after their
parent; here they are clipped.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cotenant.model.compiled import njit
from cotenant.model.traces.spans import SpanKind

Times = NDArray[np.int64]
Rows = NDArray[np.int64]


def blocking_parents(parent: Rows, kind: NDArray[np.uint8]) -> Rows:
    """The parents that wait for their children; -1 for CONSUMER spans, which nothing waits for. `kind`: SpanKind by
    row.
    """
    return np.where(kind == SpanKind.CONSUMER, -1, parent)


def critical_path(start_ns: Times, end_ns: Times, parent: Rows, root: int) -> Times:
    """Self time on the path per span, in ns; 0 off the path. `parent` has row numbers, parents before their children,
    -1 for none.

    Spans that do not descend from `root` have no part in it.
    """
    start, end = start_ns.astype(np.int64), end_ns.astype(np.int64)
    children: dict[int, list[int]] = {}
    inside = {root}
    for row in range(start.size):
        above = int(parent[row])
        if row == root or above not in inside:
            continue
        start[row], end[row] = max(start[row], start[above]), min(end[row], end[above])
        if end[row] > start[row]:
            inside.add(row)
            children.setdefault(above, []).append(row)
    self_ns = np.zeros(start.size, np.int64)
    waiting = [(root, int(start[root]), int(end[root]))]
    while waiting:
        span, low, until = waiting.pop()
        for child in sorted(children.get(span, ()), key=lambda row: (-end[row], start[row], row)):
            if end[child] > until or end[child] <= low or start[child] >= until:
                continue
            self_ns[span] += until - end[child]
            until_before, until = int(end[child]), max(int(start[child]), low)
            waiting.append((child, until, until_before))
        self_ns[span] += until - low
    return self_ns


@njit
def critical_paths(  # noqa: D103  the compiled form of `critical_path`, for many traces
    start_ns: Times, end_ns: Times, parent: Rows, order: Rows, first_of: Rows, root_of: Rows
) -> Times:
    rows = start_ns.size
    start, end = start_ns.copy(), end_ns.copy()
    first = np.full(rows, -1, np.int64)  # the child of a span that ends last
    following = np.full(rows, -1, np.int64)  # the next sibling by descending end
    self_ns = np.zeros(rows, np.int64)
    stack_span, stack_low, stack_end = np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows, np.int64)
    inside = np.zeros(rows, np.bool_)
    for trace in range(root_of.size):
        root = root_of[trace]
        inside[root] = True
        for place in range(first_of[trace], first_of[trace + 1]):
            row = order[place]
            above = parent[row]
            if row == root or above < 0 or not inside[above]:
                continue
            start[row], end[row] = max(start[row], start[above]), min(end[row], end[above])
            if end[row] <= start[row]:
                continue
            inside[row] = True
            after, last = first[above], np.int64(-1)
            while after >= 0 and (
                end[after] > end[row]
                or (
                    end[after] == end[row]
                    and (start[after] < start[row] or (start[after] == start[row] and after < row))
                )
            ):
                last, after = after, following[after]
            following[row] = after
            if last < 0:
                first[above] = row
            else:
                following[last] = row
        stack_span[0], stack_low[0], stack_end[0] = root, start[root], end[root]
        depth = 1
        while depth:
            depth -= 1
            span, low, until = stack_span[depth], stack_low[depth], stack_end[depth]
            child = first[span]
            while child >= 0:
                if end[child] <= until and end[child] > low and start[child] < until:
                    self_ns[span] += until - end[child]
                    begin = max(start[child], low)
                    stack_span[depth], stack_low[depth], stack_end[depth] = child, begin, end[child]
                    depth += 1
                    until = begin
                child = following[child]
            self_ns[span] += until - low
    return self_ns
