"""Filter and score: nodeSelector and node affinity.

The encoder assigns a bit to every distinct nodeSelector, required affinity and preferred term, set on the nodes that
satisfy it, so that a requirement of any size is a word operation here. Source: Kubernetes' NodeAffinity plugin and its
normalisation.
Limits: the score is relative to the best of the given rows.
"""

from __future__ import annotations

import numpy as np

from cotenant.model.arrays import Float, Int, Mask, NodeArrays, ShapeArrays

REASON = "node(s) didn't match Pod's node affinity/selector"

_WORD_BITS = 64


def mask(nodes: NodeArrays, shapes: ShapeArrays, k: int, rows: Int) -> Mask:
    """`bool[len(rows)]`: rows that satisfy all requirements of shape k."""
    return ~((shapes.selector[k] & ~nodes.labels[rows]) != 0).any(axis=1)


def weight_of_bits(nodes: NodeArrays, bits: Int, weights: Int, rows: Int) -> Int:
    """`int64[len(rows)]`: sum of the weights of the requirement bits that a row satisfies."""
    words = nodes.labels[rows][:, bits // _WORD_BITS]
    satisfied = (words >> (bits % _WORD_BITS).astype(np.uint64)) & np.uint64(1)
    return satisfied.astype(np.int64) @ weights


def score(nodes: NodeArrays, bits: Int, weights: Int, rows: Int) -> Float:
    """`float64[len(rows)]`, whole 0..100: preferred terms by weight, the best row has 100 unless no row satisfies any.

    `bits` and `weights` are the pod's preferred terms (`Encoder.preferred`).
    """
    total = weight_of_bits(nodes, bits, weights, rows)
    best = total.max(initial=0)
    if best == 0:
        return np.zeros(len(rows))
    return (100 * total // best).astype(np.float64)
