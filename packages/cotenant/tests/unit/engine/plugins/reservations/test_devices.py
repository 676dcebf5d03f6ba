"""Reservations that hold devices: whose they are before, while and after an owner has them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.cluster.reservation_world import World, node, pod, reservation, web

from cotenant.engine.framework.instructions import Unschedulable
from cotenant.engine.plugins.reservations.instructions import ReserveNode
from cotenant.model.cluster.demands import Demands, Holdings
from cotenant.model.cluster.labels import LabelSelector
from cotenant.model.devices.allocation import DeviceAllocation
from cotenant.model.devices.device import Device, DeviceType, FunctionGroup, VirtualFunction
from cotenant.model.devices.hints import DeviceHint
from cotenant.model.devices.inventory import NodeDevices
from cotenant.model.groups.gang import GangNotes
from cotenant.model.groups.reservation import AllocatePolicy, ReservationPhase
from cotenant.model.resources import GPU, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, NVIDIA_GPU, RDMA, Amounts

WHOLE = Amounts.of({GPU_CORE: 100, GPU_MEMORY_RATIO: 100, GPU_MEMORY: 1000})
RESTRICTED = AllocatePolicy.RESTRICTED


def cards(count: int) -> Amounts:
    return Amounts.of({NVIDIA_GPU: count})


def percent(amount: int) -> Amounts:
    return Amounts.of({GPU: amount})


def gpus(name: str, count: int = 4, ill: tuple[int, ...] = ()) -> NodeDevices:
    return NodeDevices(
        name, tuple(Device(DeviceType.GPU, i, WHOLE, i not in ill, id=f"{name}{i}") for i in range(count))
    )


def world(*names: str, count: int = 4) -> World:
    w = World(*(node(name, 64_000) for name in names or ("a",)))
    for name in names or ("a",):
        w.devices(gpus(name, count))
    return w


def minors(holds: Holdings) -> list[int]:
    return [device.minor for device in holds.devices]


def has(w: World, name: str) -> list[int]:
    """What the pod holds by the server's word."""
    return minors(w.pods[f"uid-{name}"].holds)


def kept(w: World, name: str = "r") -> dict[int, int]:
    """Minor -> percent of memory that is left of the reservation."""
    view = w.reservations.describe(name)
    assert view is not None
    return {device.minor: device.amounts.get(GPU_MEMORY_RATIO) for device in view.holds.devices}


def words(w: World) -> dict[str, str]:
    return {
        instruction.key.partition("/")[2]: instruction.message
        for instruction in w.go()
        if isinstance(instruction, Unschedulable)
    }


def test_it_is_given_devices_says_which_and_nobody_else_gets_them() -> None:
    w = world()
    w.see(reservation(also=cards(2)))
    (reserve,) = w.go()
    assert isinstance(reserve, ReserveNode)
    assert minors(reserve.holds) == [0, 1]
    assert reserve.status.allocatable.get(NVIDIA_GPU) == 2
    assert kept(w) == {0: 100, 1: 100}
    w.see(pod("one", also=cards(2)), pod("two", also=percent(50)))
    told = words(w)
    assert has(w, "one") == [2, 3]
    assert "not enough gpu devices" in told["two"]


@pytest.mark.parametrize("gang", [None, GangNotes(name="g", min_available=1)])
def test_of_two_on_a_node_the_one_that_can_serve_is_found(gang: GangNotes | None) -> None:
    w = world(count=2)
    w.see(
        reservation("plain", 4000, allocate_once=False), reservation("with-gpus", 4000, cards(2), allocate_once=False)
    )
    w.go()
    w.see(web("x", 4000, also=cards(2), demands=Demands(gang=gang)))  # by requests alone both would do
    w.go()
    assert (w.on("x"), has(w, "x")) == ("a", [0, 1])
    assert kept(w, "with-gpus") == {}


def test_an_owner_gets_them_and_used_once_the_rest_is_free() -> None:
    w = world()
    w.see(pod("stranger", also=cards(1)))
    w.go()
    w.see(reservation(also=cards(2)))
    w.go()
    assert kept(w) == {1: 100, 2: 100}
    w.see(web("owner", also=cards(1)))
    w.go()
    assert has(w, "owner") == [1]
    assert w.held["uid-r"].phase is ReservationPhase.SUCCEEDED
    assert w.held["uid-r"].allocated.get(NVIDIA_GPU) == 1
    w.see(pod("later", also=cards(2)))
    w.go()
    assert has(w, "later") == [2, 3]


def test_what_an_owner_held_is_the_reservation_s_again() -> None:
    w = world()
    w.see(reservation(also=cards(3), allocate_once=False))
    w.go()
    w.see(web("x", also=cards(1)), web("y", also=cards(2)))
    w.go()
    assert sorted(has(w, "x") + has(w, "y")) == [0, 1, 2]
    assert kept(w) == {}
    w.delete("y")
    w.see(pod("stranger", also=cards(2)))
    w.go()
    assert not w.on("stranger")
    assert len(kept(w)) == 2
    w.see(web("z", also=cards(2)))
    w.go(20.0)
    assert set(has(w, "z")) == {0, 1, 2} - set(has(w, "x"))
    w.delete("x")
    w.delete("z")
    w.go()
    assert kept(w) == {0: 100, 1: 100, 2: 100}
    assert w.cluster.counts == {}  # not for a moment was one held twice


def test_parts_of_devices_by_another_name() -> None:
    """Two whole cards were kept; owners ask for percent of a card."""
    w = world(count=3)
    w.see(reservation(also=cards(2), allocate_once=False, policy=RESTRICTED))
    w.go()
    w.see(web("half", also=percent(50)))
    w.go()
    assert has(w, "half") == [0]
    assert kept(w) == {0: 50, 1: 100}
    assert w.held["uid-r"].allocated.get(NVIDIA_GPU) == 1
    w.see(web("most", also=percent(60)), web("rest", also=percent(50)))
    w.go()
    assert (has(w, "most"), has(w, "rest")) == ([1], [0])
    assert kept(w) == {1: 40}
    w.see(pod("stranger", also=percent(40)))
    w.go()
    assert has(w, "stranger") == [2]


def test_two_cards_serve_four_halves() -> None:
    w = world()
    w.see(reservation(also=cards(2), allocate_once=False))
    w.go()
    halves = [web(f"half-{i}", 500, also=percent(50)) for i in range(4)]
    w.see(*halves)
    w.go()
    assert sorted(has(w, f"half-{i}")[0] for i in range(4)) == [0, 0, 1, 1]
    assert kept(w) == {}
    w.delete("half-2")
    w.go()
    assert list(kept(w).values()) == [50]


@pytest.mark.parametrize(
    ("policy", "given"), [(AllocatePolicy.DEFAULT, [1, 2, 3]), (AllocatePolicy.ALIGNED, [1, 2, 3]), (RESTRICTED, [])]
)
def test_where_what_is_kept_does_not_suffice_the_rest_is_the_node_s_unless_restricted(
    policy: AllocatePolicy, given: list[int]
) -> None:
    w = world()
    w.see(pod("stranger", also=cards(1)))
    w.go()
    w.see(reservation(also=cards(2), policy=policy, allocate_once=False))
    w.go()
    w.see(web("big", also=cards(3)))
    told = words(w)
    assert has(w, "big") == given
    assert given or "is Restricted and has 2 of nvidia.com/gpu left" in told["big"]


def test_restricted_means_the_kept_part_of_a_device_and_not_its_rest() -> None:
    w = world(count=1)
    w.see(reservation(also=percent(40), policy=RESTRICTED, allocate_once=False))
    w.go()
    w.see(web("more", also=Amounts.of({GPU_CORE: 10, GPU_MEMORY_RATIO: 50})))
    w.go()
    drew = w.cluster.find("default/more")
    assert drew is not None
    assert drew.holds.reservation is None  # it was placed beside the reservation, as anybody
    assert kept(w) == {0: 40}
    w.see(web("less", also=percent(40)))
    w.go()
    assert kept(w) == {}
    assert w.on("less") == "a"


def test_options_say_which_resources_must_come_from_it() -> None:
    w = world()
    w.see(reservation(also=cards(1), policy=RESTRICTED, restricted=("cpu",), allocate_once=False))
    w.go()
    w.see(web("two", 1000, also=cards(2)))
    w.go()
    assert has(w, "two") == [0, 1]
    assert kept(w) == {}


def test_virtual_functions_are_kept_too() -> None:
    functions = tuple(VirtualFunction(i, f"0000:0{i}") for i in range(3))
    card = Device(DeviceType.RDMA, 0, Amounts.of({RDMA: 100}), function_groups=(FunctionGroup(functions),))
    hint = Demands(device_hints=(DeviceHint(DeviceType.RDMA, function_selector=LabelSelector()),))
    w = World(node("a"))
    w.devices(NodeDevices("a", (card,)))
    part = Amounts.of({RDMA: 20})
    w.see(pod("first", 100, also=part, demands=hint))
    w.go()
    w.see(reservation(cpu=1000, also=part, demands=hint, policy=RESTRICTED, allocate_once=False))
    w.go()
    w.see(pod("second", 100, also=part, demands=hint), pod("none", 100, also=part, demands=hint))
    w.go()
    w.see(web("owner", 100, also=part, demands=hint))
    w.go()
    buses = {name: w.pods[f"uid-{name}"].holds.devices[0].functions[0].bus for name in ("first", "owner", "second")}
    assert buses == {"first": "0000:00", "owner": "0000:01", "second": "0000:02"}
    assert not w.on("none")


def test_who_wants_no_devices_leaves_them() -> None:
    w = world()
    w.see(reservation(also=cards(2), allocate_once=False))
    w.go()
    w.see(web("plain", 3000))
    w.go()
    assert w.reservations.describe("r").left == cards(2)  # type: ignore[union-attr]
    assert kept(w) == {0: 100, 1: 100}
    w.see(web("gpu", also=cards(2)))
    w.go()
    assert has(w, "gpu") == [0, 1]


def test_a_node_without_a_device_object_counts_cards() -> None:
    w = World(replace(node("a"), allocatable=node("a").allocatable + cards(4)))
    w.see(reservation(also=cards(3), allocate_once=False))
    w.go()
    w.see(pod("stranger", 500, also=cards(2)), web("owner", 500, also=cards(2)))
    w.go()
    assert (w.on("stranger"), w.on("owner")) == ("", "a")
    assert w.reservations.describe("r").left.get(NVIDIA_GPU) == 1  # type: ignore[union-attr]


def test_a_template_that_contradicts_itself_is_told_so() -> None:
    w = world()
    w.see(reservation(also=percent(130)))
    w.go()
    assert "DeviceShare" in w.held["uid-r"].conditions[0].message


def test_an_ill_device_is_no_owner_s_and_the_others_are() -> None:
    w = world()
    w.see(reservation(also=cards(2), policy=RESTRICTED, allocate_once=False))
    w.go()
    w.devices(gpus("a", ill=(0,)))
    w.see(web("two", also=cards(2)), web("one", also=cards(1)))
    w.go()
    assert (has(w, "two"), has(w, "one")) == ([2, 3], [1])  # two found room as anybody does


# ---- what goes wrong


def test_all_of_it_is_rebuilt_from_the_api() -> None:
    w = world("a", "b")
    w.see(reservation(also=cards(3), allocate_once=False), reservation("s", also=percent(50)))
    w.go()
    w.see(web("x", also=percent(50)), web("y", also=cards(1)))
    w.go()
    before = [w.reservations.describe(name) for name in w.reservations.names()]
    w.cluster.rebuild(w.now_s)
    w.go()
    assert [w.reservations.describe(name) for name in w.reservations.names()] == before
    fresh = w.again()
    fresh.go()
    assert [fresh.reservations.describe(name) for name in fresh.reservations.names()] == before


def test_a_crash_between_the_annotations_and_the_status() -> None:
    """What was written without a node means nothing, and is replaced."""
    w = world("a")
    w.see(reservation(also=cards(2)))
    (reserve,) = w.cluster.decide(0.0)
    assert isinstance(reserve, ReserveNode)
    w.held["uid-r"] = replace(w.held["uid-r"], holds=reserve.holds)
    w.see(pod("stranger", also=cards(2), on="a", holds=Holdings(devices=reserve.holds.devices)))
    fresh = w.again()
    (again,) = (instruction for instruction in fresh.go() if isinstance(instruction, ReserveNode))
    assert again.has is not None
    assert (minors(again.has), minors(again.holds)) == ([0, 1], [2, 3])


def test_after_a_try_that_failed_nobody_knows_what_was_written() -> None:
    w = world("a")
    w.see(reservation(also=cards(2)))
    (first,) = w.cluster.decide(0.0)
    assert isinstance(first, ReserveNode)
    assert first.has == Holdings()
    w.cluster.bind_failed("uid-r", "the connection broke", 0.0)
    (again,) = (instruction for instruction in w.go(60.0) if isinstance(instruction, ReserveNode))
    assert again.has is None


def test_it_expires_while_its_node_is_being_written() -> None:
    w = world()
    w.see(reservation(also=cards(4), ttl_s=10.0))
    (reserve,) = w.cluster.decide(0.0)
    assert w.cluster.sending("uid-r", 0.0)
    w.go(20.0)
    w.see(pod("stranger", also=cards(4)))
    w.go()
    assert has(w, "stranger") == [0, 1, 2, 3]
    assert isinstance(reserve, ReserveNode)
    w.written(reserve.status, holds=reserve.holds)  # the late word
    w.cluster.bound("uid-r", w.now_s)
    w.go()
    assert w.held["uid-r"].phase is ReservationPhase.FAILED
    assert w.reservations.describe("r").holds == Holdings()  # type: ignore[union-attr]


def test_it_expires_while_its_owner_is_being_bound() -> None:
    w = world()
    w.see(reservation(also=cards(4), ttl_s=10.0, allocate_once=False))
    w.go()
    w.see(web("owner", also=cards(2)))
    w.cluster.decide(1.0)
    w.go(20.0, answer=False)
    w.cluster.bind_failed("uid-owner", "refused", w.now_s)
    w.go()
    w.cluster.validate()
    w.see(pod("stranger", also=cards(3)))
    w.go()
    assert len(has(w, "stranger")) == 3


def test_an_owner_whose_bind_fails_gives_them_back() -> None:
    w = world()
    w.see(reservation(also=cards(4)))
    w.go()
    w.see(web("owner", also=cards(1)))
    w.cluster.decide(w.now_s)
    assert len(kept(w)) == 3
    w.cluster.bind_failed("uid-owner", "refused", w.now_s)
    w.cluster.decide(w.now_s)
    w.cluster.validate()
    assert len(kept(w)) == 4


def test_devices_told_of_a_reservation_without_numbers_are_guessed() -> None:
    """Somebody else wrote its node and no annotation: as much is kept as was asked for."""
    w = world()
    w.see(reservation(also=cards(3), phase=ReservationPhase.AVAILABLE, node="a", allocate_once=False))
    w.go()
    w.see(pod("stranger", also=cards(2)))
    w.go()
    assert not w.on("stranger")
    w.see(web("owner", also=cards(2)))
    w.go()
    assert len(has(w, "owner")) == 2
    w.see(pod("small", also=cards(1)))
    w.go()
    assert w.on("small")


def test_validate_finds_devices_that_are_not_held() -> None:
    w = world()
    w.see(reservation(also=cards(2)))
    w.go()
    entry = w.cluster.find("default/reservation:r")
    assert entry is not None
    w.cluster.plugins.devices.set_holdings(
        entry.number, Holdings(devices=(DeviceAllocation(DeviceType.GPU, 3, WHOLE),))
    )
    with pytest.raises(Exception, match="reservation r"):
        w.cluster.validate()
