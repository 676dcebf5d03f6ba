"""Placement without a cache: every row is judged anew for every pod. What the product's own placement is compared
with.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cotenant.model.arrays import Float, Int, Mask, NodeArrays, ShapeArrays
from cotenant.policy.placement.compiled import choose, commit, reject_rows, score_rows
from cotenant.policy.placement.preference import sampled, scaled


def place_queue(
    queue: Int,
    nodes: NodeArrays,
    shapes: ShapeArrays,
    allowed: Mask,
    fit: int,
    score: int,
    random_ties: bool,
    sample: int,
    cursor: Int,
    now_s: float,
    knobs: Float,
    rng: np.random.Generator,
) -> Int:
    """`int64[m]` rows, -1 = waits, with the arguments of `place_cached`. Changes `nodes`."""
    placed = np.full(len(queue), -1, dtype=np.int64)
    failed: set[int] = set()
    verdicts, scores = np.empty(len(nodes.ready), dtype=np.int64), np.empty(len(nodes.ready))
    for i, k in enumerate(queue.tolist()):
        if k in failed:
            continue
        row = choose(
            nodes, shapes, k, allowed, int(fit), int(score), random_ties, sample, cursor, now_s, knobs, rng, verdicts,
            scores
        )  # fmt: skip
        if row < 0:
            failed.add(k)
            continue
        commit(nodes, row, shapes, k)
        placed[i] = row
    return placed


def choose_preferring(
    nodes: NodeArrays,
    shapes: ShapeArrays,
    k: int,
    allowed: Mask,
    preference: Callable[[Int], Float],
    fit: int,
    score: int,
    random_ties: bool,
    sample: int,
    cursor: Int,
    now_s: float,
    knobs: Float,
    rng: np.random.Generator,
) -> int:
    """The best row by the profile's scaled score plus `preference(rows)`, -1 if none passes. Nothing is committed."""
    verdicts = np.empty(len(nodes.ready), dtype=np.int64)
    reject_rows(nodes, shapes, k, fit, knobs, verdicts)
    rows = sampled((verdicts == 0) & (allowed if len(allowed) else True), sample, cursor)
    if len(rows) == 0:
        return -1
    own = np.empty(len(nodes.ready))
    score_rows(score, nodes, shapes, k, rows, now_s, knobs, own)
    total = scaled(score, own[rows]) + preference(rows)
    best = rows[total == total.max()]
    return int(best[rng.integers(len(best))]) if random_ties and len(best) > 1 else int(best.min())
