"""Exact placement of a queue, with verdicts and scores cached per pod shape, and a record of every choice.

Every bind has a decision record, and pods of one template repeat the same evaluation on thousands of nodes of which one
has changed. The verdicts and scores of the shapes evaluated last are cached with the version of each row, so that only
changed rows are evaluated again; the verdicts are counted and the best few scores of each block of rows kept, so that
the next pod of the shape costs one block. This is the only exact placement of the scheduling cycle, in the lab, in a
local cluster and in a real one (bench/placement.py compares it with a scan).
Limits: every change of the ledger must be reported to `VerdictCache`; names of resources and taints are not known here
(engine/cycle/rejections.py names them for pending pods); scores that depend on the time are computed in full once per
call.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cotenant.model.arrays import Float, Int, Mask, NodeArrays, ShapeArrays
from cotenant.model.compiled import njit
from cotenant.policy.placement.codes import Score
from cotenant.policy.placement.compiled import Reject, commit, rejection, score_rows, winner

BEST = 3  # candidates recorded per pod
_BLOCK = 128  # rows per block, whose best few are kept: some hundred blocks in a large cluster
NO_QUOTA_PER_ROW: Int = np.empty(0, dtype=np.int64)  # for `place_cached`: a row takes as many pods as fit
_VERDICTS = len(Reject) + 1
_NOT_READY = int(Reject.NOT_READY)
BY_TIME = (Score.FOUNDING, Score.FOUNDING_LEDGER)


class Evaluation(NamedTuple):
    """The result for m pods, one row each. A pod whose shape had failed before in the same call is not evaluated:
    `counts` is -1.
    """

    rows: Int  # [m] the chosen row, -1 = none
    counts: Int  # [m, len(Reject) + 1] nodes by verdict; column 0 passed
    best: Int  # [m, BEST] the best rows, -1 where there are fewer
    scores: Float  # [m, BEST]
    score: Float  # [m] of the chosen row, NaN if none


@njit
def _refresh(
    nodes: NodeArrays,
    shapes: ShapeArrays,
    k: int,
    fit: int,
    score: int,
    now_s: float,
    knobs: Float,
    version: Int,
    stamps: Int,
    verdicts: Int,
    scores: Float,
    scratch: Int,
) -> None:
    """Evaluate the rows that have changed since this shape was last evaluated."""
    count = 0
    for n in range(version.shape[0]):
        if stamps[n] != version[n]:
            scratch[count] = n
            count += 1
    rows = scratch[:count]
    for n in rows:
        verdicts[n] = rejection(nodes, n, shapes, k, fit, knobs)
        stamps[n] = version[n]
    score_rows(score, nodes, shapes, k, rows, now_s, knobs, scores)


@njit
def _survey_block(verdicts: Int, scores: Float, allowed: Mask, block: int, tops: Int, top_scores: Float) -> None:
    """The best rows of one block, best first; equal ones in row order."""
    narrowed = allowed.shape[0] > 0
    best, best_scores = tops[block], top_scores[block]
    best[:] = -1
    least = -np.inf  # the lowest kept score once all places are taken: most rows need only this comparison
    for n in range(block * _BLOCK, min(verdicts.shape[0], (block + 1) * _BLOCK)):
        if verdicts[n] == 0 and (not narrowed or allowed[n]) and (scores[n] > least or best[-1] < 0):
            least = _insert(n, scores[n], best, best_scores)


@njit
def _insert(n: int, score: float, best: Int, best_scores: Float) -> float:
    """Insert a row among the best, behind equal ones; the last one drops out if there is no free place. Returns the
    last one's score.
    """
    at = best.shape[0] - 1
    while at > 0 and (best[at - 1] < 0 or score > best_scores[at - 1]):
        best[at] = best[at - 1]
        best_scores[at] = best_scores[at - 1]
        at -= 1
    best[at] = n
    best_scores[at] = score
    return float(best_scores[-1])


@njit
def _best_of(rows: Int, scores: Float, best: Int, best_scores: Float) -> None:
    """The best of these rows, best first; equal ones in the given order."""
    best[:] = -1
    least = -np.inf
    for i in range(rows.shape[0]):
        if scores[i] > least or best[-1] < 0:
            least = _insert(rows[i], scores[i], best, best_scores)


@njit
def _survey(verdicts: Int, scores: Float, allowed: Mask, counts: Int, tops: Int, top_scores: Float) -> None:
    """Count the verdicts, and find the best rows of every block."""
    counts[:] = 0
    if allowed.shape[0] > 0:
        for n in range(verdicts.shape[0]):
            counts[verdicts[n] if allowed[n] else _NOT_READY] += 1
    else:
        for n in range(verdicts.shape[0]):
            counts[verdicts[n]] += 1
    for block in range(tops.shape[0]):
        _survey_block(verdicts, scores, allowed, block, tops, top_scores)


@njit
def _merge(tops: Int, top_scores: Float, best: Int, best_scores: Float) -> None:
    """The best rows of all blocks."""
    width = best.shape[0]
    for block in range(tops.shape[0]):
        for i in range(width):
            if tops[block, i] < 0 or (best[width - 1] >= 0 and top_scores[block, i] <= best_scores[width - 1]):
                break
            _insert(tops[block, i], top_scores[block, i], best, best_scores)


@njit
def _winner(verdicts: Int, scores: Float, allowed: Mask, tops: Int, top_scores: Float, rng: np.random.Generator) -> int:
    """The choice of `winner` with random ties, with as many random draws; blocks whose best score is lower are
    skipped.
    """
    narrowed = allowed.shape[0] > 0
    best, best_score, ties = -1, -np.inf, 0
    for block in range(tops.shape[0]):
        if tops[block, 0] < 0 or top_scores[block, 0] < best_score:
            continue
        for n in range(block * _BLOCK, min(verdicts.shape[0], (block + 1) * _BLOCK)):
            if verdicts[n] != 0 or (narrowed and not allowed[n]):
                continue
            if scores[n] > best_score:
                best, best_score, ties = n, scores[n], 1
            elif scores[n] == best_score:
                ties += 1
                if rng.random() * ties < 1.0:
                    best = n
    return best


@njit
def _place(
    queue: Int,
    slots: Int,
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
    version: Int,
    stamps: Int,
    verdicts: Int,
    scores: Float,
    rows: Int,
    counts: Int,
    best: Int,
    best_scores: Float,
    chosen: Float,
    times: Int,
) -> None:
    failed = np.zeros(shapes.request.shape[0], np.bool_)
    scratch = np.empty(version.shape[0], np.int64)
    blocks = (version.shape[0] + _BLOCK - 1) // _BLOCK
    tops, top_scores = np.empty((blocks, best.shape[1]), np.int64), np.empty((blocks, best.shape[1]))
    tally = np.empty(counts.shape[1], np.int64)
    last = stamps.shape[0] - 1
    surveyed, n = (
        -1,
        -1,
    )  # the shape that `tally` and `tops` belong to; they are outdated for row n only, which was chosen since
    for i in range(queue.shape[0]):
        k, slot = queue[i], slots[i]
        if failed[k]:
            continue
        if k == surveyed:
            scratch[0] = n
            tally[verdicts[slot, n]] -= 1  # it had passed, since it was chosen
            verdicts[slot, n] = rejection(nodes, n, shapes, k, fit, knobs)
            stamps[slot, n] = version[n]
            score_rows(score, nodes, shapes, k, scratch[:1], now_s, knobs, scores[slot])
            tally[verdicts[slot, n] if allowed.shape[0] == 0 or allowed[n] else _NOT_READY] += 1
            _survey_block(verdicts[slot], scores[slot], allowed, n // _BLOCK, tops, top_scores)
        else:
            if slot == last:  # shared by shapes without a slot
                stamps[slot] = -1
            _refresh(
                nodes, shapes, k, fit, score, now_s, knobs, version, stamps[slot], verdicts[slot], scores[slot], scratch
            )
            _survey(verdicts[slot], scores[slot], allowed, tally, tops, top_scores)
            surveyed = k
        counts[i] = tally
        _merge(tops, top_scores, best[i], best_scores[i])
        if sample > 0:
            n = winner(verdicts[slot], scores[slot], allowed, random_ties, sample, cursor, rng)
        elif random_ties:
            n = _winner(verdicts[slot], scores[slot], allowed, tops, top_scores, rng)
        else:
            n = best[i, 0]
        if n < 0:
            failed[k] = True
            surveyed = -1
            continue
        chosen[i] = scores[slot, n]
        rows[i] = n
        commit(nodes, n, shapes, k)
        version[n] += 1
        if times.shape[0] > 0:
            times[n] -= 1
            if times[n] <= 0:
                allowed[n] = False


class VerdictCache:
    """Verdicts and scores of the shapes evaluated last, with the version of each row they belong to.

    Every change of a ledger row increments `version[row]`; a shape is evaluated again only on rows whose version
    differs from the cached one. Scores that depend on the time are not cached.
    """

    def __init__(self, score: Score, slots: int = 48) -> None:
        self.version: Int = np.zeros(0, dtype=np.int64)
        self._score = score
        self._slots = slots
        self._of: dict[int, int] = {}  # shape -> slot, least recently used first
        self.forget()

    def forget(self) -> None:
        """Drop everything; required when rows of shapes are reused for other shapes."""
        self._of.clear()
        size = len(self.version)
        self.stamps = np.full((self._slots + 1, size), -1, dtype=np.int64)
        self.verdicts = np.zeros((self._slots + 1, size), dtype=np.int64)
        self.scores = np.zeros((self._slots + 1, size))

    def resize(self, rows: int) -> None:
        """Extend to the ledger's number of rows; drops everything if it grows."""
        if rows > len(self.version):
            self.version = np.concatenate([self.version, np.zeros(rows - len(self.version), dtype=np.int64)])
            self.forget()

    def forget_shapes(self, shapes: Int) -> None:
        """Requests or estimates of these shapes changed: evaluate them again on every row."""
        for k in shapes.tolist():
            slot = self._of.get(k, -1)
            if slot >= 0:
                self.stamps[slot] = -1

    def changed(self, rows: Int | int) -> None:
        """These rows changed; repetitions are allowed."""
        self.version[rows] += 1

    def cached(self) -> tuple[tuple[int, int], ...]:
        """Cached shapes and their slots."""
        return tuple(self._of.items())

    def slots_of(self, queue: Int) -> Int:
        """A slot for each shape of the queue; shapes without one share the last slot."""
        if self._score in BY_TIME:
            return np.full(len(queue), self._slots, dtype=np.int64)
        slots: dict[int, int] = {}
        for k in dict.fromkeys(queue.tolist()):
            slot = self._of.pop(k, -1)
            if slot < 0 and len(self._of) + len(slots) < self._slots:
                slot = len(self._of) + len(slots)
            elif slot < 0 and self._of:
                slot = self._of.pop(next(iter(self._of)))
                self.stamps[slot] = -1
            slots[k] = slot if slot >= 0 else self._slots
        self._of.update((k, slot) for k, slot in slots.items() if slot < self._slots)
        return np.array([slots[k] for k in queue.tolist()], dtype=np.int64)


@njit
def _feasible_on(
    queue: Int, among: Int, nodes: NodeArrays, shapes: ShapeArrays, fit: int, knobs: Float, answer: Mask
) -> None:
    for i in range(queue.shape[0]):
        for j in range(among.shape[0]):
            if rejection(nodes, among[j], shapes, queue[i], fit, knobs) == 0:
                answer[i] = True
                break


def unevaluated(size: int) -> Evaluation:
    """The result for pods that are not evaluated."""
    return Evaluation(
        rows=np.full(size, -1, dtype=np.int64),
        counts=np.full((size, _VERDICTS), -1, dtype=np.int64),
        best=np.full((size, BEST), -1, dtype=np.int64),
        scores=np.full((size, BEST), np.nan),
        score=np.full(size, np.nan),
    )


def set_best(evaluation: Evaluation, at: int, rows: Int, scores: Float) -> None:
    """Write the best of these rows into the result of pod `at`; `scores[len(rows)]`."""
    _best_of(rows, scores, evaluation.best[at], evaluation.scores[at])


def evaluate(
    k: int,
    nodes: NodeArrays,
    shapes: ShapeArrays,
    fit: int,
    score: int,
    now_s: float,
    knobs: Float,
    cache: VerdictCache,
) -> tuple[Int, Float]:
    """The verdict of every row for one shape, and the scores of feasible rows. These are the cache's own arrays,
    valid until its next use.
    """
    cache.resize(nodes.capacity.shape[0])
    slot = int(cache.slots_of(np.array([k], dtype=np.int64))[0])
    if slot == cache.stamps.shape[0] - 1:
        cache.stamps[slot] = -1
    _refresh(
        nodes, shapes, k, fit, score, now_s, knobs, cache.version, cache.stamps[slot], cache.verdicts[slot],
        cache.scores[slot], np.empty(len(cache.version), dtype=np.int64),
    )  # fmt: skip
    return cache.verdicts[slot], cache.scores[slot]


def place_cached(
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
    cache: VerdictCache,
    times: Int = NO_QUOTA_PER_ROW,
) -> Evaluation:
    """Place the pods whose shapes are `queue[m]`, in that order. Changes `nodes` in place and increments the rows'
    versions in `cache`.

    A shape that found no node is not tried again in the same call, because placements only use resources. `sample` > 0
    stops at that many feasible nodes, starting where the last call stopped (`cursor[0]`), as kube-scheduler does.
    `allowed` is empty (every row) or one bool per row. `times`, if not empty, is how many pods of the queue each row
    takes; it and `allowed`, which must not be empty then, are modified.
    """
    evaluation = unevaluated(len(queue))
    cache.resize(nodes.capacity.shape[0])
    _place(
        queue, cache.slots_of(queue), nodes, shapes, allowed, fit, score, random_ties, sample, cursor, now_s, knobs,
        rng,
        cache.version, cache.stamps, cache.verdicts, cache.scores,
        evaluation.rows, evaluation.counts, evaluation.best, evaluation.scores, evaluation.score, times,
    )  # fmt: skip
    return evaluation


def feasible_on(queue: Int, among: Int, nodes: NodeArrays, shapes: ShapeArrays, fit: int, knobs: Float) -> Mask:
    """`bool[m]`: which of these shapes pass all row-local filters on some row of `among`."""
    answer = np.zeros(len(queue), dtype=np.bool_)
    _feasible_on(queue, among, nodes, shapes, fit, knobs, answer)
    return answer
