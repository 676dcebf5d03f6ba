"""Owner matching: whether a reservation is for a given pod.

An owner is given as one object, as the pods of a controller, or by labels, and a cluster has many pods and
reservations. All criteria of one entry must match, and one matching entry is enough; the pod's own reservation-affinity
narrows the result. `keys_of` and `keys_for` return keys such that owner and pod share one wherever they can match, to
avoid comparing every pod with every reservation.
Limits: labels select in every namespace, as upstream; only an object and a controller have one. Of exact matches, a
resource that neither the pod nor the reservation has counts as equal; upstream then skips the resources after it.
Source: Koordinator, pkg/util/reservation.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from cotenant.model.cluster.labels import SelectorOperator
from cotenant.model.cluster.observed import ObservedPod, OwnedBy
from cotenant.model.cluster.taints import tolerated
from cotenant.model.groups.reservation import ControllerOwner, ObjectOwner, Reservation, ReservationOwner
from cotenant.model.groups.reservation_notes import IGNORED, ReservationAffinity
from cotenant.model.resources import format_amount

ANYBODY: Hashable = ("anybody",)


def is_owner(reservation: Reservation, seen: ObservedPod) -> bool:
    """Whether the reservation is for this pod. Another reservation, or a pod that ignores reservations, is never an
    owner.
    """
    if seen.reservation or seen.pod.labels.get(IGNORED) == "true":
        return False
    return any(matches(owner, seen) for owner in reservation.owners)


def matches(owner: ReservationOwner, seen: ObservedPod) -> bool:
    """Whether one entry of `spec.owners` matches this pod. An empty entry matches nothing."""
    if owner.object is None and owner.controller is None and owner.selector is None:
        return False
    if owner.object is not None and not _is_object(owner.object, seen):
        return False
    if owner.controller is not None and not _is_made_by(owner.controller, seen):
        return False
    return owner.selector is None or owner.selector.matches(seen.pod.labels)


def _is_object(owner: ObjectOwner, seen: ObservedPod) -> bool:
    pairs = ((owner.uid, seen.uid), (owner.name, seen.pod.name), (owner.namespace, seen.pod.namespace))
    return all(not asked or asked == has for asked, has in pairs)


def _is_made_by(owner: ControllerOwner, seen: ObservedPod) -> bool:
    if owner.namespace and owner.namespace != seen.pod.namespace:
        return False
    return any(_is(owner, by) for by in seen.owned_by)


def _is(owner: ControllerOwner, by: OwnedBy) -> bool:
    if owner.controller is not None and owner.controller != by.controller:
        return False
    pairs = ((owner.uid, by.uid), (owner.name, by.name), (owner.kind, by.kind), (owner.api_version, by.api_version))
    return all(not asked or asked == has for asked, has in pairs)


def obstacle(reservation: Reservation, seen: ObservedPod) -> str:
    """Why an owner may nevertheless not draw from it; empty if it may."""
    if reservation.unschedulable:
        return f"reservation {reservation.name} is marked unschedulable"
    affinity = seen.demands.reservation_affinity
    tolerations = affinity.tolerations if affinity is not None else ()
    for taint in reservation.taints:
        if taint.repels and not tolerated(taint, tolerations):
            return (
                f"reservation {reservation.name} has the taint {taint}, which the pod's reservation affinity does "
                "not tolerate"
            )
    if affinity is not None and not selects(affinity, reservation):
        return f"the pod's reservation affinity does not select reservation {reservation.name}"
    return _mismatch(reservation, seen)


def _mismatch(reservation: Reservation, seen: ObservedPod) -> str:
    """The first resource of the pod's exact match that the reservation does not reserve in exactly the requested
    amount.
    """
    reserved, requests = reservation.reserved, seen.pod.requests
    for name in seen.demands.exact_match:
        has, asks = reserved.get(name), requests.get(name)
        if (name in reserved, has) != (name in requests, asks):
            return (
                f"reservation {reservation.name} has {format_amount(name, has)} of {name}, the pod requests "
                f"{format_amount(name, asks)}, "
                "and its exact-match-reservation requires equal amounts"
            )
    return ""


def selects(affinity: ReservationAffinity, reservation: Reservation) -> bool:
    """Whether a pod's reservation affinity allows this reservation, taints aside."""
    if affinity.name and affinity.name != reservation.name:
        return False
    if affinity.required is not None and not affinity.required.matches(reservation.name, reservation.labels):
        return False
    return reservation.labels.contains(affinity.selector)


def keys_of(owner: ReservationOwner) -> tuple[Hashable, ...]:
    """Keys of which every pod matched by this owner has at least one."""
    if owner.object is not None and (owner.object.uid or owner.object.name):
        return (("uid", owner.object.uid) if owner.object.uid else ("name", owner.object.name),)
    if owner.controller is not None and (owner.controller.uid or owner.controller.name):
        of = owner.controller
        return (("made by", of.uid) if of.uid else ("made by name", of.name),)
    if owner.selector is not None:
        for requirement in owner.selector.requirements:
            if requirement.operator is SelectorOperator.IN:
                return tuple(("label", requirement.key, value) for value in requirement.values)
    return (ANYBODY,)


def keys_for(seen: ObservedPod) -> Iterator[Hashable]:
    """All keys of this pod."""
    yield ("uid", seen.uid)
    yield ("name", seen.pod.name)
    for by in seen.owned_by:
        yield ("made by", by.uid)
        yield ("made by name", by.name)
    for key, value in seen.pod.labels:
        yield ("label", key, value)
    yield ANYBODY
