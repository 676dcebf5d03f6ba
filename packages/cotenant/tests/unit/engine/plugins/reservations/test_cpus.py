"""Reservations that hold CPUs of their own: whose they are before, while and after an owner has them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.cluster.cpu_cluster import tells, zones
from tests.fakes.cluster.reservation_world import World, node, pod, reservation, web

from cotenant.engine.plugins.reservations.instructions import ReserveNode
from cotenant.model.cluster.demands import Demands, Holdings
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.cpus.spec import BindPolicy, NumaTopologySpec, ResourceSpec, TopologyPolicy
from cotenant.model.groups.reservation import AllocatePolicy, Reservation, ReservationPhase
from cotenant.model.resources import Amounts

LSR = {"qos": QoSClass.LSR, "priority": 9500, "priority_class": PriorityClass.NONE}
RESTRICTED = AllocatePolicy.RESTRICTED


def kept_for(cpu: int, **more: object) -> Reservation:
    """A reservation with so many CPUs of its own."""
    made = reservation(cpu=cpu * 1000, **more)
    return replace(made, pod=replace(made.pod, **LSR))  # type: ignore[arg-type]


def lsr(name: str, cpu: int, **more: object) -> ObservedPod:
    return pod(name, cpu * 1000, **LSR, **more)


def owner(name: str, cpu: int, **more: object) -> ObservedPod:
    return web(name, cpu * 1000, **LSR, **more)


def world(**more: object) -> World:
    """Node a with eight CPUs: two NUMA nodes of two cores of two threads, 0-3 and 4-7."""
    w = World(node("a", 8000))
    w.cpus(tells("a", **more))  # type: ignore[arg-type]
    return w


def has(w: World, name: str) -> tuple[int, ...]:
    cpus = w.pods[f"uid-{name}"].holds.cpus
    return cpus.cpus if cpus is not None else ()


def kept(w: World) -> tuple[int, ...]:
    view = w.reservations.describe("r")
    assert view is not None
    return view.holds.cpus.cpus if view.holds.cpus is not None else ()


def test_it_is_given_cpus_says_which_and_nobody_else_gets_them() -> None:
    w = world()
    w.see(kept_for(4))
    (reserve,) = w.go()
    assert isinstance(reserve, ReserveNode)
    assert reserve.holds.cpus is not None
    assert reserve.holds.cpus.cpus == kept(w) == (0, 1, 2, 3)
    w.see(lsr("stranger", 4), lsr("second", 2))
    w.go()
    assert has(w, "stranger") == (4, 5, 6, 7)
    assert not w.on("second")


def test_an_owner_gets_them_and_gives_them_back() -> None:
    w = world()
    w.see(lsr("first", 4))
    w.go()
    w.see(kept_for(4, allocate_once=False))
    w.go()
    assert kept(w) == (4, 5, 6, 7)
    w.delete("first")
    w.see(owner("x", 2))
    w.go()
    assert has(w, "x") == (4, 5)
    assert kept(w) == (6, 7)
    w.see(lsr("stranger", 6))
    w.go()
    assert not w.on("stranger")
    w.delete("x")
    w.go()
    assert kept(w) == (4, 5, 6, 7)
    assert w.cluster.counts == {}  # not for a moment was one held twice


def test_used_once_what_its_owner_did_not_take_is_free() -> None:
    w = world()
    w.see(kept_for(6))
    w.go()
    w.see(owner("x", 2))
    w.go()
    assert w.held["uid-r"].phase is ReservationPhase.SUCCEEDED
    w.see(lsr("stranger", 6))
    w.go()
    assert set(has(w, "x")) | set(has(w, "stranger")) == set(range(8))


@pytest.mark.parametrize(
    ("policy", "drew"), [(AllocatePolicy.DEFAULT, True), (AllocatePolicy.ALIGNED, True), (RESTRICTED, False)]
)
def test_the_rest_is_the_node_s_unless_restricted(policy: AllocatePolicy, drew: bool) -> None:
    w = world()
    w.see(kept_for(4, policy=policy, allocate_once=False))
    w.go()
    w.see(owner("big", 6))
    w.go()
    assert bool(w.on("big")) is drew
    assert not drew or set(kept(w)) == set()
    assert not drew or set(range(4)) <= set(has(w, "big"))


def test_who_shares_cpus_takes_the_amount_and_leaves_the_numbers() -> None:
    w = world()
    w.see(kept_for(4, allocate_once=False))
    w.go()
    w.see(web("shares", 3000))
    w.go()
    assert kept(w) == (0, 1, 2, 3)
    assert w.reservations.describe("r").left.get("cpu") == 1000  # type: ignore[union-attr]
    w.see(owner("own", 4))
    w.go()
    assert has(w, "own") == (0, 1, 2, 3)
    assert w.room_taken("a") == 7000


def test_wishes_of_the_owner_are_kept_within() -> None:
    w = world()
    w.see(kept_for(4, policy=RESTRICTED, allocate_once=False))
    w.go()
    spread = Demands(cpus=ResourceSpec(required=BindPolicy.SPREAD))
    w.see(owner("spread", 2, demands=spread))
    w.go()
    assert has(w, "spread") == (0, 2)
    whole = Demands(cpus=ResourceSpec(required=BindPolicy.FULL_CORES))
    w.see(owner("whole", 2, demands=whole))
    w.go()
    assert kept(w) == (1, 3)
    assert has(w, "whole") == (4, 5)
    assert w.pods["uid-whole"].holds.reservation is None  # no whole core is left of it: it is placed as anybody


def test_cpus_go_although_no_amount_does() -> None:
    """One owner took the amount of CPU and shares; the next takes the CPUs, and nothing of what is left besides."""
    w = world()
    w.see(kept_for(4, allocate_once=False))
    w.go()
    w.see(web("shares", 4000))
    w.go()
    assert kept(w) == (0, 1, 2, 3)
    bare = owner("own", 2)
    w.see(replace(bare, pod=replace(bare.pod, requests=Amounts.of({"cpu": 2000}))))
    w.go()
    # nothing of what it asks for is left of the reservation by amount, so it draws nothing
    assert w.pods["uid-own"].holds.reservation is None
    assert set(has(w, "own")) == {4, 5}


def test_numa_nodes_are_kept_and_drawn_from() -> None:
    single = Demands(numa=NumaTopologySpec(TopologyPolicy.SINGLE_NUMA_NODE))
    w = world(zones=zones(8, 8))
    w.see(replace(kept_for(2, allocate_once=False), demands=single))
    w.go()
    view = w.reservations.describe("r")
    assert view is not None
    assert view.holds.cpus is not None
    assert [(numa_amount.node, numa_amount.cpu_m) for numa_amount in view.holds.cpus.numa] == [(0, 2000)]
    w.see(owner("x", 2, demands=single))
    w.go()
    assert has(w, "x") == (0, 1)
    assert kept(w) == ()
    w.cluster.validate()
    w.delete("x")
    w.go()
    assert kept(w) == (0, 1)


def test_all_of_it_is_rebuilt_from_the_api() -> None:
    w = world()
    w.see(kept_for(6, allocate_once=False))
    w.go()
    w.see(owner("x", 2), lsr("stranger", 2))
    w.go()
    before = w.reservations.describe("r")
    w.cluster.rebuild(w.now_s)
    w.go()
    assert w.reservations.describe("r") == before
    fresh = w.again()
    fresh.go()
    assert fresh.reservations.describe("r") == before
    assert fresh.cluster.counts.get("CPUs claimed by two pods, or not available on their node", 0) == 0


def test_a_node_that_tells_no_cpus_any_more() -> None:
    w = world()
    w.see(kept_for(4, allocate_once=False))
    w.go()
    w.cluster.plugins.cpus.topology_gone("a", w.now_s)
    w.see(owner("x", 2))
    w.go()
    assert has(w, "x") == ()
    assert w.reservations.describe("r").holds != Holdings()  # type: ignore[union-attr]
    w.cpus(tells("a"))
    w.go(20.0)
    w.cluster.validate()
