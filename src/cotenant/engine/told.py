"""The compiled placement that also tells why: the same choices as `place_queue`, with an account of each.

Problem: every bind carries its decision record, and to judge again in NumPy what was just judged costs more than the judgement. Choice: the
compiled loop counts its verdicts and keeps the best few scores while they are at hand, some microseconds a pod. Limits: names of
resources and taints are not known here (engine/rejections.py names them for pods that wait); only the best `BEST` nodes are kept.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cotenant.model.arrays import Float, Int, Mask, NodeArrays, ShapeArrays
from cotenant.model.compiled import njit
from cotenant.policy.placement.compiled import Reject, choose, commit, rejection

BEST = 3
_VERDICTS = len(Reject) + 1


class Account(NamedTuple):
    """How m pods were judged, one row each. A pod whose shape had just failed in the same call is not judged: `counts` is -1."""

    rows: Int  # [m] where it goes, -1 = waits
    counts: Int  # [m, len(Reject) + 1] nodes by verdict; column 0 passed
    best: Int  # [m, BEST] the best rows, -1 where there are fewer
    scores: Float  # [m, BEST]
    score: Float  # [m] of the chosen row, NaN where it waits


@njit
def _place(
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
    rows: Int,
    counts: Int,
    best: Int,
    best_scores: Float,
    chosen: Float,
) -> None:
    failed = np.zeros(shapes.request.shape[0], np.bool_)
    verdicts = np.empty(nodes.capacity.shape[0], np.int64)
    scores = np.empty(nodes.capacity.shape[0], np.float64)
    width = best.shape[1]
    for i in range(queue.shape[0]):
        k = queue[i]
        if failed[k]:
            continue
        n = choose(
            nodes, shapes, k, allowed, fit, score, random_ties, sample, cursor, now_s, knobs, rng, verdicts, scores
        )
        counts[i] = 0
        for row in range(verdicts.shape[0]):
            counts[i, verdicts[row]] += 1
        if n < 0:
            failed[k] = True
            continue
        for row in range(verdicts.shape[0]):
            if verdicts[row] != 0 or (best[i, width - 1] >= 0 and scores[row] <= best_scores[i, width - 1]):
                continue
            at = width - 1
            while at > 0 and (best[i, at - 1] < 0 or scores[row] > best_scores[i, at - 1]):
                best[i, at] = best[i, at - 1]
                best_scores[i, at] = best_scores[i, at - 1]
                at -= 1
            best[i, at] = row
            best_scores[i, at] = scores[row]
        chosen[i] = scores[n]
        rows[i] = n
        commit(nodes, n, shapes, k)


@njit
def _helped(
    queue: Int, among: Int, nodes: NodeArrays, shapes: ShapeArrays, fit: int, knobs: Float, answer: Mask
) -> None:
    for i in range(queue.shape[0]):
        for j in range(among.shape[0]):
            if rejection(nodes, among[j], shapes, queue[i], fit, knobs) == 0:
                answer[i] = True
                break


def blank(size: int) -> Account:
    """The account of pods that were not judged."""
    return Account(
        rows=np.full(size, -1, dtype=np.int64),
        counts=np.full((size, _VERDICTS), -1, dtype=np.int64),
        best=np.full((size, BEST), -1, dtype=np.int64),
        scores=np.full((size, BEST), np.nan),
        score=np.full(size, np.nan),
    )


def place_told(
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
) -> Account:
    """As `place_queue`, with the account. Changes `nodes` in place."""
    account = blank(len(queue))
    _place(
        queue, nodes, shapes, allowed, fit, score, random_ties, sample, cursor, now_s, knobs, rng,
        account.rows, account.counts, account.best, account.scores, account.score,
    )  # fmt: skip
    return account


def helped(queue: Int, among: Int, nodes: NodeArrays, shapes: ShapeArrays, fit: int, knobs: Float) -> Mask:
    """`bool[m]`: which of these shapes pass every row-local filter on any row of `among`."""
    answer = np.zeros(len(queue), dtype=np.bool_)
    _helped(queue, among, nodes, shapes, fit, knobs, answer)
    return answer
