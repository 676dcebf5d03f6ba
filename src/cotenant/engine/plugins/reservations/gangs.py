"""Members of a gang that is judged as a whole, drawing from reservations.

Problem: all members are placed before any of them is told, and all of it may be taken back, so what a member draws must be gone for the next one and
there again after a refusal. Choice: members that may draw are placed first, one by one, as any owner is; what each draws is noted with the reservation
as a draft, which counts as drawn, and the pod that stands for it shrinks at once. A gang that is accepted makes its drafts good as its members are
seated; one that is refused drops them, and all is as it was: nobody is woken by it. Limits: a gang's domains are chosen by what is free beside
reservations, and so is room that others are evicted for; a gang with members that insist on reservations evicts nobody.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cotenant.engine.cycle.placing import CLOSED, Judgement
from cotenant.engine.framework.events import Event
from cotenant.engine.framework.plugin import Refused
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.plugins.reservations.drawing import Drawing, candidates
from cotenant.engine.plugins.reservations.lifecycle import Ties, Upkeep
from cotenant.engine.plugins.reservations.records import Record
from cotenant.engine.plugins.reservations.views import nothing_for
from cotenant.engine.plugins.reservations.waiting import Waiters, insists
from cotenant.model.arrays import Mask
from cotenant.model.groups.reservation_notes import Allocated
from cotenant.policy.placement.reservations.holding import Kept


class GangDraws:
    """What the members of the gang that is judged now have drawn so far."""

    def __init__(self, waiters: Waiters, upkeep: Upkeep) -> None:
        self._waiters = waiters
        self._upkeep = upkeep
        self._drafted: dict[str, Record] = {}  # member's uid -> reservation that it draws from
        self._changed: set[int] = set()  # rows that had changed before the first draft
        self._happened: set[Event] = set()
        self.drew = False  # whether any member drew when members were last placed

    @property
    def is_drawing(self) -> bool:
        """Whether members that are not seated yet have drawn."""
        return bool(self._drafted)

    def clear(self) -> None:
        """No pod is known."""
        self._drafted.clear()

    def place(self, entries: Sequence[PodInfo], now_s: float, only: Mask, drawing: bool) -> list[Judgement]:
        """As `Placing.place`, members that may draw first; without `drawing` nobody does. Who insists and does not draw is placed nowhere."""
        found: dict[str, Judgement] = {}
        for entry in entries if drawing else ():
            may_draw = self._waiters.open_for(entry)
            judgement = self._draw(entry, may_draw, now_s, only) if may_draw else None
            if judgement is not None:
                found[entry.seen.uid] = judgement
        rest = [entry for entry in entries if entry.seen.uid not in found and not insists(entry)]
        if rest:
            judged = self._tied.components.placing.place(rest, now_s, only)
            found.update((entry.seen.uid, judgement) for entry, judgement in zip(rest, judged, strict=True))
        self.drew = bool(self._drafted)
        return [found.get(entry.seen.uid, CLOSED) for entry in entries]

    def insists(self, entry: PodInfo) -> bool:
        """Whether the pod may be placed in a reservation only."""
        return insists(entry)

    def undo(self, now_s: float) -> None:
        """The members were taken back: what they drew is the reservations' again, and nothing shows that it was not."""
        if not self._drafted:
            return
        ties = self._tied
        records = dict.fromkeys(self._drafted.values())
        for uid, record in self._drafted.items():
            del record.drafts[uid]
        self._drafted.clear()
        for record in records:
            self._upkeep.stand(record, now_s)
        ties.components.assignments.write()
        ties.components.assignments.changed.intersection_update(self._changed)
        ties.pods.happened.intersection_update(self._happened)

    def made_good(self, entry: PodInfo) -> Allocated | None:
        """A member is seated: from which it drew, which is no draft any more; None for any other pod."""
        record = self._drafted.pop(entry.seen.uid, None)
        if record is None:
            return None
        del record.drafts[entry.seen.uid]
        return Allocated(record.reservation.name, record.reservation.uid)

    def refusal(self, entry: PodInfo) -> Refused | None:
        """Why a member that insists was placed nowhere; None for one that does not insist."""
        return nothing_for(entry, self._waiters.kept_for(entry.seen.uid)) if insists(entry) else None

    def _draw(self, entry: PodInfo, may_draw: list[Record], now_s: float, only: Mask) -> Judgement | None:
        ties = self._tied
        assignments = ties.components.assignments
        for chosen in candidates(entry, may_draw, assignments.ledger.nodes, assignments.encoder.axis, only):
            rows = np.zeros(len(assignments.names), dtype=np.bool_)
            rows[list(chosen)] = True
            drawing = Drawing(entry, chosen)
            drawing.lift(assignments)
            try:
                (judgement,) = ties.components.placing.place([entry], now_s, rows)
                if judgement.row >= 0:
                    self._note(entry, chosen[judgement.row])
            finally:
                drawing.lay(assignments)
            if judgement.row >= 0:
                self._upkeep.stand(chosen[judgement.row], now_s)
                assignments.write()
                return judgement
        return None

    def _note(self, entry: PodInfo, record: Record) -> None:
        ties = self._tied
        if not self._drafted:
            self._changed, self._happened = set(ties.components.assignments.changed), set(ties.pods.happened)
        holds = ties.components.assignments.narrowing.holdings(entry.number)
        record.drafts[entry.seen.uid] = Kept(entry.seen.pod.requests, holds)
        self._drafted[entry.seen.uid] = record

    @property
    def _tied(self) -> Ties:
        assert self._upkeep.ties is not None
        return self._upkeep.ties
