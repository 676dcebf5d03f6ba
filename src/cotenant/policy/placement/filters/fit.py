"""Filter: what a pod requests must be free on the node.

A resource that the pod does not request is not asked about, so a node that is overcommitted in it stays usable, as in Kubernetes
(NodeResourcesFit). Limits: it judges requests; fitting by predicted use is the compiled path's `Fit.PREDICTED_USE`.
"""

from __future__ import annotations

import numpy as np

from cotenant.model.arrays import Int, Mask, NodeArrays, ShapeArrays
from cotenant.model.resources import PODS_NAME


def short(nodes: NodeArrays, shapes: ShapeArrays, k: int, rows: Int) -> Mask:
    """`bool[len(rows), R]`: resources of which a row has too little for shape k."""
    request = shapes.request[k]
    after = nodes.requested[rows] + request
    return np.asarray((request > 0) & (after > nodes.capacity[rows]))


def mask(nodes: NodeArrays, shapes: ShapeArrays, k: int, rows: Int) -> Mask:
    """`bool[len(rows)]`: rows that have room for shape k."""
    return np.asarray(~short(nodes, shapes, k, rows).any(axis=1))


def reason(resource: str) -> str:
    """Why a node lacks room, by the resource's Kubernetes name."""
    return "Too many pods" if resource == PODS_NAME else f"Insufficient {resource}"
