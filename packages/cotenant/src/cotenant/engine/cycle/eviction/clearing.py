"""Which waiting pods a changed node may help after evictions.

A pod that fits nowhere and could evict nobody must be tried again once evictions would help: a more important pod left,
a taint went, a pod became evictable. To search victims after each event for thousands of waiting pods costs too much.
On a row that changed, a group is tried again if its pod would fit there by requests and by what no eviction changes,
once everything that it may evict was gone. That is necessary for any preemption there, so nothing is missed; the search
itself decides. One pass of array operations per changed row for all kinds of waiting pods.
Limits: rules between pods, devices, CPUs and estimates are not looked at, so a group may be tried again in vain, after
its back-off.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from cotenant.engine.cycle.eviction.fixed_filters import passing
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.framework.queueing import QueuedGroup
from cotenant.engine.state.assignments import Assignments
from cotenant.model.arrays import CPU, Int, Mask
from cotenant.policy.placement.codes import Fit
from cotenant.policy.placement.profiles import PlacementProfile


class Clearing:
    """Asks over one cluster's assignments."""

    def __init__(self, assignments: Assignments, profile: PlacementProfile) -> None:
        self._assignments = assignments
        self._by_requests = profile.fit is Fit.REQUESTS

    def helped(
        self, groups: Sequence[QueuedGroup], rows: Collection[int], pods: Mapping[str, PodInfo]
    ) -> list[QueuedGroup]:
        """The groups that evictions on one of these rows may help. The arrays must be up to date."""
        assignments = self._assignments
        lowest = int(assignments.pods.priorities.min())
        found: list[QueuedGroup] = []
        for best_effort in (False, True):
            asking = [
                (group, shape)
                for group in groups
                if group.priority > lowest and (first := pods[next(iter(group.pods))]).seen.preempts
                if first.seen.pod.is_best_effort is best_effort
                for shape in group.shapes or (group.shape,)
            ]
            if not asking:
                continue
            kinds = list(dict.fromkeys((shape, group.priority) for group, shape in asking))
            helped = self._helped(kinds, rows, best_effort)
            may = {kind for kind, helps in zip(kinds, helped.tolist(), strict=True) if helps}
            found += dict.fromkeys(group for group, shape in asking if (shape, group.priority) in may)
        return found

    def _helped(self, kinds: list[tuple[int, int]], rows: Collection[int], best_effort: bool) -> Mask:
        """`bool[len(kinds)]`, of shapes with a priority."""
        assignments = self._assignments
        ledger, evictable = assignments.ledger, assignments.pods.evictable_by(best_effort)
        shapes, priorities = (np.array(kind, dtype=np.int64) for kind in zip(*kinds, strict=True))
        request = ledger.shapes.request[shapes]
        suitable: dict[int, Mask] = {}
        there = set(assignments.encoder.node_rows.values())
        answer = np.zeros(len(kinds), dtype=np.bool_)
        for row in sorted(there.intersection(rows)):
            numbers = self._on(row)
            numbers = numbers[np.argsort(evictable[numbers], kind="stable")]
            below = np.searchsorted(evictable[numbers], priorities)
            left = np.flatnonzero(~answer & (below > 0))
            if not len(left):
                continue
            if self._by_requests:
                left = left[self._fit(row, numbers, below[left], request[left])]
            for i in left.tolist():
                k = int(shapes[i])
                if k not in suitable:
                    suitable[k] = passing(assignments.encoder, k)
                answer[i] = suitable[k][row]
        return answer

    def _on(self, row: int) -> Int:
        """The numbers of pods that count on a row, nominated ones included."""
        assignments = self._assignments
        here = assignments.residents.get(assignments.names[row], {}).values()
        numbers = [entry.number for entry in here]
        numbers += [entry.number for entry in assignments.reserved.values() if entry.row == row]
        return np.array(numbers, dtype=np.int64)

    def _fit(self, row: int, numbers: Int, below: Int, request: Int) -> Mask:
        """Whether each request fits without the first `below` of these pods."""
        ledger, narrowing = self._assignments.ledger, self._assignments.narrowing
        freed = np.zeros((len(numbers) + 1, request.shape[1]), dtype=np.int64)
        np.cumsum(ledger.shapes.request[ledger.shape[numbers]], axis=0, out=freed[1:])
        freed[1:, CPU] += np.cumsum(narrowing.surplus_m(numbers))
        free = ledger.nodes.capacity[row] - ledger.nodes.requested[row] + freed[below]
        return np.asarray(((request <= free) | (request == 0)).all(axis=1))
