"""What is known of one reservation, and which reservations may be about a pod.

Problem: facts (the object), what follows from them (who has drawn, what is left) and what was told of it change at different times. Choice: one
record each, from which everything else is computed anew; an index by the owners' keys, so that a pod is compared with the reservations that may name
it and no others. Limits: an owner that gives no name, UID or label value is compared with every pod.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from math import nan

from cotenant.engine.framework.pod_state import PodInfo, State
from cotenant.engine.plugins.reservations.instructions import ReservationStatus, stand_in
from cotenant.model.cluster.demands import NO_HOLDINGS, Holdings
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.groups.reservation import Condition, CurrentOwner, Phase, Reservation
from cotenant.model.resources import NOTHING, Amounts
from cotenant.policy.placement.reservations.drawing import allocated
from cotenant.policy.placement.reservations.holding import Kept, kept_after
from cotenant.policy.placement.reservations.lifecycle import Ending, conditions
from cotenant.policy.placement.reservations.migration import GANG_LABELS, without_labels
from cotenant.policy.placement.reservations.owners import is_owner, keys_for, keys_of


@dataclass(slots=True, eq=False)
class Record:
    """One reservation."""

    reservation: Reservation
    wrong: tuple[str, ...]  # all that is wrong with it
    node: str = ""  # once it was told of; never forgotten again
    end: Ending | None = None  # decided here; the API server may not say so yet
    ended_s: float = nan  # when it was first seen to have ended
    owners: dict[str, PodInfo] = field(
        default_factory=dict
    )  # uid -> pod that sits somewhere and says that it has drawn
    taken: dict[str, PodInfo] = field(
        default_factory=dict
    )  # uid -> running pod that it took with its node, and whose annotation does not say so yet
    drafts: dict[str, Kept] = field(default_factory=dict)  # uid -> what members of the gang that is judged now draw
    waiting: dict[str, PodInfo] = field(default_factory=dict)  # uid -> pod that may draw and sits nowhere
    entry: PodInfo | None = None  # the pod that stands for it, while there is one
    offered: bool = False  # a node was found for it before, and perhaps written
    refusal: str = ""  # why no node was found
    told: ReservationStatus | None = None  # not confirmed yet
    told_s: float = nan
    keys: tuple[Hashable, ...] = ()

    @property
    def over(self) -> bool:
        """Whether it holds nothing any more."""
        return self.end is not None or self.reservation.phase.is_final

    @property
    def reserved(self) -> Amounts:
        """What is kept in all."""
        return self.reservation.reserved

    @property
    def drawers(self) -> list[PodInfo]:
        """Pods that have drawn: what one on another node says is not believed."""
        return [entry for entry in (self.owners | self.taken).values() if entry.node == self.node]

    @property
    def held(self) -> Holdings:
        """The devices and CPUs that it was given, by number; none before it has its node."""
        return self.reservation.holds if self.reservation.node else NO_HOLDINGS

    @property
    def kept(self) -> Kept:
        """What is not drawn."""
        drawn = [_drawn_by(entry) for entry in self.drawers]
        return kept_after(Kept(self.reserved, self.held), [*drawn, *self.drafts.values()])

    @property
    def left(self) -> Amounts:
        """The amounts of what is not drawn."""
        return self.kept.amounts

    @property
    def bound(self) -> list[PodInfo]:
        """Owners of which the API server says that they sit there."""
        return [entry for entry in self.drawers if entry.state is State.BOUND]

    @property
    def is_open(self) -> bool:
        """Whether an owner may draw from it now, as far as it alone decides."""
        return (
            self.entry is not None
            and self.reservation.phase is Phase.AVAILABLE
            and not self.over
            and not self.wrong
            and not self.reservation.unschedulable
            and not (self.reservation.allocate_once and (self.drawers or self.drafts))
        )

    def as_written(self) -> Reservation:
        """The reservation as the API server will have it once the node that was found for it is written."""
        if not self.node or self.reservation.node:
            return self.reservation
        holds = self.entry.holds if self.entry is not None else NO_HOLDINGS
        return replace(self.reservation, node=self.node, phase=Phase.AVAILABLE, holds=holds)

    def stands_for(self, scheduler: str) -> ObservedPod | None:
        """The pod that holds its room now; None where it holds none. `scheduler` is the name of ours."""
        if self.over:
            return None
        reservation = self.reservation
        kept = self.kept if self.node else Kept(reservation.pod.requests)
        if self.node and kept == Kept(NOTHING):
            return None
        return ObservedPod(
            pod=replace(_bare(reservation.pod), name=stand_in(reservation.name), requests=kept.amounts),
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
        """What its status should say; None where there is nothing to say yet."""
        reservation = self.reservation
        if reservation.phase.is_final:
            return None
        if self.end is not None:
            phase = self.end.phase
        elif self.node:
            phase = Phase.AVAILABLE
        elif self.refusal:
            phase = Phase.PENDING
        else:
            return None
        return self._status(phase, self.node, conditions(self.node, self.refusal, self.end), now_s)

    def granted(self, node: str, now_s: float) -> ReservationStatus:
        """What its status says once it has this node."""
        return self._status(Phase.AVAILABLE, node, conditions(node, "", None), now_s)

    def _status(self, phase: Phase, node: str, found: tuple[Condition, ...], now_s: float) -> ReservationStatus:
        reservation = self.reservation
        before = {each.type: each for each in reservation.conditions}
        drawn = self.bound if node else []
        left = kept_after(Kept(self.reserved, self.held), [_drawn_by(entry) for entry in drawn]).amounts
        return ReservationStatus(
            key=reservation.name,
            uid=reservation.uid,
            phase=phase,
            node=node,
            allocatable=_some(self.reserved) if node else reservation.allocatable,
            allocated=allocated(self.reserved, left) if node else reservation.allocated,
            owners=tuple(sorted(map(owner_of, drawn), key=_by_name)),
            conditions=tuple(replace(each, since_s=_since_s(before.get(each.type), each, now_s)) for each in found),
        )

    def is_told(self, status: ReservationStatus) -> bool:
        """Whether the API server says so already."""
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
    """Reservations by what their owners are known by."""

    def __init__(self) -> None:
        self._by_key: dict[Hashable, dict[str, Record]] = {}

    def add(self, record: Record) -> None:
        """A record whose owners are as its reservation says."""
        record.keys = tuple(dict.fromkeys(key for owner in record.reservation.owners for key in keys_of(owner)))
        for key in record.keys:
            self._by_key.setdefault(key, {})[record.reservation.uid] = record

    def remove(self, record: Record) -> None:
        """Forget it, by the owners that it had when it was added."""
        for key in record.keys:
            here = self._by_key[key]
            del here[record.reservation.uid]
            if not here:
                del self._by_key[key]
        record.keys = ()

    def owned_by(self, seen: ObservedPod) -> Iterator[Record]:
        """The reservations that are kept for this pod, whatever their state."""
        if not self._by_key or seen.reservation:
            return
        found: dict[str, Record] = {}
        for key in keys_for(seen):
            found.update(self._by_key.get(key, {}))
        for record in found.values():
            if is_owner(record.reservation, seen):
                yield record


def given(entry: PodInfo) -> Holdings:
    """What the pod was given: by its own word once that names its node. Before, its annotations may be copied, or of a bind that failed."""
    return entry.seen.holds if entry.seen.node else entry.holds


def _drawn_by(entry: PodInfo) -> Kept:
    return Kept(entry.seen.pod.requests, given(entry))


def owner_of(entry: PodInfo) -> CurrentOwner:
    """The pod as the reservation's status names it."""
    return CurrentOwner(entry.seen.pod.namespace, entry.seen.pod.name, entry.seen.uid)


def _some(amounts: Amounts) -> Amounts:
    """Without what is none."""
    return Amounts.of({name: amount for name, amount in amounts if amount})


def _bare(pod: Pod) -> Pod:
    """Without the labels that would make it a gang's member."""
    return without_labels(pod, GANG_LABELS)


def _by_name(owner: CurrentOwner) -> tuple[str, str, str]:
    return (owner.namespace, owner.name, owner.uid)


def _since_s(before: Condition | None, now: Condition, now_s: float) -> float:
    same = before is not None and (before.status, before.reason) == (now.status, now.reason)
    return before.since_s if before is not None and same and before.since_s == before.since_s else now_s
