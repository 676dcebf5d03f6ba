"""Instructions and views of reservations. Values only.

A reservation is represented in the engine by a pod, its stand-in, with the reservation's UID and a name that no pod can
have.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.cluster.demands import NO_HOLDINGS, Holdings
from cotenant.model.decisions.record import DecisionRecord
from cotenant.model.groups.reservation import KIND, CurrentOwner, ReservationCondition, ReservationPhase
from cotenant.model.resources import NOTHING, Amounts

_MARK = "reservation:"  # no pod's name has a colon


def stand_in_name(name: str) -> str:
    """The name of a reservation's stand-in."""
    return f"{_MARK}{name}"


def is_stand_in(key: str) -> bool:
    """Whether this namespace/name is that of a stand-in."""
    return key.partition("/")[2].startswith(_MARK)


@dataclass(frozen=True, slots=True)
class ReservationStatus:
    """Write the whole status of a reservation."""

    key: str  # its name
    uid: str
    phase: ReservationPhase
    node: str = ""
    allocatable: Amounts = NOTHING
    allocated: Amounts = NOTHING
    owners: tuple[CurrentOwner, ...] = ()
    conditions: tuple[ReservationCondition, ...] = ()
    kind: str = KIND


@dataclass(frozen=True, slots=True)
class ReserveNode:
    """Write the node that was found for a reservation. Report as for a bind: `Cluster.sending`, then `bound` or
    `bind_failed`, with its `number`.
    """

    key: str  # the reservation's name
    uid: str
    node: str
    status: ReservationStatus
    record: DecisionRecord
    holds: Holdings = NO_HOLDINGS  # devices and CPUs by number, to be written before the status
    has: Holdings | None = (
        NO_HOLDINGS  # what its annotations have; None = unknown, an earlier write may have changed them
    )
    takes: tuple[CurrentOwner, ...] = ()  # running pods that become its owners: to be annotated before the status
    number: int = 0  # of the bind of its stand-in
    kind: str = KIND


@dataclass(frozen=True, slots=True)
class DeleteReservation:
    """Delete a reservation that ended long ago. Not reported back: one that remains is requested again."""

    key: str
    uid: str
    kind: str = KIND


@dataclass(frozen=True, slots=True)
class ReservationView:
    """The engine's state of a reservation, for users."""

    name: str
    uid: str
    phase: ReservationPhase
    node: str  # empty = none yet
    allocate_once: bool
    policy: str
    reserved: Amounts
    left: Amounts
    holds: Holdings  # remaining devices and CPUs, by number
    owners: tuple[str, ...]  # namespace/name of pods that have drawn
    waiting: tuple[str, ...]  # namespace/name of pods that may draw and wait
    ends_s: float  # Unix time; inf = never
    why: str  # why it has no node, why it ended, or what cannot be used
