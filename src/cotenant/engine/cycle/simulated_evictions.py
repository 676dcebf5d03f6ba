"""Pods taken off their nodes for a moment, to see whether others fit then.

Problem: who must go for a pod is reckoned node by node, and what several evictions do together (a rule between pods loses its company, a domain its smallest
count, a gang leaves rooms on ten nodes) shows only when a placement is asked. Choice: the pods leave the real arrays, placements are tried there, and at the end
everybody is put back, the last first. Limits: plugins are not told, so quotas see nobody go; the choices' cursor and dice are the caller's (`Placing.mark`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np

from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.state.assignments import Assignments


class Trial:
    """Who is off its node."""

    def __init__(self, assignments: Assignments) -> None:
        self._assignments = assignments
        self._gone: list[tuple[PodInfo, int]] = []

    def gone(self) -> tuple[PodInfo, ...]:
        """In order."""
        return tuple(entry for entry, _ in self._gone)

    def numbers(self) -> frozenset[int]:
        """Their numbers."""
        return frozenset(entry.number for entry, _ in self._gone)

    def take_off(self, entries: Iterable[PodInfo]) -> None:
        """These leave; one on a node that is not known leaves nothing."""
        assignments = self._assignments
        for entry in entries:
            row = int(assignments.ledger.row[entry.number])
            self._gone.append((entry, row))
            if row >= 0:
                assignments.ledger.remove(np.array([entry.number]))
                assignments.narrowing.unassign(entry.number)
                assignments.verdict_cache.changed(row)

    def put_back(self) -> None:
        """Everybody is where he was."""
        assignments = self._assignments
        while self._gone:
            entry, row = self._gone.pop()
            if row >= 0:
                assignments.ledger.place(np.array([entry.number]), np.array([row]), np.array([entry.shape]))
                assignments.narrowing.assign(entry.number, row)
                assignments.verdict_cache.changed(row)


@contextmanager
def trial(assignments: Assignments) -> Iterator[Trial]:
    """Within, pods may be taken off; after, they are back. What was placed meanwhile must be undone before."""
    made = Trial(assignments)
    try:
        yield made
    finally:
        made.put_back()
