"""Filter NodeResourcesFit: the requested amounts must be free on the node.

A resource that the pod does not request is not checked, so a node that is overcommitted in it stays feasible, as in
Kubernetes (NodeResourcesFit). Limits: it uses requests; fitting by predicted use is the compiled path's
`Fit.PREDICTED_USE`.
"""

from __future__ import annotations

import numpy as np

from cotenant.model.arrays import Int, Mask, NodeArrays, ShapeArrays
from cotenant.model.resources import PODS_NAME


def short(nodes: NodeArrays, shapes: ShapeArrays, k: int, rows: Int) -> Mask:
    """`bool[len(rows), R]`: resources that are insufficient on a row for shape k."""
    request = shapes.request[k]
    after = nodes.requested[rows] + request
    return np.asarray((request > 0) & (after > nodes.capacity[rows]))


def mask(nodes: NodeArrays, shapes: ShapeArrays, k: int, rows: Int) -> Mask:
    """`bool[len(rows)]`: rows on which shape k fits."""
    return np.asarray(~short(nodes, shapes, k, rows).any(axis=1))


def reason(resource: str) -> str:
    """The reason for a resource, by its Kubernetes name."""
    return "Too many pods" if resource == PODS_NAME else f"Insufficient {resource}"
