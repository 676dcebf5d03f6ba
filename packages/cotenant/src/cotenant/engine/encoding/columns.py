"""Growing columns of node and shape arrays.

The numbers of rows, resources and bits grow while kernels hold plain arrays. Growth copies an array into a larger one
whose new rows or columns are zero; `EncodedArrays` holds the current arrays, so parts of the encoder share them.
Limits: holders of older arrays must fetch the new ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cotenant.model.arrays import NodeArrays, Param, ReportColumn, ShapeArrays, Sum
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.pod import Shape
from cotenant.model.resources import ResourceAxis

FIRST_ROWS = 8
FIRST_GROUPS = 8


def longer(column: NDArray[Any], rows: int) -> NDArray[Any]:
    """A copy with at least `rows` rows, the new ones zero."""
    grown = np.zeros((rows, *column.shape[1:]), dtype=column.dtype)
    grown[: column.shape[0]] = column
    return grown


def wider(column: NDArray[Any], width: int) -> NDArray[Any]:
    """A copy with `width` columns, the new ones zero."""
    grown = np.zeros((column.shape[0], width), dtype=column.dtype)
    grown[:, : column.shape[1]] = column
    return grown


def blank_nodes(rows: int, resources: int) -> NodeArrays:
    """Rows without a node: no capacity, not ready, nothing reported."""
    return NodeArrays(
        capacity=np.zeros((rows, resources), dtype=np.int64),
        requested=np.zeros((rows, resources), dtype=np.int64),
        sums=np.zeros((rows, len(Sum)), dtype=np.int64),
        report=np.full((rows, len(ReportColumn)), np.nan),
        taints=np.zeros(rows, dtype=np.uint64),
        labels=np.zeros((rows, 1), dtype=np.uint64),
        ready=np.zeros(rows, dtype=np.bool_),
        group_count=np.zeros((rows, 0), dtype=np.int64),
    )


def blank_shapes(rows: int, resources: int) -> ShapeArrays:
    """Rows without a shape: nothing requested, nothing tolerated, no group."""
    return ShapeArrays(
        request=np.zeros((rows, resources), dtype=np.int64),
        sums=np.zeros((rows, len(Sum)), dtype=np.int64),
        params=np.zeros((rows, len(Param)), dtype=np.float64),
        tolerated=np.zeros(rows, dtype=np.uint64),
        selector=np.zeros((rows, 1), dtype=np.uint64),
        tenant=np.zeros(rows, dtype=np.int64),
        group=np.full(rows, -1, dtype=np.int64),
        group_limit=np.zeros(rows, dtype=np.int64),
    )


class EncodedArrays:
    """The current arrays of one cluster, with unused rows at the end, and the node or shape of each row in use."""

    __slots__ = ("axis", "nodes", "row_nodes", "row_shapes", "shapes")

    def __init__(self) -> None:
        self.axis = ResourceAxis()
        self.nodes = blank_nodes(FIRST_ROWS, len(self.axis))
        self.shapes = blank_shapes(FIRST_ROWS, len(self.axis))
        self.row_nodes: list[Node | None] = []  # None = the row's node was removed
        self.row_shapes: list[Shape | None] = []  # None = the row was reclaimed
