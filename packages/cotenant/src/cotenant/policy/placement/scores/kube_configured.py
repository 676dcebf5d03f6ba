"""The scores of a kube-scheduler profile with arguments of its own: strategies of NodeResourcesFit, resources of
NodeResourcesBalancedAllocation, and the weight of every plugin.

Arithmetic is upstream's, integer division and truncation included. A resource that a node does not have, or an
extended one that the pod does not request, is left out of both scores. A profile with it is evaluated pod by pod, as a
pod with soft terms is. Limits: a container without requests counts as requesting
nothing, where upstream scores it as 100m CPU and 200 MB.
Source: kubernetes pkg/scheduler/framework/plugins/noderesources, v1.36 (balance is the change that the pod makes).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from cotenant.model.arrays import Float, Int, Mask, NodeArrays, ShapeArrays
from cotenant.model.compiled import inlined, njit
from cotenant.policy.placement.kube_scoring import MAX_SHAPE_SCORE, FitStrategy, KubeScoring

_SCALE = 100 // MAX_SHAPE_SCORE
_NATIVE = frozenset({"cpu", "memory", "ephemeral-storage"})  # scored even for a pod that does not request them


_MOST, _RATIO = 1, 2
_CODES = {
    FitStrategy.LEAST_ALLOCATED: 0,
    FitStrategy.MOST_ALLOCATED: _MOST,
    FitStrategy.REQUESTED_TO_CAPACITY_RATIO: _RATIO,
}


def fit_rows(
    scoring: KubeScoring, columns: dict[str, int], nodes: NodeArrays, shapes: ShapeArrays, k: int, rows: Int
) -> Float:
    """Compiled form of `fit_score`."""
    counted = [(at, weight) for name, weight in scoring.resources if (at := _counts(name, columns, shapes, k)) >= 0]
    points = np.array(scoring.shape or ((0, 0),), dtype=np.int64)
    pairs = np.array(counted, dtype=np.int64).reshape(-1, 2)
    return _fit_rows(_CODES[scoring.strategy], pairs, points, nodes.requested, nodes.capacity, shapes.request[k], rows)


def balanced_rows(
    scoring: KubeScoring, columns: dict[str, int], nodes: NodeArrays, shapes: ShapeArrays, k: int, rows: Int
) -> Float | None:
    """Compiled form of `balanced_score`."""
    request = shapes.request[k]
    if not any(request[columns[name]] for name in scoring.balanced_resources if name in columns):
        return None
    counted = [at for name in scoring.balanced_resources if (at := _counts(name, columns, shapes, k)) >= 0]
    return _balanced_rows(np.array(counted, dtype=np.int64), nodes.requested, nodes.capacity, request, rows)


@njit
def _fit_rows(strategy: int, pairs: Int, points: Int, requested: Int, capacity: Int, request: Int, rows: Int) -> Float:
    result = np.zeros(len(rows), dtype=np.float64)
    for i in range(len(rows)):
        n = rows[i]
        total, weights = 0, 0
        for j in range(len(pairs)):
            at, weight = pairs[j, 0], pairs[j, 1]
            has = capacity[n, at]
            if has == 0:
                continue
            wanted = requested[n, at] + request[at]
            if strategy == _RATIO:
                score = _on_line(points, 100 if wanted > has else wanted * 100 // has)
                if score <= 0:
                    continue
            elif strategy == _MOST:
                score = min(wanted, has) * 100 // has
            else:
                score = 0 if wanted > has else (has - wanted) * 100 // has
            total += score * weight
            weights += weight
        if weights > 0:
            if strategy == _RATIO:
                result[i] = np.floor(total / weights + 0.5)
            else:
                result[i] = total // weights
    return result


@inlined
def _on_line(points: Int, used: int) -> int:
    """A shape's value, scaled to 0..100; from the last point to the first, so that there is one exit."""
    last = len(points) - 1
    value = points[last, 1] * _SCALE
    for i in range(last, 0, -1):
        if used <= points[i, 0]:
            low = points[i - 1, 1] * _SCALE
            rise = (points[i, 1] * _SCALE - low) * (used - points[i - 1, 0])
            part = abs(rise) // (points[i, 0] - points[i - 1, 0])
            value = low + (part if rise >= 0 else -part)
    if used <= points[0, 0]:
        value = points[0, 1] * _SCALE
    return int(value)


@njit
def _balanced_rows(columns: Int, requested: Int, capacity: Int, request: Int, rows: Int) -> Float:
    result = np.zeros(len(rows), dtype=np.float64)
    for i in range(len(rows)):
        n = rows[i]
        change = 50 + _balance_at(columns, requested, capacity, request, n, 1)
        change -= _balance_at(columns, requested, capacity, request, n, 0)
        half = abs(change) // 2
        result[i] = 50 + (half if change >= 0 else -half)
    return result


@inlined
def _balance_at(columns: Int, requested: Int, capacity: Int, request: Int, n: int, times: int) -> int:
    """The balance of a node with the pod this often."""
    count, total, first, last = 0, 0.0, 0.0, 0.0
    for j in range(len(columns)):
        has = capacity[n, columns[j]]
        if has > 0:
            last = min(1.0, (requested[n, columns[j]] + times * request[columns[j]]) / has)
            if count == 0:
                first = last
            total += last
            count += 1
    deviation = 0.0
    if count == 2:
        deviation = abs(first - last) / 2.0
    elif count > 2:
        squares = 0.0
        for j in range(len(columns)):
            has = capacity[n, columns[j]]
            if has > 0:
                fraction = min(1.0, (requested[n, columns[j]] + times * request[columns[j]]) / has)
                squares += (fraction - total / count) ** 2
        deviation = np.sqrt(squares / count)
    return int((1.0 - deviation) * 100.0)


def _counts(name: str, columns: dict[str, int], shapes: ShapeArrays, k: int) -> int:
    """The column of a resource that is scored for the pod, -1 = it is not."""
    at = columns.get(name, -1)
    return at if at >= 0 and (name in _NATIVE or shapes.request[k, at] != 0) else -1


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
            case FitStrategy.LEAST_ALLOCATED:
                points = np.where(requested > capacity, 0, (capacity - requested) * 100 // divisor)
            case FitStrategy.MOST_ALLOCATED:
                points = np.minimum(requested, capacity) * 100 // divisor
            case FitStrategy.REQUESTED_TO_CAPACITY_RATIO:
                used = np.where(requested > capacity, 100, requested * 100 // divisor)
                points = _broken_line(scoring.shape, used)
                has &= points > 0  # a resource without points does not count, as upstream has it
        total += np.where(has, points * weight, 0)
        weights += np.where(has, weight, 0)
    if scoring.strategy is FitStrategy.REQUESTED_TO_CAPACITY_RATIO:
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
    at = _counts(name, columns, shapes, k)
    if at < 0:
        return None
    return nodes.requested[rows, at] + int(shapes.request[k, at]), nodes.capacity[rows, at]


def _broken_line(shape: tuple[tuple[int, int], ...], used: Int) -> Int:
    points = [(utilization, score * _SCALE) for utilization, score in shape]
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
