"""The room of every node by load, and its use, as arrays updated row by row; masks and scores over them by pod
estimate.

With load-aware placement every pod is checked against every node, and a cluster of ten thousand nodes receives two
hundred metrics a second. A row holds the largest estimate that still fits, so a mask is two comparisons. A row is
rewritten when its node, metric or residents change; a placement only subtracts the pod's estimate. Masks and scores are
cached per estimate and follow a log of changed rows.
Limits: the cache holds the `MAX_KEPT` most recently used estimates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cotenant.model.arrays import Float, Int, Mask
from cotenant.model.machine.node_metric import Use
from cotenant.policy.placement.load_aware.filtering import UNLIMITED, enough
from cotenant.policy.placement.load_aware.scoring import score, score_rows
from cotenant.policy.placement.load_aware.settings import LoadAwareSettings
from cotenant.policy.placement.load_aware.standing import CLOSED, LoadSource, LoadStanding
from cotenant.policy.placement.load_aware.usage import UsageBasis

MAX_KEPT = 64
_ANEW_OVER = 8  # above this share of changed rows (one in eight) everything is recomputed

USUAL, PROD = 0, 1


class LoadAsk(NamedTuple):
    """What makes pods equal to the load rule: the expected use, and whether they are judged as production."""

    estimate: Use
    is_prod: bool

    @property
    def side(self) -> int:
        """The side that judges it."""
        return PROD if self.is_prod else USUAL


@dataclass(slots=True)
class _Kept:
    """The answers to one estimate, valid up to a position in the log."""

    cpu: Mask
    memory: Mask
    scores: Float
    at: int


class LoadRows:
    """Arrays over the encoder's rows."""

    def __init__(self, settings: LoadAwareSettings) -> None:
        self.settings = settings
        self.room: Int = np.empty((2, 0, 2), dtype=np.int64)  # by side, row, resource
        self.total: Int = np.empty((2, 0, 2), dtype=np.int64)  # used by the score
        self.size: Int = np.empty((0, 2), dtype=np.int64)
        self.closed: Mask = np.empty(0, dtype=np.bool_)
        self.scored: Mask = np.empty(0, dtype=np.bool_)
        self._known: list[bool] = []  # the node has usable figures
        self.sources: list[LoadSource | None] = []  # source of the figures; None for a row without a node
        self.updated_s: list[float] = []  # time of the figures, -inf for none
        self._prod_filter: list[bool] = []  # the production side counts only production pods
        self._prod_score: list[bool] = []
        self._log: list[int] = []
        self._kept: dict[LoadAsk, _Kept] = {}  # least recently used first

    def grow(self, rows: int) -> None:
        """Extend to `rows` rows; new rows admit every pod."""
        more = rows - len(self.closed)
        if more <= 0:
            return
        self.room = np.concatenate([self.room, np.full((2, more, 2), UNLIMITED, dtype=np.int64)], axis=1)
        self.total = np.concatenate([self.total, np.zeros((2, more, 2), dtype=np.int64)], axis=1)
        self.size = np.concatenate([self.size, np.zeros((more, 2), dtype=np.int64)])
        self.closed = np.concatenate([self.closed, np.zeros(more, dtype=np.bool_)])
        self.scored = np.concatenate([self.scored, np.zeros(more, dtype=np.bool_)])
        self.updated_s += [float("-inf")] * more
        self._known += [False] * more
        self.sources += [None] * more
        self._prod_filter += [False] * more
        self._prod_score += [False] * more
        self._kept.clear()
        self._log.clear()

    def write(self, row: int, standing: LoadStanding | None) -> bool:
        """Set a row's standing; None for a row without a node. Returns whether a pod may pass now that did not
        before.
        """
        before = self.room[:, row].copy()
        if standing is None:
            self.room[:, row] = UNLIMITED
            self.total[:, row] = 0
            self.size[row] = 0
            self.closed[row] = self.scored[row] = False
            self.updated_s[row] = float("-inf")
            self._known[row] = False
            self.sources[row] = None
        else:
            for side, state in ((USUAL, standing.usual), (PROD, standing.prod)):
                self.room[side, row] = state.room
                self.total[side, row] = state.scored.total
            self.size[row] = standing.size
            self.closed[row] = standing.is_closed
            self.scored[row] = standing.is_scored
            self.updated_s[row] = standing.updated_s
            self._known[row] = standing.is_known
            self.sources[row] = standing.source
            self._prod_filter[row] = standing.prod.rule.look.production
            self._prod_score[row] = standing.prod.scored.basis is UsageBasis.PRODUCTION
        self._log.append(row)
        return bool((self.room[:, row] > before).any())

    def place(self, row: int, ask: LoadAsk) -> None:
        """Account for a pod that was just placed, by its estimate."""
        cpu, memory = ask.estimate
        for side in (USUAL, PROD):
            room, total = self.room[side, row], self.total[side, row]
            if side == USUAL or ask.is_prod or not self._prod_filter[row]:
                if CLOSED != room[0] != UNLIMITED:
                    room[0] -= cpu
                if CLOSED != room[1] != UNLIMITED:
                    room[1] -= memory
            if self._known[row] and (side == USUAL or ask.is_prod or not self._prod_score[row]):
                total[0] += cpu
                total[1] += memory
        self._log.append(row)

    # ---- queries

    def masks(self, ask: LoadAsk) -> tuple[Mask, Mask]:
        """Rows with enough CPU room, and with enough memory room; closed rows are True here. Read-only."""
        kept = self._current(ask)
        return kept.cpu, kept.memory

    def scores(self, ask: LoadAsk) -> Float:
        """The score of every row. Read-only."""
        return self._current(ask).scores

    def times(self, ask: LoadAsk) -> Int:
        """How many such pods each row can take one after the other."""
        room = self.room[ask.side]
        answer = np.full(len(self.closed), UNLIMITED, dtype=np.int64)
        for resource, amount in enumerate(ask.estimate):
            if amount > 0:
                answer = np.minimum(answer, room[:, resource] // amount)
            else:
                answer[room[:, resource] < 0] = 0
        answer[self.closed] = 0
        return np.maximum(answer, 0)

    def _current(self, ask: LoadAsk) -> _Kept:
        kept = self._kept.pop(ask, None)
        size = len(self.closed)
        if kept is None or (len(self._log) - kept.at) * _ANEW_OVER > size:
            kept = self._anew(ask)
        else:
            for row in set(self._log[kept.at :]):
                self._one(kept, ask, row)
            kept.at = len(self._log)
        self._kept[ask] = kept
        if len(self._kept) > MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        if len(self._log) > 4 * size + 1024:
            self._log.clear()
            self._kept = {ask: kept}
            kept.at = 0
        return kept

    def _anew(self, ask: LoadAsk) -> _Kept:
        room = self.room[ask.side]
        scores = score_rows(self.size, self.total[ask.side] + np.array(ask.estimate), self.settings)
        return _Kept(
            (room[:, 0] >= ask.estimate.cpu_m) | self.closed,
            (room[:, 1] >= ask.estimate.memory_bytes) | self.closed,
            np.where(self.scored, scores, 0).astype(np.float64),
            len(self._log),
        )

    def _one(self, kept: _Kept, ask: LoadAsk, row: int) -> None:
        closed = bool(self.closed[row])
        cpu, memory = enough(Use(*self.room[ask.side, row].tolist()), ask.estimate)
        kept.cpu[row], kept.memory[row] = closed or cpu, closed or memory
        total = Use(*self.total[ask.side, row].tolist()).plus(ask.estimate)
        kept.scores[row] = score(Use(*self.size[row].tolist()), total, self.settings) if self.scored[row] else 0
