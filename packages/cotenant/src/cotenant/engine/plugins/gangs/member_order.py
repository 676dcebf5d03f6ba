"""The order in which the members of a bundle of gangs are admitted and placed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cotenant.engine.cycle.components import ClusterComponents
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.plugins.gangs.directory import GangDirectory


class MemberOrder:
    """The order of members in one cluster."""

    def __init__(self, components: ClusterComponents, gangs: GangDirectory) -> None:
        self._components = components
        self._gangs = gangs

    def of(self, keys: tuple[str, ...], entries: list[PodInfo]) -> list[PodInfo]:
        """Those for whom pods were evicted first, then the largest: quota that is for one of several must not go to
        another. Of several gangs the minimum of each before the rest of any: a gang's further members must not take
        what another cannot do without.
        """
        nominations = self._components.nominations
        ordered = sorted(self._largest_first(entries), key=lambda entry: entry.seen.uid not in nominations)
        if len(keys) < 2:
            return ordered
        needed, others = self.needed(keys, ordered)
        return [*needed, *others]

    def needed(self, keys: tuple[str, ...], entries: Sequence[PodInfo]) -> tuple[list[PodInfo], list[PodInfo]]:
        """The first members of each gang up to its minimum, and the others."""
        missing = {tally.key: tally.lacks() for tally in self._gangs.lacking(keys, ())}
        needed: list[PodInfo] = []
        others: list[PodInfo] = []
        for entry in entries:
            key = self._gangs.key_of(entry.seen.uid)
            is_needed = missing.get(key, 0) > 0
            if is_needed:
                missing[key] -= 1
            (needed if is_needed else others).append(entry)
        return needed, others

    def _largest_first(self, entries: list[PodInfo]) -> list[PodInfo]:
        """By request, as a share of all that is requested; equal ones in order of arrival."""
        shapes = np.array([entry.shape for entry in entries])
        if (shapes == shapes[0]).all():
            return entries
        request = self._components.assignments.ledger.shapes.request[shapes].astype(np.float64)
        size = (request / np.maximum(1.0, request.sum(axis=0))).max(axis=1)
        return [entries[i] for i in np.argsort(-size, kind="stable").tolist()]
