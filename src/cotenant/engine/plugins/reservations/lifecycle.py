"""What becomes of reservations in time: their ends, the pods that stand for them, and what is told of them.

Problem: an owner that came or went, a deadline, a node that is gone and a status that was not written each change what a reservation holds or says, in
any order. Choice: whatever happens only marks the reservation; `settle` computes from its record what should be so (does it end, how large is the pod
that stands for it, what is there to tell) and brings that about. Limits: a status that the server does not show is told again after half a minute.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from math import inf

from cotenant.engine.cycle.components import Components
from cotenant.engine.cycle.pods import Pods
from cotenant.engine.framework.plugin import Host
from cotenant.engine.framework.pod_state import PodInfo, State
from cotenant.engine.plugins.reservations.instructions import DeleteReservation
from cotenant.engine.plugins.reservations.records import Record
from cotenant.model.cluster.demands import NO_HOLDINGS
from cotenant.model.errors import Permanent
from cotenant.policy.placement.reservations.lifecycle import LEGAL, collect_at_s, ending

TOLD_AGAIN_S = 30.0  # a status, or a deletion, that the API server does not show is asked for again after so long


@dataclass(frozen=True, slots=True)
class Ties:
    """What of its cluster's engine the plugin needs beside its `Host`."""

    components: Components
    pods: Pods
    schedulers: tuple[str, ...]  # spec.schedulerName of the pods that are ours

    @property
    def scheduler(self) -> str:
        """The first of the names: of the pods that stand for reservations without one."""
        return self.schedulers[0]


class Upkeep:
    """Looks after the records of all reservations; `records` by uid, shared with the plugin."""

    def __init__(self, records: Mapping[str, Record], kept_s: float) -> None:
        self._records = records
        self.kept_s = kept_s  # an ended reservation is deleted after this time
        self._dirty: dict[str, None] = {}  # uids of reservations to be looked at
        self._due: list[tuple[float, str]] = []  # heap of when to look again, by uid; only what `_due_s` says counts
        self._due_s: dict[str, float] = {}
        self._labels_revision = -1
        self._now_s = 0.0
        self._host: Host | None = None
        self._ties: Ties | None = None

    def tie(self, ties: Ties) -> None:
        """Belong to this cluster."""
        self._ties = ties

    def attach(self, host: Host) -> None:
        """Whom to tell."""
        self._host = host

    @property
    def ties(self) -> Ties | None:
        """None while it belongs to no cluster."""
        return self._ties

    def pods(self) -> Mapping[str, PodInfo]:
        """All pods of the cluster, by UID; none while it belongs to no cluster."""
        return self._ties.pods.by_uid if self._ties is not None else {}

    # ---- what is to be done

    def mark(self, uid: str) -> None:
        """Something happened to this reservation."""
        self._dirty[uid] = None

    def is_marked(self, uid: str) -> bool:
        """Whether it is yet to be looked at."""
        return uid in self._dirty

    def forget(self, uid: str, now_s: float) -> None:
        """It was deleted: nothing stands for it any more."""
        self._dirty.pop(uid, None)
        self._due_s.pop(uid, None)
        if self._ties is not None:
            self._ties.pods.pod_gone(uid, now_s)

    def turn(self, now_s: float) -> None:
        """Whatever is due: ends, room that came back, statuses."""
        assert self._ties is not None
        self._now_s = now_s
        while self._due and self._due[0][0] <= now_s:
            at_s, uid = heappop(self._due)
            if self._due_s.get(uid) == at_s:
                del self._due_s[uid]
                self.mark(uid)
        assignments = self._ties.components.assignments
        if self._labels_revision != assignments.encoder.labels_revision:
            self._labels_revision = assignments.encoder.labels_revision
            for uid, record in self._records.items():
                if record.node and not record.over and record.node not in assignments.encoder.node_rows:
                    self.mark(uid)
        self._settle(now_s)
        assignments.write()

    def wake_rows(self, rows: Container[int], now_s: float) -> None:
        """On these rows something changed: who waits for the reservations there may fit beside them now."""
        for record in self._records.values():
            if record.waiting and record.entry is not None and record.entry.row in rows:
                self.wake(record, now_s)

    def next_s(self) -> float:
        """When `turn` will next have something to do."""
        if self._dirty:
            return -inf
        ties = self._ties
        if (
            ties is not None
            and self._records
            and self._labels_revision != ties.components.assignments.encoder.labels_revision
        ):
            return -inf
        while self._due and self._due_s.get(self._due[0][1]) != self._due[0][0]:
            heappop(self._due)
        return self._due[0][0] if self._due else inf

    def settle(self) -> None:
        """Before anybody is judged: room that came back since the turn is its reservation's again."""
        if self._dirty and self._ties is not None:
            self._settle(self._now_s)
            self._ties.components.assignments.write()

    def _settle(self, now_s: float) -> None:
        """Bring every reservation that something happened to in order."""
        while self._dirty:
            uid = next(iter(self._dirty))
            del self._dirty[uid]
            if uid in self._records:
                self.look(uid, now_s, judging=True)

    # ---- one reservation

    def look(self, uid: str, now_s: float, judging: bool = False) -> None:
        """One reservation: does it end, is the pod that stands for it right, what is there to tell. `judging`: every fact is there."""
        record = self._records[uid]
        if self._ties is None:
            return
        if record.end is None and judging and self._is_ours(record):
            rows = self._ties.components.assignments.encoder.node_rows
            known = replace(record.reservation, node=record.node)
            record.end = ending(known, now_s, record.node not in rows, len(record.bound))
        grew = self.stand(record, now_s)
        if not judging:
            self.mark(uid)
            return
        if grew:
            self.wake(record, now_s)
        if self._is_ours(record):
            self._tell(record, now_s)
            self.plan(record, now_s)

    def _is_ours(self, record: Record) -> bool:
        """Whether its status is ours to write; others hold their room here all the same."""
        return self._ties is not None and record.reservation.scheduler in ("", *self._ties.schedulers)

    def stand(self, record: Record, now_s: float) -> bool:
        """Let the pod that stands for it be as it should be; whether it holds more than before."""
        assert self._ties is not None
        wanted, entry = record.stands_for(self._ties.scheduler), record.entry
        if wanted is None:
            if entry is not None:
                self._ties.pods.pod_gone(record.reservation.uid, now_s)
            return False
        before = entry.seen if entry is not None else None
        if wanted == before:
            return False
        self._ties.pods.pod_seen(wanted, now_s)
        if not wanted.node or before is None:
            return bool(wanted.node)
        return (wanted.pod.requests, wanted.holds) != (before.pod.requests, before.holds)

    def _tell(self, record: Record, now_s: float) -> None:
        """Say how it stands, unless that is known, or was said a moment ago."""
        assert self._host is not None
        status = record.status(now_s)
        if status is None or record.is_told(status):
            record.told = None
        elif status != record.told or now_s >= record.told_s + TOLD_AGAIN_S:
            record.told, record.told_s = status, now_s
            self._host.say(status)

    def plan(self, record: Record, now_s: float) -> None:
        """When it is to be looked at again."""
        assert self._host is not None
        reservation = record.reservation
        at_s = inf
        if reservation.phase.is_final:
            at_s = collect_at_s(reservation, record.ended_s, self.kept_s)
            if at_s <= now_s:
                self._host.say(DeleteReservation(reservation.name, reservation.uid))
                at_s = now_s + 2 * TOLD_AGAIN_S
        else:
            if record.end is None:
                at_s = reservation.ends_s
            if record.told is not None:
                at_s = min(at_s, record.told_s + TOLD_AGAIN_S)
        if at_s < inf and self._due_s.get(reservation.uid) != at_s:
            self._due_s[reservation.uid] = at_s
            heappush(self._due, (at_s, reservation.uid))
        if len(self._due) > 2 * len(self._due_s) + 64:
            self._due = [(at_s, uid) for uid, at_s in self._due_s.items()]
            heapify(self._due)

    def wake(self, record: Record, now_s: float) -> None:
        """Who may draw from it may find room now."""
        if self._ties is None:
            return
        queue = self._ties.components.queue
        for uid in list(record.waiting):
            group = queue.group_of(uid)
            if group is not None:
                queue.wake(group, now_s, "Reservation")

    def tell_apart(self, pods: Iterable[PodInfo], now_s: float) -> None:
        """From what these may draw has changed, and so with whom they are queued; they are tried again."""
        if self._ties is None:
            return
        for entry in pods:
            if entry.state is State.QUEUED:
                self._ties.pods.requeue(entry, now_s)

    # ---- self-examination

    def validate(self) -> None:
        """Every pod that stands for a reservation is as large as what is left of it. Raises `Permanent`."""
        for uid, record in self._records.items():
            if uid not in self._dirty:
                self._validate(record)

    def _validate(self, record: Record) -> None:
        assert self._ties is not None
        entry, wanted = record.entry, record.stands_for(self._ties.scheduler)
        where, phase = f"reservation {record.reservation.name}", record.reservation.phase
        if record.end is not None and not phase.is_final and (phase, record.end.phase) not in LEGAL:
            raise Permanent(f"{where} cannot go from {phase} to {record.end.phase}")
        if wanted is None:
            if entry is not None:
                raise Permanent(f"{where} holds nothing, and a pod stands for it")
            return
        if wanted.node and (entry is None or entry.node != wanted.node):
            raise Permanent(f"{where} holds {wanted.pod.requests} on {wanted.node}, and no pod does for it")
        if entry is not None and entry.seen.pod.requests != wanted.pod.requests:
            raise Permanent(f"{where}: {wanted.pod.requests} are left, {entry.seen.pod.requests} are held")
        if entry is not None and wanted.node and wanted.holds != NO_HOLDINGS:
            held = self._ties.components.assignments.narrowing.holdings(entry.number)
            if held != wanted.holds:
                raise Permanent(f"{where}: {wanted.holds} is left, {held} is held")
