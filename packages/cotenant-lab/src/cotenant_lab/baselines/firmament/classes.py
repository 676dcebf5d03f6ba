"""Request classes: tasks that the flow network cannot tell apart.

One arc per task and machine is millions of arcs. Tasks with equal requests, feasible nodes, group and cost-model label
are one class, with one arc to each machine that can take any of them; its capacity is the number that fits.
Limits: two classes may together overfill one machine, hence the admission check.
"""

from __future__ import annotations

import numpy as np

from cotenant.model.arrays import Int, NodeArrays, ShapeArrays
from cotenant.model.compiled import njit
from cotenant_lab.baselines.fitting import scan


def request_classes(shapes: ShapeArrays, shape: Int, label: Int) -> tuple[Int, Int]:
    """Class of each task and a representative shape of each class.

    `shape` [T] of each task, `label` [K] a cost model's own distinction of shapes. Classes are numbered 0..C-1.
    """
    distinct, task_position = np.unique(shape, return_inverse=True)
    key = np.column_stack(
        [
            shapes.request[distinct],
            shapes.tolerated[distinct].view(np.int64),
            shapes.selector[distinct].view(np.int64),
            shapes.group[distinct],
            shapes.group_limit[distinct],
            label[distinct],
        ]
    )
    _, first, of_distinct = np.unique(key, axis=0, return_index=True, return_inverse=True)
    return of_distinct.reshape(-1)[task_position], distinct[first]


@njit
def how_many_fit(nodes: NodeArrays, shapes: ShapeArrays, kinds: Int, rows: Int, most: int) -> Int:
    """[C, M] number of pods of each shape in `kinds` that each of `rows` can take without any others, at most
    `most`.
    """
    capacity, requested, request = nodes.capacity, nodes.requested, shapes.request
    group_count, group, group_limit = nodes.group_count, shapes.group, shapes.group_limit
    answer = np.zeros((kinds.shape[0], rows.shape[0]), np.int64)
    found = np.empty(rows.shape[0], np.int64)
    for c in range(kinds.shape[0]):
        k = kinds[c]
        kind = np.full(1, k)
        fitting = scan(nodes, shapes, rows, 1, kind, 0, rows.shape[0], found)
        for i in range(fitting):
            n = rows[found[i]]
            count = most
            for r in range(capacity.shape[1]):
                if request[k, r] > 0:
                    count = min(count, (capacity[n, r] - requested[n, r]) // request[k, r])
            if group[k] >= 0:
                count = min(count, group_limit[k] - group_count[n, group[k]])
            answer[c, found[i]] = count
    return answer
