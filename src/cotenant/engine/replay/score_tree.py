"""The score tree: exact placement over all nodes at the cost of one node.

Problem: the best node for a pod is the largest of N scores, and a scan computes all of them although only one node changed since the last pod.
Choice: a tournament tree of all nodes x hot shapes. When a node changes, its scores for every shape are computed together, sixteen per
instruction, and the maxima above it are updated; the best node for a shape is found by descending from the top. Both costs
hardly depend on N. The choice equals that of a full scan, ties to the lowest row.

Frequently requested shapes have lanes (least recently used is replaced); the others are found by a scan, with the same choice.
The integers of `NodeArrays` are authoritative: the tree commits to them, and packs its floats from them. A caller that changes them directly
calls `refresh` for those rows.

Limits: scores must depend on the node's own row only (spread and affinity narrow the rows first, elsewhere); the number of nodes and of
shapes is fixed (build another tree to grow); memory is about 8/7 x N x lanes x 8 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cotenant.engine.replay import tree_loops
from cotenant.engine.replay.tree_kernels import BRANCH, TOP, Tree
from cotenant.model.arrays import Float, Int, NodeArrays, Report, ShapeArrays
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.policy.placement.lanes.layout import Kernel, NodeRows, columns, fill_block, lane_table, shape_rows, units
from cotenant.policy.placement.lanes.vector import WIDTH
from cotenant.policy.placement.scores.founding import REPORT_TTL_S
from cotenant.policy.placement.weighted import DEFAULT_WEIGHTS, scaled_weights

DEFAULT_LANES = 128
_LARGE_PAGE = 2 << 20  # bytes


def _starts(nodes: int) -> Int:
    """The first row of each level, and the number of rows: `int64[levels + 1]`."""
    starts, count = [0], nodes
    while True:
        padded = -(-count // BRANCH) * BRANCH
        starts.append(starts[-1] + padded)
        if count <= TOP:
            return np.array(starts, dtype=np.int64)
        count = padded // BRANCH


def _zeros(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Zeros on huge pages where the kernel has them: a placement touches rows everywhere, and small pages make it a tenth slower.

    NumPy asks for huge pages from 4 MiB on; the array is aligned to one.
    """
    size = int(np.prod(shape)) * dtype.itemsize
    if size < _LARGE_PAGE // 8:
        return np.zeros(shape, dtype=dtype)
    room = np.zeros(max(size + _LARGE_PAGE, 2 * _LARGE_PAGE), dtype=np.uint8)
    start = -room.ctypes.data % _LARGE_PAGE
    return room[start : start + size].view(dtype).reshape(shape)


class ScoreTree:
    """The exact best node for each shape, updated by changes."""

    def __init__(
        self,
        kernel: Kernel,
        nodes: NodeArrays,
        shapes: ShapeArrays,
        *,
        weights: Float | Sequence[float] = DEFAULT_WEIGHTS,
        held: Int | None = None,
        lanes: int = DEFAULT_LANES,
        hot: Int | None = None,
        precision: str = "float64",
        now_s: float = 0.0,
    ) -> None:
        """Build over the caller's arrays, which the tree changes in place.

        `weights[5]` or `[K, 5]` and `held[N, T, R]` (requests of each tenant's pods on each node; zeros if not given, then maintained
        by the tree) are for the weighted kernel. `hot` are the shapes that start with lanes, by default the first `lanes`.
        """
        count, resources = shapes.request.shape
        size = nodes.capacity.shape[0]
        dtype = np.dtype(precision)
        if size == 0 or count == 0:
            raise InvalidInput("nodes x shapes", f"{size} x {count}", "at least one of each")
        if lanes < 1:
            raise InvalidInput("lanes", lanes, "at least 1")
        if dtype not in (np.float32, np.float64) or (dtype == np.float32 and kernel != Kernel.WEIGHTED):
            raise InvalidInput("precision", precision, "float64, or float32 with the weighted kernel")
        if nodes.capacity.shape[1] != resources:
            raise InvalidInput("shapes.request", resources, f"{nodes.capacity.shape[1]} resources as the nodes have")
        for array in (*nodes, *shapes):
            if not array.flags.c_contiguous:
                raise InvalidInput("arrays", str(array.shape), "C-contiguous arrays", "numpy.ascontiguousarray")
        tenants = int(shapes.tenant.max()) + 1 if kernel == Kernel.WEIGHTED else 0
        if held is None:
            held = _zeros((size, tenants, resources), np.dtype(np.int64))
        elif held.shape[0] != size or held.shape[1] < tenants or held.shape[2] != resources:
            raise InvalidInput("held", str(held.shape), f"({size}, at least {tenants}, {resources})")
        if hot is None:
            hot = np.arange(min(lanes, count))
        self.kernel = kernel
        self._weights = scaled_weights(np.asarray(weights, dtype=np.float64), count)
        shift = units(shapes, nodes.capacity, dtype)
        table = lane_table(kernel, shapes, self._weights, np.asarray(hot[:lanes], dtype=np.int64), dtype, shift)
        width = len(table.shape)
        starts = _starts(size)
        padded = -(-size // WIDTH) * WIDTH
        scores = _zeros((int(starts[-1]), width), dtype)
        scores[:] = -1
        self._tree = Tree(
            scores,
            starts,
            NodeRows(
                _zeros((padded, columns(resources, held.shape[1])), dtype),
                np.zeros((size, width // WIDTH), dtype=np.uint16),
            ),
            table,
            nodes,
            shapes,
            held,
            np.zeros(1, dtype=np.int64),
            np.zeros(width, dtype=np.int64),
            np.zeros(count, dtype=np.int64),
            np.array([now_s]),
        )
        self.rebuild()

    @property
    def arrays(self) -> Tree:
        """The arrays for compiled loops."""
        return self._tree

    @property
    def nbytes(self) -> int:
        """Memory of the scores and rows, bytes."""
        return int(self._tree.scores.nbytes + self._tree.rows.packed.nbytes + self._tree.rows.allowed.nbytes)

    def rebuild(self) -> None:
        """Recompute everything, after changes of unknown extent."""
        tree_loops.build(int(self.kernel), self._tree, True)

    def reweigh(self, weights: Float | Sequence[float]) -> None:
        """Set new weights (weighted kernel). Raises `InvalidInput`."""
        tree = self._tree
        self._weights = scaled_weights(np.asarray(weights, dtype=np.float64), len(tree.shapes.tenant))
        tree.table.shape_rows[:] = shape_rows(
            self.kernel, tree.shapes, self._weights, tree.scores.dtype, tree.table.shift
        )
        for block in range(len(tree.table.listed)):
            fill_block(tree.table, tree.shapes.tenant, block)
        tree_loops.build(int(self.kernel), tree, False)

    def refresh(self, row: int) -> None:
        """Apply external changes of a node's arrays."""
        self.refresh_rows(np.array([row], dtype=np.int64))

    def refresh_rows(self, rows: Int) -> None:
        """As `refresh`, for several nodes."""
        size = len(self._tree.nodes.ready)
        if len(rows) and (rows.min() < 0 or rows.max() >= size):
            raise InvalidInput("row", f"{rows.min()}..{rows.max()}", f"0..{size - 1}")
        tree_loops.refresh_rows(int(self.kernel), self._tree, rows)

    def report(self, row: int, values: Float) -> None:
        """Set a node's report: `float64[len(Report)]`, NaN where unknown."""
        self._tree.nodes.report[row] = values
        self.refresh(row)

    def set_ready(self, row: int, ready: bool) -> None:
        """Set a node's readiness. Its pods stay until they are released."""
        self._tree.nodes.ready[row] = ready
        self.refresh(row)

    def advance(self, now_s: float) -> None:
        """Advance the clock to `now_s`; with the founding kernels, stale reports are no longer used."""
        if not now_s >= self._tree.now_s[0]:
            raise InvalidInput("now_s", now_s, f"a time not before {self._tree.now_s[0]}")
        at = self._tree.nodes.report[:, Report.REPORTED_AT]
        with np.errstate(invalid="ignore"):
            was, fresh = self._tree.now_s[0] - at <= REPORT_TTL_S, now_s - at <= REPORT_TTL_S
        self._tree.now_s[0] = now_s
        if self.kernel in (Kernel.FOUNDING, Kernel.FOUNDING_LEDGER):
            self.refresh_rows(np.flatnonzero(was != fresh))

    def best(self, shape: int) -> int:
        """The best node for a shape, -1 if none passes."""
        return int(tree_loops.best_row(int(self.kernel), self._tree, self._shape(shape)))

    def scan(self, shape: int) -> int:
        """The same by a full scan, without the tree."""
        return int(tree_loops.scan_row(int(self.kernel), self._tree, self._shape(shape)))

    def place(self, shape: int) -> int:
        """Place one pod: its row, -1 if no node passes."""
        return int(tree_loops.place_one(int(self.kernel), self._tree, self._shape(shape)))

    def release(self, row: int, shape: int) -> None:
        """Remove a pod of that shape from the node."""
        if not 0 <= row < len(self._tree.nodes.ready):
            raise InvalidInput("row", row, f"0..{len(self._tree.nodes.ready) - 1}")
        tree_loops.release_one(int(self.kernel), self._tree, row, self._shape(shape))

    def place_many(self, stream: Int) -> Int:
        """Place pods of these shapes in order: `int64[m]` rows, -1 where no node passed."""
        placed: Int = tree_loops.place_each(int(self.kernel), self._tree, self._shapes(stream))
        return placed

    def gang(self, shape: int, count: int) -> Int:
        """Place `count` pods or none: `int64[count]` rows, or an empty array, and then nothing has changed."""
        if count < 1:
            raise InvalidInput("count", count, "at least 1")
        placed: Int = tree_loops.place_gang(int(self.kernel), self._tree, self._shape(shape), count)
        return placed

    def run(self, stream: Int, live: int) -> Int:
        """Place pod after pod; from `live` placements on, the oldest departs after each. `int64[m]` rows, -1 where none passed."""
        placed = np.full(len(stream), -1, dtype=np.int64)
        tree_loops.run_stream(int(self.kernel), self._tree, self._shapes(stream), live, placed, 0, len(stream))
        return placed

    def run_by_scan(self, stream: Int, live: int) -> Int:
        """As `run`, by a full scan for each pod. The scores are not maintained: call `rebuild` before using the tree again."""
        placed = np.full(len(stream), -1, dtype=np.int64)
        tree_loops.scan_stream(int(self.kernel), self._tree, self._shapes(stream), live, placed, 0, len(stream))
        return placed

    def validate(self) -> None:
        """Recompute all floats, bits and maxima from the integers and compare. Raises `Permanent` with the first difference."""
        kept = self._tree
        fresh = kept._replace(
            scores=np.full_like(kept.scores, -1),
            rows=NodeRows(np.zeros_like(kept.rows.packed), np.zeros_like(kept.rows.allowed)),
        )
        tree_loops.build(int(self.kernel), fresh, True)
        compared: tuple[tuple[str, NDArray[Any], NDArray[Any]], ...] = (
            ("rows", kept.rows.packed, fresh.rows.packed),
            ("allowed", kept.rows.allowed, fresh.rows.allowed),
            ("scores", kept.scores, fresh.scores),
        )
        for name, left, right in compared:
            different = np.argwhere(left != right)
            if len(different):
                at = tuple(int(i) for i in different[0])
                raise Permanent(f"score tree: {name}{list(at)} is {left[at]} and should be {right[at]}")

    def _shape(self, shape: int) -> int:
        if not 0 <= shape < len(self._tree.shapes.tenant):
            raise InvalidInput("shape", shape, f"0..{len(self._tree.shapes.tenant) - 1}")
        return int(shape)

    def _shapes(self, stream: Int) -> Int:
        if len(stream) and (stream.min() < 0 or stream.max() >= len(self._tree.shapes.tenant)):
            raise InvalidInput("shape", f"{stream.min()}..{stream.max()}", f"0..{len(self._tree.shapes.tenant) - 1}")
        return np.ascontiguousarray(stream, dtype=np.int64)
