"""Entry points of the score tree: each takes the tree as arrays, makes views once, and loops."""

from __future__ import annotations

import numpy as np

from cotenant.engine.replay.tree_kernels import Tree, build_block, choose_row, commit, place, release, renew, scan
from cotenant.model.arrays import Int
from cotenant.model.compiled import njit
from cotenant.policy.placement.lanes.packing import pack_row
from cotenant.policy.placement.lanes.view import viewed


@njit
def build(kernel: int, tree: Tree, repack: bool) -> None:
    """Compute everything; `repack` false keeps the nodes' rows (only weights changed)."""
    view = viewed(tree)
    if repack:
        for n in range(view.nodes.capacity.shape[0]):
            pack_row(kernel, view.rows, view.table, view.nodes, view.held, n, view.shapes, view.now_s[0])
    for block in range(view.table.listed.shape[0]):
        build_block(kernel, view, block)


@njit
def refresh_rows(kernel: int, tree: Tree, rows: Int) -> None:
    """Apply external changes of these nodes."""
    view = viewed(tree)
    for i in range(rows.shape[0]):
        renew(kernel, view, rows[i])


@njit
def best_row(kernel: int, tree: Tree, k: int) -> int:
    """The best node for shape k, -1 if none passes."""
    return choose_row(kernel, viewed(tree), k)


@njit
def scan_row(kernel: int, tree: Tree, k: int) -> int:
    """The best node for shape k by a full scan."""
    return scan(kernel, viewed(tree), k)


@njit
def place_one(kernel: int, tree: Tree, k: int) -> int:
    """Place one pod of shape k."""
    return place(kernel, viewed(tree), k)


@njit
def release_one(kernel: int, tree: Tree, n: int, k: int) -> None:
    """Remove a pod of shape k from node n."""
    release(kernel, viewed(tree), n, k)


@njit
def place_each(kernel: int, tree: Tree, stream: Int) -> Int:
    """Place pods of these shapes in order; `int64[m]` rows, -1 = none passes."""
    view = viewed(tree)
    placed = np.empty(stream.shape[0], np.int64)
    for i in range(stream.shape[0]):
        placed[i] = place(kernel, view, stream[i])
    return placed


@njit
def place_gang(kernel: int, tree: Tree, k: int, count: int) -> Int:
    """Place `count` pods of shape k or none: `int64[count]` rows, or an empty array and the tree unchanged."""
    view = viewed(tree)
    placed = np.empty(count, np.int64)
    for i in range(count):
        placed[i] = place(kernel, view, k)
        if placed[i] < 0:
            for j in range(i - 1, -1, -1):
                release(kernel, view, placed[j], k)
            return placed[:0]
    return placed


@njit
def run_stream(kernel: int, tree: Tree, stream: Int, live: int, placed: Int, begin: int, end: int) -> None:
    """Place pods `begin..end` of the stream into `placed` (-1 = none passed); the pod `live` places before departs after each."""
    view = viewed(tree)
    for i in range(begin, end):
        placed[i] = place(kernel, view, stream[i])
        if i >= live and placed[i - live] >= 0:
            release(kernel, view, placed[i - live], stream[i - live])


@njit
def scan_stream(kernel: int, tree: Tree, stream: Int, live: int, placed: Int, begin: int, end: int) -> None:
    """As `run_stream`, by a full scan for each pod: the reference for the tree. The scores are not maintained."""
    view = viewed(tree)
    for i in range(begin, end):
        placed[i] = scan(kernel, view, stream[i])
        if placed[i] >= 0:
            commit(kernel, view, placed[i], stream[i], 1)
        if i >= live and placed[i - live] >= 0:
            commit(kernel, view, placed[i - live], stream[i - live], -1)
