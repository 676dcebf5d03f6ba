"""Filter: the pod must not raise its node's CPU use above a share of the capacity.

The load is predicted from the residents' estimates and the pod's own, so pods that were placed a moment ago count
before they start to work. The limit belongs to the shape (`Param.LOAD_LIMIT`, inf = none). Limits: CPU only, and only
as accurate as the estimates.
"""

from __future__ import annotations

import numpy as np

from cotenant.model.arrays import CPU, Float, Int, Mask, NodeArrays, Param, ShapeArrays, Sum

REASON = "node(s) predicted to be above the load threshold"


def load(nodes: NodeArrays, shapes: ShapeArrays, k: int, rows: Int) -> Float:
    """`float64[len(rows)]`: predicted fraction of a row's CPU in use once a pod of shape k runs there."""
    use_milli = nodes.sums[rows, Sum.USE_CPU] + shapes.params[k, Param.USE_CPU] * 1000.0
    return np.asarray(use_milli / nodes.capacity[rows, CPU])


def mask(nodes: NodeArrays, shapes: ShapeArrays, k: int, rows: Int) -> Mask:
    """`bool[len(rows)]`: rows that stay at or below the shape's limit."""
    return np.asarray(load(nodes, shapes, k, rows) <= shapes.params[k, Param.LOAD_LIMIT])
