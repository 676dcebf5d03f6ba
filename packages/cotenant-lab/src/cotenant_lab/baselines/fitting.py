"""Feasibility of a pod on a node, and the best-fit rule that the rivals share.

Every rival checks thousands of times per round whether a shape fits a row, over all rows for one shape or over all
shapes for one row. One compiled `scan` over pairs of rows and shapes, whose two step sizes allow either side to be
fixed, so the rule is written once and costs a few nanoseconds per pair. A call per pair would cost fifty, because each
call counts references to a dozen arrays.
Limits: row-local rules only (capacity, readiness, taints, selectors, group limits).

`PODS` counts towards what fits but not towards scores and shares: it is a setting of the node, not a resource that
tenants compete for.
"""

from __future__ import annotations

import numpy as np

from cotenant.model.arrays import PODS, Int, Mask, NodeArrays, ShapeArrays
from cotenant.model.compiled import njit


def working_copy(nodes: NodeArrays) -> NodeArrays:
    """`nodes` with copies of what a round changes: requests and group counts."""
    return nodes._replace(requested=nodes.requested.copy(), group_count=nodes.group_count.copy())


def ready_capacity(nodes: NodeArrays) -> Int:
    """Allocatable total of the ready nodes, shape [R]."""
    total: Int = nodes.capacity[nodes.ready].sum(axis=0)
    return total


@njit
def scan(
    nodes: NodeArrays,
    shapes: ShapeArrays,
    rows: Int,
    row_step: int,
    kinds: Int,
    kind_step: int,
    count: int,
    found: Int,
) -> int:
    """Pairs that fit: writes every i < count for which shape `kinds[i * kind_step]` fits row `rows[i * row_step]`;
    returns how many.

    A step of 0 fixes that side at its first entry. `found` must hold `count` entries.
    """
    capacity, requested, taints, labels = nodes.capacity, nodes.requested, nodes.taints, nodes.labels
    ready, group_count = nodes.ready, nodes.group_count
    request, tolerated, selector = shapes.request, shapes.tolerated, shapes.selector
    group, group_limit = shapes.group, shapes.group_limit
    fitting = 0
    for i in range(count):
        n = rows[i * row_step]
        k = kinds[i * kind_step]
        fits = ready[n] and (taints[n] & ~tolerated[k]) == 0
        for r in range(capacity.shape[1]):
            fits = fits and requested[n, r] + request[k, r] <= capacity[n, r]
        if not fits:
            continue
        for word in range(labels.shape[1]):
            fits = fits and (selector[k, word] & ~labels[n, word]) == 0
        if not fits:
            continue
        g = group[k]
        if g >= 0 and group_count[n, g] >= group_limit[k]:
            continue
        found[fitting] = i
        fitting += 1
    return fitting


@njit
def feasible(nodes: NodeArrays, shapes: ShapeArrays, row: int, shape: int) -> bool:
    """Whether one pod of `shape` may be placed on `row` now."""
    rows = np.full(1, row)
    kinds = np.full(1, shape)
    found = np.empty(1, np.int64)
    return scan(nodes, shapes, rows, 0, kinds, 0, 1, found) == 1


@njit
def fits_somewhere(nodes: NodeArrays, shapes: ShapeArrays, kinds: Int) -> Mask:
    """For each shape in `kinds`, whether one pod of it fits on some node."""
    nodes_count = nodes.capacity.shape[0]
    rows = np.arange(nodes_count)
    found = np.empty(nodes_count, np.int64)
    kind = np.empty(1, np.int64)
    answer = np.zeros(kinds.shape[0], np.bool_)
    for i in range(kinds.shape[0]):
        kind[0] = kinds[i]
        answer[i] = scan(nodes, shapes, rows, 1, kind, 0, nodes_count, found) > 0
    return answer


@njit
def best_fit_row(nodes: NodeArrays, shapes: ShapeArrays, shape: int, rows: Int, found: Int) -> int:
    """The feasible row with the least sum of normalised leftovers after placing one pod of `shape`; -1 where none is
    feasible.

    Leftover of a resource = (capacity - requested - request) / capacity; resources the node lacks do not count. Ties go
    to the earliest entry of `rows`, the rows to look at. `found` is scratch of the same length.
    """
    capacity, requested, request = nodes.capacity, nodes.requested, shapes.request
    kind = np.full(1, shape)
    fitting = scan(nodes, shapes, rows, 1, kind, 0, rows.shape[0], found)
    best = -1
    least = np.inf
    for i in range(fitting):
        n = rows[found[i]]
        leftover = 0.0
        for r in range(capacity.shape[1]):
            if r != PODS and capacity[n, r] > 0:
                leftover += (capacity[n, r] - requested[n, r] - request[shape, r]) / capacity[n, r]
        if leftover < least:
            least = leftover
            best = n
    return best


@njit
def occupy(nodes: NodeArrays, shapes: ShapeArrays, row: int, shape: int) -> None:
    """Add one pod of `shape` to `row` of a working copy."""
    requested, group_count, request = nodes.requested, nodes.group_count, shapes.request
    for r in range(requested.shape[1]):
        requested[row, r] += request[shape, r]
    g = shapes.group[shape]
    if g >= 0:
        group_count[row, g] += 1
