"""Moving replicas that keep missing their objective, and remembering what came of it.

Problem: a move costs a replica its first minute, and may gain nothing. Choice: the policy names victims from latency alone; each is then
taken off its node in thought and judged again by the same filters and score that place it, and moves only if another node is better by a
margin. Limits: the gain is by estimate; what came of a move is seen as missed windows, which rest for a while before the next try.
"""

from __future__ import annotations

import numpy as np

from cotenant.engine.state.ledger import Ledger
from cotenant.model.arrays import CPU, Float, Int, Mask
from cotenant.policy.placement.compiled import plain_rejections, plain_scores
from cotenant.policy.placement.profiles import PlacementProfile
from cotenant.policy.rebalance.victims import victims


class Rebalancer:
    """Counts missed windows and names the replicas worth moving."""

    def __init__(self) -> None:
        self._missed = np.empty(0, dtype=np.int64)  # [P] consecutive windows
        self._moved_s = np.empty(0)  # [P] last move

    def victims(
        self, ledger: Ledger, profile: PlacementProfile, replicas: Int, p99_ratio: Float, violated: Mask, now_s: float
    ) -> Int:
        """Take in the last window of these replicas; who should be evicted to be seated better, at most a few."""
        more = len(ledger.row) - len(self._missed)
        if more > 0:
            self._missed = np.concatenate([self._missed, np.zeros(more, dtype=np.int64)])
            self._moved_s = np.concatenate([self._moved_s, np.full(more, -np.inf)])
        self._missed[replicas] = np.where(violated, self._missed[replicas] + 1, 0)
        knobs = profile.knobs
        budget = int(np.ceil(knobs.move_share * len(replicas)))
        cores = ledger.shapes.request[ledger.shape[replicas], CPU] / 1000.0
        rested = now_s - self._moved_s[replicas]
        order = victims(self._missed[replicas], p99_ratio, cores, rested, knobs.move_windows, knobs.move_rest_s)
        moves: list[int] = []
        for i in order[: 4 * budget].tolist():
            if len(moves) >= budget:
                break
            pod = int(replicas[i])
            if self._gain(ledger, profile, pod, now_s) >= knobs.move_gain:
                moves.append(pod)
                self._moved_s[pod] = now_s
                self._missed[pod] = 0
        return np.array(moves, dtype=np.int64)

    @staticmethod
    def _gain(ledger: Ledger, profile: PlacementProfile, pod: int, now_s: float) -> float:
        """How much better the best node's score is than that of the pod's own, were it to be placed now; 0 if none is."""
        one, home, shape = np.array([pod]), int(ledger.row[pod]), ledger.shape[[pod]]
        knobs = profile.knobs.array()
        ledger.remove(one)
        k = int(shape[0])
        rows = np.flatnonzero(plain_rejections(ledger.nodes, ledger.shapes, k, int(profile.fit), knobs) == 0)
        here = np.array([home])
        stay = float(plain_scores(int(profile.score), ledger.nodes, ledger.shapes, k, here, now_s, knobs)[0])
        best = stay
        if len(rows):
            best = float(plain_scores(int(profile.score), ledger.nodes, ledger.shapes, k, rows, now_s, knobs).max())
        ledger.place(one, here, shape)
        return best - stay
