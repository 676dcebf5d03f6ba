"""Reservations over time: their ends, their stand-ins, and the statuses to write.

Owners that arrive or leave, deadlines, deleted nodes and lost writes each change what a reservation holds or what its
status should be, in any order. An event only marks the reservation; `reconcile_marked` computes from the record
whether it ends, how large its stand-in must be and which status it should have, and applies that.
Limits: a status that the server does not show is requested again after half a minute.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from math import inf

from cotenant.engine.cycle.components import ClusterComponents
from cotenant.engine.cycle.pods import Pods
from cotenant.engine.framework.plugin import PluginHost
from cotenant.engine.framework.pod_state import PodInfo, SchedulingState
from cotenant.engine.plugins.reservations.instructions import DeleteReservation
from cotenant.engine.plugins.reservations.records import ReservationRecord
from cotenant.model.cluster.demands import NO_HOLDINGS
from cotenant.model.errors import Permanent
from cotenant.policy.placement.reservations.lifecycle import LEGAL, collect_at_s, ending

REPORT_AGAIN_S = 30.0  # after this time, a status or deletion that the API server does not show is requested again


@dataclass(frozen=True, slots=True)
class EngineAccess:
    """The parts of the engine that the plugin uses besides its `PluginHost`."""

    components: ClusterComponents
    pods: Pods
    schedulers: tuple[str, ...]  # spec.schedulerName of the pods that are ours

    @property
    def scheduler(self) -> str:
        """The first of the names: that of stand-ins whose template names none."""
        return self.schedulers[0]


class Lifecycle:
    """Keeps the records of all reservations consistent; `records` by UID, shared with the plugin."""

    def __init__(self, records: Mapping[str, ReservationRecord], kept_s: float) -> None:
        self._records = records
        self.kept_s = kept_s  # an ended reservation is deleted after this time
        self._dirty: dict[str, None] = {}  # UIDs of marked reservations
        self._due: list[tuple[float, str]] = []  # heap of (time, UID); entries that differ from `_due_s` are stale
        self._due_s: dict[str, float] = {}
        self._labels_revision = -1
        self._now_s = 0.0
        self._host: PluginHost | None = None
        self._engine: EngineAccess | None = None

    def join(self, engine: EngineAccess) -> None:
        """Connect to the engine."""
        self._engine = engine

    def attach(self, host: PluginHost) -> None:
        """Set the receiver of instructions."""
        self._host = host

    @property
    def engine(self) -> EngineAccess | None:
        """None before `join`."""
        return self._engine

    def pods(self) -> Mapping[str, PodInfo]:
        """All pods of the cluster, by UID; empty before `join`."""
        return self._engine.pods.by_uid if self._engine is not None else {}

    # ---- marked reservations

    def mark(self, uid: str) -> None:
        """Have this reservation reconciled at the next `reconcile_marked`."""
        self._dirty[uid] = None

    def is_marked(self, uid: str) -> bool:
        """Whether it is marked."""
        return uid in self._dirty

    def forget(self, uid: str, now_s: float) -> None:
        """Remove the stand-in of a deleted reservation."""
        self._dirty.pop(uid, None)
        self._due_s.pop(uid, None)
        if self._engine is not None:
            self._engine.pods.pod_gone(uid, now_s)

    def turn(self, now_s: float) -> None:
        """Process what is due: ends, released amounts, statuses."""
        assert self._engine is not None
        self._now_s = now_s
        while self._due and self._due[0][0] <= now_s:
            at_s, uid = heappop(self._due)
            if self._due_s.get(uid) == at_s:
                del self._due_s[uid]
                self.mark(uid)
        assignments = self._engine.components.assignments
        if self._labels_revision != assignments.encoder.labels_revision:
            self._labels_revision = assignments.encoder.labels_revision
            for uid, record in self._records.items():
                if record.node and not record.has_ended and record.node not in assignments.encoder.node_rows:
                    self.mark(uid)
        self._settle(now_s)
        assignments.write()

    def wake_rows(self, rows: Container[int], now_s: float) -> None:
        """Wake the owners that wait for reservations on these rows: more may fit beside them now."""
        for record in self._records.values():
            if record.waiting and record.entry is not None and record.entry.row in rows:
                self.wake(record, now_s)

    def next_s(self) -> float:
        """When `turn` will next have something to do."""
        if self._dirty:
            return -inf
        engine = self._engine
        if (
            engine is not None
            and self._records
            and self._labels_revision != engine.components.assignments.encoder.labels_revision
        ):
            return -inf
        while self._due and self._due_s.get(self._due[0][1]) != self._due[0][0]:
            heappop(self._due)
        return self._due[0][0] if self._due else inf

    def reconcile_marked(self) -> None:
        """Reconcile marked reservations before pods are judged, so that released amounts are reserved again."""
        if self._dirty and self._engine is not None:
            self._settle(self._now_s)
            self._engine.components.assignments.write()

    def _settle(self, now_s: float) -> None:
        """Reconcile every marked reservation."""
        while self._dirty:
            uid = next(iter(self._dirty))
            del self._dirty[uid]
            if uid in self._records:
                self.reconcile(uid, now_s, judging=True)

    # ---- one reservation

    def reconcile(self, uid: str, now_s: float, judging: bool = False) -> None:
        """End the reservation if that is due, update its stand-in, and report its status. `judging` False = only
        the stand-in; the rest waits for `reconcile_marked`.
        """
        record = self._records[uid]
        if self._engine is None:
            return
        if record.end is None and judging and self._is_ours(record):
            rows = self._engine.components.assignments.encoder.node_rows
            known = replace(record.reservation, node=record.node)
            record.end = ending(known, now_s, record.node not in rows, len(record.bound))
        grew = self.update_stand_in(record, now_s)
        if not judging:
            self.mark(uid)
            return
        if grew:
            self.wake(record, now_s)
        if self._is_ours(record):
            self._report(record, now_s)
            self.schedule(record, now_s)

    def _is_ours(self, record: ReservationRecord) -> bool:
        """Whether this scheduler writes its status. Reservations of other schedulers hold their amounts here too."""
        return self._engine is not None and record.reservation.scheduler in ("", *self._engine.schedulers)

    def update_stand_in(self, record: ReservationRecord, now_s: float) -> bool:
        """Create, resize or remove the stand-in; returns whether it holds more than before."""
        assert self._engine is not None
        wanted, entry = record.wanted_stand_in(self._engine.scheduler), record.entry
        if wanted is None:
            if entry is not None:
                self._engine.pods.pod_gone(record.reservation.uid, now_s)
            return False
        before = entry.seen if entry is not None else None
        if wanted == before:
            return False
        self._engine.pods.pod_seen(wanted, now_s)
        if not wanted.node or before is None:
            return bool(wanted.node)
        return (wanted.pod.requests, wanted.holds) != (before.pod.requests, before.holds)

    def _report(self, record: ReservationRecord, now_s: float) -> None:
        """Request its status unless the server has it or it was requested recently."""
        assert self._host is not None
        status = record.status(now_s)
        if status is None or record.is_written(status):
            record.last_status = None
        elif status != record.last_status or now_s >= record.last_status_s + REPORT_AGAIN_S:
            record.last_status, record.last_status_s = status, now_s
            self._host.say(status)

    def schedule(self, record: ReservationRecord, now_s: float) -> None:
        """Schedule the next time that it must be reconciled."""
        assert self._host is not None
        reservation = record.reservation
        at_s = inf
        if reservation.phase.is_final:
            at_s = collect_at_s(reservation, record.ended_s, self.kept_s)
            if at_s <= now_s:
                self._host.say(DeleteReservation(reservation.name, reservation.uid))
                at_s = now_s + 2 * REPORT_AGAIN_S
        else:
            if record.end is None:
                at_s = reservation.ends_s
            if record.last_status is not None:
                at_s = min(at_s, record.last_status_s + REPORT_AGAIN_S)
        if at_s < inf and self._due_s.get(reservation.uid) != at_s:
            self._due_s[reservation.uid] = at_s
            heappush(self._due, (at_s, reservation.uid))
        if len(self._due) > 2 * len(self._due_s) + 64:
            self._due = [(at_s, uid) for uid, at_s in self._due_s.items()]
            heapify(self._due)

    def wake(self, record: ReservationRecord, now_s: float) -> None:
        """Wake the pods that wait for it."""
        if self._engine is None:
            return
        queue = self._engine.components.queue
        for uid in list(record.waiting):
            group = queue.group_of(uid)
            if group is not None:
                queue.wake(group, now_s, "Reservation")

    def requeue(self, pods: Iterable[PodInfo], now_s: float) -> None:
        """Queue these pods again: the reservations that they may draw from, and with them their queue keys, have
        changed.
        """
        if self._engine is None:
            return
        for entry in pods:
            if entry.state is SchedulingState.QUEUED:
                self._engine.pods.requeue(entry, now_s)

    # ---- validation

    def validate(self) -> None:
        """Check that every stand-in has the size of the remainder. Raises `Permanent`."""
        for uid, record in self._records.items():
            if uid not in self._dirty:
                self._validate(record)

    def _validate(self, record: ReservationRecord) -> None:
        assert self._engine is not None
        entry, wanted = record.entry, record.wanted_stand_in(self._engine.scheduler)
        where, phase = f"reservation {record.reservation.name}", record.reservation.phase
        if record.end is not None and not phase.is_final and (phase, record.end.phase) not in LEGAL:
            raise Permanent(f"{where} cannot go from {phase} to {record.end.phase}")
        if wanted is None:
            if entry is not None:
                raise Permanent(f"{where} holds nothing, but has a stand-in")
            return
        if wanted.node and (entry is None or entry.node != wanted.node):
            raise Permanent(f"{where} holds {wanted.pod.requests} on {wanted.node}, but has no stand-in there")
        if entry is not None and entry.seen.pod.requests != wanted.pod.requests:
            raise Permanent(f"{where}: {wanted.pod.requests} are left, {entry.seen.pod.requests} are held")
        if entry is not None and wanted.node and wanted.holds != NO_HOLDINGS:
            held = self._engine.components.assignments.narrowing.holdings(entry.number)
            if held != wanted.holds:
                raise Permanent(f"{where}: {wanted.holds} is left, {held} is held")
