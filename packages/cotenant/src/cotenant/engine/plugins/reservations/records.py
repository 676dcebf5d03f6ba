"""The state of one reservation, and an index of reservations by their owners.

The object, what follows from it (who has drawn, what is left) and the last requested status change at different times.
One record per reservation, from which everything else is computed; an index by owner keys, so that a pod is compared
only with the reservations that may name it.
Limits: an owner entry without name, UID or label value is compared with every pod.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from math import nan

from cotenant.engine.framework.pod_state import PodInfo, SchedulingState
from cotenant.engine.plugins.reservations.instructions import ReservationStatus, stand_in_name
from cotenant.model.cluster.demands import NO_HOLDINGS, Holdings
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.groups.reservation import CurrentOwner, Reservation, ReservationCondition, ReservationPhase
from cotenant.model.resources import NOTHING, Amounts
from cotenant.policy.placement.reservations.drawing import allocated
from cotenant.policy.placement.reservations.holding import ReservedAmounts, kept_after
from cotenant.policy.placement.reservations.lifecycle import Ending, changed_template, conditions
from cotenant.policy.placement.reservations.migration import GANG_LABELS, without_labels
from cotenant.policy.placement.reservations.owners import is_owner, keys_for, keys_of


@dataclass(slots=True, eq=False)
class ReservationRecord:
    """One reservation."""

    reservation: Reservation
    wrong: tuple[str, ...]  # messages about what cannot be used
    node: str = ""  # as soon as the API server named it; never cleared
    end: Ending | None = None  # decided here; the API server may not show it yet
    ended_s: float = nan  # when it was first seen to have ended
    owners: dict[str, PodInfo] = field(
        default_factory=dict
    )  # UID -> assigned pod whose annotation names the reservation
    taken: dict[str, PodInfo] = field(
        default_factory=dict
    )  # UID -> pod taken by pre-allocation whose annotation is not seen yet
    drafts: dict[str, ReservedAmounts] = field(
        default_factory=dict
    )  # UID -> draws of members of the gang that is being judged
    waiting: dict[str, PodInfo] = field(default_factory=dict)  # UID -> unassigned pod that may draw
    entry: PodInfo | None = None  # its stand-in, if any
    decided_before: bool = False  # a node was decided before, and perhaps written
    refusal: str = ""  # why no node was found
    last_status: ReservationStatus | None = None  # requested and not confirmed yet
    last_status_s: float = nan
    keys: tuple[Hashable, ...] = ()

    @property
    def has_ended(self) -> bool:
        """Whether it holds nothing any more."""
        return self.end is not None or self.reservation.phase.is_final

    @property
    def reserved(self) -> Amounts:
        """The reserved amounts."""
        return self.reservation.reserved

    @property
    def current_owners(self) -> list[PodInfo]:
        """Pods that have drawn. An annotation of a pod on another node does not count."""
        return [entry for entry in (self.owners | self.taken).values() if entry.node == self.node]

    @property
    def held(self) -> Holdings:
        """The devices and CPUs allocated to it, by number; none before it has a node."""
        return self.reservation.holds if self.reservation.node else NO_HOLDINGS

    @property
    def kept(self) -> ReservedAmounts:
        """The remainder."""
        drawn = [_drawn_by(entry) for entry in self.current_owners]
        return kept_after(ReservedAmounts(self.reserved, self.held), [*drawn, *self.drafts.values()])

    @property
    def left(self) -> Amounts:
        """The amounts of the remainder."""
        return self.kept.amounts

    @property
    def bound(self) -> list[PodInfo]:
        """Current owners whose bind is confirmed."""
        return [entry for entry in self.current_owners if entry.state is SchedulingState.BOUND]

    @property
    def is_open(self) -> bool:
        """Whether an owner may draw from it now, regardless of amounts and of the owner's own rules."""
        return (
            self.entry is not None
            and self.reservation.phase is ReservationPhase.AVAILABLE
            and not self.has_ended
            and not self.wrong
            and not self.reservation.unschedulable
            and not (self.reservation.allocate_once and (self.current_owners or self.drafts))
        )

    def as_written(self) -> Reservation:
        """The reservation as the API server will have it once the node that was found for it is written."""
        if not self.node or self.reservation.node:
            return self.reservation
        holds = self.entry.holds if self.entry is not None else NO_HOLDINGS
        return replace(self.reservation, node=self.node, phase=ReservationPhase.AVAILABLE, holds=holds)

    def wanted_stand_in(self, scheduler: str) -> ObservedPod | None:
        """The stand-in that it should have now; None if it holds nothing. `scheduler`: the name for one whose
        template names none.
        """
        if self.has_ended:
            return None
        reservation = self.reservation
        kept = self.kept if self.node else ReservedAmounts(reservation.pod.requests)
        if self.node and kept == ReservedAmounts(NOTHING):
            return None
        return ObservedPod(
            pod=replace(_bare(reservation.pod), name=stand_in_name(reservation.name), requests=kept.amounts),
            uid=reservation.uid,
            scheduler=reservation.scheduler or scheduler,
            created_s=reservation.created_s,
            node=self.node,
            preempts=False,
            demands=reservation.demands,
            holds=kept.holds,
            unsupported=self.wrong,
            reservation=reservation.name,
        )

    def status(self, now_s: float) -> ReservationStatus | None:
        """The status that it should have; None if nothing has been decided yet."""
        reservation = self.reservation
        if reservation.phase.is_final:
            return None
        if self.end is not None:
            phase = self.end.phase
        elif self.node:
            phase = ReservationPhase.AVAILABLE
        elif self.refusal:
            phase = ReservationPhase.PENDING
        else:
            return None
        note = ""
        if self.node and self.reservation.pre_allocation is None:
            note = changed_template(self.reservation.pod, self.reserved)
        return self._status(phase, self.node, conditions(self.node, self.refusal, self.end, note), now_s)

    def granted(self, node: str, now_s: float) -> ReservationStatus:
        """Its status once it is on this node."""
        return self._status(ReservationPhase.AVAILABLE, node, conditions(node, "", None), now_s)

    def _status(
        self, phase: ReservationPhase, node: str, found: tuple[ReservationCondition, ...], now_s: float
    ) -> ReservationStatus:
        reservation = self.reservation
        before = {condition.type: condition for condition in reservation.conditions}
        drawn = self.bound if node else []
        left = kept_after(ReservedAmounts(self.reserved, self.held), [_drawn_by(entry) for entry in drawn]).amounts
        return ReservationStatus(
            key=reservation.name,
            uid=reservation.uid,
            phase=phase,
            node=node,
            allocatable=_some(self.reserved) if node else reservation.allocatable,
            allocated=allocated(self.reserved, left) if node else reservation.allocated,
            owners=tuple(sorted(map(owner_of, drawn), key=_by_name)),
            conditions=tuple(
                replace(condition, since_s=_since_s(before.get(condition.type), condition, now_s))
                for condition in found
            ),
        )

    def is_written(self, status: ReservationStatus) -> bool:
        """Whether the API server shows this status."""
        has = self.reservation
        owners = tuple(sorted(has.current, key=_by_name))
        return (has.phase, has.node, has.allocatable, has.allocated, owners, has.conditions) == (
            status.phase,
            status.node,
            status.allocatable,
            status.allocated,
            status.owners,
            status.conditions,
        )


class Index:
    """Reservations by the keys of their owners."""

    def __init__(self) -> None:
        self._by_key: dict[Hashable, dict[str, ReservationRecord]] = {}

    def add(self, record: ReservationRecord) -> None:
        """Add a record under the owners of its reservation."""
        record.keys = tuple(dict.fromkeys(key for owner in record.reservation.owners for key in keys_of(owner)))
        for key in record.keys:
            self._by_key.setdefault(key, {})[record.reservation.uid] = record

    def remove(self, record: ReservationRecord) -> None:
        """Remove a record from the keys under which it was added."""
        for key in record.keys:
            here = self._by_key[key]
            del here[record.reservation.uid]
            if not here:
                del self._by_key[key]
        record.keys = ()

    def owned_by(self, seen: ObservedPod) -> Iterator[ReservationRecord]:
        """The reservations of which this pod is an owner, in any state."""
        if not self._by_key or seen.reservation:
            return
        found: dict[str, ReservationRecord] = {}
        for key in keys_for(seen):
            found.update(self._by_key.get(key, {}))
        for record in found.values():
            if is_owner(record.reservation, seen):
                yield record


def given(entry: PodInfo) -> Holdings:
    """What the pod was allocated: by its annotations once it is bound. Before, they may be copied, or left by a
    failed bind.
    """
    return entry.seen.holds if entry.seen.node else entry.holds


def _drawn_by(entry: PodInfo) -> ReservedAmounts:
    return ReservedAmounts(entry.seen.pod.requests, given(entry))


def owner_of(entry: PodInfo) -> CurrentOwner:
    """The pod as the reservation's status names it."""
    return CurrentOwner(entry.seen.pod.namespace, entry.seen.pod.name, entry.seen.uid)


def _some(amounts: Amounts) -> Amounts:
    """Without zero amounts."""
    return Amounts.of({name: amount for name, amount in amounts if amount})


def _bare(pod: Pod) -> Pod:
    """Without the labels that make it a member of a gang."""
    return without_labels(pod, GANG_LABELS)


def _by_name(owner: CurrentOwner) -> tuple[str, str, str]:
    return (owner.namespace, owner.name, owner.uid)


def _since_s(before: ReservationCondition | None, now: ReservationCondition, now_s: float) -> float:
    same = before is not None and (before.status, before.reason) == (now.status, now.reason)
    return before.since_s if before is not None and same and before.since_s == before.since_s else now_s
