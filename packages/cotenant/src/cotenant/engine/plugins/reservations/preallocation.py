"""Placement of reservations with `preAllocation`: on nodes whose running pods become their first owners.

The reservation must be evaluated as if these pods were absent, and they must count as its owners from then on, although
their annotations and the reservation's status are written later and either write may fail. The candidates of each
waiting reservation are kept up to date with the assignments; for an attempt the chosen pods of a few nodes are hidden
from the ledger and the narrowing, and restored afterwards. The pods of the selected node are *taken*: they count as
owners until their own annotations say so, the bind fails, or they leave.
Limits: until the status is written, the node counts the pods and the whole reservation, so it takes no other pod in
between; pods of a failed write keep their annotation, which counts on the reservation's node only, and are preferred in
the next attempt.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from operator import itemgetter

import numpy as np

from cotenant.engine.framework.plugin import PodRefused
from cotenant.engine.framework.pod_state import PodInfo, SchedulingState
from cotenant.engine.framework.queueing import QueuedGroup, Segment
from cotenant.engine.plugins.reservations.lifecycle import EngineAccess, Lifecycle
from cotenant.engine.plugins.reservations.records import ReservationRecord
from cotenant.engine.plugins.reservations.reservation_views import PLUGIN
from cotenant.model.arrays import PODS
from cotenant.model.resources import Amounts
from cotenant.policy.placement.reservations.preallocation import candidate, may_pre_allocate, selections

_AT_ONCE = 16  # nodes evaluated together
_Selection = tuple[PodInfo, ...]


class PreAllocating:
    """The waiting reservations with `preAllocation`, and the running pods that they may take."""

    def __init__(self, records: Mapping[str, ReservationRecord], lifecycle: Lifecycle) -> None:
        self._records = records
        self._lifecycle = lifecycle
        self._candidates: dict[str, dict[str, PodInfo]] = {}  # uid of a waiting reservation -> assigned pods, by uid
        self._new: dict[
            str, PodInfo
        ] = {}  # candidates that no attempt has seen yet; those without a confirmed bind come later
        self._taken: dict[
            str, ReservationRecord
        ] = {}  # pod's uid -> reservation that counts it, without its annotation so far
        self._trying: tuple[PodInfo, Mapping[int, _Selection]] | None = None

    @property
    def is_trying(self) -> bool:
        """Whether a reservation is being evaluated with pods hidden."""
        return self._trying is not None

    def clear(self) -> None:
        """Forget all pods."""
        self._candidates.clear()
        self._new.clear()
        for record in self._taken.values():
            record.taken.clear()
        self._taken.clear()

    # ---- candidates

    def reservation_changed(self, record: ReservationRecord, pods: Mapping[str, PodInfo]) -> None:
        """A reservation is new or changed: find its candidates, or forget them once it waits no longer."""
        uid = record.reservation.uid
        self._candidates.pop(uid, None)
        if _waits(record):
            self._candidates[uid] = {}
            for entry in pods.values():
                self._consider(uid, entry)

    def reservation_gone(self, record: ReservationRecord) -> None:
        """A reservation was deleted."""
        self._candidates.pop(record.reservation.uid, None)
        self._release(record)

    def pod_assigned(self, entry: PodInfo) -> None:
        """A pod was assigned to a node, or its annotations or labels changed there."""
        for uid in self._candidates:
            self._consider(uid, entry)

    def pod_unassigned(self, uid: str) -> None:
        """A pod is assigned to no node any more."""
        self._new.pop(uid, None)
        for found in self._candidates.values():
            found.pop(uid, None)
        self.annotated(uid)

    def annotated(self, uid: str) -> None:
        """A pod's own annotation names a reservation: it counts by that from now on."""
        record = self._taken.pop(uid, None)
        if record is not None:
            del record.taken[uid]
            self._lifecycle.mark(record.reservation.uid)

    def bind_failed(self, record: ReservationRecord) -> None:
        """The reservation lost its node before its status named it: it has taken no pods."""
        if not record.node:
            self._release(record)

    def _release(self, record: ReservationRecord) -> None:
        for uid in record.taken:
            del self._taken[uid]
        record.taken.clear()

    def _consider(self, uid: str, entry: PodInfo) -> None:
        found = self._candidates[uid]
        if not (entry.node and may_pre_allocate(self._records[uid].reservation, entry.seen)):
            found.pop(entry.seen.uid, None)
            return
        if entry.seen.uid not in found:
            self._new[entry.seen.uid] = entry
        found[entry.seen.uid] = entry

    # ---- time

    def turn(self, now_s: float) -> None:
        """Wake the reservations that may take pods which are new to them."""
        for uid, entry in list(self._new.items()):
            if entry.state is SchedulingState.BOUND:
                del self._new[uid]
                self._wake([r for r, found in self._candidates.items() if uid in found], now_s)

    @property
    def is_due(self) -> bool:
        """Whether `turn` has something to do."""
        return any(entry.state is SchedulingState.BOUND for entry in self._new.values())

    def wake_rows(self, rows: Collection[int], now_s: float) -> None:
        """More room on these rows: the reservations with candidates there may fit."""
        for uid, found in list(self._candidates.items()):
            if any(entry.row in rows for entry in found.values()):
                self._wake([uid], now_s)

    def _wake(self, uids: list[str], now_s: float) -> None:
        queue = self._engine_access.components.queue
        for uid in uids:
            group = queue.group_of(uid)
            if group is not None:
                queue.wake(group, now_s, PLUGIN)

    # ---- judgement

    def applies(self, entry: PodInfo) -> ReservationRecord | None:
        """The waiting reservation that this stand-in is of, if it may take pods."""
        return self._records.get(entry.seen.uid) if entry.seen.uid in self._candidates else None

    def segments(
        self, pod: tuple[PodInfo, QueuedGroup], record: ReservationRecord, segment: Segment
    ) -> Iterator[Segment]:
        """The stand-in on a few nodes at a time, with the pods hidden that it would take there, until it has one."""
        assignments = self._engine_access.components.assignments
        assignments.write()
        for few in self._selections(record, segment):
            only = np.zeros(len(assignments.names), dtype=np.bool_)
            only[list(few)] = True
            hidden = [entry for chosen in few.values() for entry in chosen]
            self._trying = (pod[0], few)
            assignments.suspend(hidden)
            for entry in hidden:
                assignments.narrowing.unassign(entry.number)
            try:
                yield Segment([pod], only, False)
            finally:
                self._trying = None
                assignments.resume(hidden)
                for entry in hidden:
                    assignments.narrowing.assign(entry.number, entry.row)
            if pod[0].node:
                return

    def placed(self, entry: PodInfo) -> None:
        """A stand-in was placed: the pods of its node that it was evaluated without are its owners."""
        if self._trying is None or self._trying[0] is not entry:
            return
        record = self._records[entry.seen.uid]
        for pod in self._trying[1][entry.row]:
            record.taken[pod.seen.uid] = pod
            self._taken[pod.seen.uid] = record

    def refusal(self, entry: PodInfo) -> PodRefused | None:
        """Why a reservation that requires pre-allocation was placed nowhere; None for any other."""
        record = self.applies(entry)
        policy = record.reservation.pre_allocation if record is not None else None
        if policy is None or not policy.required:
            return None
        return PodRefused(PLUGIN, "The reservation requires pre-allocation.", self.sentence(entry.seen.uid))

    def sentence(self, uid: str) -> str:
        """How many pods a waiting reservation could take; empty for one without `preAllocation`."""
        found = self._candidates.get(uid)
        if found is None:
            return ""
        if not found:
            return "No running pod can be pre-allocated to it."
        return f"{len(found)} running pods can be pre-allocated to it, and without them it fits on none of their nodes."

    def _selections(self, record: ReservationRecord, segment: Segment) -> Iterator[dict[int, _Selection]]:
        """Maps of row -> pods to take there, for a few rows at a time: the best of each row first, then the second
        best.
        """
        assignments, reservation = self._engine_access.components.assignments, record.reservation
        nodes, axis = assignments.ledger.nodes, assignments.encoder.axis
        by_row: dict[int, list[PodInfo]] = {}
        for entry in self._candidates.get(reservation.uid, {}).values():
            usable = entry.state is SchedulingState.BOUND and entry.row >= 0 and entry.seen.uid not in self._taken
            if usable and (not len(segment.only) or segment.only[entry.row]):
                by_row.setdefault(entry.row, []).append(entry)
        ranked = []
        for row, pods in by_row.items():
            free = nodes.capacity[row] - nodes.requested[row]

            def fits(freed: Amounts, left: Amounts, free: np.ndarray = free) -> bool:
                if free[PODS] < (1 if left.items else 0):
                    return False
                return all(
                    name in axis.names and amount <= int(free[axis.column(name)]) + freed.get(name)
                    for name, amount in reservation.pod.requests
                )

            in_order = sorted(pods, key=lambda entry: candidate(reservation, entry.seen))
            found = selections(reservation, in_order, lambda entry: entry.seen.pod.requests, fits)
            for nth, chosen in enumerate(islice(found, _AT_ONCE)):
                first = candidate(reservation, chosen[0].seen)
                ranked.append(((nth, first.annotated, first.priority, len(chosen), first.unused_percent, row), chosen))
        ranked.sort(key=itemgetter(0))
        few: dict[int, _Selection] = {}
        for key, chosen in ranked:
            if key[-1] in few or len(few) == _AT_ONCE:
                yield few
                few = {}
            few[key[-1]] = chosen
        if few:
            yield few

    @property
    def _engine_access(self) -> EngineAccess:
        assert self._lifecycle.engine is not None
        return self._lifecycle.engine


def _waits(record: ReservationRecord) -> bool:
    return record.reservation.pre_allocation is not None and not (record.node or record.has_ended or record.wrong)
