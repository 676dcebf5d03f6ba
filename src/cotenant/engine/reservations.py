"""Reservations in a cluster's engine: they stand as pods, their owners draw from them, and they end in time.

Problem: reserved room must be nobody else's, an owner must find it free, and whatever happens in between (a bind that fails, an owner deleted, the
time over, a restart) nothing may be lost or counted twice. Choice: a reservation stands in the engine as a pod that takes what is left of it: that
pod is queued, ranked, judged and explained as any other, and what would be its bind is a status to write. What is left is computed from who has
drawn, so every change of owners only marks the reservation, and `turn`, or the next run of judgement, lets its pod be as large as it should be. An
owner is judged alone, with the pods of the reservations that it may draw from lifted and its rows narrowed to theirs, then, if it need not draw,
everywhere; the same way as a nominated pod (engine/nominations.py). Limits: an owner draws from one reservation, and from none that holds
devices or CPUs of its own (those are refused); the lab's engine knows none; a reservation's pod never preempts and is never a victim.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from math import inf

import numpy as np

from cotenant.engine.cluster_parts import Parts
from cotenant.engine.cluster_queue import Group
from cotenant.engine.instructions import Bind, ClearNomination, Evict, Instruction, Preempt, Unschedulable
from cotenant.engine.narrowing import EVERYWHERE
from cotenant.engine.nominations import Segment
from cotenant.engine.plugins import Host, Plugin, Refused
from cotenant.engine.pod_lives import PodLives
from cotenant.engine.podstate import Entry, State
from cotenant.engine.reservation_drawing import Drawing, candidates
from cotenant.engine.reservation_records import Index, Record
from cotenant.engine.reservation_views import PLUGIN, nothing_for, view, why_not
from cotenant.engine.reservation_words import DeleteReservation, ReservationView, Reserve, is_stand_in
from cotenant.engine.seating import Seating
from cotenant.model.arrays import NodeArrays
from cotenant.model.errors import Permanent
from cotenant.model.reservation import KEPT_S, Reservation
from cotenant.model.resources import ResourceAxis
from cotenant.policy.placement.reservations.lifecycle import LEGAL, cannot_keep, collect_at_s, ending
from cotenant.policy.placement.reservations.owners import is_owner, obstacle

_TOLD_AGAIN_S = 30.0  # a status, or a deletion, that the API server does not show is asked for again after so long

_MOST_TOLD = 3  # reservations that a pod is told of
_NO_RECORDS: tuple[Record, ...] = ()


@dataclass(frozen=True, slots=True)
class Ties:
    """What of its cluster's engine the plugin needs beside its `Host`."""

    parts: Parts
    lives: PodLives
    scheduler: str  # the name of ours


class Reservations(Plugin):
    """All reservations of one cluster."""

    name = PLUGIN

    def __init__(self, kept_s: float = KEPT_S) -> None:
        """An ended reservation is deleted after `kept_s`; inf = never."""
        self._kept_s = kept_s
        self._records: dict[str, Record] = {}  # by uid
        self._uids: dict[str, str] = {}  # by name
        self._index = Index()
        self._drawn: dict[str, dict[str, Entry]] = {}  # reservation's uid, known or not -> uid -> pod that drew from it
        self._draws_from: dict[str, str] = {}  # pod's uid -> reservation's
        self._unsure: dict[str, Entry] = {}  # pods that have drawn and are not known to be bound
        self._waiting: dict[str, Entry] = {}  # uid -> pod that sits nowhere
        self._may_draw: dict[str, tuple[Record, ...]] = {}  # pod's uid -> reservations kept for it, while it waits
        self._dirty: dict[str, None] = {}  # uids of reservations to be looked at
        self._due: list[tuple[float, str]] = []  # heap of when to look again, by uid; only what `_due_s` says counts
        self._due_s: dict[str, float] = {}
        self._labels_revision = -1
        self._drawing: Drawing | None = None
        self._now_s = 0.0
        self._ties: Ties | None = None

    def tie(self, ties: Ties) -> None:
        """Belong to this cluster."""
        self._ties = ties

    # ---- what was seen

    def seen(self, reservation: Reservation, now_s: float) -> None:
        """A reservation as the API server has it now."""
        uid = reservation.uid
        other = self._uids.get(reservation.name)
        if other is not None and other != uid:
            self.gone(reservation.name, now_s)  # its deletion was not seen
        record = self._records.get(uid)
        new = record is None
        if record is None:
            record = self._records[uid] = Record(reservation, ())
            record.owners = self._drawn.setdefault(uid, {})
            self._uids[reservation.name] = uid
        elif record.reservation == reservation:
            return
        before = record.reservation
        record.reservation = reservation
        record.wrong = reservation.wrong + cannot_keep(reservation.pod, reservation.demands)
        record.node = reservation.node or record.node
        if not record.keys or before.owners != reservation.owners:
            self._index.remove(record)
            self._index.add(record)
            self._find_waiting(record)
        if record.told is not None and record.is_told(record.told):
            record.told = None
        if reservation.phase.is_final and record.ended_s != record.ended_s:
            record.ended_s = now_s
        self._look(uid, now_s)
        if new or _opens(before) != _opens(reservation):
            self._wake(record, now_s, anew=True)

    def gone(self, name: str, now_s: float) -> None:
        """A reservation was deleted: what it held is free, who drew from it stays."""
        uid = self._uids.pop(name, None)
        if uid is None:
            return
        record = self._records.pop(uid)
        self._index.remove(record)
        for pod in record.waiting:
            self._may_draw[pod] = tuple(each for each in self._may_draw[pod] if each is not record)
        if not record.owners:
            self._drawn.pop(uid, None)
        self._dirty.pop(uid, None)
        self._due_s.pop(uid, None)
        if self._ties is not None:
            self._ties.lives.pod_gone(uid, now_s)

    # ---- pods, as every plugin is told

    def attach(self, host: Host) -> None:
        """Begin anew: no pod is known; reservations stay."""
        super().attach(host)
        self._draws_from.clear()
        self._unsure.clear()
        self._waiting.clear()
        self._may_draw.clear()
        self._drawn = {uid: {} for uid in self._records}
        for uid, record in self._records.items():
            record.owners = self._drawn[uid]
            record.waiting.clear()
            record.entry = None
            self._dirty[uid] = None

    def opened(self, entry: Entry) -> None:
        """A pod, or one that stands for a reservation."""
        seen = entry.seen
        if seen.reservation:
            record = self._records.get(seen.uid)
            if record is not None:
                record.entry = entry
            return
        self._await(entry)

    def closed(self, entry: Entry) -> None:
        """It is gone, or will be opened anew."""
        uid = entry.seen.uid
        record = self._records.get(uid)
        if record is not None and record.entry is entry:
            record.entry = None
            return
        self._forget_waiting(uid)

    def seated(self, entry: Entry) -> None:
        """A pod sits: perhaps it has drawn."""
        seen = entry.seen
        if seen.reservation:
            return
        self._forget_waiting(seen.uid)
        if self._drawing is not None and self._drawing.entry is entry:
            from_ = self._drawing.drawn_on(entry.row)
            entry.holds = replace(entry.holds, reservation=from_)
        has = seen.holds.reservation or entry.holds.reservation
        if has is None:
            return
        self._drawn.setdefault(has.uid, {})[seen.uid] = entry
        self._draws_from[seen.uid] = has.uid
        self._unsure[seen.uid] = entry
        if has.uid in self._records:
            self._dirty[has.uid] = None

    def stood(self, entry: Entry) -> None:
        """It sits no more: what it drew is the reservation's again."""
        seen = entry.seen
        if seen.reservation:
            return
        self._unsure.pop(seen.uid, None)
        uid = self._draws_from.pop(seen.uid, None)
        if uid is not None:
            here = self._drawn[uid]
            del here[seen.uid]
            if uid in self._records:
                self._dirty[uid] = None
            elif not here:
                del self._drawn[uid]
        self._await(entry)

    def kind_of(self, entry: Entry) -> Hashable:
        """Pods for whom different reservations are kept are judged by themselves."""
        found = self._may_draw.get(entry.seen.uid)
        return tuple(sorted(record.reservation.uid for record in found)) if found else None

    def admit(self, pods: Sequence[Entry], now_s: float) -> Mapping[int, Refused]:
        """A pod that insists on a reservation is not judged while none is there for it."""
        if self._drawing is not None:
            return {}
        turned_down = {}
        for position, entry in enumerate(pods):
            if entry.seen.demands.reservation_affinity is not None and not entry.seen.reservation:
                turned_down[position] = nothing_for(entry, self._may_draw.get(entry.seen.uid, _NO_RECORDS))
        return turned_down

    # ---- who waits for what

    def _await(self, entry: Entry) -> None:
        seen = entry.seen
        self._waiting[seen.uid] = entry
        found = tuple(self._index.owned_by(seen))
        if found:
            self._may_draw[seen.uid] = found
            for record in found:
                record.waiting[seen.uid] = entry

    def _forget_waiting(self, uid: str) -> None:
        self._waiting.pop(uid, None)
        for record in self._may_draw.pop(uid, _NO_RECORDS):
            record.waiting.pop(uid, None)

    def _find_waiting(self, record: Record) -> None:
        """The reservation's owners are new, or others than before."""
        for pod in list(record.waiting):
            self._may_draw[pod] = tuple(each for each in self._may_draw[pod] if each is not record)
        record.waiting.clear()
        for pod, entry in self._waiting.items():
            if is_owner(record.reservation, entry.seen):
                record.waiting[pod] = entry
                self._may_draw[pod] = (*self._may_draw.get(pod, ()), record)

    def _wake(self, record: Record, now_s: float, anew: bool = False) -> None:
        """Who may draw from it may find room now. `anew`: and is told apart from pods that it was queued with."""
        if self._ties is None:
            return
        lives, queue = self._ties.lives, self._ties.parts.queue
        for uid, entry in list(record.waiting.items()):
            if entry.state is not State.QUEUED:
                continue
            if anew:
                lives.requeue(entry, now_s)
            else:
                group = queue.group_of(uid)
                if group is not None:
                    queue.wake(group, now_s, "Reservation")

    # ---- time

    def turn(self, now_s: float) -> None:
        """Whatever is due: ends, owners that are bound now, room that came back, statuses."""
        self._now_s = now_s
        if not (self._records or self._unsure):
            return
        self._look_at_owners()
        while self._due and self._due[0][0] <= now_s:
            at_s, uid = heappop(self._due)
            if self._due_s.get(uid) == at_s:
                del self._due_s[uid]
                self._dirty[uid] = None
        seating = self._seating
        if self._labels_revision != seating.encoder.labels_revision:
            self._labels_revision = seating.encoder.labels_revision
            for uid, record in self._records.items():
                if record.node and not record.over and record.node not in seating.encoder.node_rows:
                    self._dirty[uid] = None
        self._settle(now_s)
        seating.write()
        if seating.changed:
            for record in self._records.values():
                if record.waiting and record.entry is not None and record.entry.row in seating.changed:
                    self._wake(record, now_s)

    def next_s(self) -> float:
        """When `turn` will next have something to do."""
        if self._dirty or any(entry.state is State.BOUND for entry in self._unsure.values()):
            return -inf
        if self._records and self._labels_revision != self._seating.encoder.labels_revision:
            return -inf
        while self._due and self._due_s.get(self._due[0][1]) != self._due[0][0]:
            heappop(self._due)
        return self._due[0][0] if self._due else inf

    def _look_at_owners(self) -> None:
        for uid, entry in list(self._unsure.items()):
            if entry.state is State.BOUND:
                del self._unsure[uid]
                self._dirty[self._draws_from[uid]] = None

    def _settle(self, now_s: float) -> None:
        """Bring every reservation that something happened to in order."""
        while self._dirty:
            uid = next(iter(self._dirty))
            del self._dirty[uid]
            if uid in self._records:
                self._look(uid, now_s, judging=True)

    def _look(self, uid: str, now_s: float, judging: bool = False) -> None:
        """One reservation: does it end, is the pod that stands for it right, what is there to tell. `judging`: every fact is there."""
        record = self._records[uid]
        if self._ties is None:
            return
        if record.end is None and judging and self._is_ours(record):
            rows = self._seating.encoder.node_rows
            known = replace(record.reservation, node=record.node)
            record.end = ending(known, now_s, record.node not in rows, len(record.bound))
        grew = self._stand(record, now_s)
        if not judging:
            self._dirty[uid] = None
            return
        if grew:
            self._wake(record, now_s)
        if self._is_ours(record):
            self._tell(record, now_s)
            self._plan(record, now_s)

    def _is_ours(self, record: Record) -> bool:
        """Whether its status is ours to write; others hold their room here all the same."""
        return self._ties is not None and record.reservation.scheduler in ("", self._ties.scheduler)

    def _stand(self, record: Record, now_s: float) -> bool:
        """Let the pod that stands for it be as it should be; whether it holds more than before."""
        assert self._ties is not None
        wanted, entry = record.stands_for(self._ties.scheduler), record.entry
        if wanted is None:
            if entry is not None:
                self._ties.lives.pod_gone(record.reservation.uid, now_s)
            return False
        before = entry.seen if entry is not None else None
        if wanted == before:
            return False
        self._ties.lives.pod_seen(wanted, now_s)
        return bool(wanted.node) and (before is None or wanted.pod.requests != before.pod.requests)

    def _tell(self, record: Record, now_s: float) -> None:
        """Say how it stands, unless that is known, or was said a moment ago."""
        status = record.status(now_s)
        if status is None or record.is_told(status):
            record.told = None
        elif status != record.told or now_s >= record.told_s + _TOLD_AGAIN_S:
            record.told, record.told_s = status, now_s
            self.host.say(status)

    def _plan(self, record: Record, now_s: float) -> None:
        """When it is to be looked at again."""
        reservation = record.reservation
        at_s = inf
        if reservation.phase.is_final:
            at_s = collect_at_s(reservation, record.ended_s, self._kept_s)
            if at_s <= now_s:
                self.host.say(DeleteReservation(reservation.name, reservation.uid))
                at_s = now_s + 2 * _TOLD_AGAIN_S
        else:
            if record.end is None:
                at_s = reservation.ends_s
            if record.told is not None:
                at_s = min(at_s, record.told_s + _TOLD_AGAIN_S)
        if at_s < inf and self._due_s.get(reservation.uid) != at_s:
            self._due_s[reservation.uid] = at_s
            heappush(self._due, (at_s, reservation.uid))
        if len(self._due) > 2 * len(self._due_s) + 64:
            self._due = [(at_s, uid) for uid, at_s in self._due_s.items()]
            heapify(self._due)

    # ---- judgement

    def segments(self, given: Iterable[Segment]) -> Iterator[Segment]:
        """The runs with owners by themselves: first where they may draw, then, where they need not, as everybody."""
        hopeless: set[int] = set()  # groups of which one pod found nothing: the others would not either
        for segment in given:
            if self._records:
                yield from self._split(segment, hopeless)
            else:
                yield segment

    def _split(self, segment: Segment, hopeless: set[int]) -> Iterator[Segment]:
        self.settle()
        run: list[tuple[Entry, Group]] = []
        for pod in segment.pods:
            may_draw = self._open_for(pod[0]) if id(pod[1]) not in hopeless else []
            insists = pod[0].seen.demands.reservation_affinity is not None and not segment.last
            if not may_draw and not insists:
                run.append(pod)
                continue
            if run:
                yield Segment(run, segment.only, segment.last)
                run = []
                self.settle()
            yield from self._own(pod, may_draw, segment)
            if not (pod[0].node or insists):
                yield Segment([pod], segment.only, segment.last)
                self.settle()
                if segment.last and not pod[0].node:
                    hopeless.add(id(pod[1]))
        if run:
            yield Segment(run, segment.only, segment.last)

    def _open_for(self, entry: Entry) -> list[Record]:
        found = self._may_draw.get(entry.seen.uid, _NO_RECORDS)
        return [each for each in found if each.is_open and not obstacle(each.reservation, entry.seen)]

    def _own(self, pod: tuple[Entry, Group], may_draw: list[Record], segment: Segment) -> Iterator[Segment]:
        seating = self._seating
        seating.write()
        for chosen in candidates(pod[0], may_draw, seating.ledger.nodes, seating.encoder.axis, segment.only):
            only = np.zeros(len(seating.names), dtype=np.bool_)
            only[list(chosen)] = True
            self._drawing = drawing = Drawing(pod[0], chosen)
            drawing.lift(seating)
            try:
                yield Segment([pod], only, False)
            finally:
                drawing.lay(seating)
                self._drawing = None
            if pod[0].node:
                break
        self.settle()

    def settle(self) -> None:
        """Before anybody is judged: room that came back since the turn is its reservation's again."""
        if self._dirty:
            self._settle(self._now_s)
            self._seating.write()

    # ---- what is said

    def worded(self, given: tuple[Instruction, ...], now_s: float) -> tuple[Instruction, ...]:
        """The engine's instructions, those about the pods that stand for reservations in the words for reservations."""
        if not self._records:
            return given
        told: list[Instruction] = []
        for each in given:
            if isinstance(each, (Bind, Unschedulable, ClearNomination, Preempt)) and is_stand_in(each.key):
                told += self._reworded(each, now_s)
            elif isinstance(each, Evict) and is_stand_in(each.victim.key):
                self.host.count("a reservation cannot be evicted")
            elif isinstance(each, Unschedulable) and each.uid in self._may_draw:
                told.append(replace(each, message=f"{each.message} {' '.join(self.about(each.uid))}"))
            else:
                told.append(each)
        return tuple(told)

    def _reworded(self, each: Bind | Unschedulable | ClearNomination | Preempt, now_s: float) -> list[Instruction]:
        record = self._records.get(each.uid)
        if record is None:
            return []
        if isinstance(each, Bind):
            record.refusal = ""
            return [
                Reserve(record.reservation.name, each.uid, each.node, record.granted(each.node, now_s), each.record)
            ]
        if isinstance(each, Unschedulable):
            record.refusal = each.message
            status = record.status(now_s)
            if status is not None and not record.is_told(status):
                record.told, record.told_s = status, now_s
                self._plan(record, now_s)
                return [status]
            return []
        self.host.count("a reservation does not preempt")
        return []

    # ---- questions

    def names(self) -> tuple[str, ...]:
        """All that are known."""
        return tuple(sorted(self._uids))

    def describe(self, name: str) -> ReservationView | None:
        """One reservation as it stands; None for one that is not known."""
        record = self._records.get(self._uids.get(name, ""))
        return view(record) if record is not None else None

    def on_node(self, node: str) -> tuple[ReservationView, ...]:
        """Those that hold room on a node."""
        here = (each for each in self._records.values() if each.node == node and not each.over)
        return tuple(sorted(map(view, here), key=lambda each: each.name))

    def about(self, uid: str) -> tuple[str, ...]:
        """Sentences about the reservations that are kept for a pod which waits: why it does not draw from them."""
        entry = self._waiting.get(uid)
        found = self._may_draw.get(uid, _NO_RECORDS)
        if entry is None or not found:
            return ()
        told = sorted({_sentence(why_not(record, entry)) for record in found})
        more = (f"{len(told) - _MOST_TOLD} more reservations are kept for it.",) if len(told) > _MOST_TOLD else ()
        return (*told[:_MOST_TOLD], *more)

    def would_lift(self, entry: Entry, nodes: NodeArrays, axis: ResourceAxis) -> tuple[int, ...]:
        """Numbers of the pods that stand for what this one may draw from, at most one a node. For a question: nothing is lifted."""
        may_draw = self._open_for(entry)
        chosen = candidates(entry, may_draw, nodes, axis, EVERYWHERE) if may_draw else ()
        return tuple(record.entry.number for few in chosen for record in few.values() if record.entry is not None)

    # ---- self-examination

    def validate(self, pods: Mapping[str, Entry]) -> None:
        """Who has drawn is who says so; every pod that stands for a reservation is as large as what is left. Raises `Permanent`."""
        if self._drawing is not None:
            raise Permanent("a judgement has not put its reservations back")
        drawn: dict[str, set[str]] = {}
        for uid, entry in pods.items():
            has = entry.seen.holds.reservation or entry.holds.reservation
            if entry.node and has is not None and not entry.seen.reservation:
                drawn.setdefault(has.uid, set()).add(uid)
        found = {uid: set(here) for uid, here in self._drawn.items() if here}
        if found != drawn:
            raise Permanent(f"pods that drew from reservations: {found} are counted, {drawn} say so")
        for uid, entry in pods.items():
            if entry.seen.reservation and (uid not in self._records or self._records[uid].entry is not entry):
                raise Permanent(f"{entry.seen.pod.key} stands for a reservation that is not known")
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

    @property
    def _seating(self) -> Seating:
        assert self._ties is not None
        return self._ties.parts.seating


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _opens(reservation: Reservation) -> Hashable:
    """What decides whether owners may draw."""
    return (
        reservation.phase,
        reservation.unschedulable,
        reservation.taints,
        reservation.labels,
        reservation.owners,
        reservation.wrong,
        reservation.allocatable,
        reservation.policy,
        reservation.restricted,
    )
