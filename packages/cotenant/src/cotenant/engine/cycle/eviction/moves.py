"""Moves replicas that keep missing their objective, and records the moves.

A move costs a replica its first minute, and may gain nothing. The policy selects candidates from latency alone, beyond
its sampling error (policy/rebalance); each is then removed from its node in a simulation and evaluated by the same
rules, filters and score that placed it, and moves only if another node is better by a margin. A move is an eviction:
the replica's owner creates a new pod, which the cycle places. The replacement has the same cool-down as the moved pod.
Limits: the gain is an estimate; the replacement is recognised by its shape; the result of a move is visible only in
missed windows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from cotenant.engine.cycle.components import ClusterComponents
from cotenant.engine.framework.instructions import Evict, Victim
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.model.arrays import CPU, Float, Int
from cotenant.model.cluster.disruption import Mover, holds_back
from cotenant.model.cluster.node import Node
from cotenant.policy.placement.compiled import plain_rejections, plain_scores
from cotenant.policy.rebalance.misses import CLEAR, evidence
from cotenant.policy.rebalance.victims import TAKEOVER_S, hourly_limit, takeover_limit, victims

REASON = "MissedObjective"
_HOUR_S = 3600.0


class Moves:
    """Gathers evidence of missed windows and selects the replicas to move. Replicas are given by number."""

    def __init__(self, components: ClusterComponents, nodes: Mapping[str, Node] = MappingProxyType({})) -> None:
        """`nodes` by name, kept up to date by their owner."""
        self._components = components
        self._nodes = nodes
        self._generation: Int = np.zeros(0, dtype=np.int64)  # of the pod that the other columns are about
        self._evidence: Float = np.zeros(0)  # that it misses its objective
        self._missed: Int = np.zeros(0, dtype=np.int64)  # windows since there is evidence
        self._moved_s: Float = np.zeros(0)  # last move of the replica, or of the one that it replaces
        self._recent_s: deque[float] = deque()  # moves within the last hour, without those of the takeover
        self._takeover_ends_s = np.nan  # NaN until the first measurement
        self._takeover_left = 0  # moves beside the hourly limit
        self._replaced: dict[int, deque[float]] = {}  # shape -> times of moves whose replacement has not appeared yet

    def consider(self, replicas: Int, p99_ratio: Float, requests: Int, now_s: float) -> tuple[Evict, ...]:
        """Record the last window of these replicas, all of which are assigned; returns the moves.

        `p99_ratio` is p99 over objective and `requests` the number of requests of the window, aligned with `replicas`.
        """
        self._recognise(replicas)
        assignments, knobs = self._components.assignments, self._components.profile.knobs
        now = evidence(self._evidence[replicas], p99_ratio, requests, knobs.move_noise)
        self._evidence[replicas] = now
        self._missed[replicas] = np.where(now > 0, self._missed[replicas] + 1, 0)
        missing = int((now >= CLEAR).sum())
        while self._recent_s and self._recent_s[0] <= now_s - _HOUR_S:
            self._recent_s.popleft()
        left = max(0, hourly_limit(len(replicas), missing, knobs.move_hour_share) - len(self._recent_s))
        takeover = self._takeover(replicas, now_s)
        budget = min(int(np.ceil(knobs.move_share * len(replicas))), left + takeover)
        ledger = assignments.ledger
        cores = ledger.shapes.request[ledger.shape[replicas], CPU] / 1000.0
        rested = now_s - self._moved_s[replicas]
        order = victims(now / CLEAR, p99_ratio, cores, rested, knobs.move_windows, knobs.move_rest_s)
        moves: list[Evict] = []
        for number in replicas[order[: 4 * budget]].tolist():
            if len(moves) >= budget:
                break
            entry = assignments.pods.by_number[number]
            if entry.seen.terminating or self._is_held(entry, now_s):
                continue
            gain = self._gain(entry, now_s)
            if gain >= knobs.move_gain:
                moves.append(_move(entry, int(self._missed[number]), gain))
                self._replaced.setdefault(entry.shape, deque(maxlen=64)).append(now_s)
                self._moved_s[number], self._missed[number], self._evidence[number] = now_s, 0, 0.0
        apart = min(len(moves), takeover)
        self._takeover_left -= apart
        self._recent_s.extend([now_s] * (len(moves) - apart))
        return tuple(moves)

    def _is_held(self, entry: PodInfo, now_s: float) -> bool:
        """Whether its owner, or what removes its node, forbids to move it."""
        node = self._nodes.get(entry.node)
        taints = node.taints if node is not None else ()
        return bool(holds_back(Mover.MISSED_OBJECTIVE, entry.seen.marks, entry.seen.started_s, taints, now_s))

    def _takeover(self, replicas: Int, now_s: float) -> int:
        """Moves left beside the hourly limit for the replicas that were on nodes before this scheduler."""
        if np.isnan(self._takeover_ends_s) and len(replicas):
            by_number = self._components.assignments.pods.by_number
            self._takeover_left = takeover_limit(sum(by_number[number].is_found for number in replicas.tolist()))
            self._takeover_ends_s = now_s + TAKEOVER_S
        return self._takeover_left if now_s < self._takeover_ends_s else 0

    def _recognise(self, replicas: Int) -> None:
        """Begin anew for numbers that another pod has now; one that replaces a moved replica inherits its cool-down."""
        generation = self._components.assignments.pods.generation
        more = len(generation) - len(self._generation)
        if more > 0:
            self._generation = np.concatenate([self._generation, np.zeros(more, dtype=np.int64)])
            self._missed = np.concatenate([self._missed, np.zeros(more, dtype=np.int64)])
            self._evidence = np.concatenate([self._evidence, np.zeros(more)])
            self._moved_s = np.concatenate([self._moved_s, np.full(more, -np.inf)])
        new = replicas[self._generation[replicas] != generation[replicas]]
        self._generation[new] = generation[new]
        self._missed[new] = 0
        self._evidence[new] = 0.0
        self._moved_s[new] = -np.inf
        if self._replaced:
            for number, shape in zip(
                new.tolist(), self._components.assignments.ledger.shape[new].tolist(), strict=True
            ):
                waiting = self._replaced.get(shape)
                if waiting:
                    self._moved_s[number] = waiting.popleft()

    def _gain(self, entry: PodInfo, now_s: float) -> float:
        """The best score of any node less that of the pod's own node, were it placed now; 0 if no node is feasible."""
        assignments, profile = self._components.assignments, self._components.profile
        ledger, narrowing, number, home = assignments.ledger, assignments.narrowing, entry.number, entry.row
        one, shape, here = np.array([number]), np.array([entry.shape]), np.array([home])
        knobs = profile.knobs.array()
        ledger.remove(one)
        try:
            with narrowing.without(number):
                passing = plain_rejections(ledger.nodes, ledger.shapes, entry.shape, int(profile.fit), knobs) == 0
                if narrowing.is_narrowed(number):
                    allowed = narrowing.allowed(number)
                    passing &= allowed if len(allowed) else True
            rows = np.flatnonzero(passing)
            score = int(profile.score)
            stay = float(plain_scores(score, ledger.nodes, ledger.shapes, entry.shape, here, now_s, knobs)[0])
            if not len(rows):
                return 0.0
            scores = plain_scores(score, ledger.nodes, ledger.shapes, entry.shape, rows, now_s, knobs)
            return float(scores.max()) - stay
        finally:
            ledger.place(one, here, shape)
            assignments.verdict_cache.changed(home)


def _move(entry: PodInfo, missed: int, gain: float) -> Evict:
    words = (
        f"missed its latency objective over {missed} windows, beyond sampling error; another node is better by "
        f"{gain:.2f} of score"
    )
    return Evict(Victim(entry.seen.uid, entry.seen.pod.key, entry.node), REASON, words)
