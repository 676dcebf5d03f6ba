"""Members of a gang that is judged as a whole, drawing from reservations.

All members are placed before any is reported, and all may be undone, so what one member draws must be unavailable to
the next and available again after a refusal. Members that may draw are placed first, one at a time, like any owner;
each draw is recorded with the reservation as a *draft*, which counts as drawn, and the stand-in shrinks at once. When
the gang is accepted, drafts are confirmed as its members are assigned; when it is refused, they are dropped, and no pod
is woken. A search for victims places members in the same way, and looks for victims of a member also with its
reservations hidden.
Limits: topology domains are chosen by the room besides reservations; a gang with members that require reservations
preempts no pod.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from cotenant.engine.cycle.placing import CLOSED, PodJudgement
from cotenant.engine.framework.events import EventKind
from cotenant.engine.framework.plugin import PodRefused
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.plugins.reservations.drawing import ReservationDraw, candidates
from cotenant.engine.plugins.reservations.lifecycle import EngineAccess, Lifecycle
from cotenant.engine.plugins.reservations.records import ReservationRecord
from cotenant.engine.plugins.reservations.reservation_views import nothing_for
from cotenant.engine.plugins.reservations.waiting import Waiters, insists
from cotenant.model.arrays import Mask
from cotenant.model.groups.reservation_notes import AllocatedReservation
from cotenant.model.resources import NOTHING, Amounts
from cotenant.policy.placement.reservations.holding import ReservedAmounts


class GangDrafts:
    """Draws of the members of the gang that is being judged."""

    def __init__(self, waiters: Waiters, lifecycle: Lifecycle) -> None:
        self._waiters = waiters
        self._lifecycle = lifecycle
        self._drafted: dict[str, ReservationRecord] = {}  # member's UID -> reservation
        self._changed: set[int] = set()  # changed rows before the first draft
        self._happened: set[EventKind] = set()
        self.drew = False  # whether any member drew in the last call of `place`

    @property
    def is_drawing(self) -> bool:
        """Whether there are unconfirmed drafts."""
        return bool(self._drafted)

    def clear(self) -> None:
        """Forget all drafts."""
        self._drafted.clear()

    def prepare(self) -> None:
        """See `GroupPlacer`: amounts that were released are reserved again."""
        self._lifecycle.reconcile_marked()

    def place(self, entries: Sequence[PodInfo], now_s: float, only: Mask, drawing: bool) -> list[PodJudgement]:
        """As `Placing.place`, with members that may draw first, if `drawing`. A member that requires a reservation
        and draws from none is not placed.
        """
        found: dict[str, PodJudgement] = {}
        for entry in entries if drawing else ():
            may_draw = self._waiters.open_for(entry)
            judgement = self._draw(entry, may_draw, now_s, only) if may_draw else None
            if judgement is not None:
                found[entry.seen.uid] = judgement
        rest = [entry for entry in entries if entry.seen.uid not in found and not insists(entry)]
        if rest:
            judged = self._engine_access.components.placing.place(rest, now_s, only)
            found.update((entry.seen.uid, judgement) for entry, judgement in zip(rest, judged, strict=True))
        self.drew = bool(self._drafted)
        return [found.get(entry.seen.uid, CLOSED) for entry in entries]

    def insists(self, entry: PodInfo) -> bool:
        """Whether the pod may be placed in a reservation only."""
        return insists(entry)

    def undo(self, now_s: float) -> None:
        """Drop all drafts after the members were unassigned, without a trace in events or changed rows."""
        if not self._drafted:
            return
        engine = self._engine_access
        records = dict.fromkeys(self._drafted.values())
        for uid, record in self._drafted.items():
            del record.drafts[uid]
        self._drafted.clear()
        for record in records:
            self._lifecycle.update_stand_in(record, now_s)
        engine.components.assignments.write()
        engine.components.assignments.changed.intersection_update(self._changed)
        engine.pods.happened.intersection_update(self._happened)

    @contextmanager
    def offered(self, entry: PodInfo, only: Mask) -> Iterator[Mask | None]:
        """See `GroupPlacer`: the best reservation on each row is hidden."""
        assignments = self._engine_access.components.assignments
        assignments.write()
        chosen: dict[int, ReservationRecord] = {}
        may_draw = self._waiters.open_for(entry)
        if may_draw:
            for few in candidates(entry, may_draw, assignments.ledger.nodes, assignments.encoder.axis, only):
                chosen = few | chosen
        if not chosen:
            yield None
            return
        rows = np.zeros(len(assignments.names), dtype=np.bool_)
        rows[list(chosen)] = True
        drawing = ReservationDraw(entry, chosen)
        drawing.hide(assignments)
        try:
            yield rows
        finally:
            drawing.restore(assignments)

    def usable(self, entries: Sequence[PodInfo]) -> Amounts:
        """See `GroupPlacer`: what is left of the reservations that they may draw from, each counted once."""
        records = {record.reservation.uid: record for entry in entries for record in self._waiters.open_for(entry)}
        found = NOTHING
        for record in records.values():
            if record.entry is not None:
                found = found + record.entry.seen.pod.requests
        return found

    def confirm(self, entry: PodInfo) -> AllocatedReservation | None:
        """Confirm the draft of a member that was assigned; returns its reservation, None for any other pod."""
        record = self._drafted.pop(entry.seen.uid, None)
        if record is None:
            return None
        del record.drafts[entry.seen.uid]
        return AllocatedReservation(record.reservation.name, record.reservation.uid)

    def refusal(self, entry: PodInfo) -> PodRefused | None:
        """Why a member that requires a reservation was not placed; None for one that requires none."""
        return nothing_for(entry, self._waiters.kept_for(entry.seen.uid)) if insists(entry) else None

    def _draw(self, entry: PodInfo, may_draw: list[ReservationRecord], now_s: float, only: Mask) -> PodJudgement | None:
        engine = self._engine_access
        assignments = engine.components.assignments
        for chosen in candidates(entry, may_draw, assignments.ledger.nodes, assignments.encoder.axis, only):
            rows = np.zeros(len(assignments.names), dtype=np.bool_)
            rows[list(chosen)] = True
            drawing = ReservationDraw(entry, chosen)
            drawing.hide(assignments)
            try:
                (judgement,) = engine.components.placing.place([entry], now_s, rows)
                if judgement.row >= 0:
                    self._note(entry, chosen[judgement.row])
            finally:
                drawing.restore(assignments)
            if judgement.row >= 0:
                self._lifecycle.update_stand_in(chosen[judgement.row], now_s)
                assignments.write()
                return judgement
        return None

    def _note(self, entry: PodInfo, record: ReservationRecord) -> None:
        engine = self._engine_access
        if not self._drafted:
            self._changed, self._happened = set(engine.components.assignments.changed), set(engine.pods.happened)
        holds = engine.components.assignments.narrowing.holdings(entry.number)
        record.drafts[entry.seen.uid] = ReservedAmounts(entry.seen.pod.requests, holds)
        self._drafted[entry.seen.uid] = record

    @property
    def _engine_access(self) -> EngineAccess:
        assert self._lifecycle.engine is not None
        return self._lifecycle.engine
