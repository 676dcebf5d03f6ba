"""Dependency graphs of generated jobs: chain, in-tree, out-tree or neither, with the published longest paths.

A job of m tasks whose longest path has k gets one task on each level 1..k; the others fall on levels by the published distribution.
A task of level l > 1 waits for at least one task of level l - 1, so its level is exact. If k = m the job is a chain; otherwise its kind
is drawn by its size. In-tree: each task feeds at most one later task, all flow to one. Out-tree: each waits for one.
Other: about 1.15 dependencies a task, some passing over levels, some tasks that nobody waits for.
Tasks are numbered level by level, which is a topological order.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from cotenant.lab.workloads import calibration as published
from cotenant.model.arrays import Float, Int
from cotenant.model.compiled import njit

MOST_PARENTS = 11  # J999 and eleven numbers of three digits make 48 characters
LOOSE, IN_TREE, OUT_TREE, OTHER, CHAIN = range(5)
PATH_ROWS = 36  # sizes 0..35 of the tables; larger jobs use 35's
LEVEL_ROWS = 21
MOST_LEVELS = 64
SKIPPING = published.IN_TREE_SKIPPING
STARTING = published.IN_TREE_STARTING
OTHER_STARTING = published.OTHER_STARTING
EDGES_PER_TASK = published.EDGES_PER_TASK_OTHER


class Dags(NamedTuple):
    """J jobs, N tasks, E dependencies, as in `generator.BatchTrace`."""

    job_offset: Int  # [J + 1]
    parent_offset: Int  # [N + 1]
    parent: Int  # [E] rows, ascending within a task
    level: Int  # [N]


def build_dags(sizes: Int, rng: np.random.Generator) -> Dags:
    """A graph for each job of `sizes` tasks."""
    job_offset = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    level, parents, counts = _build(sizes, job_offset, *_tables(), rng)
    parent_offset = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    filled = np.arange(MOST_PARENTS) < counts[:, None]
    parents[~filled] = np.iinfo(np.int64).max
    return Dags(job_offset, parent_offset, np.sort(parents, axis=1)[filled], level)


def earliest_starts(dags: Dags, arrival_s: Int, duration_s: Int) -> Int:
    """[N] when each task starts if nothing but its parents makes it wait."""
    return _starts(dags.job_offset, dags.parent_offset, dags.parent, arrival_s, duration_s)


@cache
def _tables() -> tuple[Float, Float, Int, Float]:
    """Cumulated: path length by size, level by path length; bounds of the kinds' size classes and their cumulated shares."""
    path = np.zeros((PATH_ROWS, PATH_ROWS + 1))
    path[1, 1:] = 1.0
    for size, weights in published.LONGEST_PATH.items():
        path[size, 1 : len(weights) + 1] = weights
    path = np.cumsum(path, axis=1)
    level = np.zeros((LEVEL_ROWS, LEVEL_ROWS + 1))
    for length, weights in published.LEVEL_OF_THE_REST.items():
        level[length, 1 : len(weights) + 1] = weights
    level = np.cumsum(level, axis=1)
    kinds = np.array(published.KINDS_BY_TASKS, dtype=np.int64)
    shares = np.cumsum(kinds[:, 1:], axis=1) / kinds[:, 1:].sum(axis=1, keepdims=True)
    for table in (path, level):
        most = table[:, -1:]
        table /= np.where(most > 0, most, 1)
    return path, level, kinds[:, 0].copy(), shares


@njit
def _pick(cumulated: Float, row: int, u: float) -> int:
    at = 0
    while at < cumulated.shape[1] - 1 and cumulated[row, at] <= u:
        at += 1
    return at


@njit
def _add(parents: Int, counts: Int, task: int, parent: int) -> bool:
    """Make `task` wait for `parent`, unless it does already or waits for too many."""
    if counts[task] >= MOST_PARENTS:
        return False
    for i in range(counts[task]):
        if parents[task, i] == parent:
            return False
    parents[task, counts[task]] = parent
    counts[task] += 1
    return True


@njit
def _build(
    sizes: Int,
    job_offset: Int,
    path_table: Float,
    level_table: Float,
    kind_bounds: Int,
    kind_shares: Float,
    rng: np.random.Generator,
) -> tuple[Int, Int, Int]:
    tasks = job_offset[-1]
    level = np.empty(tasks, dtype=np.int64)
    parents = np.empty((tasks, MOST_PARENTS), dtype=np.int64)
    counts = np.zeros(tasks, dtype=np.int64)
    feeds = np.zeros(tasks, dtype=np.int64)
    width = np.zeros(MOST_LEVELS + 2, dtype=np.int64)
    begin = np.zeros(MOST_LEVELS + 2, dtype=np.int64)
    for job in range(sizes.shape[0]):
        size, first = sizes[job], job_offset[job]
        length = min(_pick(path_table, min(size, PATH_ROWS - 1), rng.random()), size)
        length = max(1, min(length, MOST_LEVELS))
        kind = LOOSE
        if length == size and size > 1:
            kind = CHAIN
        elif length > 1:
            row = 0
            while size > kind_bounds[row]:
                row += 1
            kind = IN_TREE + _pick(kind_shares, row, rng.random())
        _levels(width, size, length, kind, level_table, rng)
        at = first
        for depth in range(1, length + 1):
            begin[depth] = at
            for _ in range(width[depth]):
                level[at] = depth
                at += 1
        begin[length + 1] = at
        if kind == CHAIN:
            for task in range(first + 1, first + size):
                _add(parents, counts, task, task - 1)
        elif kind == IN_TREE:
            _in_tree(parents, counts, width, begin, length, rng)
        elif kind == OUT_TREE:
            for depth in range(2, length + 1):
                for task in range(begin[depth], begin[depth + 1]):
                    _add(parents, counts, task, begin[depth - 1] + rng.integers(0, width[depth - 1]))
        elif kind == OTHER:
            _other(parents, counts, feeds, width, begin, length, rng)
    return level, parents, counts


@njit
def _levels(width: Int, size: int, length: int, kind: int, level_table: Float, rng: np.random.Generator) -> None:
    """Tasks on each level: one, and the rest where the table or the kind puts them."""
    for depth in range(1, length + 1):
        width[depth] = 1
    if length == 1:
        width[1] = size
        return
    for _ in range(size - length):
        row = min(length, LEVEL_ROWS - 1)
        depth = _pick(level_table, row, rng.random())
        if length >= LEVEL_ROWS:  # the table ends at 20 levels: stretch it
            depth = 1 + int((depth - rng.random()) * length / (LEVEL_ROWS - 1))
        if kind == IN_TREE and (depth >= length or rng.random() < STARTING):
            depth = 1 if depth < length else length - 1
        if kind == OTHER and rng.random() < OTHER_STARTING:
            depth = 1
        if kind == OUT_TREE and depth == 1:
            depth = 2 + int(rng.integers(0, length - 1))
        width[max(1, min(depth, length))] += 1
    if kind == IN_TREE:  # every task of a level feeds one: levels cannot widen downstream
        for depth in range(2, length):
            value, at = width[depth], depth
            while at > 1 and width[at - 1] < value:
                width[at] = width[at - 1]
                at -= 1
            width[at] = value


@njit
def _in_tree(parents: Int, counts: Int, width: Int, begin: Int, length: int, rng: np.random.Generator) -> None:
    for depth in range(1, length):  # first what makes each task's level exact: nobody waits for too many yet
        for i in range(width[depth + 1]):
            _add(parents, counts, begin[depth + 1] + i, begin[depth] + i)
    for depth in range(1, length):
        for task in range(begin[depth] + width[depth + 1], begin[depth + 1]):
            below = begin[depth + 1]
            if depth + 2 <= length and rng.random() < SKIPPING:
                below = begin[depth + 2]
                span = begin[length + 1] - below
            else:
                span = width[depth + 1]
            offset = rng.integers(0, span)
            placed = False
            for step in range(span):
                if _add(parents, counts, below + (offset + step) % span, task):
                    placed = True
                    break
            if not placed:  # every place near is full: anywhere later, else nobody waits for it
                for other in range(begin[depth + 1], begin[length + 1]):
                    if _add(parents, counts, other, task):
                        break


@njit
def _other(
    parents: Int, counts: Int, feeds: Int, width: Int, begin: Int, length: int, rng: np.random.Generator
) -> None:
    first, end = begin[1], begin[length + 1]
    size = end - first
    edges = 0
    for depth in range(2, length + 1):
        for task in range(begin[depth], begin[depth + 1]):
            parent = begin[depth - 1] + rng.integers(0, width[depth - 1])
            for step in range(width[depth - 1]):  # rather one that nobody waits for yet
                other = begin[depth - 1] + (parent - begin[depth - 1] + step) % width[depth - 1]
                if feeds[other] == 0:
                    parent = other
                    break
            _add(parents, counts, task, parent)
            feeds[parent] += 1
            edges += 1
    loose = 0.95 - 0.3 * min(size, 80) / 80  # larger jobs leave more tasks that nobody waits for
    for task in range(first, begin[length]):
        if feeds[task] == 0 and rng.random() < loose:
            depth = 1
            while begin[depth + 1] <= task:
                depth += 1
            child = begin[depth + 1] + rng.integers(0, end - begin[depth + 1])
            if _add(parents, counts, child, task):
                feeds[task] += 1
                edges += 1
    # up to the usual number of edges, and at least one more than a tree has where that is possible
    wanted = max(int(EDGES_PER_TASK * size), size)
    for _ in range(4 * size):
        if edges >= wanted:
            break
        task = begin[2] + rng.integers(0, end - begin[2])
        depth = 1
        while begin[depth + 1] <= task:
            depth += 1
        parent = first + rng.integers(0, begin[depth] - first)
        if _add(parents, counts, task, parent):
            feeds[parent] += 1
            edges += 1


@njit
def _starts(job_offset: Int, parent_offset: Int, parent: Int, arrival: Int, duration: Int) -> Int:
    start = np.empty(duration.shape[0], dtype=np.int64)
    for job in range(arrival.shape[0]):
        for task in range(job_offset[job], job_offset[job + 1]):
            at = arrival[job]
            for i in range(parent_offset[task], parent_offset[task + 1]):
                at = max(at, start[parent[i]] + duration[parent[i]])
            start[task] = at
    return start
