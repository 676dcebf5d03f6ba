"""The five-term weighted score: capacity, balance, latency, violation, tenant fairness. This is the plain form, the reference for the compiled one.

    score = 100 / (w0 + .. + w4) x ( w0 (1 - mean) + w1 (1 - sd) + w2 / (1 + lat (1 + load)) + w3 (1 - violation) + w4 (1 - held) )

mean and sd are taken over the resources that the shape requests (except pods), of the fraction of each that would be requested with
the pod included; lat is the reported p99 over 120 ms; load is the estimated CPU in use over capacity; held is the dominant share
(Ghodsi et al., NSDI 2011) of the shape's tenant on this node. A node that never reported counts as having no latency and no violations.
The filters are those of every profile: ready, taints, selector, fit by requests, group limit, load limit.
All inputs are integer sums, so nothing drifts. Limits: a node without CPU or memory capacity is never chosen.
"""

from __future__ import annotations

import numpy as np

from cotenant.model.arrays import CPU, MEMORY, PODS, Float, Int, Mask, NodeArrays, Report, ShapeArrays, Sum
from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.compiled import Fit, plain_rejections
from cotenant.policy.placement.knobs import Knobs
from cotenant.policy.placement.scores.founding import LATENCY_TARGET_MS

TERMS = ("capacity", "balance", "latency", "violation", "fairness")
DEFAULT_WEIGHTS = (0.25, 0.15, 0.25, 0.20, 0.15)

_NO_KNOBS = Knobs().array()


def scaled_weights(weights: Float, shapes: int) -> Float:
    """`float64[K, 5]` whose rows sum to 100, from one row for all shapes or one row per shape; idempotent. Raises `InvalidInput`."""
    table = np.broadcast_to(np.asarray(weights, dtype=np.float64), (shapes, len(TERMS)))
    total = table.sum(axis=1, keepdims=True)
    if not np.isfinite(table).all() or (table < 0).any() or (total <= 0).any():
        raise InvalidInput("weights", np.asarray(weights).tolist(), "finite numbers >= 0 with a sum above 0")
    already = np.abs(total - 100.0) < 1e-9  # not scaled again: the last bit would change
    return np.ascontiguousarray(np.where(already, table, table * (100.0 / total)))


def needed(shapes: ShapeArrays) -> Mask:
    """`bool[K, R]`: the resources that a shape's score considers."""
    wanted: Mask = shapes.request > 0
    wanted[:, PODS] = False
    return wanted


def inverse_capacity(capacity: Int) -> Float:
    """1 / capacity, 0 where there is none and for the number of pods, so that neither affects a share."""
    inverse = np.zeros(capacity.shape)
    np.divide(1.0, capacity, out=inverse, where=capacity > 0)
    inverse[:, PODS] = 0.0
    return inverse


def mask(nodes: NodeArrays, shapes: ShapeArrays, k: int, rows: Int) -> Mask:
    """Rows that are feasible for a pod of shape k."""
    passes: Mask = plain_rejections(nodes, shapes, k, Fit.REQUESTS, _NO_KNOBS)[rows] == 0
    return passes & (nodes.capacity[rows, CPU] > 0) & (nodes.capacity[rows, MEMORY] > 0)


def score(nodes: NodeArrays, shapes: ShapeArrays, k: int, rows: Int, held: Int, weights: Float) -> Float:
    """0..100 per row. `held[N, T, R]` is what each tenant's pods request on each node; `weights[K, 5]` are `scaled_weights`."""
    inverse = inverse_capacity(nodes.capacity[rows])
    wanted = needed(shapes)[k]
    per_resource = 1.0 / max(1, int(wanted.sum()))
    total, squares = np.zeros(len(rows)), np.zeros(len(rows))
    for r in np.flatnonzero(wanted):
        after = nodes.requested[rows, r] * inverse[:, r] + shapes.request[k, r] * inverse[:, r]
        total = total + after
        squares = squares + after * after
    mean = total * per_resource
    deviation = np.sqrt(np.maximum(squares * per_resource - mean * mean, 0.0))
    load = nodes.sums[rows, Sum.USE_CPU] / nodes.capacity[rows, CPU]
    reported = nodes.report[rows][:, [Report.LATENCY_P99_MS, Report.VIOLATION]]
    reported = np.where(np.isnan(reported), 0.0, reported)
    latency = reported[:, 0] / LATENCY_TARGET_MS
    violation = np.clip(reported[:, 1], 0.0, 1.0)
    share = np.minimum((held[rows, shapes.tenant[k]] * inverse).max(axis=1), 1.0)
    w = weights[k]
    value = w[0] * (1.0 - mean) + w[1] * (1.0 - deviation)
    value = value + w[2] * (1.0 / (1.0 + latency * (1.0 + load)))
    value = value + w[3] * (1.0 - violation)
    value = value + w[4] * (1.0 - share)
    return np.maximum(value, 0.0)


def choice(nodes: NodeArrays, shapes: ShapeArrays, k: int, held: Int, weights: Float) -> int:
    """The best row by a full scan, lowest row on a tie, -1 where no node passes."""
    rows = np.arange(nodes.capacity.shape[0])
    passes = mask(nodes, shapes, k, rows)
    if not passes.any():
        return -1
    with np.errstate(divide="ignore", invalid="ignore"):
        values = score(nodes, shapes, k, rows, held, weights)
    return int(np.argmax(np.where(passes, values, -1.0)))
