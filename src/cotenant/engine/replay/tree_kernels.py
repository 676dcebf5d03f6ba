"""Compiled kernels of the score tree: climb, descend, commit, and lane changes.

Row n of level 0 holds node n's scores for every lane; a row of the next level is the lane-wise maximum of its BRANCH children. Each block of
sixteen lanes climbs independently and stops where it cannot change anything: the row was below its parent and stays below it.
`tree_loops` drives these; score_tree.py describes the whole.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from cotenant.model.arrays import Float, Int, NodeArrays, ShapeArrays
from cotenant.model.compiled import inlined, njit
from cotenant.policy.placement.lanes.layout import (
    CLOSED,
    WEIGHTED,
    LaneTable,
    NodeRows,
    Real,
    fill_block,
    set_bounds,
)
from cotenant.policy.placement.lanes.packing import allows, pack_allowed, pack_free, pack_held, pack_row, pack_scalars
from cotenant.policy.placement.lanes.scores import judge, judge_nodes, load_matters
from cotenant.policy.placement.lanes.vector import (
    WIDTH,
    above,
    at_most,
    fill,
    larger,
    load,
    mask_word,
    pick,
    store,
)

BRANCH_BITS = 3
BRANCH = 1 << BRANCH_BITS
TOP = 16  # a level of at most this many rows needs none above it
PROMOTE_AFTER = 8  # full scans after which a shape takes the least recently used lane: about the cost of the change


class Tree(NamedTuple):
    """The arrays of the kernels. N nodes, L = 16 C lanes, K shapes; levels are padded to whole groups of BRANCH rows."""

    scores: Real  # [rows of all levels, L]; padding is -1
    start: Int  # [levels + 1] the first row of each level
    rows: NodeRows
    table: LaneTable
    nodes: NodeArrays
    shapes: ShapeArrays
    held: Int  # [N, T, R] requests of each tenant's pods on each node
    clock: Int  # [1] placements so far
    used: Int  # [L] clock of each lane's last use
    misses: Int  # [K] scans since the shape last had a lane
    now_s: Float  # [1]


@inlined
def climb(scores: Real, start: Int, n: int, block: int, value: Any) -> None:
    """Write sixteen new scores of node n and update the maxima above them."""
    lanes = scores.shape[1]
    column = block * WIDTH
    at = n * lanes + column
    before = load(scores, at)
    store(scores, at, value)
    row = n
    for level in range(1, start.shape[0] - 1):
        row >>= BRANCH_BITS
        parent_at = (start[level] + row) * lanes + column
        parent = load(scores, parent_at)
        lost = at_most(parent, before) & above(before, value)
        if mask_word(lost | above(value, parent)) == 0:
            return
        best = value
        child = (start[level - 1] + (row << BRANCH_BITS)) * lanes + column
        for i in range(BRANCH):
            best = larger(best, load(scores, child + i * lanes))
        store(scores, parent_at, best)
        before = parent
        value = best


@inlined
def rejudge(kernel: int, tree: Tree, n: int) -> None:
    """Score node n again in every lane and update the tree."""
    loaded = load_matters(tree.rows, tree.table, n, tree.shapes.request.shape[1])
    for block in range(tree.table.listed.shape[0]):
        climb(tree.scores, tree.start, n, block, judge(kernel, tree.rows, tree.table, n, block, loaded))


@inlined
def renew(kernel: int, tree: Tree, n: int) -> None:
    """Apply any change of node n: pack its row, score it, update the tree."""
    pack_row(kernel, tree.rows, tree.table, tree.nodes, tree.held, n, tree.shapes, tree.now_s[0])
    rejudge(kernel, tree, n)


@inlined
def build_block(kernel: int, tree: Tree, block: int) -> None:
    """Compute sixteen lanes of the whole tree from the nodes' rows."""
    scores, start = tree.scores, tree.start
    lanes = scores.shape[1]
    column = block * WIDTH
    resources = tree.shapes.request.shape[1]
    for n in range(tree.nodes.capacity.shape[0]):
        loaded = load_matters(tree.rows, tree.table, n, resources)
        store(scores, n * lanes + column, judge(kernel, tree.rows, tree.table, n, block, loaded))
    for level in range(1, start.shape[0] - 1):
        for row in range((start[level] - start[level - 1]) >> BRANCH_BITS):
            child = (start[level - 1] + (row << BRANCH_BITS)) * lanes + column
            best = load(scores, child)
            for i in range(1, BRANCH):
                best = larger(best, load(scores, child + i * lanes))
            store(scores, (start[level] + row) * lanes + column, best)


@inlined
def descend(scores: Real, start: Int, lane: int) -> int:
    """The node with the largest score in a lane, the lowest row on a tie; -1 if none passes."""
    level = start.shape[0] - 2
    best = scores[start[level], lane]
    row = 0
    for i in range(start[level] + 1, start[level + 1]):
        value = scores[i, lane]
        if value > best:
            best = value
            row = i - start[level]
    if best < 0:
        return -1
    while level > 0:
        level -= 1
        row <<= BRANCH_BITS
        child = start[level] + row
        step = 0
        for i in range(BRANCH - 1, -1, -1):
            step = i if scores[child + i, lane] == best else step
        row += step
    return row


@inlined
def scan(kernel: int, tree: Tree, k: int) -> int:
    """The same choice without the tree: every node, sixteen at a time."""
    best_row = -1
    best = tree.rows.packed[0, 0] * 0 - 1
    for n in range(0, tree.nodes.capacity.shape[0], WIDTH):
        value = judge_nodes(kernel, tree.rows, tree.table, tree.nodes, tree.shapes, k, n)
        while True:
            higher = mask_word(above(value, fill(tree.rows.packed, best)))
            if higher == 0:
                break
            lane = 0
            while higher & 1 == 0:
                higher >>= 1
                lane += 1
            best_row = n + lane
            best = pick(value, lane)
    return best_row


@inlined
def commit(kernel: int, tree: Tree, n: int, k: int, sign: int) -> None:
    """Add (sign 1) or remove (-1) a pod of shape k on node n, in the integers and in the node's packed row."""
    nodes, shapes, rows = tree.nodes, tree.shapes, tree.rows
    resources = shapes.request.shape[1]
    for r in range(resources):
        nodes.requested[n, r] += sign * shapes.request[k, r]
    for s in range(shapes.sums.shape[1]):
        nodes.sums[n, s] += sign * shapes.sums[k, s]
    pack_free(rows, tree.table, nodes, n)
    if kernel == WEIGHTED:
        tenant = shapes.tenant[k]
        for r in range(resources):
            tree.held[n, tenant, r] += sign * shapes.request[k, r]
        pack_held(rows, tree.table, tree.held, n, tenant)
    closed = rows.packed[n, 3 * resources + CLOSED]
    pack_scalars(kernel, rows, nodes, n, tree.now_s[0])
    group = shapes.group[k]
    if group >= 0:
        nodes.group_count[n, group] += sign
    if group >= 0 or rows.packed[n, 3 * resources + CLOSED] != closed:
        pack_allowed(rows, tree.table, nodes, n, shapes)


@njit
def promote(kernel: int, tree: Tree, k: int) -> int:
    """Give shape k the least recently used lane, and return it."""
    table = tree.table
    lane = 0
    for candidate in range(table.shape.shape[0]):
        if tree.used[candidate] < tree.used[lane]:
            lane = candidate
    if table.shape[lane] >= 0:
        table.lane[table.shape[lane]] = -1
    table.shape[lane] = k
    table.lane[k] = lane
    tree.misses[k] = 0
    resources = tree.shapes.request.shape[1]
    block, bit = lane // WIDTH, 1 << lane % WIDTH
    fill_block(table, tree.shapes.tenant, block)
    set_bounds(table)
    for n in range(tree.nodes.capacity.shape[0]):
        word = tree.rows.allowed[n, block] & ~bit
        closed = tree.rows.packed[n, 3 * resources + CLOSED] > 0.0
        tree.rows.allowed[n, block] = word | bit if not closed and allows(tree.nodes, n, tree.shapes, k) else word
    build_block(kernel, tree, block)
    return lane


@njit
def choose_cold(kernel: int, tree: Tree, k: int) -> int:
    """The best node for a shape without a lane; promoted after repeated scans."""
    tree.misses[k] += 1
    if tree.misses[k] > PROMOTE_AFTER:
        lane = promote(kernel, tree, k)
        tree.used[lane] = tree.clock[0]
        return descend(tree.scores, tree.start, lane)
    return scan(kernel, tree, k)


@inlined
def choose_row(kernel: int, tree: Tree, k: int) -> int:
    """The best node for shape k, -1 if none passes."""
    lane = tree.table.lane[k]
    tree.clock[0] += 1
    if lane < 0:
        return choose_cold(kernel, tree, k)
    tree.used[lane] = tree.clock[0]
    return descend(tree.scores, tree.start, lane)


@inlined
def place(kernel: int, tree: Tree, k: int) -> int:
    """Place one pod of shape k: best node, commit, update. -1 if none passes."""
    n = choose_row(kernel, tree, k)
    if n >= 0:
        commit(kernel, tree, n, k, 1)
        rejudge(kernel, tree, n)
    return n


@inlined
def release(kernel: int, tree: Tree, n: int, k: int) -> None:
    """Remove a pod of shape k from node n."""
    commit(kernel, tree, n, k, -1)
    rejudge(kernel, tree, n)
