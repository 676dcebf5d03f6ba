"""How much of a reservation is left, what an owner may draw, and from which of several.

Problem: what was drawn must be given back exactly, whatever happened in between and in whatever order. Choice: what is left is a function of what
was reserved and of who has drawn, resource by resource: max(0, reserved - everything that owners request), so that no order matters and nothing
has to be remembered. By `Aligned` (and the default, which upstream treats alike) an owner takes from the reservation first and the rest from the
node; by `Restricted` what is reserved comes from the reservation alone. Limits: one owner draws from one reservation, never from two.

Source: Koordinator, ReservationAllocatePolicy and ReservationRestrictedOptions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import NamedTuple

from cotenant.model.devices.allocation import DeviceAllocation
from cotenant.model.devices.request import type_of
from cotenant.model.groups.reservation import AllocatePolicy, Reservation
from cotenant.model.resources import Amounts, format_amount


def remainder(reserved: Amounts, drawn: Iterable[Amounts]) -> Amounts:
    """What is left once owners with these requests have drawn; resources of which nothing is left are not mentioned."""
    left = dict(reserved)
    for request in drawn:
        for name, amount in request:
            if name in left:
                left[name] -= amount
    return Amounts.of({name: amount for name, amount in left.items() if amount > 0})


def allocated(reserved: Amounts, left: Amounts) -> Amounts:
    """What of it is drawn; resources of which nothing is are not mentioned."""
    taken = {name: amount - left.get(name) for name, amount in reserved}
    return Amounts.of({name: amount for name, amount in taken.items() if amount > 0})


def strict(reservation: Reservation) -> frozenset[str]:
    """The resources that must come from the reservation alone."""
    if reservation.policy is not AllocatePolicy.RESTRICTED:
        return frozenset()
    return frozenset(reservation.restricted or reservation.reserved.names())


def shortage(
    reservation: Reservation, left: Amounts, request: Amounts, devices: Sequence[DeviceAllocation] = ()
) -> str:
    """Why an owner may not draw this from what is left; empty if it may. `devices` that are kept may be asked for by other names; their keeper decides."""
    name = f"reservation {reservation.name}"
    types = {each.type for each in devices}
    if not any(amount > 0 and (left.get(resource) > 0 or type_of(resource) in types) for resource, amount in request):
        return f"{name} has nothing left of what the pod asks for"
    bound = strict(reservation)
    for resource, amount in request:
        if resource in bound and resource in reservation.reserved and amount > left.get(resource):
            has, asks = format_amount(resource, left.get(resource)), format_amount(resource, amount)
            return f"{name} is Restricted and has {has} of {resource} left, {asks} are asked"
    return ""


def covers(left: Amounts, request: Amounts) -> bool:
    """Whether the request takes all that is left."""
    return all(amount <= request.get(name) for name, amount in left)


class Rank(NamedTuple):
    """Which of a node's reservations an owner draws from: the lowest."""

    unfitting: bool  # it does not fit beside what else is on the node
    order: float  # of the label; without one above 0 behind all that have one
    unused_percent: int  # the less stays unused, the better
    name: str


def rank(reservation: Reservation, left: Amounts, request: Amounts, fits: bool) -> Rank:
    """`fits`: whether the node's free room covers what the reservation does not."""
    order = float(reservation.order) if reservation.order > 0 else inf
    return Rank(not fits, order, 100 - used_percent(reservation, left, request), reservation.name)


def used_percent(reservation: Reservation, left: Amounts, request: Amounts) -> int:
    """How much of the reservation is used once this owner has drawn, on average over what is reserved."""
    shares = [
        100 * (amount - max(0, left.get(name) - request.get(name))) // amount
        for name, amount in reservation.reserved
        if amount > 0
    ]
    return sum(shares) // len(shares) if shares else 0
