"""Memory layout of nodes and shapes for the lane kernels.

A node is a *row* of floats, packed from the integers on each change, so nothing drifts. A shape is a row of constants; hot shapes are also stored in
*lanes*, sixteen per block, transposed, so that one instruction processes sixteen of them. A block lists only the resources that its shapes
request; leaving out zeros does not change the sums.
Limits: float64 is exact for integers below 2^53; float32 compares requests and free capacity in units of 2^shift, the largest
power of two that divides every request, and needs requests below 2^24 units.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cotenant.model.arrays import CPU, MEMORY, PODS, Float, Int, Param, ShapeArrays
from cotenant.model.compiled import inlined
from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.lanes.vector import WIDTH

Real = NDArray[Any]  # float64 or float32
Bits = NDArray[np.uint16]


class Kernel(IntEnum):
    """Which score the lanes compute."""

    WEIGHTED = 0
    FOUNDING = 1
    FOUNDING_LEDGER = 2
    KUBE_DEFAULT = 3


WEIGHTED, FOUNDING, FOUNDING_LEDGER, KUBE_DEFAULT = (int(kernel) for kernel in Kernel)

# A node's row: free | fraction requested | 1 / capacity, R each; then these eight; then 1 - share of each tenant.
USE, CPU_CAPACITY, CLOSED, LATENCY = 0, 1, 2, 3
TERM = 4  # four terms whose meaning is the kernel's
SCALARS = 8

# A shape's row: these eight; then request and need, R each. A block's constants are the same, listed resources only, in pairs.
LANE_USE, LANE_LIMIT = 0, 1
LANE_TERM = 2  # six terms whose meaning is the kernel's
FIXED = 8


class LaneTable(NamedTuple):
    """The shapes' constants and the shape in each lane. K shapes, C blocks of sixteen lanes, R resources."""

    shape_rows: Real  # [K, FIXED + 2 R]
    constants: Real  # [C, FIXED + 2 R, 16]
    resource: Int  # [C, R] the resources a block lists, ascending
    listed: Int  # [C] how many
    tenant: Int  # [16 C]
    shape: Int  # [16 C] the shape in each lane, -1 = empty
    lane: Int  # [K] the lane of each shape, -1 = none
    bounds: Float  # [2] largest estimated use of any lane, smallest load limit: if that combination passes, all pass
    shift: Int  # [R] fit is compared in units of 2^shift (0 in float64)


class NodeRows(NamedTuple):
    """The node data that kernels read. N nodes, X = 3 R + SCALARS + T columns; `packed` is padded to a multiple of sixteen rows."""

    packed: Real  # [N', X]
    allowed: Bits  # [N, C] bit j of block c: ready, tolerated, selected, group below its limit


def columns(resources: int, tenants: int) -> int:
    """The width of a node's row."""
    return 3 * resources + SCALARS + tenants


def units(shapes: ShapeArrays, capacity: Int, precision: np.dtype[Any]) -> Int:
    """`shift[R]`: fit is compared in units of 2^shift. Raises `InvalidInput` where the precision cannot hold the integers."""
    resources = shapes.request.shape[1]
    if max(capacity.max(initial=0), shapes.request.max(initial=0)) >= 1 << 53:
        raise InvalidInput("capacity", int(capacity.max(initial=0)), "resources below 2^53", "count in a larger unit")
    if precision == np.float64:
        return np.zeros(resources, dtype=np.int64)
    together = np.bitwise_or.reduce(shapes.request, axis=0)
    shift = np.array([(int(x) & -int(x)).bit_length() - 1 if x else 0 for x in together], dtype=np.int64)
    if ((shapes.request >> shift) >= 1 << 24).any():
        raise InvalidInput("precision", "float32", "requests below 2^24 of their common unit", "use float64")
    return shift


def shape_rows(kernel: Kernel, shapes: ShapeArrays, weights: Float, precision: np.dtype[Any], shift: Int) -> Real:
    """Every shape's constants. `weights[K, 5]` as `weighted.scaled_weights`; read by the weighted kernel only."""
    count, resources = shapes.request.shape
    rows = np.zeros((count, FIXED + 2 * resources), dtype=precision)
    wanted = shapes.request > 0
    rows[:, LANE_USE] = shapes.params[:, Param.USE_CPU] * 1000.0
    rows[:, LANE_LIMIT] = shapes.params[:, Param.LOAD_LIMIT]
    if kernel == Kernel.WEIGHTED:
        scored = wanted.copy()
        scored[:, PODS] = False
        rows[:, LANE_TERM] = 1.0 / np.maximum(1, scored.sum(axis=1))
        rows[:, LANE_TERM + 1 : LANE_TERM + 6] = weights
    elif kernel == Kernel.KUBE_DEFAULT:
        rows[:, LANE_TERM] = shapes.request[:, CPU]
        rows[:, LANE_TERM + 1] = shapes.request[:, MEMORY]
    else:
        rows[:, LANE_TERM] = shapes.params[:, Param.PRIORITY_BASE]
    rows[:, FIXED : FIXED + resources] = shapes.request >> shift
    rows[:, FIXED + resources :] = wanted
    return rows


def lane_table(
    kernel: Kernel, shapes: ShapeArrays, weights: Float, hot: Int, precision: np.dtype[Any], shift: Int
) -> LaneTable:
    """Put the shapes `hot` into lanes; those that request the same resources are adjacent."""
    count, resources = shapes.request.shape
    blocks = max(1, -(-len(hot) // WIDTH))
    table = LaneTable(
        shape_rows(kernel, shapes, weights, precision, shift),
        np.zeros((blocks, FIXED + 2 * resources, WIDTH), dtype=precision),
        np.zeros((blocks, resources), dtype=np.int64),
        np.zeros(blocks, dtype=np.int64),
        np.zeros(blocks * WIDTH, dtype=np.int64),
        np.full(blocks * WIDTH, -1, dtype=np.int64),
        np.full(count, -1, dtype=np.int64),
        np.zeros(2),
        shift,
    )
    together = np.lexsort((shapes.request[hot] > 0).T)
    table.shape[: len(hot)] = hot[together]
    table.lane[hot[together]] = np.arange(len(hot))
    for block in range(blocks):
        fill_block(table, shapes.tenant, block)
    set_bounds(table)
    return table


@inlined
def fill_block(table: LaneTable, tenants: Int, block: int) -> None:
    """Write the constants of one block from its shapes."""
    resources = table.resource.shape[1]
    for row in range(FIXED + 2 * resources):
        for j in range(WIDTH):
            table.constants[block, row, j] = 0.0
    listed = 0
    for r in range(resources):
        wanted = False
        for j in range(WIDTH):
            k = table.shape[block * WIDTH + j]
            if k >= 0 and table.shape_rows[k, FIXED + resources + r] > 0.0:
                wanted = True
        if wanted:
            table.resource[block, listed] = r
            listed += 1
    table.listed[block] = listed
    for j in range(WIDTH):
        k = table.shape[block * WIDTH + j]
        if k < 0:
            continue
        table.tenant[block * WIDTH + j] = tenants[k]
        for row in range(FIXED):
            table.constants[block, row, j] = table.shape_rows[k, row]
        for i in range(listed):
            r = table.resource[block, i]
            table.constants[block, FIXED + 2 * i, j] = table.shape_rows[k, FIXED + r]
            table.constants[block, FIXED + 2 * i + 1, j] = table.shape_rows[k, FIXED + resources + r]


@inlined
def set_bounds(table: LaneTable) -> None:
    """Recompute `table.bounds` after lanes changed."""
    use, limit = 0.0, np.inf
    for lane in range(table.shape.shape[0]):
        k = table.shape[lane]
        if k >= 0:
            use = max(use, float(table.shape_rows[k, LANE_USE]))
            limit = min(limit, float(table.shape_rows[k, LANE_LIMIT]))
    table.bounds[0] = use
    table.bounds[1] = limit
