"""Reservations in a cluster's engine: they stand as pods, their owners draw from them, and they end in time.

Problem: reserved room must be nobody else's, an owner must find it free, and whatever happens in between (a bind that fails, an owner deleted, the
time over, a restart) nothing may be lost or counted twice. Choice: a reservation stands in the engine as a pod that takes what is left of it: that
pod is queued, ranked, judged and explained as any other, and what would be its bind is a status to write. What is left is computed from who has
drawn, so every change of owners only marks the reservation. This plugin is told of everything and keeps who has drawn; what follows in time is in
`reservation_upkeep`, who may draw in `reservation_waiting`, how owners are judged in `reservation_judging`.

Devices and CPUs that it holds are kept by number by that pod, as by any other, and told in the reservation's annotations.

Limits: an owner draws from one reservation; the lab's engine knows none; a reservation's pod never preempts and is never a victim.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf

from cotenant.engine.cycle.access import CycleAccess, GroupPlacer
from cotenant.engine.framework.instructions import Bind, ClearNomination, Evict, Instruction, Preempt, Unschedulable
from cotenant.engine.framework.plugin import Cycle, Host, Plugin, Refused
from cotenant.engine.framework.pod_state import PodInfo, State
from cotenant.engine.framework.queueing import Segment
from cotenant.engine.plugins.reservations.gangs import GangDraws
from cotenant.engine.plugins.reservations.instructions import ReservationView, Reserve, is_stand_in
from cotenant.engine.plugins.reservations.judging import OwnersFirst
from cotenant.engine.plugins.reservations.lifecycle import Ties, Upkeep
from cotenant.engine.plugins.reservations.preallocation import PreAllocating
from cotenant.engine.plugins.reservations.records import Record, given, owner_of
from cotenant.engine.plugins.reservations.views import PLUGIN, nothing_for, sentences, view
from cotenant.engine.plugins.reservations.waiting import Waiters, insists
from cotenant.model.arrays import NodeArrays
from cotenant.model.errors import Permanent
from cotenant.model.groups.reservation import KEPT_S, Reservation
from cotenant.model.resources import ResourceAxis
from cotenant.policy.placement.reservations.lifecycle import cannot_keep
from cotenant.policy.placement.reservations.preallocation import cannot_pre_allocate


class Reservations(Plugin):
    """All reservations of one cluster."""

    name = PLUGIN

    def __init__(self, kept_s: float = KEPT_S) -> None:
        """An ended reservation is deleted after `kept_s`; inf = never."""
        self._records: dict[str, Record] = {}  # by uid
        self._uids: dict[str, str] = {}  # by name
        self._drawn: dict[
            str, dict[str, PodInfo]
        ] = {}  # reservation's uid, known or not -> uid -> pod that drew from it
        self._draws_from: dict[str, str] = {}  # pod's uid -> reservation's
        self._unsure: dict[str, PodInfo] = {}  # pods that have drawn and are not known to be bound
        self._waiters = Waiters()
        self._upkeep = Upkeep(self._records, kept_s)
        self._preallocating = PreAllocating(self._records, self._upkeep)
        self._owners = OwnersFirst(self._records, self._waiters, self._upkeep, self._preallocating)
        self.for_gangs = GangDraws(self._waiters, self._upkeep)

    def capture(self) -> Callable[[], Reservations]:
        """A maker of the reservations that hold something, without pods, for a copy of the engine; it reads nothing of these later."""
        kept_s = self._upkeep.kept_s
        found = tuple(record.as_written() for record in self._records.values() if not record.over)

        def make() -> Reservations:
            made = Reservations(kept_s)
            for each in found:
                made.seen(each, 0.0)
            return made

        return make

    def join(self, cycle: Cycle) -> None:
        """See `Plugin`."""
        assert isinstance(cycle, CycleAccess)
        self._upkeep.tie(Ties(cycle.components, cycle.pods, cycle.schedulers))

    def group_placer(self) -> GroupPlacer:
        """Members of whole groups that draw from reservations."""
        return self.for_gangs

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
        record.wrong = reservation.wrong + cannot_keep(reservation.pod) + cannot_pre_allocate(reservation)
        record.node = reservation.node or record.node
        former: dict[str, PodInfo] = {}  # they wait, and are owners no more, perhaps
        if not record.keys or before.owners != reservation.owners:
            former = dict(record.waiting)
            self._waiters.owners_changed(record)
        if record.told is not None and record.is_told(record.told):
            record.told = None
        if reservation.phase.is_final and record.ended_s != record.ended_s:
            record.ended_s = now_s
        self._preallocating.reservation_changed(record, self._upkeep.pods())
        self._upkeep.look(uid, now_s)
        if new or _opens(before) != _opens(reservation):
            self._upkeep.tell_apart((former | record.waiting).values(), now_s)

    def gone(self, name: str, now_s: float) -> None:
        """A reservation was deleted: what it held is free, who drew from it stays."""
        uid = self._uids.pop(name, None)
        if uid is None:
            return
        record = self._records.pop(uid)
        self._waiters.drop(record)
        self._preallocating.reservation_gone(record)
        if not record.owners:
            self._drawn.pop(uid, None)
        self._upkeep.forget(uid, now_s)

    # ---- pods, as every plugin is told

    def attach(self, host: Host) -> None:
        """Begin anew: no pod is known; reservations stay."""
        super().attach(host)
        self._upkeep.attach(host)
        self._draws_from.clear()
        self._unsure.clear()
        self._waiters.clear()
        self.for_gangs.clear()
        self._preallocating.clear()
        self._drawn = {uid: {} for uid in self._records}
        for uid, record in self._records.items():
            record.owners = self._drawn[uid]
            record.waiting.clear()
            record.drafts.clear()
            record.entry = None
            self._preallocating.reservation_changed(record, {})
            self._upkeep.mark(uid)

    def pod_arrived(self, entry: PodInfo) -> None:
        """A pod, or one that stands for a reservation."""
        seen = entry.seen
        if seen.reservation:
            record = self._records.get(seen.uid)
            if record is not None:
                record.entry = entry
            return
        self._waiters.add(entry)

    def pod_left(self, entry: PodInfo) -> None:
        """It is gone, or will be opened anew."""
        uid = entry.seen.uid
        record = self._records.get(uid)
        if record is not None and record.entry is entry:
            record.entry = None
            return
        self._waiters.remove(uid)

    def reserve(self, entry: PodInfo) -> None:
        """A pod sits: perhaps it has drawn."""
        seen = entry.seen
        if seen.reservation:
            self._preallocating.placed(entry)
            return
        self._waiters.remove(seen.uid)
        from_ = self._owners.drawn_by(entry) or self.for_gangs.made_good(entry)
        if from_ is not None:
            entry.holds = replace(entry.holds, reservation=from_)
        self._count(entry)
        self._preallocating.pod_assigned(entry)

    def unreserve(self, entry: PodInfo) -> None:
        """It sits no more: what it drew is the reservation's again."""
        seen = entry.seen
        if seen.reservation:
            record = self._records.get(seen.uid)
            if record is not None:
                self._preallocating.bind_failed(record)
            return
        self._preallocating.pod_unassigned(seen.uid)
        self._discount(seen.uid)
        self._waiters.add(entry)

    def pod_updated(self, entry: PodInfo) -> None:
        """It may name another reservation than before, or other devices; or its own word counts from now on."""
        if not entry.node or entry.seen.reservation:
            return
        self._preallocating.pod_assigned(entry)
        has, before = given(entry).reservation, self._draws_from.get(entry.seen.uid)
        if (has.uid if has is not None else None) != before:
            self._discount(entry.seen.uid)
            self._count(entry)
        elif before in self._records:
            self._upkeep.mark(before)

    def _count(self, entry: PodInfo) -> None:
        """A pod that sits has drawn from what it names, if it names any."""
        has, uid = given(entry).reservation, entry.seen.uid
        if has is None:
            return
        self._preallocating.annotated(uid)
        self._drawn.setdefault(has.uid, {})[uid] = entry
        self._draws_from[uid] = has.uid
        self._unsure[uid] = entry
        if has.uid in self._records:
            self._upkeep.mark(has.uid)

    def _discount(self, pod: str) -> None:
        """It draws from nothing."""
        self._unsure.pop(pod, None)
        uid = self._draws_from.pop(pod, None)
        if uid is None:
            return
        here = self._drawn[uid]
        del here[pod]
        if uid in self._records:
            self._upkeep.mark(uid)
        elif not here:
            del self._drawn[uid]

    def queue_key(self, entry: PodInfo) -> Hashable:
        """Pods for whom different reservations are kept are judged by themselves, and so is each reservation that may take pods."""
        if self._preallocating.applies(entry) is not None:
            return entry.seen.uid
        found = self._waiters.kept_for(entry.seen.uid)
        return tuple(sorted(record.reservation.uid for record in found)) if found else None

    def pre_filter(self, pods: Sequence[PodInfo], now_s: float) -> Mapping[int, Refused]:
        """A pod that insists on a reservation is not judged while none is there for it."""
        if self._owners.is_drawing or self._preallocating.is_trying:
            return {}
        turned_down = {}
        for position, entry in enumerate(pods):
            if insists(entry) and not entry.seen.reservation and not self._draws_with_its_gang(entry):
                turned_down[position] = nothing_for(entry, self._waiters.kept_for(entry.seen.uid))
            elif entry.seen.reservation:
                why = self._preallocating.refusal(entry)
                if why is not None:
                    turned_down[position] = why
        return turned_down

    def _draws_with_its_gang(self, entry: PodInfo) -> bool:
        """Whether it may draw while its gang is judged as a whole."""
        ties = self._upkeep.ties
        group = ties.components.queue.group_of(entry.seen.uid) if ties is not None else None
        return group is not None and group.whole and bool(self._waiters.open_for(entry))

    # ---- time

    def turn(self, now_s: float) -> None:
        """Whatever is due: ends, owners that are bound now, room that came back, statuses."""
        if not (self._records or self._unsure):
            return
        for uid, entry in list(self._unsure.items()):
            if entry.state is State.BOUND:
                del self._unsure[uid]
                self._upkeep.mark(self._draws_from[uid])
        self._preallocating.turn(now_s)
        self._upkeep.turn(now_s)

    def next_s(self) -> float:
        """When `turn` will next have something to do."""
        if self._preallocating.is_due or any(entry.state is State.BOUND for entry in self._unsure.values()):
            return -inf
        return self._upkeep.next_s()

    # ---- judgement

    def segments(self, segments: Iterable[Segment]) -> Iterator[Segment]:
        """The runs with owners by themselves: first where they may draw, then, where they need not, as everybody."""
        return self._owners.segments(segments)

    def before_run(self) -> None:
        """Room that came back since the turn is its reservation's again."""
        self._upkeep.settle()

    def rows_changed(self, rows: Collection[int], now_s: float) -> None:
        """On these rows something changed: owners that wait for their reservations there are tried again."""
        self._upkeep.wake_rows(rows, now_s)
        self._preallocating.wake_rows(rows, now_s)

    # ---- what is said

    def translate(self, instructions: tuple[Instruction, ...], now_s: float) -> tuple[Instruction, ...]:
        """The engine's instructions, those about the pods that stand for reservations in the words for reservations."""
        if not self._records:
            return instructions
        told: list[Instruction] = []
        for each in instructions:
            if isinstance(each, (Bind, Unschedulable, ClearNomination, Preempt)) and is_stand_in(each.key):
                told += self._reworded(each, now_s)
            elif isinstance(each, Evict) and is_stand_in(each.victim.key):
                self.host.count("a reservation cannot be evicted")
            elif isinstance(each, Unschedulable) and each.uid in self._waiters:
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
            granted = record.granted(each.node, now_s)
            has = None if record.offered else record.reservation.holds
            record.offered = True
            takes = tuple(owner_of(entry) for entry in record.taken.values())
            return [Reserve(record.reservation.name, each.uid, each.node, granted, each.record, each.holds, has, takes)]
        if isinstance(each, Unschedulable):
            record.refusal = " ".join(filter(None, (each.message, self._preallocating.sentence(each.uid))))
            status = record.status(now_s)
            if status is not None and not record.is_told(status):
                record.told, record.told_s = status, now_s
                self._upkeep.plan(record, now_s)
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
        entry = self._waiters.find(uid)
        return sentences(entry, self._waiters.kept_for(uid)) if entry is not None else ()

    def would_lift(self, entry: PodInfo, nodes: NodeArrays, axis: ResourceAxis) -> tuple[int, ...]:
        """Numbers of the pods that stand for what this one may draw from, at most one a node. For a question: nothing is lifted."""
        return self._owners.would_lift(entry, nodes, axis)

    # ---- self-examination

    def validate(self, pods: Mapping[str, PodInfo]) -> None:
        """Who has drawn is who says so; every pod that stands for a reservation is as large as what is left. Raises `Permanent`."""
        if self._owners.is_drawing or self.for_gangs.is_drawing or self._preallocating.is_trying:
            raise Permanent("a judgement has not put its reservations back")
        drawn: dict[str, set[str]] = {}
        for uid, entry in pods.items():
            has = given(entry).reservation
            if entry.node and has is not None and not entry.seen.reservation:
                drawn.setdefault(has.uid, set()).add(uid)
        found = {uid: set(here) for uid, here in self._drawn.items() if here}
        if found != drawn:
            raise Permanent(f"pods that drew from reservations: {found} are counted, {drawn} say so")
        for uid, entry in pods.items():
            if entry.seen.reservation and (uid not in self._records or self._records[uid].entry is not entry):
                raise Permanent(f"{entry.seen.pod.key} stands for a reservation that is not known")
        self._upkeep.validate()


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
        reservation.holds,
    )
