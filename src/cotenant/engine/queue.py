"""The scheduling queue: which pods wait, and until when some of them are held.

Problem: thousands of pods may wait for hours, and each is judged every few seconds. Choice: columns that grow, one mask of who is queued,
a hold time for pods that back off; `ready(now)` gives aligned columns in order of arrival. Limits: order is the policy's business.
"""

from __future__ import annotations

import numpy as np

from cotenant.model.arrays import Int, PendingArrays

_EMPTY = PendingArrays(
    pod=np.empty(0, dtype=np.int64),
    shape=np.empty(0, dtype=np.int64),
    tenant=np.empty(0, dtype=np.int64),
    job=np.empty(0, dtype=np.int64),
    stage=np.empty(0, dtype=np.int64),
    is_service=np.empty(0, dtype=np.bool_),
    ready_s=np.empty(0),
    deadline_s=np.empty(0),
    path_s=np.empty(0),
    work=np.empty(0),
)


class Queue:
    """Pods that wait for a node."""

    def __init__(self) -> None:
        self._known = _EMPTY  # every pod ever submitted, by slot
        self._slot = np.empty(0, dtype=np.int64)  # pod -> slot
        self._waiting = np.empty(0, dtype=np.int64)  # slots, in order of arrival
        self._hold = np.empty(0)  # by slot: not before this time

    def __len__(self) -> int:
        return len(self._waiting)

    def submit(self, pods: PendingArrays) -> None:
        """Make pods known and queue them."""
        first = len(self._known.pod)
        self._known = self._known.then(pods)
        self._hold = np.concatenate([self._hold, np.full(len(pods.pod), -np.inf)])
        needed = int(pods.pod.max(initial=-1)) + 1
        if needed > len(self._slot):
            grown = np.full(max(needed, 2 * len(self._slot)), -1, dtype=np.int64)
            grown[: len(self._slot)] = self._slot
            self._slot = grown
        slots = np.arange(first, first + len(pods.pod))
        self._slot[pods.pod] = slots
        self._waiting = np.concatenate([self._waiting, slots])

    def again(self, pods: Int, hold_until_s: np.ndarray) -> None:
        """Queue known pods once more, each held until its time."""
        slots = self._slot[pods]
        self._hold[slots] = hold_until_s
        self._waiting = np.concatenate([self._waiting, slots])

    def drop(self, pods: Int) -> None:
        """Pods that were placed or deleted leave the queue."""
        gone = np.zeros(len(self._known.pod), dtype=np.bool_)
        gone[self._slot[pods]] = True
        self._waiting = self._waiting[~gone[self._waiting]]

    def ready(self, now_s: float) -> PendingArrays:
        """The pods that may be judged now, aligned columns in order of arrival."""
        slots = self._waiting[self._hold[self._waiting] <= now_s]
        return self._known.at(slots)

    def next_release_s(self, now_s: float) -> float:
        """When the next held pod comes free, inf if none is held."""
        held = self._hold[self._waiting]
        return float(held[held > now_s].min(initial=np.inf))

    def submitted(self, pods: Int) -> PendingArrays:
        """What was submitted of these pods."""
        slots = self._slot[pods]
        return self._known.at(slots)
