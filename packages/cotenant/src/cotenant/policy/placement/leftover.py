"""Placement by least leftover cost: expected waste plus scarcity (scores/leftover.py), compiled.

long-running containers arrive one by one until the machines are full, and none that fits somewhere may be rejected.
Among all rows that pass the filters and the anti-affinity rules, the smallest sum of both prices; ties go to the lowest
row.
Limits: slots of a watched shape are only ever closed here; where pods leave, `watch` must be rebuilt.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cotenant.model.arrays import Float, Int, Mask, NodeArrays, ShapeArrays
from cotenant.model.compiled import njit
from cotenant.policy.placement.codes import Fit
from cotenant.policy.placement.compiled import rejection
from cotenant.policy.placement.knobs import Knobs
from cotenant.policy.placement.scores.leftover import (
    WasteTable,
    WatchedShapes,
    close_slots,
    scarcity_at,
    waste_at,
    waste_table,
    watch,
)
from cotenant.policy.placement.topology.group_antiaffinity import GroupRules

_REQUESTS = int(Fit.REQUESTS)


class LeftoverKnobs(NamedTuple):
    """Parameters. The results are stable over a wide range: patience 200..600 and scarcity 1e4..1e5 differ by 0.2
    points.
    """

    patience: float = 600.0  # offers a node can wait for
    waste: float = 1.0  # weight of expected waste, cores
    scarcity: float = 1e4  # cost in cores of closing the last row to every arrival
    large_share: float = 0.38  # of the smallest node in any resource: shapes above it are watched
    many_rules: float = 20.0  # shapes with at least this many rules are watched


class Leftover(NamedTuple):
    """State of the policy besides the cluster."""

    table: WasteTable
    watched: WatchedShapes
    rules: GroupRules
    waste_weight: float
    scarcity_weight: float
    knobs: Float  # those of the filters


def leftover(
    nodes: NodeArrays,
    shapes: ShapeArrays,
    rules: GroupRules,
    weight: Float,
    knobs: LeftoverKnobs,
    cpu_step: int,
    memory_step: int,
) -> Leftover:
    """Prepare for shapes that arrive with shares `weight[K]` (from the past) on empty `nodes`."""
    table = waste_table(nodes.capacity, shapes.request, weight, knobs.patience, cpu_step, memory_step)
    large = (shapes.request > knobs.large_share * nodes.capacity.min(axis=0)).any(axis=1)
    degree = np.diff(rules.by_start) + np.diff(rules.on_start)
    chosen = np.flatnonzero((large | (degree[shapes.group] >= knobs.many_rules)) & (weight > 0)).astype(np.int64)
    watched = watch(nodes, shapes, chosen, weight[chosen] / weight.sum())
    return Leftover(table, watched, rules, knobs.waste, knobs.scarcity, Knobs().array())


@njit
def leftover_choose(nodes: NodeArrays, shapes: ShapeArrays, k: int, allowed: Mask, policy: Leftover) -> int:
    """The row with the least price for shape k among `allowed`, -1 if none passes; records the slots it closes.

    Scarcity costs the most to compute and is never negative, so rows are visited by rising waste until no later one can
    win.
    """
    waste = np.full(nodes.capacity.shape[0], np.inf)
    for n in range(nodes.capacity.shape[0]):
        if allowed[n] and rejection(nodes, n, shapes, k, _REQUESTS, policy.knobs) == 0:
            waste[n] = policy.waste_weight * waste_at(nodes, n, shapes, k, policy.table)
    best, best_price = -1, np.inf
    for n in np.argsort(waste, kind="mergesort"):
        if waste[n] == np.inf or waste[n] > best_price:
            break
        price = waste[n]
        if policy.scarcity_weight > 0.0:
            price += policy.scarcity_weight * scarcity_at(nodes, n, shapes, k, policy.rules, policy.watched)
        if price < best_price or (price == best_price and n < best):
            best, best_price = n, price
    if best >= 0:
        close_slots(nodes, best, shapes, k, policy.rules, policy.watched)
    return best


def leftover_parts(nodes: NodeArrays, shapes: ShapeArrays, k: int, rows: Int, policy: Leftover) -> Float:
    """The two prices of each row, `float64[len(rows), 2]` (waste, scarcity), weighted: for explanations."""
    parts = np.empty((len(rows), 2))
    for i, n in enumerate(rows):
        parts[i, 0] = policy.waste_weight * waste_at(nodes, n, shapes, k, policy.table)
        parts[i, 1] = policy.scarcity_weight * scarcity_at(nodes, n, shapes, k, policy.rules, policy.watched)
    return parts
