"""Removes pods from their nodes temporarily, to test whether others would fit then.

Victims are computed node by node, and the joint effect of several evictions (a rule between pods loses its co-located
pods, a domain its smallest count, a gang frees space on ten nodes) shows only in a placement. The pods are removed from
the real arrays, placements are tried there, and at the end all pods are restored in reverse order.
Limits: plugins are not notified, so quotas do not change; sampling cursor and random state are the caller's
(`Placing.mark`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np

from cotenant.engine.framework.node_rules import Outlasting
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.state.assignments import Assignments


class EvictionTrial:
    """The pods that are temporarily removed."""

    def __init__(self, assignments: Assignments) -> None:
        self._assignments = assignments
        self._gone: list[tuple[PodInfo, int]] = []
        self._outlasting = [rule for rule in assignments.narrowing.node_rules if isinstance(rule, Outlasting)]
        for rule in self._outlasting:
            rule.trial_begins()

    def gone(self) -> tuple[PodInfo, ...]:
        """The removed pods, in order."""
        return tuple(entry for entry, _ in self._gone)

    def numbers(self) -> frozenset[int]:
        """Their numbers."""
        return frozenset(entry.number for entry, _ in self._gone)

    def remove(self, entries: Iterable[PodInfo]) -> None:
        """Remove these pods; one on an unknown node frees nothing."""
        assignments = self._assignments
        for entry in entries:
            row = int(assignments.ledger.row[entry.number])
            self._gone.append((entry, row))
            if row >= 0:
                assignments.ledger.remove(np.array([entry.number]))
                assignments.narrowing.unassign(entry.number)
                for rule in self._outlasting:
                    rule.departs(entry.number)
                assignments.verdict_cache.changed(row)

    def restore(self) -> None:
        """Restore all removed pods."""
        assignments = self._assignments
        for rule in self._outlasting:
            rule.trial_ends()
        while self._gone:
            entry, row = self._gone.pop()
            if row >= 0:
                assignments.ledger.place(np.array([entry.number]), np.array([row]), np.array([entry.shape]))
                assignments.narrowing.assign(entry.number, row)
                assignments.verdict_cache.changed(row)


@contextmanager
def trial(assignments: Assignments) -> Iterator[EvictionTrial]:
    """In this context, pods may be removed; they are restored on exit. Placements made meanwhile must be undone
    before.
    """
    made = EvictionTrial(assignments)
    try:
        yield made
    finally:
        made.restore()
