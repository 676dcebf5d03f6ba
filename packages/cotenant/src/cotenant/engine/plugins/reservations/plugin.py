"""The reservation plugin: reservations are placed like pods, their owners draw from them, and they end on time.

Reserved resources must be unavailable to other pods and free for owners, and nothing may be lost or counted twice
through failed binds, deleted owners, expiry or a restart. A reservation is represented by a pod, its *stand-in*, that
requests what is left of it. The stand-in is queued, ranked, judged and explained like any pod; its bind becomes a
status to write. The remainder is computed from the pods that have drawn, so a change of owners only marks the
reservation. This plugin records who has drawn; lifecycle.py has what follows over time, waiting.py which pods may draw,
judging.py how owners are judged, preallocation.py how a reservation is placed on room that running pods use.

Devices and CPUs are held by number by the stand-in, as by any pod, and written to the reservation's annotations.

Limits: an owner draws from one reservation; a stand-in never preempts and is never a victim.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf

from cotenant.engine.cycle.access import CycleAccess, GroupPlacer
from cotenant.engine.framework.contracts import Grouping
from cotenant.engine.framework.instructions import Instruction
from cotenant.engine.framework.memento import Memento
from cotenant.engine.framework.plugin import PluginHost, PodRefused
from cotenant.engine.framework.pod_state import PodInfo, SchedulingState
from cotenant.engine.framework.queueing import Segment
from cotenant.engine.plugins.reservations.gangs import GangDrafts
from cotenant.engine.plugins.reservations.instructions import ReservationView
from cotenant.engine.plugins.reservations.lifecycle import EngineAccess, Lifecycle
from cotenant.engine.plugins.reservations.owner_placement import OwnersFirst
from cotenant.engine.plugins.reservations.preallocation import PreAllocating
from cotenant.engine.plugins.reservations.records import ReservationRecord, given
from cotenant.engine.plugins.reservations.reservation_views import PLUGIN, nothing_for, view
from cotenant.engine.plugins.reservations.translation import Translation
from cotenant.engine.plugins.reservations.waiting import Waiters, insists
from cotenant.model.arrays import NodeArrays
from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.pod import Pod
from cotenant.model.errors import Permanent
from cotenant.model.groups.reservation import KEPT_S, Reservation
from cotenant.model.resources import ResourceAxis
from cotenant.policy.placement.reservations.lifecycle import cannot_keep
from cotenant.policy.placement.reservations.preallocation import cannot_pre_allocate


class Reservations(Grouping):
    """All reservations of one cluster."""

    name = PLUGIN

    def __init__(self, kept_s: float = KEPT_S) -> None:
        """`kept_s`: an ended reservation is deleted after this time; inf = never."""
        self.is_idle = True  # until there is a reservation: then it needs every pod
        self._records: dict[str, ReservationRecord] = {}  # by UID
        self._uids: dict[str, str] = {}  # by name
        self._drawn: dict[
            str, dict[str, PodInfo]
        ] = {}  # reservation's UID, known or not -> pod's UID -> pod that drew from it
        self._draws_from: dict[str, str] = {}  # pod's UID -> reservation's UID
        self._unconfirmed: dict[str, PodInfo] = {}  # pods that have drawn and whose bind is not confirmed
        self._waiters = Waiters()
        self._lifecycle = Lifecycle(self._records, kept_s)
        self._preallocating = PreAllocating(self._records, self._lifecycle)
        self._owners = OwnersFirst(self._records, self._waiters, self._lifecycle, self._preallocating)
        self.for_gangs = GangDrafts(self._waiters, self._lifecycle)
        self._translation = Translation(self._records, self._waiters, self._lifecycle, self._preallocating)

    def capture(self) -> Callable[[], Reservations]:
        """A maker of the reservations that hold something, without pods, for a copy of the engine; it reads nothing
        of these later.
        """
        kept_s = self._lifecycle.kept_s
        found = tuple(record.as_written() for record in self._records.values() if not record.has_ended)

        def make() -> Reservations:
            made = Reservations(kept_s)
            for reservation in found:
                made.seen(reservation, 0.0)
            return made

        return make

    def snapshot(self) -> Callable[[], None]:
        """See `Plugin`."""
        parts = (self._waiters, self._waiters.index, self._lifecycle, self._preallocating, self._owners, self.for_gangs)
        return Memento((self, *self._records.values(), *parts)).restore

    def group_placer(self) -> GroupPlacer:
        """The placer of members of whole groups that draw from reservations."""
        return self.for_gangs

    # ---- reservations

    def seen(self, reservation: Reservation, now_s: float) -> None:
        """Process a new or changed reservation."""
        if self.is_idle:
            self.is_idle = False
            self.host.unskip(self)
        uid = reservation.uid
        other = self._uids.get(reservation.name)
        if other is not None and other != uid:
            self.gone(reservation.name, now_s)  # its deletion was missed
        record = self._records.get(uid)
        new = record is None
        if record is None:
            record = self._records[uid] = ReservationRecord(reservation, ())
            record.owners = self._drawn.setdefault(uid, {})
            self._uids[reservation.name] = uid
        elif record.reservation == reservation:
            return
        before = record.reservation
        record.reservation = reservation
        record.wrong = reservation.wrong + cannot_keep(reservation.pod) + cannot_pre_allocate(reservation)
        record.node = reservation.node or record.node
        former: dict[str, PodInfo] = {}  # waiting pods that may no longer be owners
        if not record.keys or before.owners != reservation.owners:
            former = dict(record.waiting)
            self._waiters.owners_changed(record)
        if record.last_status is not None and record.is_written(record.last_status):
            record.last_status = None
        if reservation.phase.is_final and record.ended_s != record.ended_s:
            record.ended_s = now_s
        self._preallocating.reservation_changed(record, self._lifecycle.pods())
        self._lifecycle.reconcile(uid, now_s)
        if new or _drawing_state(before) != _drawing_state(reservation):
            self._lifecycle.requeue((former | record.waiting).values(), now_s)

    def without_node(self) -> tuple[Reservation, ...]:
        """Those that wait for a node."""
        return tuple(r.reservation for r in self._records.values() if not r.node and not r.has_ended)

    def gone(self, name: str, now_s: float) -> None:
        """Process a deleted reservation: the remainder is free, pods that drew stay."""
        uid = self._uids.pop(name, None)
        if uid is None:
            return
        record = self._records.pop(uid)
        self._waiters.drop(record)
        self._preallocating.reservation_gone(record)
        if not record.owners:
            self._drawn.pop(uid, None)
        self._lifecycle.forget(uid, now_s)

    # ---- pods, see `Plugin`

    def attach(self, host: PluginHost) -> None:
        """See `Plugin`; reservations stay known."""
        super().attach(host)
        cycle = host.cycle
        if isinstance(cycle, CycleAccess):
            self._lifecycle.join(EngineAccess(cycle.components, cycle.pods, cycle.schedulers))
        self._lifecycle.attach(host)
        self._draws_from.clear()
        self._unconfirmed.clear()
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
            self._lifecycle.mark(uid)

    def skips(self, pod: Pod, demands: Demands) -> bool:
        """Every pod that does not insist on a reservation, as long as there was none."""
        return self.is_idle and demands.reservation_affinity is None

    def pod_arrived(self, entry: PodInfo) -> None:
        """A pod or a stand-in arrived."""
        seen = entry.seen
        if seen.reservation:
            record = self._records.get(seen.uid)
            if record is not None:
                record.entry = entry
            return
        self._waiters.add(entry)

    def pod_left(self, entry: PodInfo) -> None:
        """A pod or a stand-in left."""
        uid = entry.seen.uid
        record = self._records.get(uid)
        if record is not None and record.entry is entry:
            record.entry = None
            return
        self._waiters.remove(uid)

    def reserve(self, entry: PodInfo, node: str) -> None:
        """Record the draw of an assigned pod, if any."""
        seen = entry.seen
        if seen.reservation:
            self._preallocating.placed(entry)
            return
        self._waiters.remove(seen.uid)
        from_ = self._owners.drawn_by(entry) or self.for_gangs.confirm(entry)
        if from_ is not None:
            entry.holds = replace(entry.holds, reservation=from_)
        self._count(entry)
        self._preallocating.pod_assigned(entry)

    def unreserve(self, entry: PodInfo) -> None:
        """Return what an unassigned pod drew to its reservation."""
        if not entry.node:
            return
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
        """Record another reservation or other devices, or that the pod's own annotation counts from now on."""
        if not entry.node or entry.seen.reservation:
            return
        self._preallocating.pod_assigned(entry)
        has, before = given(entry).reservation, self._draws_from.get(entry.seen.uid)
        if (has.uid if has is not None else None) != before:
            self._discount(entry.seen.uid)
            self._count(entry)
        elif before in self._records:
            self._lifecycle.mark(before)

    def _count(self, entry: PodInfo) -> None:
        """Count an assigned pod with the reservation that it names, if any."""
        has, uid = given(entry).reservation, entry.seen.uid
        if has is None:
            return
        self._preallocating.annotated(uid)
        self._drawn.setdefault(has.uid, {})[uid] = entry
        self._draws_from[uid] = has.uid
        self._unconfirmed[uid] = entry
        if has.uid in self._records:
            self._lifecycle.mark(has.uid)

    def _discount(self, pod: str) -> None:
        """Remove a pod from the reservation that it drew from."""
        self._unconfirmed.pop(pod, None)
        uid = self._draws_from.pop(pod, None)
        if uid is None:
            return
        here = self._drawn[uid]
        del here[pod]
        if uid in self._records:
            self._lifecycle.mark(uid)
        elif not here:
            del self._drawn[uid]

    def sign(self, entry: PodInfo) -> Hashable:
        """Pods with different reservations are in different groups; a reservation that may take pods is in one of
        its own.
        """
        if self._preallocating.applies(entry) is not None:
            return entry.seen.uid
        found = self._waiters.kept_for(entry.seen.uid)
        return tuple(sorted(record.reservation.uid for record in found)) if found else None

    def pre_filter(self, pods: Sequence[PodInfo], now_s: float) -> Mapping[int, PodRefused]:
        """Refuse pods that require a reservation while none is open for them."""
        if self._owners.is_drawing or self._preallocating.is_trying:
            return {}
        refused = {}
        for position, entry in enumerate(pods):
            if insists(entry) and not entry.seen.reservation and not self._draws_with_its_gang(entry):
                refused[position] = nothing_for(entry, self._waiters.kept_for(entry.seen.uid))
            elif entry.seen.reservation:
                why = self._preallocating.refusal(entry)
                if why is not None:
                    refused[position] = why
        return refused

    def _draws_with_its_gang(self, entry: PodInfo) -> bool:
        """Whether it may draw when its gang is judged as a whole."""
        engine = self._lifecycle.engine
        group = engine.components.queue.group_of(entry.seen.uid) if engine is not None else None
        return group is not None and group.whole and bool(self._waiters.open_for(entry))

    # ---- time

    def turn(self, now_s: float) -> None:
        """Process what is due: ends, confirmed owners, released amounts, statuses."""
        if not (self._records or self._unconfirmed):
            return
        for uid, entry in list(self._unconfirmed.items()):
            if entry.state is SchedulingState.BOUND:
                del self._unconfirmed[uid]
                self._lifecycle.mark(self._draws_from[uid])
        self._preallocating.turn(now_s)
        self._lifecycle.turn(now_s)

    def next_s(self) -> float:
        """When `turn` is due next."""
        if self._preallocating.is_due or any(
            entry.state is SchedulingState.BOUND for entry in self._unconfirmed.values()
        ):
            return -inf
        return self._lifecycle.next_s()

    # ---- judgement

    def divide(self, segments: Iterable[Segment]) -> Iterator[Segment]:
        """See `Grouping`: owners are judged alone, first on the nodes of their reservations, then, unless they
        require one, like any other pod.
        """
        return self._owners.segments(segments)

    def rows_changed(self, rows: Collection[int], now_s: float) -> None:
        """Wake pods and reservations that wait for these rows."""
        self._lifecycle.wake_rows(rows, now_s)
        self._preallocating.wake_rows(rows, now_s)

    # ---- instructions

    def bind(self, instructions: tuple[Instruction, ...], now_s: float) -> tuple[Instruction, ...]:
        """Replace instructions about stand-ins by instructions about their reservations."""
        if not self._records:
            return instructions
        return self._translation.of(instructions, now_s, self.host)

    # ---- queries

    def names(self) -> tuple[str, ...]:
        """The names of all known reservations."""
        return tuple(sorted(self._uids))

    def describe(self, name: str) -> ReservationView | None:
        """The state of one reservation; None for an unknown one."""
        record = self._records.get(self._uids.get(name, ""))
        return view(record) if record is not None else None

    def on_node(self, node: str) -> tuple[ReservationView, ...]:
        """The reservations that hold resources on a node."""
        here = (record for record in self._records.values() if record.node == node and not record.has_ended)
        return tuple(sorted(map(view, here), key=lambda entry: entry.name))

    def about(self, uid: str) -> tuple[str, ...]:
        """Why a waiting pod does not draw from its reservations, in sentences."""
        return self._waiters.about(uid)

    def would_hide(self, entry: PodInfo, nodes: NodeArrays, axis: ResourceAxis) -> tuple[int, ...]:
        """Numbers of the stand-ins that this pod may draw from, at most one per node. For queries: no state is
        changed.
        """
        return self._owners.would_hide(entry, nodes, axis)

    # ---- validation

    def validate(self, pods: Mapping[str, PodInfo]) -> None:
        """Check that the recorded draws are those of the pods, and the stand-ins. Raises `Permanent`."""
        if self.is_idle:
            return
        if self._owners.is_drawing or self.for_gangs.is_drawing or self._preallocating.is_trying:
            raise Permanent("an attempt has not restored what it hid")
        drawn: dict[str, set[str]] = {}
        for uid, entry in pods.items():
            has = given(entry).reservation
            if entry.node and has is not None and not entry.seen.reservation:
                drawn.setdefault(has.uid, set()).add(uid)
        found = {uid: set(here) for uid, here in self._drawn.items() if here}
        if found != drawn:
            raise Permanent(f"pods that drew from reservations: {found} are recorded, {drawn} name them")
        for uid, entry in pods.items():
            if entry.seen.reservation and (uid not in self._records or self._records[uid].entry is not entry):
                raise Permanent(f"{entry.seen.pod.key} is the stand-in of an unknown reservation")
        self._lifecycle.validate()


def _drawing_state(reservation: Reservation) -> Hashable:
    """What determines which owners may draw."""
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
