"""Placement of GPU pods one after another: the best node by a rule, from cached scores.

Scoring 1,200 nodes from scratch takes a third of a millisecond. A score depends only on a node's own row and a pod's
shape, so scores are cached in a table [K, N], and only nodes that changed since the shape was last placed are scored
again: a log of changed rows, and per shape the position in the log up to which it has read. The choice equals that of a
full scan; a test checks it.
Limits: the table takes 16 bytes per shape and node; the log holds a fixed number of placements and does not record
departures.

Work-conserving: a pod is refused only if it fits no node.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cotenant.model.arrays import Float, Int
from cotenant.model.compiled import njit
from cotenant.policy.placement.gpu.fragmentation import GpuMix, GpuWeights
from cotenant.policy.placement.gpu.state import WHOLE_GPU_MILLI, GpuNodeArrays, GpuShapes, misfit, take
from cotenant_lab.baselines.fgd import GpuRule, kind_bit, node_term, score_node

NONE = -1


class KeptScores(NamedTuple):
    """State kept between decisions. K shapes, N nodes, L = maximum number of placements."""

    score: Float  # [K, N], -inf = does not fit
    devices: Int  # [K, N] mask of the devices that the score assumes
    read: Int  # [K] position in `changed` up to which the shape has read; -1 = never scored
    changed: Int  # [L] rows in the order in which they changed
    changed_count: Int  # [1]
    last: Int  # [N] the node's last entry in `changed`, -1 = none
    term: Float  # [N] `node_term` of each node
    kinds: Int  # [N] bits of the kinds of GPU pods on the node


def kept_scores(
    shapes: int, nodes: GpuNodeArrays, rule: int, mix: GpuMix, weights: GpuWeights, placements: int
) -> KeptScores:
    """Make an empty table for at most `placements` placements on idle nodes."""
    count = len(nodes.cpu)
    kept = KeptScores(
        score=np.full((shapes, count), -np.inf),
        devices=np.zeros((shapes, count), np.int64),
        read=np.full(shapes, NONE, np.int64),
        changed=np.zeros(placements, np.int64),
        changed_count=np.zeros(1, np.int64),
        last=np.full(count, NONE, np.int64),
        term=np.zeros(count),
        kinds=np.zeros(count, np.int64),
    )
    _all_terms(rule, nodes, mix, weights, kept.term)
    return kept


@njit
def _all_terms(rule: int, nodes: GpuNodeArrays, mix: GpuMix, w: GpuWeights, term: Float) -> None:
    for n in range(len(term)):
        term[n] = node_term(rule, nodes, n, mix, w)


@njit
def _rescore(
    rule: int, nodes: GpuNodeArrays, n: int, shapes: GpuShapes, k: int, mix: GpuMix, w: GpuWeights, kept: KeptScores
) -> None:
    if misfit(nodes, n, shapes, k) != 0:
        kept.score[k, n] = -np.inf
        return
    score, devices = score_node(rule, nodes, n, kept.kinds[n], shapes, k, mix, w, kept.term[n])
    kept.score[k, n] = score
    kept.devices[k, n] = devices


@njit
def choose(
    rule: int,
    nodes: GpuNodeArrays,
    shapes: GpuShapes,
    k: int,
    mix: GpuMix,
    w: GpuWeights,
    kept: KeptScores,
    draw: float,
) -> int:
    """Return the row with the highest score for shape `k`, the lowest row of equals; -1 = no node fits.

    The random rule takes one of the rows that fit, by `draw` in [0, 1).
    """
    rows = len(kept.term)
    new = kept.read[k] < 0
    for entry in range(0 if new else kept.read[k], rows if new else kept.changed_count[0]):
        n = entry if new else kept.changed[entry]
        if new or kept.last[n] == entry:  # once per node, at its last change
            _rescore(rule, nodes, n, shapes, k, mix, w, kept)
    kept.read[k] = kept.changed_count[0]
    if rule == GpuRule.RANDOM:
        fitting = 0
        for n in range(rows):
            if kept.score[k, n] > -np.inf:
                fitting += 1
        if fitting == 0:
            return -1
        skip = int(draw * fitting)
        for n in range(rows):
            if kept.score[k, n] > -np.inf:
                if skip == 0:
                    return n
                skip -= 1
    best, row = -np.inf, -1
    for n in range(rows):
        if kept.score[k, n] > best:
            best, row = kept.score[k, n], n
    return row


@njit
def _any_device(nodes: GpuNodeArrays, n: int, milli: int, draw: float) -> int:
    enough = 0
    for i in range(nodes.gpu_count[n]):
        if nodes.gpu_free[n, i] >= milli:
            enough += 1
    skip = int(draw * enough)
    for i in range(nodes.gpu_count[n]):
        if nodes.gpu_free[n, i] >= milli:
            if skip == 0:
                return 1 << i
            skip -= 1
    return 0


@njit
def place_all(
    rule: int,
    nodes: GpuNodeArrays,
    shapes: GpuShapes,
    arrivals: Int,
    begin: int,
    end: int,
    mix: GpuMix,
    w: GpuWeights,
    kept: KeptScores,
    draws: Float,
    row: Int,
    devices: Int,
) -> None:
    """Place the pods `arrivals[begin:end]` (shapes, in order) and write each one's row (-1 = refused) and mask of
    devices.

    `draws` is [len(arrivals), 2] in [0, 1), for the random rule.
    """
    for a in range(begin, end):
        k = arrivals[a]
        n = choose(rule, nodes, shapes, k, mix, w, kept, draws[a, 0])
        row[a] = n
        devices[a] = 0
        if n < 0:
            continue
        mask = kept.devices[k, n]
        if rule == GpuRule.RANDOM and shapes.gpu_count[k] == 1 and shapes.gpu_milli[k] < WHOLE_GPU_MILLI:
            mask = _any_device(nodes, n, shapes.gpu_milli[k], draws[a, 1])
        devices[a] = mask
        take(nodes, n, shapes, k, mask, 1)
        kept.kinds[n] |= kind_bit(shapes.gpu_count[k], shapes.gpu_milli[k])
        kept.term[n] = node_term(rule, nodes, n, mix, w)
        kept.changed[kept.changed_count[0]] = n
        kept.last[n] = kept.changed_count[0]
        kept.changed_count[0] += 1
