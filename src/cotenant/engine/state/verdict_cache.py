"""Exact placement of a queue with a record of every choice, over verdicts and scores that are cached per pod shape.

Problem: every bind carries its decision record, and pods of one template ask the same question of thousands of nodes of which one has changed. Choice:
the verdicts and scores of the shapes judged last are cached with the version of each row, so that only changed rows are judged again; the verdicts are
counted and the best few scores of each block of rows kept, so that the next pod of the shape costs one block. This is the one exact choice of the scheduling
cycle, in the lab, in a local cluster and in a real one (bench/placement.py compares it with a scan and with the score tree of engine/replay). Limits: whoever
changes the ledger must tell `VerdictCache`; names of resources and taints are not known here (engine/cycle/rejections.py names them for pods that wait);
scores that depend on the time are judged in full once a call.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cotenant.model.arrays import Float, Int, Mask, NodeArrays, ShapeArrays
from cotenant.model.compiled import njit
from cotenant.policy.placement.compiled import Reject, Score, commit, rejection, score_rows, winner

BEST = 3
_BLOCK = 128  # rows whose best few are kept together: some hundred blocks of some hundred rows in a large cluster
NO_QUOTA_PER_ROW: Int = np.empty(0, dtype=np.int64)  # of `place_cached`: a row takes as many pods as fit
_VERDICTS = len(Reject) + 1
_NOT_READY = int(Reject.NOT_READY)
_BY_TIME = (Score.FOUNDING, Score.FOUNDING_LEDGER)


class Account(NamedTuple):
    """How m pods were judged, one row each. A pod whose shape had just failed in the same call is not judged: `counts` is -1."""

    rows: Int  # [m] where it goes, -1 = waits
    counts: Int  # [m, len(Reject) + 1] nodes by verdict; column 0 passed
    best: Int  # [m, BEST] the best rows, -1 where there are fewer
    scores: Float  # [m, BEST]
    score: Float  # [m] of the chosen row, NaN where it waits


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
    """Judge anew the rows that have changed since this shape was last judged."""
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
    """The best rows of one block, the best first, of equal ones the first."""
    narrowed = allowed.shape[0] > 0
    best, best_scores = tops[block], top_scores[block]
    best[:] = -1
    least = -np.inf  # of those kept, once there are as many as are kept: most rows need no more than this look
    for n in range(block * _BLOCK, min(verdicts.shape[0], (block + 1) * _BLOCK)):
        if verdicts[n] == 0 and (not narrowed or allowed[n]) and (scores[n] > least or best[-1] < 0):
            least = _insert(n, scores[n], best, best_scores)


@njit
def _insert(n: int, score: float, best: Int, best_scores: Float) -> float:
    """Take a row up among the best, where there is room or the last is worse, behind those that are as good; the last one's score then."""
    at = best.shape[0] - 1
    while at > 0 and (best[at - 1] < 0 or score > best_scores[at - 1]):
        best[at] = best[at - 1]
        best_scores[at] = best_scores[at - 1]
        at -= 1
    best[at] = n
    best_scores[at] = score
    return float(best_scores[-1])


@njit
def _the_best(rows: Int, scores: Float, best: Int, best_scores: Float) -> None:
    """Of these rows the best, the best first, of equal ones the first."""
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
    """What `winner` would choose with random ties, drawing as often: blocks that are worse than what was found are passed over."""
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
    surveyed, n = -1, -1  # the shape that `tally` and `tops` are of, but for row n, which was taken since
    for i in range(queue.shape[0]):
        k, slot = queue[i], slots[i]
        if failed[k]:
            continue
        if k == surveyed:
            scratch[0] = n
            tally[verdicts[slot, n]] -= 1  # it passed, since it was taken
            verdicts[slot, n] = rejection(nodes, n, shapes, k, fit, knobs)
            stamps[slot, n] = version[n]
            score_rows(score, nodes, shapes, k, scratch[:1], now_s, knobs, scores[slot])
            tally[verdicts[slot, n] if allowed.shape[0] == 0 or allowed[n] else _NOT_READY] += 1
            _survey_block(verdicts[slot], scores[slot], allowed, n // _BLOCK, tops, top_scores)
        else:
            if slot == last:  # shared by shapes that have no slot of their own
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
    """Verdicts and scores of the shapes judged last, with the version of each row they belong to.

    Whoever changes a row of the ledger counts up `version[row]`; a shape is judged again only on rows whose version differs from the cached one.
    Scores that depend on the time are not cached.
    """

    def __init__(self, score: Score, slots: int = 48) -> None:
        self.version: Int = np.zeros(0, dtype=np.int64)
        self._score = score
        self._slots = slots
        self._of: dict[int, int] = {}  # shape -> slot, the longest unused first
        self.forget()

    def forget(self) -> None:
        """Rows of shapes have been given to other shapes."""
        self._of.clear()
        size = len(self.version)
        self.stamps = np.full((self._slots + 1, size), -1, dtype=np.int64)
        self.verdicts = np.zeros((self._slots + 1, size), dtype=np.int64)
        self.scores = np.zeros((self._slots + 1, size))

    def resize(self, rows: int) -> None:
        """The ledger has so many rows now."""
        if rows > len(self.version):
            self.version = np.concatenate([self.version, np.zeros(rows - len(self.version), dtype=np.int64)])
            self.forget()

    def forget_shapes(self, shapes: Int) -> None:
        """What is requested or estimated for these shapes has changed: judge them again on every row."""
        for k in shapes.tolist():
            slot = self._of.get(k, -1)
            if slot >= 0:
                self.stamps[slot] = -1

    def changed(self, rows: Int | int) -> None:
        """These rows, each named once or more, are not what they were."""
        self.version[rows] += 1

    def remembered(self) -> tuple[tuple[int, int], ...]:
        """Shapes and their slots."""
        return tuple(self._of.items())

    def slots_of(self, queue: Int) -> Int:
        """A slot for each shape of the queue; the last one is shared by those that have none."""
        if self._score in _BY_TIME:
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


def account_best(account: Account, at: int, rows: Int, scores: Float) -> None:
    """Write into the account which of these rows are the best for its pod `at`; `scores[len(rows)]`."""
    _the_best(rows, scores, account.best[at], account.scores[at])


def judged(
    k: int,
    nodes: NodeArrays,
    shapes: ShapeArrays,
    fit: int,
    score: int,
    now_s: float,
    knobs: Float,
    cache: VerdictCache,
) -> tuple[Int, Float]:
    """What every row's filters say of one shape, and the scores of the rows that pass: the memory's own arrays, to be read at once."""
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
) -> Account:
    """Place the pods whose shapes are `queue[m]`, in that order. Changes `nodes` in place and counts up the rows' versions in `cache`.

    A shape that found no node is not tried again in the same call: placements only take room. `sample` > 0 stops at that many passing nodes, starting where
    the last call stopped (`cursor[0]`), as kube-scheduler does. `allowed` is empty (every row) or one bool a row. `times`, where it is not empty, is how many
    pods of the queue each row takes; it and `allowed`, which is not empty then, are used up.
    """
    account = blank(len(queue))
    cache.resize(nodes.capacity.shape[0])
    _place(
        queue, cache.slots_of(queue), nodes, shapes, allowed, fit, score, random_ties, sample, cursor, now_s, knobs, rng,
        cache.version, cache.stamps, cache.verdicts, cache.scores,
        account.rows, account.counts, account.best, account.scores, account.score, times,
    )  # fmt: skip
    return account


def helped(queue: Int, among: Int, nodes: NodeArrays, shapes: ShapeArrays, fit: int, knobs: Float) -> Mask:
    """`bool[m]`: which of these shapes pass every row-local filter on any row of `among`."""
    answer = np.zeros(len(queue), dtype=np.bool_)
    _helped(queue, among, nodes, shapes, fit, knobs, answer)
    return answer
