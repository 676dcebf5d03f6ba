"""A pod's way through the scheduler, as a table of legal transitions.

Problem: a pod that stands in the queue twice runs twice, and nobody notices. Choice: one state a pod, changed only along `LEGAL`, each
edge with its reason; an illegal change raises with the pod's story. Limits: the story keeps the last `remembered` changes of all pods. A cluster's
pods have a table of their own (engine/framework/pod_state.py).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from cotenant.model.arrays import Int
from cotenant.model.errors import Permanent


class State(IntEnum):
    """Where a pod is."""

    UNKNOWN = 0
    QUEUED = 1  # may be judged (perhaps after a hold)
    BOUND = 2
    GONE = 3


LEGAL: dict[tuple[State, State], str] = {
    (State.UNKNOWN, State.QUEUED): "submitted",
    (State.QUEUED, State.BOUND): "placed",
    (State.QUEUED, State.GONE): "deleted while queued",
    (State.BOUND, State.QUEUED): "evicted or its node was lost",
    (State.BOUND, State.GONE): "finished or deleted",
}

_ALLOWED = np.zeros((len(State), len(State)), dtype=np.bool_)
for _edge in LEGAL:
    _ALLOWED[_edge] = True


@dataclass(frozen=True, slots=True)
class Change:
    """Some pods changed state together."""

    at_s: float
    pods: Int
    before: State
    after: State

    def __str__(self) -> str:
        return f"{self.at_s:.0f} s: {self.before.name.lower()} -> {self.after.name.lower()} ({LEGAL[self.before, self.after]})"


class Lifecycle:
    """The state of every pod, and what happened to it."""

    def __init__(self, pods: int, remembered: int = 100_000) -> None:
        self.state = np.zeros(pods, dtype=np.int8)
        self._seen = np.zeros(pods, dtype=np.int64)  # scratch: finds a pod named twice
        self._changes: deque[Change] = deque(maxlen=remembered)

    def move(self, pods: Int, after: State, now_s: float) -> None:
        """Change the state of pods, each at most once. Raises `Permanent` with the story of the first illegal one, changing nothing."""
        if len(pods) == 0:
            return
        needed = int(pods.max()) + 1
        if needed > len(self.state):
            self.state = np.concatenate([self.state, np.zeros(max(needed, len(self.state)), dtype=np.int8)])
            self._seen = np.concatenate([self._seen, np.zeros(len(self.state) - len(self._seen), dtype=np.int64)])
        before = self.state[pods]
        self._seen[pods] = np.arange(len(pods))
        twice = self._seen[pods] != np.arange(len(pods))
        if twice.any():
            raise Permanent(f"pod {pods[twice][0]} named twice in one change to {after.name.lower()}")
        illegal = ~_ALLOWED[before, after]
        if illegal.any():
            pod = int(pods[illegal][0])
            raise Permanent(
                f"pod {pod} cannot go from {State(before[illegal][0]).name.lower()} to {after.name.lower()} at {now_s:.0f} s; "
                f"its story: {'; '.join(str(change) for change in self.story(pod)) or 'none'}"
            )
        self.state[pods] = after
        for state in before[:1] if (before == before[0]).all() else np.unique(before):
            self._changes.append(Change(now_s, pods[before == state].copy(), State(state), after))

    def story(self, pod: int) -> tuple[Change, ...]:
        """What happened to a pod, oldest first, as far as remembered."""
        return tuple(change for change in self._changes if pod in change.pods)
