"""Upper bounds on the share of the waiting demand that any scheduler could place at once.

A success rate is meaningless without what was possible. Volume (free over demanded, one resource) and a linear
programme over node kinds, in which pods are divisible: of each request class a fraction may go to each kind of node
(nodes with equal capacity, taints and labels), every resource of a kind is one pool, and a class may only use kinds
where one whole pod of it fits some node. Both are upper bounds for whole pods.
Limits: one instant, without departures; fragmentation within a kind is ignored.
"""

from __future__ import annotations

import numpy as np

from cotenant.model.arrays import CPU, Float, Int
from cotenant.model.errors import Permanent, Unsupported
from cotenant.policy.placement.contract import Snapshot
from cotenant_lab.baselines.firmament.classes import request_classes
from cotenant_lab.baselines.fitting import scan


def volume_bound(snapshot: Snapshot, resource: int = CPU) -> float:
    """Upper bound, 0..1, on the placeable share of the pending demand for `resource`: what ready nodes have free; 1
    without demand.
    """
    nodes = snapshot.nodes
    demanded = int(snapshot.shapes.request[snapshot.pending.shape, resource].sum())
    free = np.maximum(nodes.capacity - nodes.requested, 0)[nodes.ready, resource].sum()
    return min(1.0, float(free) / demanded) if demanded else 1.0


def lp_bound(snapshot: Snapshot, resource: int = CPU) -> float:
    """Upper bound, 0..1, on the placeable share of the pending demand for `resource` with divisible pods; never above
    `volume_bound`.

    Raises `Unsupported` without SciPy, `Permanent` where its solver fails.
    """
    try:
        from scipy.optimize import linprog
        from scipy.sparse import coo_array
    except ImportError as error:
        raise Unsupported("the LP bound", "the package scipy (pip install 'cotenant-lab[compare]')") from error

    shapes, shape = snapshot.shapes, snapshot.pending.shape
    demanded = int(shapes.request[shape, resource].sum())
    if demanded == 0:
        return 1.0
    class_of, class_shape = request_classes(shapes, shape, np.zeros(shapes.request.shape[0], np.int64))
    waiting = np.bincount(class_of, minlength=class_shape.size)
    kind_of, kinds = _node_kinds(snapshot)
    may = _may_stand(snapshot, class_shape, kind_of, kinds)
    of_class, of_kind = np.nonzero(may)  # one variable each: pods of the class on the kind
    if of_class.size == 0:
        return 0.0
    request = shapes.request[class_shape]
    resources = request.shape[1]
    scale = np.maximum(snapshot.nodes.capacity.max(axis=0), 1)
    variable = np.arange(of_class.size)

    # rows: a pool for each kind and resource, then a count for each class, then room for each group on each kind
    entries: list[Float] = [(request[of_class, r] / scale[r]) for r in range(resources)]
    rows: list[Int] = [of_kind * resources + r for r in range(resources)]
    entries.append(np.ones(of_class.size))
    rows.append(kinds * resources + of_class)
    columns = [variable] * (resources + 1)
    limits = [(_free(snapshot, kind_of, kinds) / scale).reshape(-1), waiting.astype(np.float64)]
    group = shapes.group[class_shape]
    grouped = np.flatnonzero(group[of_class] >= 0)
    if grouped.size:
        groups = snapshot.nodes.group_count.shape[1]
        base = kinds * resources + class_shape.size
        rows.append(base + of_kind[grouped] * groups + group[of_class[grouped]])
        entries.append(np.ones(grouped.size))
        columns.append(grouped)
        limits.append(_group_room(snapshot, class_shape, kind_of, kinds).reshape(-1))
    limit = np.concatenate(limits)
    matrix = coo_array(
        (np.concatenate(entries), (np.concatenate(rows), np.concatenate(columns))), shape=(limit.size, of_class.size)
    ).tocsr()
    value = request[of_class, resource] / demanded
    answer = linprog(-value, A_ub=matrix, b_ub=limit, bounds=(0, None), method="highs")
    if answer.status != 0:
        raise Permanent(f"the linear programme of the bound failed: {answer.message}")
    return min(1.0, max(0.0, -float(answer.fun)))


def _node_kinds(snapshot: Snapshot) -> tuple[Int, int]:
    """Kind of each node, -1 = not ready, and how many kinds there are."""
    nodes = snapshot.nodes
    kind_of = np.full(nodes.ready.size, -1, np.int64)
    key = np.column_stack([nodes.capacity, nodes.taints.view(np.int64), nodes.labels.view(np.int64)])[nodes.ready]
    if key.shape[0] == 0:
        return kind_of, 0
    distinct, position = np.unique(key, axis=0, return_inverse=True)
    kind_of[nodes.ready] = position.reshape(-1)
    return kind_of, distinct.shape[0]


def _free(snapshot: Snapshot, kind_of: Int, kinds: int) -> Int:
    """[J, R] total free amounts of the nodes of each kind."""
    free = np.maximum(snapshot.nodes.capacity - snapshot.nodes.requested, 0)
    total = np.zeros((kinds, free.shape[1]), np.int64)
    np.add.at(total, kind_of[kind_of >= 0], free[kind_of >= 0])
    return total


def _may_stand(snapshot: Snapshot, class_shape: Int, kind_of: Int, kinds: int) -> Int:
    """[C, J] 1 where one pod of the class fits on some node of the kind, else 0."""
    rows = np.arange(kind_of.size)
    found = np.empty(rows.size, np.int64)
    may = np.zeros((class_shape.size, kinds), np.int64)
    for c, k in enumerate(class_shape):
        fitting = scan(snapshot.nodes, snapshot.shapes, rows, 1, np.array([k]), 0, rows.size, found)
        may[c, kind_of[found[:fitting]]] = 1
    return may


def _group_room(snapshot: Snapshot, class_shape: Int, kind_of: Int, kinds: int) -> Float:
    """[J, G] how many more pods of each group the nodes of a kind may take, by the largest limit among its shapes."""
    groups = snapshot.nodes.group_count.shape[1]
    limit = np.zeros(groups, np.int64)
    group = snapshot.shapes.group[class_shape]
    np.maximum.at(limit, group[group >= 0], snapshot.shapes.group_limit[class_shape][group >= 0])
    room = np.zeros((kinds, groups))
    ready = kind_of >= 0
    np.add.at(room, kind_of[ready], np.maximum(limit - snapshot.nodes.group_count[ready], 0))
    return room
