"""Replay a trace of tasks through the score tree, in one compiled loop.

Problem: ten million tasks have twenty million events, and an interpreter needs minutes for them. Choice: arrivals come sorted and are merged with a
binary heap of finishes, so each event costs one placement or departure and a few heap steps. A task that fits no node waits; whenever
one finishes, waiting tasks are tried in order of arrival until one does not fit. A new task that fits starts at once, so it may overtake.
A task that still waits when nothing runs can never fit: it is counted, not dropped.
Limits: a task runs for its given duration (no interference), and reports do not change during the replay. `lab.scenarios` has the world.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cotenant.engine.replay.score_tree import ScoreTree
from cotenant.engine.replay.tree_kernels import Tree, place, release
from cotenant.model.arrays import Float, Int
from cotenant.model.compiled import inlined, njit
from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.lanes.view import viewed


@dataclass(frozen=True, slots=True)
class Replay:
    """The outcome of each task, in the given order. m tasks."""

    row: Int  # [m] the node, -1 = never fitted
    start_s: Float  # [m] when it started, NaN = never
    finish_s: float  # when the last task finished
    events: int  # placements and departures
    waited: int  # tasks that did not start on arrival
    unplaced: int  # tasks that never fitted


@inlined
def push(times: Float, tasks: Int, size: int, time: float, task: int) -> None:
    """Add to a heap of `size` entries ordered by time, then task."""
    at = size
    while at > 0:
        parent = (at - 1) >> 1
        if times[parent] < time or (times[parent] == time and tasks[parent] < task):
            break
        times[at], tasks[at] = times[parent], tasks[parent]
        at = parent
    times[at], tasks[at] = time, task


@inlined
def pop(times: Float, tasks: Int, size: int) -> None:
    """Remove the first of `size` entries from the heap."""
    last = size - 1
    time, task = times[last], tasks[last]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= last:
            break
        right = child + 1
        if right < last and (
            times[right] < times[child] or (times[right] == times[child] and tasks[right] < tasks[child])
        ):
            child = right
        if time < times[child] or (time == times[child] and task < tasks[child]):
            break
        times[at], tasks[at] = times[child], tasks[child]
        at = child
    times[at], tasks[at] = time, task


@njit
def _replay(kernel: int, tree: Tree, arrival_s: Float, duration_s: Float, shape: Int, row: Int, start_s: Float) -> Int:
    """Fill `row` and `start_s`; returns [placements, departures]."""
    view = viewed(tree)
    count = arrival_s.shape[0]
    times, tasks = np.empty(count), np.empty(count, np.int64)
    queue = np.empty(count, np.int64)
    running, head, tail, arrived, placed, departed = 0, 0, 0, 0, 0, 0
    now_s = 0.0
    while True:
        arriving = -1
        if running > 0 and (arrived == count or times[0] <= arrival_s[arrived]):
            now_s = times[0]
            done = tasks[0]
            pop(times, tasks, running)
            running -= 1
            release(kernel, view, row[done], shape[done])
            departed += 1
        elif arrived < count:
            now_s = arrival_s[arrived]
            arriving = arrived
            arrived += 1
        elif head < tail:
            head += 1  # nothing runs, so it never fits
        else:
            break
        while arriving >= 0 or head < tail:
            task = arriving if arriving >= 0 else queue[head]
            n = place(kernel, view, shape[task])
            if n >= 0:
                row[task] = n
                start_s[task] = now_s
                push(times, tasks, running, now_s + duration_s[task], task)
                running += 1
                placed += 1
            if arriving >= 0:
                if n < 0:
                    queue[tail] = arriving
                    tail += 1
                break
            if n < 0:
                break
            head += 1
    return np.array([placed, departed])


def replay(tree: ScoreTree, arrival_s: Float, duration_s: Float, shape: Int) -> Replay:
    """Run tasks (aligned columns of length m, arrivals ascending) through the tree until all have finished. Raises `InvalidInput`."""
    count = len(arrival_s)
    if count == 0 or not len(duration_s) == len(shape) == count:
        raise InvalidInput("trace", f"{count} tasks", "at least one task and columns of equal length")
    backwards = np.flatnonzero(~(np.diff(arrival_s) >= 0))
    if len(backwards) or not np.isfinite(arrival_s[0]):
        at = int(backwards[0]) + 1 if len(backwards) else 0
        raise InvalidInput(
            f"arrival_s[{at}]", float(arrival_s[at]), "a time not before that of the previous task", "sort it"
        )
    bad = np.flatnonzero(~(np.isfinite(duration_s) & (duration_s >= 0)))
    if len(bad):
        raise InvalidInput(f"duration_s[{int(bad[0])}]", float(duration_s[bad[0]]), "finite seconds >= 0")
    if shape.min() < 0 or shape.max() >= len(tree.arrays.shapes.tenant):
        raise InvalidInput("shape", f"{shape.min()}..{shape.max()}", f"0..{len(tree.arrays.shapes.tenant) - 1}")
    row, start_s = np.full(count, -1, dtype=np.int64), np.full(count, np.nan)
    placed, departed = _replay(int(tree.kernel), tree.arrays, arrival_s, duration_s, shape, row, start_s)
    finish_s = float(np.nanmax(start_s + duration_s)) if placed else float(arrival_s[-1])
    waited = int(np.count_nonzero(start_s > arrival_s)) + count - int(placed)
    return Replay(row, start_s, finish_s, int(placed + departed), waited, count - int(placed))
