"""Views and messages about reservations: the state of one, and why a pod that requires one has none.

Frozen values and messages built from records, for `cotenant explain` and for waiting pods.
Limits: the state is that of the last scheduling attempt.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cotenant.engine.framework.plugin import PodRefused
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.plugins.reservations.instructions import ReservationView
from cotenant.engine.plugins.reservations.records import ReservationRecord
from cotenant.model.resources import NOTHING
from cotenant.policy.placement.reservations.drawing import shortage
from cotenant.policy.placement.reservations.holding import ReservedAmounts
from cotenant.policy.placement.reservations.owners import obstacle

PLUGIN = "Reservation"
_MAX_LISTED = 3  # reservations listed per pod


def view(record: ReservationRecord) -> ReservationView:
    """The current state of one reservation."""
    reservation, end, entry = record.reservation, record.end, record.entry
    kept = record.kept if not record.has_ended else ReservedAmounts(NOTHING)
    said = next(
        (condition.message for condition in reservation.conditions if not condition.status and condition.message), ""
    )
    return ReservationView(
        name=reservation.name,
        uid=reservation.uid,
        phase=end.phase if end is not None else reservation.phase,
        node=record.node or (entry.node if entry is not None else ""),
        allocate_once=reservation.allocate_once,
        policy=reservation.policy.value,
        reserved=record.reserved,
        left=kept.amounts,
        holds=kept.holds,
        owners=_keys(record.current_owners),
        waiting=_keys(record.waiting.values()),
        ends_s=reservation.ends_s,
        why="; ".join(record.wrong) or (end.message if end is not None else record.refusal or said),
    )


def nothing_for(entry: PodInfo, kept: Sequence[ReservationRecord]) -> PodRefused:
    """Why a pod that requires a reservation is not evaluated. `kept`: the reservations kept for it."""
    if not kept:
        return PodRefused(PLUGIN, "No reservation is kept for the pod, and its reservation affinity asks for one.")
    why = "; ".join(sorted({why_not(record, entry) for record in kept}))
    return PodRefused(PLUGIN, "No reservation that is kept for the pod can take it now.", why)


def why_not(record: ReservationRecord, entry: PodInfo) -> str:
    """Why an owner cannot use this reservation now."""
    name = f"reservation {record.reservation.name}"
    if record.has_ended or not record.node:
        return f"{name} is {(record.end.phase if record.end is not None else record.reservation.phase).value}"
    if record.wrong:
        return f"{name} is not usable: {'; '.join(record.wrong)}"
    if record.reservation.allocate_once and record.current_owners:
        return f"{name} is used once, and {_keys(record.current_owners)[0]} has it"
    return (
        obstacle(record.reservation, entry.seen)
        or shortage(record.reservation, record.left, entry.seen.pod.requests, record.held.devices)
        or f"node {record.node} has too little room beside {name} ({record.left} left)"
    )


def sentences(entry: PodInfo, kept: Sequence[ReservationRecord]) -> tuple[str, ...]:
    """Why a waiting pod cannot use the reservations kept for it, at most `_MAX_LISTED` messages and a count of the
    rest.
    """
    told = sorted({_sentence(why_not(record, entry)) for record in kept})
    more = (f"{len(told) - _MAX_LISTED} more reservations are kept for it.",) if len(told) > _MAX_LISTED else ()
    return (*told[:_MAX_LISTED], *more)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _keys(entries: Iterable[PodInfo]) -> tuple[str, ...]:
    return tuple(sorted(entry.seen.pod.key for entry in entries))
