"""Life cycle of a reservation: phases, legal transitions, and its end.

Time, its node, its owner and `kubectl` all change a reservation, and one that has ended must never hold resources
again. One table of legal transitions, and one function that returns the due end; the first condition that holds wins:
its node is gone, its owner is bound, it expired.
Limits: a reservation for several owners ends by time only; upstream's Waiting is not supported.

Source: Koordinator, pkg/scheduler/plugins/reservation/controller (expiration, garbage collection).
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.cluster.pod import Pod
from cotenant.model.devices.request import RESOURCES
from cotenant.model.groups.reservation import (
    KEPT_S,
    READY,
    SCHEDULED,
    Reservation,
    ReservationCondition,
    ReservationPhase,
)
from cotenant.model.resources import Amounts, format_amount

LEGAL: dict[tuple[ReservationPhase, ReservationPhase], str] = {
    (ReservationPhase.PENDING, ReservationPhase.AVAILABLE): "a node was found",
    (ReservationPhase.PENDING, ReservationPhase.FAILED): "its time was over before a node was found",
    (ReservationPhase.AVAILABLE, ReservationPhase.SUCCEEDED): "its owner is bound",
    (ReservationPhase.AVAILABLE, ReservationPhase.FAILED): "its time is over, or its node is gone",
}

EXPIRED = "Expired"


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a reservation."""

    phase: ReservationPhase
    reason: str
    message: str


def ending(reservation: Reservation, now_s: float, node_is_gone: bool, bound: int) -> Ending | None:
    """The end that is due; None while it is active. `bound` = owners that have drawn and are bound."""
    if reservation.phase.is_final:
        return None
    if reservation.node and node_is_gone:
        return Ending(ReservationPhase.FAILED, EXPIRED, f"node {reservation.node} is gone")
    if reservation.phase is ReservationPhase.AVAILABLE and reservation.allocate_once and bound:
        return Ending(ReservationPhase.SUCCEEDED, ReservationPhase.SUCCEEDED.value, "its owner is bound")
    if reservation.ends_s <= now_s:
        how = "spec.expires" if reservation.expires_s == reservation.expires_s else f"spec.ttl, {reservation.ttl_s:g} s"
        return Ending(ReservationPhase.FAILED, EXPIRED, f"its time is over ({how})")
    return None


def conditions(node: str, refusal: str, end: Ending | None, note: str = "") -> tuple[ReservationCondition, ...]:
    """The conditions for its status. `refusal` is why no node was found; `note` goes with one that was."""
    placed: ReservationCondition | None = None
    if node:
        placed = ReservationCondition(SCHEDULED, True, "Scheduled", note)
    elif refusal:
        placed = ReservationCondition(SCHEDULED, False, "Unschedulable", refusal)
    if end is not None:
        ready: ReservationCondition | None = ReservationCondition(READY, False, end.reason, end.message)
    else:
        ready = ReservationCondition(READY, True, "Available") if node else None
    return tuple(condition for condition in (placed, ready) if condition is not None)


def changed_template(pod: Pod, reserved: Amounts) -> str:
    """What to say of a template that asks for other amounts than are reserved by now; empty where it does not.
    Devices are reserved by other names than they are asked for.
    """
    names = sorted({name for name, amount in (*pod.requests, *reserved) if amount} - RESOURCES)
    found = [
        f"{format_amount(name, asked)} {name} instead of {format_amount(name, reserved.get(name))}"
        for name in names
        if (asked := pod.requests.get(name)) != reserved.get(name)
    ]
    return (
        f"its template was changed and asks for {', '.join(found)}: it keeps what it has; create another one for that"
        if found
        else ""
    )


def collect_at_s(reservation: Reservation, first_seen_s: float, kept_s: float = KEPT_S) -> float:
    """When an ended one is to be deleted. Without a recorded end time it counts from when it was first seen ended."""
    since_s = reservation.changed_s if reservation.changed_s == reservation.changed_s else first_seen_s
    return since_s + kept_s


def cannot_keep(pod: Pod) -> tuple[str, ...]:
    """What prevents a template from being reserved, as messages."""
    if any(amount for _, amount in pod.requests):
        return ()
    return ("spec.template requests nothing, so there is nothing to reserve",)
