"""Pre-allocation: which running pods a reservation may take as its first owners, so that it is placed on room that is
still in use.

On a full node a reservation fits only once pods have left, and by then others have taken the room. Running pods become
owners of the reservation when it is placed: their requests are part of the reserved amounts, and what they release
stays reserved. Candidates are its owners (mode Default) or pods with a label (mode Cluster); one pod is taken, or as
many as are needed (enableMultiple), those that fill most of it first.
Limits: pods with devices or CPUs of their own are no candidates, and a template that asks for such is refused: their
numbers would have to change hands.

Source: Koordinator 1.8, PreAllocationPolicy and pkg/scheduler/plugins/reservation (filterWithPreAllocatablePod and its
form for several pods).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.devices.request import type_of
from cotenant.model.groups.reservation import Reservation
from cotenant.model.groups.reservation_notes import PRE_ALLOCATABLE
from cotenant.model.resources import NOTHING, Amounts
from cotenant.policy.placement.reservations.drawing import remainder, strict, used_percent
from cotenant.policy.placement.reservations.owners import is_owner, obstacle

T = TypeVar("T")


def cannot_pre_allocate(reservation: Reservation) -> tuple[str, ...]:
    """Why a reservation with `preAllocation` cannot be served, as messages."""
    if reservation.pre_allocation is None:
        return ()
    by_number = [name for name, amount in reservation.pod.requests if amount and type_of(name) is not None]
    if reservation.pod.qos in (QoSClass.LSE, QoSClass.LSR) or reservation.demands.cpus is not None:
        by_number.append("CPUs of its own")
    if not by_number:
        return ()
    return (f"spec.preAllocation does not support what is allocated by number: {', '.join(by_number)}",)


def may_pre_allocate(reservation: Reservation, seen: ObservedPod) -> bool:
    """Whether a running pod may become an owner of the reservation when that is placed on its node."""
    policy = reservation.pre_allocation
    if policy is None or seen.reservation or seen.terminating:
        return False
    if seen.holds.devices or seen.holds.cpus is not None:
        return False
    drawn = seen.holds.reservation
    if drawn is not None and drawn.uid != reservation.uid:
        return False
    if seen.pod.labels.get(PRE_ALLOCATABLE) != "true" if policy.cluster else not is_owner(reservation, seen):
        return False
    if obstacle(replace(reservation, unschedulable=False), seen):  # that mark stops new owners only
        return False
    return any(amount and reservation.reserved.get(name) for name, amount in seen.pod.requests)


class PreallocationCandidate(NamedTuple):
    """Sort key of a pod on a node; lower values are taken first."""

    annotated: bool  # False = it names the reservation already: an earlier attempt ended half way
    priority: int  # negated, in mode Cluster
    unused_percent: int
    key: str


def candidate(reservation: Reservation, seen: ObservedPod) -> PreallocationCandidate:
    """The order among the candidates of a node."""
    policy = reservation.pre_allocation
    cluster = policy is not None and policy.cluster
    return PreallocationCandidate(
        seen.holds.reservation is None,
        -seen.demands.pre_allocatable_priority if cluster else 0,
        100 - used_percent(reservation, reservation.reserved, seen.pod.requests),
        seen.pod.key,
    )


def selections(
    reservation: Reservation,
    pods: Sequence[T],
    requests: Callable[[T], Amounts],
    fits: Callable[[Amounts, Amounts], bool],
) -> Iterator[tuple[T, ...]]:
    """Which of a node's candidates, in their order, would be taken: each alone that makes it fit, or with `multiple`
    the first ones that do together.

    `fits(freed, left)`: whether the reservation fits on the node without pods of these requests, when so much of it is
    left beside them.
    """
    bound, reserved = strict(reservation), reservation.reserved

    def exceeds(taken: Amounts) -> bool:
        return any(amount > reserved.get(name) for name, amount in taken if name in bound and name in reserved)

    policy = reservation.pre_allocation
    if policy is not None and policy.multiple:
        chosen: list[T] = []
        freed = NOTHING
        for pod in pods:
            if exceeds(freed + requests(pod)):
                continue
            chosen.append(pod)
            freed = freed + requests(pod)
            if fits(freed, remainder(reserved, [freed])):
                yield tuple(chosen)
                return
        return
    for pod in pods:
        freed = requests(pod)
        if not exceeds(freed) and fits(freed, remainder(reserved, [freed])):
            yield (pod,)
