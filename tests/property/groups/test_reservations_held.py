"""Invariants of reservations that hold devices and CPUs by number, over random histories of reservations, owners, other
pods, gangs, ends and restarts.

No part of a device and no CPU is held twice, by the API server's state; holders keep what they hold; what owners gave
back is the reservation's again; and in the end nothing is held.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fakes.cluster.cpu_cluster import tells
from tests.fakes.cluster.reservation_world import World, node, pod, reservation, web
from tests.property.few import examples, first_cases

from cotenant.model.cluster.demands import Demands, Holdings
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.devices.device import Device, DeviceType
from cotenant.model.devices.inventory import NodeDevices
from cotenant.model.groups.gang import GangNotes
from cotenant.model.groups.reservation import AllocatePolicy, PreAllocation
from cotenant.model.groups.reservation_notes import ReservationAffinity
from cotenant.model.resources import GPU, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, NOTHING, NVIDIA_GPU, Amounts

NODES = ("a", "b")
LSR = {"qos": QoSClass.LSR, "priority": 9500, "priority_class": PriorityClass.NONE}
OWN, SHARED = 0, 1
SIZES = (  # CPUs, whether of its own, and devices
    (2, OWN, NOTHING),
    (4, OWN, Amounts.of({NVIDIA_GPU: 1})),
    (1, SHARED, Amounts.of({NVIDIA_GPU: 2})),
    (1, SHARED, Amounts.of({GPU: 50})),
    (1, SHARED, Amounts.of({GPU_CORE: 20, GPU_MEMORY: 300})),
    (2, SHARED, NOTHING),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("reserve"),
            st.sampled_from(SIZES),
            st.booleans(),
            st.sampled_from(list(AllocatePolicy)),
            st.sampled_from([0.0, 15.0]),
            st.sampled_from([None, None, PreAllocation(), PreAllocation(multiple=True), PreAllocation(required=True)]),
        ),
        st.tuples(st.just("pod"), st.sampled_from(SIZES), st.sampled_from([True, True, False])),
        st.tuples(
            st.just("gang"),
            st.lists(st.tuples(st.sampled_from(SIZES), st.booleans()), min_size=2, max_size=3),
            st.booleans(),
        ),
        st.tuples(st.just("delete pod"), st.integers(0, 30)),
        st.tuples(st.just("delete reservation"), st.integers(0, 30)),
        st.tuples(st.just("go"), st.sampled_from([0.0, 12.0])),
        st.tuples(st.just("refused")),
        st.tuples(st.just("restart")),
        st.tuples(st.just("rebuild")),
    ),
    min_size=10,
    max_size=45,
)


def gpus(name: str) -> NodeDevices:
    whole = Amounts.of({GPU_CORE: 100, GPU_MEMORY_RATIO: 100, GPU_MEMORY: 1000})
    return NodeDevices(name, tuple(Device(DeviceType.GPU, i, whole, id=f"{name}{i}") for i in range(3)))


def begin() -> World:
    w = World(*(node(name, 8000) for name in NODES))
    for name in NODES:
        w.devices(gpus(name))
        w.cpus(tells(name))
    return w


def check(w: World) -> None:
    w.cluster.validate()
    for name in NODES:
        taken = w.cpus_taken(name)
        assert len(taken) == len(set(taken)), f"CPUs of {name} are held twice: {sorted(taken)}"
        assert all(percent <= 100 for percent in w.percent_taken(name).values()), w.percent_taken(name)
    for seen in w.pods.values():
        if seen.node:
            entry = w.cluster.find(seen.pod.key)
            assert entry is not None
            given = w.cluster._components.assignments.narrowing.holdings(entry.number)
            assert (given.cpus, given.devices) == (seen.holds.cpus, seen.holds.devices)
    for held in w.held.values():
        if held.policy is AllocatePolicy.RESTRICTED and held.holds != Holdings():
            check_restricted(held.holds, w.drew_from(held))


def check_restricted(kept: Holdings, owners: list[ObservedPod]) -> None:
    """Owners hold only what was reserved, of the kinds of which anything was reserved."""
    minors = {device.minor for device in kept.devices}
    cpus = set(kept.cpus.cpus) if kept.cpus is not None else set()
    for owner in owners:
        assert not minors or {device.minor for device in owner.holds.devices} <= minors
        assert not cpus or owner.holds.cpus is None or set(owner.holds.cpus.cpus) <= cpus


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS)
def test_histories(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    w, numbers = begin(), count()
    for step in steps:
        match step:
            case ("reserve", (cpu, own, also), once, policy, ttl_s, takes):
                made = reservation(
                    f"r{next(numbers)}", cpu * 1000, also, allocate_once=once, policy=policy, ttl_s=ttl_s
                )
                made = replace(made, pre_allocation=takes)
                template = replace(made.pod, **LSR) if own == OWN else made.pod
                w.see(replace(made, pod=template, created_s=w.now_s))
            case ("pod", (cpu, own, also), is_owner):
                more = LSR if own == OWN else {}
                w.see((web if is_owner else pod)(f"p{next(numbers)}", cpu * 1000, also=also, **more))
            case ("gang", members, insists):
                notes = GangNotes(name=f"g{next(numbers)}", min_available=len(members))
                asks = Demands(gang=notes, reservation_affinity=ReservationAffinity() if insists else None)
                for (cpu, own, also), is_owner in members:
                    name, more = f"p{next(numbers)}", LSR if own == OWN else {}
                    w.see((web if is_owner else pod)(name, cpu * 1000, also=also, demands=asks, **more))
            case ("delete pod", i) if w.pods:
                w.delete(sorted(w.pods)[i % len(w.pods)].removeprefix("uid-"))
            case ("delete reservation", i) if w.held:
                uid = sorted(w.held)[i % len(w.held)]
                w.reservations.gone(w.held.pop(uid).name, w.now_s)
            case ("go", after_s):
                w.go(after_s)
                check(w)
            case ("refused",):
                for instruction in w.cluster.decide(w.now_s):
                    w.carry_out(instruction, answer=False)
                    if hasattr(instruction, "holds"):
                        w.cluster.bind_failed(instruction.uid, "refused", w.now_s)
                w.go()
                check(w)
            case ("restart",):
                w = w.again()
            case ("rebuild",):
                w.cluster.rebuild(w.now_s)
            case _:
                pass
    w.go(12.0)
    check(w)
    end(w)


def end(w: World) -> None:
    """Owners give everything back to the reservations, and those to the nodes."""
    for uid in list(w.pods):
        w.delete(uid.removeprefix("uid-"))
    w.go(1.0)
    for name in NODES:
        for held in w.living(name):
            view = w.reservations.describe(held.name)
            assert view is not None
            assert (view.left, view.holds) == (held.allocatable, held.holds)
    for held in list(w.held.values()):
        w.reservations.gone(held.name, w.now_s)
    w.held.clear()
    w.cluster.decide(w.now_s)
    for name in NODES:
        cpus = w.cluster.plugins.cpus.describe(name)
        assert cpus is not None
        assert cpus.available == tuple(range(8))
        devices = w.cluster.plugins.devices.describe(name)
        assert devices is not None
        assert not any(device.holders or any(amount for _, amount in device.used) for device in devices.devices)
    assert not w.cluster._components.assignments.ledger.nodes.requested.any()


test_first_cases = first_cases(
    test_histories,
    most=3,
)
