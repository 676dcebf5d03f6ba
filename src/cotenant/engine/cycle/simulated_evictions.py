"""Pods taken off their nodes for a moment, to see whether others fit then.

Problem: who must go for a pod is reckoned node by node, and what several evictions do together (a rule between pods loses its company, a domain its smallest
count, a gang leaves rooms on ten nodes) shows only when a placement is asked. Choice: the pods leave the real arrays, placements are tried there, and at the end
everybody is put back, the last first. Limits: plugins are not told, so quotas see nobody go; the choices' cursor and dice are the caller's (`Placing.mark`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np

from cotenant.engine.framework.pod_state import Entry
from cotenant.engine.state.assignments import Seating


class Trial:
    """Who is off its node."""

    def __init__(self, seating: Seating) -> None:
        self._seating = seating
        self._gone: list[tuple[Entry, int]] = []

    def gone(self) -> tuple[Entry, ...]:
        """In order."""
        return tuple(entry for entry, _ in self._gone)

    def numbers(self) -> frozenset[int]:
        """Their numbers."""
        return frozenset(entry.number for entry, _ in self._gone)

    def take_off(self, entries: Iterable[Entry]) -> None:
        """These leave; one on a node that is not known leaves nothing."""
        seating = self._seating
        for entry in entries:
            row = int(seating.ledger.row[entry.number])
            self._gone.append((entry, row))
            if row >= 0:
                seating.ledger.remove(np.array([entry.number]))
                seating.narrowing.leave(entry.number)
                seating.memory.changed(row)

    def put_back(self) -> None:
        """Everybody is where he was."""
        seating = self._seating
        while self._gone:
            entry, row = self._gone.pop()
            if row >= 0:
                seating.ledger.place(np.array([entry.number]), np.array([row]), np.array([entry.shape]))
                seating.narrowing.seat(entry.number, row)
                seating.memory.changed(row)


@contextmanager
def trial(seating: Seating) -> Iterator[Trial]:
    """Within, pods may be taken off; after, they are back. What was placed meanwhile must be undone before."""
    made = Trial(seating)
    try:
        yield made
    finally:
        made.put_back()
