"""Predicted use of objectives on one node: how much of the slowdown that each pod tolerates its neighbours cause.

A move should say what it does to the moved pod and to its new neighbours before it is made. The law of the placement
scores (policy/placement/scores/interference): pod i slows down by (1 + a_i (B - o_i)) smt(u), where B is the pressure
of all pods and o_i its own, in halves of the node, and u the node's utilisation. The result is the excess slowdown
relative to the allowance: 1 = at the limit of the objective, more = a predicted violation.
Limits: a linear law, and one allowance for each application; without an allowance nothing is predicted (NaN).
"""

from __future__ import annotations

import numpy as np

from cotenant.model.arrays import Float


def objective_use(
    cores: float, use: Float, sensitivity: Float, pressure: Float, allowance: Float, smt_loss: float = 0.0
) -> Float:
    """`float64[P]`: excess slowdown over allowance of each pod of a node with so many cores, NaN without a finite
    allowance.

    `use[P]` in cores, `pressure[P]` per core in use, `allowance[P]` as excess slowdown.
    """
    if len(use) == 0 or cores <= 0:
        return np.full(len(use), np.nan)
    own = pressure * use / (cores / 2.0)
    busy = min(1.0, float(use.sum()) / cores)
    siblings = 1.0 / (1.0 - smt_loss * ((2.0 * busy - 1.0) / busy if busy > 0.5 else 0.0))
    excess = (1.0 + sensitivity * (own.sum() - own)) * siblings - 1.0
    known = np.isfinite(allowance) & (allowance > 0)
    return np.where(known, excess / np.where(known, allowance, 1.0), np.nan)


def shortfall(used: Float, cores: Float) -> float:
    """Requested cores whose objectives are exceeded, each by how far, at most one tolerance: a pod that misses by
    more than that misses no more. Pods without a prediction count nothing.
    """
    return float(np.nansum(cores * np.clip(used - 1.0, 0.0, 1.0))) if len(used) else 0.0


def violation(used: Float) -> float:
    """Total by which objectives are exceeded, in units of what each pod tolerates; pods without a prediction count
    nothing.
    """
    return float(np.nansum(np.maximum(used - 1.0, 0.0))) if len(used) else 0.0
