"""Which running pods a reservation may take as its first owners, in which order, and how many."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from cotenant.model.cluster.demands import Demands, Holdings
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.cpus.spec import ResourceSpec, ResourceStatus
from cotenant.model.devices.allocation import DeviceAllocation
from cotenant.model.devices.device import DeviceType
from cotenant.model.groups.reservation import AllocatePolicy, ObjectOwner, PreAllocation, Reservation, ReservationOwner
from cotenant.model.groups.reservation_notes import PRE_ALLOCATABLE, AllocatedReservation
from cotenant.model.resources import GPU_CORE, Amounts
from cotenant.policy.placement.reservations.preallocation import (
    PreallocationCandidate,
    candidate,
    cannot_pre_allocate,
    may_pre_allocate,
    selections,
)

TAKEN = Labels.of({PRE_ALLOCATABLE: "true"})


def reservation(**more: Any) -> Reservation:
    pod = Pod("r", requests=Amounts.of({"cpu": 4000, "memory": 100}))
    made = Reservation("r", "uid-r", pod, (ReservationOwner(ObjectOwner("x")),), pre_allocation=PreAllocation())
    return replace(made, **more)


def running(cpu: int = 1000, name: str = "x", labels: Labels = TAKEN, **more: Any) -> ObservedPod:
    return replace(
        ObservedPod(Pod(name, requests=Amounts.of({"cpu": cpu}), labels=labels), f"uid-{name}", "", 0.0), **more
    )


def test_what_is_allocated_by_number_cannot_change_hands() -> None:
    plain = reservation()
    assert cannot_pre_allocate(plain) == ()
    with_gpu = replace(plain, pod=replace(plain.pod, requests=Amounts.of({"cpu": 1, GPU_CORE: 50})))
    (said,) = cannot_pre_allocate(with_gpu)
    assert said == f"spec.preAllocation does not support what is allocated by number: {GPU_CORE}"
    assert cannot_pre_allocate(replace(with_gpu, pre_allocation=None)) == ()
    assert cannot_pre_allocate(replace(plain, pod=replace(plain.pod, requests=Amounts.of({GPU_CORE: 0})))) == ()
    for qos in (QoSClass.LSE, QoSClass.LSR, QoSClass.LS, QoSClass.BE):
        refused = bool(cannot_pre_allocate(replace(plain, pod=replace(plain.pod, qos=qos))))
        assert refused is (qos in (QoSClass.LSE, QoSClass.LSR))
    (said,) = cannot_pre_allocate(replace(with_gpu, demands=Demands(cpus=ResourceSpec())))
    assert said.endswith(f": {GPU_CORE}, CPUs of its own")


@pytest.mark.parametrize(
    ("changed", "of_reservation", "is_one"),
    [
        ({}, {}, True),
        ({}, {"pre_allocation": None}, False),
        ({}, {"unschedulable": True}, True),  # that mark stops new owners only
        ({}, {"owners": ()}, False),
        ({}, {"owners": (), "pre_allocation": PreAllocation(cluster=True)}, True),
        ({"reservation": "other"}, {}, False),
        ({"ends_s": 5.0}, {}, False),
        ({"holds": Holdings(devices=(DeviceAllocation(DeviceType.GPU, 0, Amounts()),))}, {}, False),
        ({"holds": Holdings(cpus=ResourceStatus((1,)))}, {}, False),
        ({"holds": Holdings(reservation=AllocatedReservation("r", "uid-r"))}, {}, True),
        ({"holds": Holdings(reservation=AllocatedReservation("r", "uid-other"))}, {}, False),
        ({"demands": Demands(exact_match=("cpu",))}, {}, False),
    ],
)
def test_who_is_a_candidate(changed: dict[str, Any], of_reservation: dict[str, Any], is_one: bool) -> None:
    assert may_pre_allocate(reservation(**of_reservation), running(**changed)) is is_one


def test_in_mode_cluster_the_label_says_so_and_owners_do_not_matter() -> None:
    everywhere = reservation(pre_allocation=PreAllocation(cluster=True))
    assert may_pre_allocate(everywhere, running(name="stranger"))
    assert not may_pre_allocate(everywhere, running(labels=Labels.of({PRE_ALLOCATABLE: "yes"})))
    assert not may_pre_allocate(everywhere, running(labels=Labels.of({})))
    assert may_pre_allocate(reservation(), running(labels=Labels.of({})))
    assert not may_pre_allocate(reservation(), running(name="stranger"))


def test_a_candidate_has_something_that_is_reserved() -> None:
    assert not may_pre_allocate(reservation(), running(0))
    assert not may_pre_allocate(
        reservation(), replace(running(), pod=replace(running().pod, requests=Amounts.of({"x/y": 1})))
    )


def test_who_named_it_comes_first_then_by_priority_then_who_fills_most() -> None:
    cluster = reservation(pre_allocation=PreAllocation(cluster=True))
    named = running(100, "z", holds=Holdings(reservation=AllocatedReservation("r", "uid-r")))
    first = running(100, "y", demands=Demands(pre_allocatable_priority=7))
    pods = [running(1000, "b"), running(3000, "a"), first, named, running(1000, "a")]
    assert candidate(cluster, first) == PreallocationCandidate(True, -7, 99, "default/y")
    assert candidate(reservation(), first).priority == 0
    assert candidate(reservation(pre_allocation=None), first).priority == 0
    ordered = sorted(pods, key=lambda seen: candidate(cluster, seen))
    assert [(seen.pod.name, seen.pod.requests.get("cpu")) for seen in ordered] == [
        ("z", 100),
        ("y", 100),
        ("a", 3000),
        ("a", 1000),
        ("b", 1000),
    ]


def expected(reserved: Reservation, sizes: list[int], free: int) -> list[tuple[int, ...]]:
    """By trying every pod, and with `multiple` every set that a walk through the pods could come to."""
    whole = reserved.pod.requests.get("cpu")

    def is_allowed(few: tuple[int, ...]) -> bool:
        return reserved.policy is not AllocatePolicy.RESTRICTED or sum(sizes[i] for i in few) <= whole

    def fits(few: tuple[int, ...]) -> bool:
        freed = sum(sizes[i] for i in few)
        return max(0, whole - freed) <= free

    assert reserved.pre_allocation is not None
    if not reserved.pre_allocation.multiple:
        return [(i,) for i in range(len(sizes)) if is_allowed((i,)) and fits((i,))]
    for count in range(1, len(sizes) + 1):
        found = [few for few in combinations(range(len(sizes)), count) if is_allowed(few) and fits(few)]
        walk: list[int] = []
        for i in range(len(sizes)):
            if is_allowed((*walk, i)):
                walk.append(i)
                if len(walk) == count:
                    break
        if tuple(walk) in found and len(walk) == count:
            return [tuple(walk)]
    return []


@pytest.mark.parametrize("policy", [AllocatePolicy.DEFAULT, AllocatePolicy.RESTRICTED])
@pytest.mark.parametrize("multiple", [False, True])
def test_the_first_pods_that_make_it_fit_are_taken(policy: AllocatePolicy, multiple: bool) -> None:
    rng = np.random.default_rng(3)
    asked = reservation(policy=policy, pre_allocation=PreAllocation(multiple=multiple))
    for _ in range(60):
        sizes = [int(size) for size in rng.integers(1, 6, rng.integers(0, 6)) * 1000]
        free = int(rng.integers(0, 5)) * 1000
        offered: list[tuple[int, int]] = []

        def fits(freed: Amounts, left: Amounts, free: int = free, offered: Any = offered) -> bool:
            offered.append((freed.get("cpu"), left.get("cpu")))
            return left.get("cpu") <= free

        found = selections(asked, range(len(sizes)), lambda i, sizes=sizes: Amounts.of({"cpu": sizes[i]}), fits)  # type: ignore[misc]
        assert list(found) == expected(asked, sizes, free)
        assert all(left == max(0, 4000 - freed) for freed, left in offered)
