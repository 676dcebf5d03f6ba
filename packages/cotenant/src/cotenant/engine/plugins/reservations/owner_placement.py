"""Evaluation of reservation owners: each alone, first on the nodes of its reservations, then like any other pod.

Reserved room is free for an owner and taken for any other pod, and both are in one queue. An owner is taken out of its
run and evaluated alone, with the placeholder pods of its usable reservations hidden and its rows restricted to theirs;
then, unless it requires a reservation, on all nodes. Nominated pods work the same way
(engine/cycle/eviction/nominations.py).
Limits: an owner uses one reservation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.framework.queueing import QueuedGroup, Segment
from cotenant.engine.plugins.reservations.drawing import ReservationDraw, candidates
from cotenant.engine.plugins.reservations.lifecycle import Lifecycle
from cotenant.engine.plugins.reservations.preallocation import PreAllocating
from cotenant.engine.plugins.reservations.records import ReservationRecord
from cotenant.engine.plugins.reservations.waiting import Waiters, insists
from cotenant.engine.state.narrowing import EVERYWHERE
from cotenant.model.arrays import NodeArrays
from cotenant.model.groups.reservation_notes import AllocatedReservation
from cotenant.model.resources import ResourceAxis


class OwnersFirst:
    """Splits runs of pods so that owners try their reservations first."""

    def __init__(
        self,
        records: Mapping[str, ReservationRecord],
        waiters: Waiters,
        lifecycle: Lifecycle,
        preallocating: PreAllocating,
    ) -> None:
        self._records = records
        self._preallocating = preallocating
        self._waiters = waiters
        self._lifecycle = lifecycle
        self._drawing: ReservationDraw | None = None

    @property
    def is_drawing(self) -> bool:
        """Whether an owner is being evaluated with its reservations hidden."""
        return self._drawing is not None

    def drawn_by(self, entry: PodInfo) -> AllocatedReservation | None:
        """The reservation used by a pod that was just assigned, or None."""
        if self._drawing is None or self._drawing.entry is not entry:
            return None
        return self._drawing.drawn_on(entry.row)

    def segments(self, given: Iterable[Segment]) -> Iterator[Segment]:
        """Yield the runs with each owner on its own: first on its reservations, then, unless it requires one, like
        any other pod.
        """
        hopeless: set[int] = set()  # groups with a pod that found no node: their other pods would not either
        for segment in given:
            if self._records:
                yield from self._split(segment, hopeless)
            else:
                yield segment

    def _split(self, segment: Segment, hopeless: set[int]) -> Iterator[Segment]:
        self._lifecycle.reconcile_marked()
        run: list[tuple[PodInfo, QueuedGroup]] = []
        for pod in segment.pods:
            record = self._preallocating.applies(pod[0])
            if record is not None:
                if run:
                    yield Segment(run, segment.only, segment.last)
                    run = []
                yield from self._preallocating.segments(pod, record, segment)
                if not pod[0].node and (segment.last or not self._preallocating.refusal(pod[0])):
                    yield Segment([pod], segment.only, segment.last)
                self._lifecycle.reconcile_marked()
                continue
            may_draw = self._waiters.open_for(pod[0]) if id(pod[1]) not in hopeless else []
            only_draws = insists(pod[0]) and not segment.last
            if not may_draw and not only_draws:
                run.append(pod)
                continue
            if run:
                yield Segment(run, segment.only, segment.last)
                run = []
                self._lifecycle.reconcile_marked()
            yield from self._own(pod, may_draw, segment)
            if not (pod[0].node or only_draws):
                yield Segment([pod], segment.only, segment.last)
                self._lifecycle.reconcile_marked()
                if segment.last and not pod[0].node:
                    hopeless.add(id(pod[1]))
        if run:
            yield Segment(run, segment.only, segment.last)

    def _own(
        self, pod: tuple[PodInfo, QueuedGroup], may_draw: list[ReservationRecord], segment: Segment
    ) -> Iterator[Segment]:
        assert self._lifecycle.engine is not None
        assignments = self._lifecycle.engine.components.assignments
        assignments.write()
        for chosen in candidates(pod[0], may_draw, assignments.ledger.nodes, assignments.encoder.axis, segment.only):
            only = np.zeros(len(assignments.names), dtype=np.bool_)
            only[list(chosen)] = True
            self._drawing = drawing = ReservationDraw(pod[0], chosen)
            drawing.hide(assignments)
            try:
                yield Segment([pod], only, False)
            finally:
                drawing.restore(assignments)
                self._drawing = None
            if pod[0].node:
                break
        self._lifecycle.reconcile_marked()

    def would_hide(self, entry: PodInfo, nodes: NodeArrays, axis: ResourceAxis) -> tuple[int, ...]:
        """Numbers of the placeholder pods of the reservations this pod may use, at most one per node. For queries:
        no state is changed.
        """
        may_draw = self._waiters.open_for(entry)
        first: dict[int, ReservationRecord] = {}
        for few in candidates(entry, may_draw, nodes, axis, EVERYWHERE) if may_draw else ():
            first = few | first
        return tuple(record.entry.number for record in first.values() if record.entry is not None)
