"""Growing columns of node and shape arrays.

Problem: a cluster's rows, resources and bits become more while kernels hold plain arrays. Choice: copies with more rows or columns, the new
ones zero. Limits: the owner hands the new arrays to whoever held the old ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cotenant.model.arrays import NodeArrays, Param, Report, ShapeArrays, Sum


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
        report=np.full((rows, len(Report)), np.nan),
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
