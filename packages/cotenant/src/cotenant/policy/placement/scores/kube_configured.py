"""The scores of a kube-scheduler profile with arguments of its own: strategies of NodeResourcesFit, resources of
NodeResourcesBalancedAllocation, and the weight of every plugin.

Arithmetic is upstream's, integer division and truncation included. A resource that a node does not have, or an
extended one that the pod does not request, is left out of both scores. Only the plain form exists: a profile with it
is evaluated pod by pod, as a pod with soft terms is. Limits: a container without requests counts as requesting
nothing, where upstream scores it as 100m CPU and 200 MB.
Source: kubernetes pkg/scheduler/framework/plugins/noderesources, v1.36 (balance is the change that the pod makes).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from cotenant.model.arrays import Float, Int, Mask, NodeArrays, ShapeArrays
from cotenant.policy.placement.kube_scoring import MAX_SHAPE_SCORE, KubeScoring, Strategy

_NATIVE = frozenset({"cpu", "memory", "ephemeral-storage"})  # scored even for a pod that does not request them


def fit_score(
    scoring: KubeScoring, columns: dict[str, int], nodes: NodeArrays, shapes: ShapeArrays, k: int, rows: Int
) -> Float:
    """`float64[len(rows)]`, whole 0..100: the strategy's score. `columns`: those of the resources that are known."""
    total, weights = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
    for name, weight in scoring.resources:
        amounts = _amounts(name, columns, nodes, shapes, k, rows)
        if amounts is None:
            continue
        requested, capacity = amounts
        has = capacity > 0
        divisor = np.maximum(capacity, 1)
        match scoring.strategy:
            case Strategy.LEAST_ALLOCATED:
                points = np.where(requested > capacity, 0, (capacity - requested) * 100 // divisor)
            case Strategy.MOST_ALLOCATED:
                points = np.minimum(requested, capacity) * 100 // divisor
            case Strategy.REQUESTED_TO_CAPACITY_RATIO:
                used = np.where(requested > capacity, 100, requested * 100 // divisor)
                points = _broken_line(scoring.shape, used)
                has &= points > 0  # a resource without points does not count, as upstream has it
        total += np.where(has, points * weight, 0)
        weights += np.where(has, weight, 0)
    if scoring.strategy is Strategy.REQUESTED_TO_CAPACITY_RATIO:
        mean = np.floor(total / np.maximum(weights, 1) + 0.5)  # rounded half away from zero, and never negative
    else:
        mean = (total // np.maximum(weights, 1)).astype(np.float64)
    return np.where(weights > 0, mean, 0.0)


def balanced_score(
    scoring: KubeScoring, columns: dict[str, int], nodes: NodeArrays, shapes: ShapeArrays, k: int, rows: Int
) -> Float | None:
    """`float64[len(rows)]`, whole 0..100: how much the pod improves the balance, about 75 where it changes nothing.

    None for a pod that requests none of the resources: it is not scored by balance.
    """
    request = shapes.request[k]
    if not any(request[columns[name]] for name in scoring.balanced_resources if name in columns):
        return None
    found = [
        (requested, requested - request[columns[name]], capacity)
        for name in scoring.balanced_resources
        if (amounts := _amounts(name, columns, nodes, shapes, k, rows)) is not None
        for requested, capacity in (amounts,)
    ]
    capacity = np.array([entry[2] for entry in found], dtype=np.int64)
    after = _balance(np.array([entry[0] for entry in found], dtype=np.int64), capacity)
    before = _balance(np.array([entry[1] for entry in found], dtype=np.int64), capacity)
    change = 50 + after - before
    return (50 + np.sign(change) * (np.abs(change) // 2)).astype(np.float64)  # Go divides towards zero


def _amounts(
    name: str, columns: dict[str, int], nodes: NodeArrays, shapes: ShapeArrays, k: int, rows: Int
) -> tuple[Int, Int] | None:
    """What would be requested, and the capacity, on each row; None where the resource is not scored."""
    at = columns.get(name)
    if at is None:
        return None
    own = int(shapes.request[k, at])
    if own == 0 and name not in _NATIVE:
        return None
    return nodes.requested[rows, at] + own, nodes.capacity[rows, at]


def _broken_line(shape: tuple[tuple[int, int], ...], used: Int) -> Int:
    points = [(utilization, score * (100 // MAX_SHAPE_SCORE)) for utilization, score in shape]
    result = np.full(len(used), points[-1][1], dtype=np.int64)
    for (low, from_score), (high, to_score) in reversed(list(pairwise(points))):
        rise = (to_score - from_score) * (used - low)
        part = from_score + np.sign(rise) * (np.abs(rise) // (high - low))
        result = np.where(used <= high, part, result)
    return np.where(used <= points[0][0], points[0][1], result)


def _balance(requested: Int, capacity: Int) -> Int:
    """`int64[rows]`: 100 times one minus the standard deviation of the requested fractions, over what each row has."""
    has = capacity > 0
    count = has.sum(axis=0)
    fraction = np.where(has, np.minimum(1.0, requested / np.maximum(capacity, 1)), 0.0)
    mean = fraction.sum(axis=0) / np.maximum(count, 1)
    squares = np.where(has, (fraction - mean) ** 2, 0.0).sum(axis=0)
    deviation = np.sqrt(squares / np.maximum(count, 1))
    of_two = np.abs(_of_two(fraction, has)) / 2.0  # upstream's form for two, which rounds otherwise
    deviation = np.where(count == 2, of_two, np.where(count > 2, deviation, 0.0))
    return ((1.0 - deviation) * 100.0).astype(np.int64)


def _of_two(fraction: Float, has: Mask) -> Float:
    """The first minus the last of those that a row has."""
    first = np.take_along_axis(fraction, np.argmax(has, axis=0)[None], axis=0)[0]
    last = np.take_along_axis(fraction, (len(has) - 1 - np.argmax(has[::-1], axis=0))[None], axis=0)[0]
    return first - last
