"""Reservations and gangs: members that are judged together draw together, and give back together."""

from __future__ import annotations

from dataclasses import replace

from tests.fakes.cluster.reservation_world import World, node, pod, reservation, size, web

from cotenant.engine.framework.instructions import Bind, Preempt, Unschedulable
from cotenant.engine.framework.pod_state import SchedulingState
from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.labels import HOSTNAME, Labels
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.devices.device import Device, DeviceType
from cotenant.model.devices.inventory import NodeDevices
from cotenant.model.groups.gang import POD_GROUP, GangMode, GangNotes
from cotenant.model.groups.reservation import AllocatePolicy, ReservationPhase
from cotenant.model.groups.reservation_notes import ReservationAffinity
from cotenant.model.resources import GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, NVIDIA_GPU, Amounts


def members(*pods: ObservedPod, insists: bool = False) -> list[ObservedPod]:
    """All of one gang that needs all of them."""
    wants = ReservationAffinity() if insists else None
    gang = Demands(gang=GangNotes(name="g", min_available=len(pods)), reservation_affinity=wants)
    return [replace(observed_pod, demands=gang) for observed_pod in pods]


def drew(w: World, name: str) -> str:
    from_ = w.pods[f"uid-{name}"].holds.reservation
    return from_.name if from_ is not None else ""


def left(w: World, name: str = "r") -> Amounts:
    view = w.reservations.describe(name)
    assert view is not None
    return view.left


def told(w: World) -> dict[str, str]:
    return {
        instruction.key.partition("/")[2]: instruction.message
        for instruction in w.go()
        if isinstance(instruction, Unschedulable)
    }


def test_members_draw_and_others_of_them_find_room_beside() -> None:
    w = World(node("a"))
    w.see(reservation(allocate_once=False, pod_labels=Labels.of({"app": "web", POD_GROUP: "g"})))
    w.go()
    assert w.held["uid-r"].phase is ReservationPhase.AVAILABLE  # its template's gang is left out
    w.see(*members(web("one", 1000), web("two", 1500), pod("three", 1000)))
    binds = [instruction for instruction in w.go() if isinstance(instruction, Bind)]
    assert len(binds) == 3
    assert (drew(w, "one"), drew(w, "two"), drew(w, "three")) == ("r", "r", "")
    assert left(w) == size(500)
    w.delete("one")
    w.go()
    assert left(w) == size(1500)


def test_a_gang_that_is_refused_leaves_everything_as_it_was() -> None:
    w = World(node("a"))
    w.see(reservation(allocate_once=False))
    w.go()
    entry = w.cluster.find("default/reservation:r")
    w.see(*members(web("one", 1000), web("two", 1000), pod("three", 2000)))
    assert set(told(w)) == {"one", "two", "three"}
    assert left(w) == size(3000)
    assert w.cluster.find("default/reservation:r") is entry
    assert w.cluster.next_s() > w.now_s + 5.0  # nobody was woken by what was taken back
    w.see(web("alone", 3000))
    w.go()
    assert drew(w, "alone") == "r"


def test_a_reservation_of_which_all_was_drawn_comes_back_with_the_refusal() -> None:
    w = World(node("a", 4000, pods=3))
    w.see(reservation(cpu=3000, allocate_once=False))
    w.go()
    w.see(*members(web("one", 1500), web("two", 1500), pod("three", 1500)))
    assert len(told(w)) == 3
    assert left(w) == size(3000)
    w.see(pod("stranger", 2000))
    assert "Insufficient cpu" in told(w)["stranger"]


def test_each_member_has_a_reservation_of_its_own_with_devices() -> None:
    whole = Amounts.of({GPU_CORE: 100, GPU_MEMORY_RATIO: 100, GPU_MEMORY: 1000})
    w = World(node("a", 8000), node("b", 8000))
    for name in ("a", "b"):
        w.devices(NodeDevices(name, tuple(Device(DeviceType.GPU, i, whole, id=f"{name}{i}") for i in range(2))))
    cards = Amounts.of({NVIDIA_GPU: 2})
    w.see(reservation("r", 1000, also=cards), reservation("s", 1000, also=cards))
    w.go()
    w.see(*members(web("one", 1000, also=cards), web("two", 1000, also=cards), pod("three", 100, also=cards)))
    assert "not enough gpu devices" in told(w)["three"]
    for name in ("r", "s"):
        view = w.reservations.describe(name)
        assert view is not None
        assert len(view.holds.devices) == 2
    w.delete("three")
    w.see(*members(web("one", 1000, also=cards), web("two", 1000, also=cards)))
    w.go(20.0)
    assert {drew(w, "one"), drew(w, "two")} == {"r", "s"}
    assert all(held.phase is ReservationPhase.SUCCEEDED for held in w.held.values())


def test_members_that_insist_draw_or_the_gang_waits() -> None:
    w = World(node("a", 8000))
    w.see(reservation(cpu=1500, allocate_once=False, policy=AllocatePolicy.RESTRICTED))
    w.go()
    w.see(*members(web("one", 1000), web("two", 1000), insists=True))
    given = w.go()
    words = {instruction.message for instruction in given if isinstance(instruction, Unschedulable)}
    assert any("1 of 2 members fit" in word for word in words)
    assert any("No reservation that is kept for the pod can take it now" in word for word in words)
    assert not any(isinstance(instruction, Preempt) for instruction in given)
    w.see(reservation("s", cpu=1500, allocate_once=False, policy=AllocatePolicy.RESTRICTED))
    w.go()
    w.go(20.0)
    assert {drew(w, "one"), drew(w, "two")} == {"r", "s"}


def test_a_gang_that_fits_only_if_nobody_draws_is_placed_so() -> None:
    w = World(node("a"), node("b"))
    w.see(reservation(cpu=1000, phase=ReservationPhase.AVAILABLE, node="a", allocate_once=False))
    w.go()
    w.see(*members(web("owner", 3000), pod("only-a", 3000, node_selector=Labels.of({HOSTNAME: "a"}))))
    w.go()
    assert (w.on("owner"), w.on("only-a")) == ("b", "a")
    assert left(w) == size(1000)


def test_a_member_whose_bind_fails_gives_back_what_it_drew() -> None:
    w = World(node("a"))
    w.see(reservation(allocate_once=False))
    w.go()
    w.see(*members(web("one", 1000), web("two", 1000)))
    w.cluster.decide(w.now_s)
    assert left(w) == size(1000)
    w.cluster.bind_failed("uid-one", "refused", w.now_s)
    w.cluster.decide(w.now_s)
    w.cluster.validate()
    assert left(w) == size(2000)


def test_a_gang_that_gives_back_gives_back_to_the_reservation_and_no_other_gang_takes_it() -> None:
    waits = Demands(gang=GangNotes(name="waits", min_available=2, mode=GangMode.NON_STRICT, wait_s=10.0))
    whole = Demands(gang=GangNotes(name="whole", min_available=2))
    w = World(node("a"))
    w.see(reservation(allocate_once=False))
    w.go()
    w.see(web("one", 2000, demands=waits), web("two", 4000, demands=waits))
    w.go()
    assert w.cluster.state_of("uid-one") is SchedulingState.WAITING
    assert w.reservations.describe("r").left == size(1000)  # type: ignore[union-attr]
    w.see(pod("x", 1500, demands=whole), pod("y", 1500, demands=whole))
    w.go()
    w.go(11.0)
    w.go(20.0)
    assert w.cluster.state_of("uid-one") in (SchedulingState.QUEUED, SchedulingState.WAITING)
    drawn = w.cluster.state_of("uid-one") is SchedulingState.WAITING
    assert w.reservations.describe("r").left == size(1000 if drawn else 3000)  # type: ignore[union-attr]
    assert (w.on("x"), w.on("y")) == ("", "")


def test_an_owner_that_waits_for_room_beside_is_woken_when_a_gang_gives_back() -> None:
    w = World(node("a"))
    w.see(reservation(cpu=2000, allocate_once=False))
    w.go()
    waits = Demands(gang=GangNotes(name="g", min_available=2, mode=GangMode.NON_STRICT, wait_s=60.0))
    w.see(pod("holds", 2000, demands=waits), pod("other", 2000, demands=waits))
    w.go()
    w.see(web("owner", 4000))
    w.go()
    assert (w.on("holds"), w.on("owner")) == ("a", "")
    w.delete("other")  # the gang is not complete: who gives back does not come again
    w.go(61.0)
    w.go(20.0)
    assert (w.on("holds"), w.on("owner")) == ("", "a")
