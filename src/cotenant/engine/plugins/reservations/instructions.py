"""What the engine asks to be done about reservations, and what it tells of them. Values only.

A reservation stands in the engine as a pod of its own: it has the reservation's UID, and a name that no pod can have.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.cluster.demands import NO_HOLDINGS, Holdings
from cotenant.model.decisions.record import DecisionRecord
from cotenant.model.groups.reservation import KIND, Condition, CurrentOwner, Phase
from cotenant.model.resources import NOTHING, Amounts

_MARK = "reservation:"  # no pod's name has a colon


def stand_in(name: str) -> str:
    """The name of the pod that stands for a reservation."""
    return f"{_MARK}{name}"


def is_stand_in(key: str) -> bool:
    """Whether this namespace/name is that of a reservation's pod."""
    return key.partition("/")[2].startswith(_MARK)


@dataclass(frozen=True, slots=True)
class ReservationStatus:
    """Tell a reservation how it stands: the whole status."""

    key: str  # its name
    uid: str
    phase: Phase
    node: str = ""
    allocatable: Amounts = NOTHING
    allocated: Amounts = NOTHING
    owners: tuple[CurrentOwner, ...] = ()
    conditions: tuple[Condition, ...] = ()
    kind: str = KIND


@dataclass(frozen=True, slots=True)
class Reserve:
    """A node was found: write it. Answer as to a bind, with `Cluster.sending`, then `bound` or `bind_failed`."""

    key: str  # the reservation's name
    uid: str
    node: str
    status: ReservationStatus
    record: DecisionRecord
    holds: Holdings = NO_HOLDINGS  # devices and CPUs by number, to be written before the status
    has: Holdings | None = (
        NO_HOLDINGS  # what its annotations say now; None = that was tried to be changed, so nobody knows
    )
    takes: tuple[CurrentOwner, ...] = ()  # running pods that become its owners: to be annotated before the status
    kind: str = KIND


@dataclass(frozen=True, slots=True)
class DeleteReservation:
    """It has ended long ago. Nothing answers: one that stays is named again later."""

    key: str
    uid: str
    kind: str = KIND


@dataclass(frozen=True, slots=True)
class ReservationView:
    """A reservation as the engine sees it, for people."""

    name: str
    uid: str
    phase: Phase
    node: str  # empty = none yet
    allocate_once: bool
    policy: str
    reserved: Amounts
    left: Amounts
    holds: Holdings  # what of devices and CPUs is left of it, by number
    owners: tuple[str, ...]  # namespace/name of pods that have drawn
    waiting: tuple[str, ...]  # namespace/name of pods that may draw and wait
    ends_s: float  # Unix time, inf = never
    why: str  # why it has no node, why it ended, or what of it is wrong
