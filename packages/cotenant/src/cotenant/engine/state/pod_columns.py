"""What preemption, moves and gangs read of pods, as columns by pod number.

The choice of victims compares thousands of residents by priority and age. A column for each, written when a pod is
added or updated; numbers are reused, so `generation` tells two pods of one number apart.
Limits: an entry of a freed number keeps its last values; readers select assigned pods first.
"""

from __future__ import annotations

import numpy as np

from cotenant.engine.framework.pod_state import PodInfo
from cotenant.model.arrays import Float, Int, Mask
from cotenant.model.groups.quota import PREEMPTIBLE

NEVER_A_VICTIM = 2**62
OVERDUE_S = 60.0  # after its grace period: a kubelet that answers has removed a pod by then
PATIENCE_S = 600.0  # after its deletion, however long its grace period is


class PodColumns:
    """Columns over all pod numbers; they grow by doubling."""

    def __init__(self) -> None:
        self.by_number: list[PodInfo] = []
        self.priorities: Int = np.zeros(64, dtype=np.int64)  # `NEVER_A_VICTIM` for pods that no preemption may evict
        self.sub_priorities: Int = np.zeros(64, dtype=np.int64)  # order within a priority
        self.started_s: Float = np.full(64, np.nan)  # Unix time; NaN = not started
        self.overdue_s: Float = np.full(64, np.nan)  # from when on nobody waits for its end; NaN = not terminating
        self.best_effort: Mask = np.zeros(64, dtype=np.bool_)
        self.generation: Int = np.zeros(64, dtype=np.int64)  # how many pods have had the number

    def add(self, entry: PodInfo) -> None:
        """Write the columns of a pod that was just numbered."""
        number = entry.number
        if number >= len(self.priorities):
            more = max(number + 1, len(self.priorities))
            zeros = np.zeros(more, dtype=np.int64)
            self.priorities = np.concatenate([self.priorities, zeros])
            self.sub_priorities = np.concatenate([self.sub_priorities, zeros])
            self.started_s = np.concatenate([self.started_s, np.full(more, np.nan)])
            self.overdue_s = np.concatenate([self.overdue_s, np.full(more, np.nan)])
            self.best_effort = np.concatenate([self.best_effort, np.zeros(more, dtype=np.bool_)])
            self.generation = np.concatenate([self.generation, zeros])
        if number >= len(self.by_number):
            self.by_number.extend([entry] * (number + 1 - len(self.by_number)))
        self.by_number[number] = entry
        self.generation[number] += 1
        pod = entry.seen.pod
        # never: the stand-in of a reservation, and a pod whose label forbids it
        never = bool(entry.seen.reservation) or (bool(pod.labels.items) and pod.labels.get(PREEMPTIBLE) == "false")
        self.priorities[number] = NEVER_A_VICTIM if never else pod.priority
        self.sub_priorities[number] = pod.sub_priority
        self.best_effort[number] = pod.is_best_effort
        self.update(entry)

    def update(self, entry: PodInfo) -> None:
        """Write what may change while the pod keeps its number."""
        self.started_s[entry.number] = entry.seen.started_s
        seen = entry.seen
        self.overdue_s[entry.number] = min(seen.ends_s + OVERDUE_S, seen.ends_s - seen.grace_s + PATIENCE_S)

    def evictable_by(self, best_effort: bool) -> Int:
        """`priorities` as a preemptor sees them: best-effort work evicts best-effort work only, whatever the
        numbers of the priorities are.
        """
        return np.where(self.best_effort, self.priorities, NEVER_A_VICTIM) if best_effort else self.priorities
