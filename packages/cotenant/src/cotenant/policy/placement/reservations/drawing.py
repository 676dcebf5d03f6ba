"""Amounts of a reservation: the remainder, what an owner may draw, and the choice among several reservations.

What was drawn must be returned exactly, in whatever order events happen. The remainder is a function of the reserved
amounts and the current owners, per resource: max(0, reserved - sum of the owners' requests), so that order does not
matter and no history is needed. With `Aligned` (and the default, which upstream treats alike) an owner takes from the
reservation first and the rest from the node; with `Restricted` reserved resources are taken from the reservation only.
Limits: an owner draws from one reservation only.
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
    """The remainder after owners with these requests have drawn; resources without a remainder are omitted."""
    left = dict(reserved)
    for request in drawn:
        for name, amount in request:
            if name in left:
                left[name] -= amount
    return Amounts.of({name: amount for name, amount in left.items() if amount > 0})


def allocated(reserved: Amounts, left: Amounts) -> Amounts:
    """The amounts drawn; resources of which nothing is drawn are omitted."""
    taken = {name: amount - left.get(name) for name, amount in reserved}
    return Amounts.of({name: amount for name, amount in taken.items() if amount > 0})


def strict(reservation: Reservation) -> frozenset[str]:
    """The resources that must come from the reservation only."""
    if reservation.policy is not AllocatePolicy.RESTRICTED:
        return frozenset()
    return frozenset(reservation.restricted or reservation.reserved.names())


def shortage(
    reservation: Reservation, left: Amounts, request: Amounts, devices: Sequence[DeviceAllocation] = ()
) -> str:
    """Why an owner may not draw this from the remainder; empty if it may. `devices` may be requested by other
    names; their node rule decides.
    """
    name = f"reservation {reservation.name}"
    types = {device.type for device in devices}
    if not any(amount > 0 and (left.get(resource) > 0 or type_of(resource) in types) for resource, amount in request):
        return f"{name} has none of the requested resources left"
    bound = strict(reservation)
    for resource, amount in request:
        if resource in bound and resource in reservation.reserved and amount > left.get(resource):
            has, asks = format_amount(resource, left.get(resource)), format_amount(resource, amount)
            return f"{name} is Restricted and has {has} of {resource} left, {asks} requested"
    return ""


def covers(left: Amounts, request: Amounts) -> bool:
    """Whether the request takes the whole remainder."""
    return all(amount <= request.get(name) for name, amount in left)


class Rank(NamedTuple):
    """Sort key of a node's reservations for an owner: the lowest is used."""

    unfitting: bool  # the remainder of the request does not fit on the node
    order: float  # of the label; those without one above 0 come last
    unused_percent: int  # less unused is better
    name: str


def rank(reservation: Reservation, left: Amounts, request: Amounts, fits: bool) -> Rank:
    """`fits`: whether the node has free capacity for what the reservation does not cover."""
    order = float(reservation.order) if reservation.order > 0 else inf
    return Rank(not fits, order, 100 - used_percent(reservation, left, request), reservation.name)


def used_percent(reservation: Reservation, left: Amounts, request: Amounts) -> int:
    """Used percentage of the reservation once this owner has drawn, averaged over the reserved resources."""
    shares = [
        100 * (amount - max(0, left.get(name) - request.get(name))) // amount
        for name, amount in reservation.reserved
        if amount > 0
    ]
    return sum(shares) // len(shares) if shares else 0
