"""Filter and score: taints that the pod does not tolerate.

NoSchedule and NoExecute taints make a node infeasible; each PreferNoSchedule taint lowers its score. The encoder
assigns a bit to every distinct NoSchedule or NoExecute taint, and a label bit to every distinct PreferNoSchedule taint,
so both are word operations. Source: Kubernetes' TaintToleration plugin and its normalisation. Limits: the score is
relative to the worst of the given rows.
"""

from __future__ import annotations

import numpy as np

from cotenant.model.arrays import Float, Int, Mask, NodeArrays, ShapeArrays
from cotenant.model.cluster.taints import Taint
from cotenant.policy.placement.filters.node_affinity import weight_of_bits

REASON = "node(s) had untolerated taint(s)"


def mask(nodes: NodeArrays, shapes: ShapeArrays, k: int, rows: Int) -> Mask:
    """`bool[len(rows)]`: rows without a taint that repels shape k."""
    return np.asarray((nodes.taints[rows] & ~shapes.tolerated[k]) == 0)


def score(nodes: NodeArrays, untolerated: Int, rows: Int) -> Float:
    """`float64[len(rows)]`, whole 0..100: 100 for rows without a PreferNoSchedule taint that the pod does not tolerate.

    `untolerated` are the bits of those taints (`Encoder.untolerated`).
    """
    count = weight_of_bits(nodes, untolerated, np.ones(len(untolerated), dtype=np.int64), rows)
    worst = count.max(initial=0)
    if worst == 0:
        return np.full(len(rows), 100.0)
    return (100 - 100 * count // worst).astype(np.float64)


def reason(taint: Taint) -> str:
    """The reason with the taint that must be tolerated or removed."""
    return f"node(s) had untolerated taint {taint}"
