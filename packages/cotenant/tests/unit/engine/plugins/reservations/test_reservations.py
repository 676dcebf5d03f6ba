"""Reservations in the cluster's engine, event by event."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.cluster.reservation_world import WEB, World, node, pod, reservation, size, web

from cotenant.engine.framework.instructions import Bind, Instruction, Preempt, Unschedulable
from cotenant.engine.framework.pod_state import SchedulingState
from cotenant.engine.plugins.reservations.instructions import ReservationStatus, ReserveNode
from cotenant.model.cluster.affinity import PodTerm
from cotenant.model.cluster.demands import Demands, Holdings
from cotenant.model.cluster.labels import HOSTNAME, Labels, LabelSelector
from cotenant.model.cluster.observed import OwnedBy
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.taints import Match, Taint, Toleration
from cotenant.model.groups.reservation import (
    AllocatePolicy,
    ControllerOwner,
    CurrentOwner,
    ObjectOwner,
    ReservationOwner,
    ReservationPhase,
)
from cotenant.model.groups.reservation_notes import IGNORED, AllocatedReservation, ReservationAffinity
from cotenant.model.resources import Amounts
from cotenant.policy.placement.reservations.migration import reservation_for


def test_a_reservation_takes_room_that_only_its_owner_finds_free() -> None:
    w = World(node("a"))
    w.see(reservation())
    (reserve,) = w.go()
    assert isinstance(reserve, ReserveNode)
    assert (reserve.node, reserve.status.phase, reserve.status.allocatable) == (
        "a",
        ReservationPhase.AVAILABLE,
        size(3000),
    )
    assert [(c.type, c.status) for c in reserve.status.conditions] == [("Scheduled", True), ("Ready", True)]
    w.see(pod("stranger", 2000))
    assert "Insufficient cpu" in _told(w.go())["stranger"]
    w.see(web("owner", 2000))
    given = w.go()
    bind = next(instruction for instruction in given if isinstance(instruction, Bind))
    assert bind.holds.reservation == AllocatedReservation("r", "uid-r")
    # used once: what the owner did not take is free again
    assert w.held["uid-r"].phase is ReservationPhase.SUCCEEDED
    assert w.held["uid-r"].current == (CurrentOwner("default", "owner", "uid-owner"),)
    assert w.held["uid-r"].allocated == size(2000)
    w.go(20.0)
    assert w.on("stranger") == "a"


def _told(given: tuple[Instruction, ...]) -> dict[str, str]:
    return {
        instruction.key.partition("/")[2]: instruction.message
        for instruction in given
        if isinstance(instruction, Unschedulable)
    }


def test_what_is_left_shrinks_and_grows_with_its_owners() -> None:
    w = World(node("a"))
    w.see(reservation(allocate_once=False))
    w.go()
    w.see(web("x"), web("y"))
    w.go()
    assert w.reservations.describe("r").left == size(1000)  # type: ignore[union-attr]
    assert w.held["uid-r"].allocated == size(2000)
    assert len(w.held["uid-r"].current) == 2
    w.see(pod("stranger", 1500))
    w.go()
    assert not w.on("stranger")
    w.delete("x")
    w.go(20.0)
    assert w.reservations.describe("r").left == size(2000)  # type: ignore[union-attr]
    assert w.held["uid-r"].allocated == size(1000)
    assert not w.on("stranger")  # the room went back to the reservation
    w.see(web("z", 2000))
    w.go()
    assert w.on("z") == "a"
    assert w.reservations.describe("r").left == Amounts()  # type: ignore[union-attr]
    w.delete("y")
    w.delete("z")
    w.go()
    assert w.reservations.describe("r").left == size(3000)  # type: ignore[union-attr]


def test_an_exact_match_uses_only_the_reservation_of_its_size() -> None:
    exact, insists = Demands(exact_match=("cpu",)), ReservationAffinity()
    w = World(node("a", 8000), node("b", 8000))
    w.see(reservation("three", 3000, allocate_once=False), reservation("two", 2000, allocate_once=False))
    w.go()
    w.see(web("x", 2000, demands=exact), web("y", 2500, demands=exact))
    binds = {instruction.key: instruction.holds.reservation for instruction in w.go() if isinstance(instruction, Bind)}
    assert binds == {
        "default/x": AllocatedReservation("two", "uid-two"),
        "default/y": None,
    }  # "three" has room for both
    w.see(web("z", 2500, demands=replace(exact, reservation_affinity=insists)))
    refused = _told(w.go())["z"]
    assert "has 3 of cpu, the pod requests 2500m, and its exact-match-reservation requires equal amounts" in refused
    w.see(web("z", 3000, demands=replace(exact, reservation_affinity=insists)))
    (bind,) = (instruction for instruction in w.go(20.0) if isinstance(instruction, Bind))
    assert bind.holds.reservation == AllocatedReservation("three", "uid-three")


def test_an_owner_takes_the_rest_from_the_node_unless_restricted() -> None:
    for policy, fits in (
        (AllocatePolicy.ALIGNED, True),
        (AllocatePolicy.DEFAULT, True),
        (AllocatePolicy.RESTRICTED, False),
    ):
        w = World(node("a"))
        w.see(reservation(cpu=3000, policy=policy, allocate_once=False))
        w.go()
        w.see(web("big", 3500))
        w.go()
        assert bool(w.on("big")) is fits
        w.see(web("small", 500))
        w.go()
        assert w.on("small") == "a"


def test_an_owner_that_finds_no_room_there_goes_elsewhere() -> None:
    w = World(node("a", 3000), node("b", 4000))
    w.see(reservation("r", 3000, phase=ReservationPhase.AVAILABLE, node="a"))
    w.go()
    w.see(web("big", 3500))
    w.go()
    assert w.on("big") == "b"
    w.see(web("small", 500))
    w.go()
    assert w.on("small") == "a"  # its reservation comes first


def test_a_pod_may_insist_on_reservations_or_want_none() -> None:
    w = World(node("a"), node("b"))
    only = Demands(reservation_affinity=ReservationAffinity(name="mine"))
    w.see(web("insists", demands=only))
    assert _told(w.go())["insists"].startswith("No reservation")
    w.see(reservation("other", 1000, labels=Labels.of({"x": "y"})), reservation("mine", 1000))
    w.go()
    w.go(15.0)
    assert w.cluster.find("default/insists").holds.reservation == AllocatedReservation("mine", "uid-mine")  # type: ignore[union-attr]
    w.see(pod("wants-none", 1000, labels=Labels.of({"app": "web", IGNORED: "true"})))
    w.go()
    assert w.cluster.find("default/wants-none").holds.reservation is None  # type: ignore[union-attr]


def test_taints_labels_and_unschedulable_are_asked() -> None:
    taints = (Taint("team", "a"),)
    w = World(node("a"), node("b"))
    w.see(reservation(cpu=3000, taints=taints, labels=Labels.of({"pool": "x"}), allocate_once=False))
    w.go()
    w.see(web("plain", 3000))
    w.go()
    assert w.cluster.find("default/plain").holds.reservation is None  # type: ignore[union-attr]
    tolerates = ReservationAffinity(selector=Labels.of({"pool": "x"}), tolerations=(Toleration("team", Match.EXISTS),))
    w.see(web("tolerates", demands=Demands(reservation_affinity=tolerates)))
    w.go()
    assert w.cluster.find("default/tolerates").holds.reservation is not None  # type: ignore[union-attr]
    w.see(replace(w.held["uid-r"], unschedulable=True))
    w.see(web("late", demands=Demands(reservation_affinity=tolerates)))
    w.go()
    assert not w.on("late")
    w.see(replace(w.held["uid-r"], unschedulable=False))
    w.go(15.0)
    assert w.on("late")


def test_owners_by_controller_and_by_name() -> None:
    by = OwnedBy("apps/v1", "ReplicaSet", "web-1", "rs-1", True)
    w = World(node("a"))
    owners = (
        ReservationOwner(controller=ControllerOwner("web-1", "default", "rs-1")),
        ReservationOwner(object=ObjectOwner("solo", "default")),
    )
    w.see(reservation(cpu=3000, owners=owners, allocate_once=False))
    w.go()
    w.see(web("other", 2000), web("made", 1000, owned_by=(by,)), pod("solo", 1000))
    w.go()
    assert (w.on("other"), w.on("made"), w.on("solo")) == ("", "a", "a")


def test_the_lowest_order_is_drawn_from_first_then_the_fullest() -> None:
    w = World(node("a", 8000))
    w.see(reservation("big", 3000, allocate_once=False), reservation("small", 1000, allocate_once=False))
    w.see(reservation("first", 2000, allocate_once=False, order=5))
    w.go()
    w.see(web("x", 1000))
    w.go()
    assert w.cluster.find("default/x").holds.reservation.name == "first"  # type: ignore[union-attr]
    w.see(web("y", 1500))
    w.go()
    assert w.cluster.find("default/y").holds.reservation.name == "first"  # type: ignore[union-attr]
    w.see(web("z", 1000))
    w.go()
    assert w.cluster.find("default/z").holds.reservation.name == "small"  # type: ignore[union-attr]


def test_rules_about_neighbours_do_not_see_what_stands_for_the_reservation() -> None:
    apart = (PodTerm(HOSTNAME, LabelSelector.of({"app": "web"})),)
    w = World(node("a"))
    w.see(replace(reservation(), pod=Pod("r", requests=size(3000), labels=WEB, anti_affinity=apart)))
    w.go()
    w.see(web("one", anti_affinity=apart))
    w.go()
    assert w.on("one") == "a"
    w.see(web("two", anti_affinity=apart))
    w.go()
    assert not w.on("two")


def test_a_place_among_the_nodes_pods_is_needed_too() -> None:
    w = World(node("a", pods=2))
    w.see(reservation(allocate_once=False), pod("there", 100, on="a"))
    w.go()
    w.see(web("part", 1000))
    w.go()
    assert not w.on("part")  # two pods sit there already, and something would be left
    w.see(web("whole", 3000))
    w.go()
    assert w.on("whole") == "a"


def test_a_reservation_without_a_node_says_why_and_ranks_by_priority() -> None:
    w = World(node("a", 2000))
    w.see(reservation())
    (status,) = w.go()
    assert isinstance(status, ReservationStatus)
    (condition,) = status.conditions
    assert (status.phase, condition.type, condition.status, condition.reason) == (
        ReservationPhase.PENDING,
        "Scheduled",
        False,
        "Unschedulable",
    )
    assert "Insufficient cpu" in condition.message
    assert w.go(1.0) == ()
    w.cluster.node_seen(node("b"))
    w.go(5.0)
    assert w.held["uid-r"].node == "b"


def test_a_bad_object_is_told_so_and_stops_nobody() -> None:
    w = World(node("a"))
    w.see(reservation(wrong=("spec.ttl: x: expected a duration",)), pod("x"))
    given = w.go()
    (status,) = (instruction for instruction in given if isinstance(instruction, ReservationStatus))
    assert status.conditions[0].message == "spec.ttl: x: expected a duration"
    assert w.on("x") == "a"
    w.see(replace(reservation("nothing"), pod=Pod("nothing")))
    w.go()
    assert "nothing to reserve" in w.held["uid-nothing"].conditions[0].message


def test_nobody_preempts_a_reservation_and_it_preempts_nobody() -> None:
    w = World(node("a"))
    w.see(reservation())
    w.go()
    w.see(pod("important", 2000, priority=1000))
    given = w.go()
    assert not any(isinstance(instruction, Preempt) for instruction in given)
    assert not w.on("important")
    v = World(node("a"))
    v.see(pod("low", 4000, on="a"))
    v.see(replace(reservation(), pod=Pod("r", requests=size(3000), priority=10)))
    assert not any(isinstance(instruction, Preempt) for instruction in v.go())


# ---- its end


def test_an_owner_whose_bind_fails_gives_the_room_back_to_the_reservation() -> None:
    for once in (True, False):
        w = World(node("a"))
        w.see(reservation(allocate_once=once))
        w.go()
        w.see(web("owner", 2000), pod("stranger", 1500))
        given = w.go(answer=False)
        assert [instruction.uid for instruction in given if isinstance(instruction, Bind)] == ["uid-owner"]
        assert w.cluster.sending("uid-owner", w.now_s)
        w.cluster.bind_failed("uid-owner", "test", w.now_s)
        w.go()
        assert w.reservations.describe("r").left == size(3000)  # type: ignore[union-attr]
        assert not w.on("stranger")
        w.go(2.0)
        assert w.on("owner") == "a"


def test_a_reservation_whose_status_cannot_be_written_is_placed_again() -> None:
    w = World(node("a"))
    w.see(reservation())
    (reserve,) = w.go(answer=False)
    assert w.cluster.sending(reserve.uid, 0.0)
    w.cluster.bind_failed(reserve.uid, "test", 0.0)
    w.see(pod("stranger", 4000))
    w.go()
    assert w.on("stranger") == "a"
    w.go(5.0)
    assert not w.held["uid-r"].node


def test_its_time_is_over_between_decision_and_answer() -> None:
    w = World(node("a"))
    w.see(reservation(ttl_s=10.0))
    (reserve,) = w.go(answer=False)
    w.go(11.0)
    assert not w.cluster.sending(reserve.uid, w.now_s)  # not sent any more
    assert w.held["uid-r"].phase is ReservationPhase.FAILED
    # the write was on its way already: it lands after ours
    v = World(node("a"))
    v.see(reservation(ttl_s=10.0))
    (late,) = v.go(answer=False)
    assert isinstance(late, ReserveNode)
    assert v.cluster.sending(late.uid, 0.0)
    v.go(11.0)
    v.written(late.status)
    v.cluster.bound(late.uid, v.now_s)
    v.go(31.0)
    assert v.held["uid-r"].phase is ReservationPhase.FAILED
    v.see(pod("stranger", 4000))
    v.go()
    assert v.on("stranger") == "a"


def test_its_time_is_over_while_an_owner_s_bind_is_on_its_way() -> None:
    w = World(node("a"))
    w.see(reservation(ttl_s=10.0))
    w.go()
    w.see(web("owner", 2000))
    (bind,) = w.go(answer=False)
    assert w.cluster.sending(bind.uid, w.now_s)
    w.go(11.0)
    assert w.held["uid-r"].phase is ReservationPhase.FAILED
    w.see(pod("stranger", 2500))
    w.go()
    assert not w.on("stranger")  # the owner's own request counts
    w.cluster.bind_failed(bind.uid, "test", w.now_s)
    w.delete("owner")
    w.go(20.0)
    assert w.on("stranger") == "a"


def test_a_status_that_is_not_taken_is_written_again() -> None:
    w = World(node("a"))
    w.see(reservation(ttl_s=10.0))
    w.go()
    (status,) = w.cluster.decide(11.0)
    assert isinstance(status, ReservationStatus)
    assert w.cluster.decide(12.0) == ()
    assert w.cluster.next_s() <= 41.0
    (again,) = w.cluster.decide(41.0)
    assert (again.phase, again.uid) == (status.phase, status.uid)  # type: ignore[union-attr]


def test_everything_is_rebuilt_in_place_and_from_the_api() -> None:
    w = World(node("a", 8000))
    w.see(
        reservation("many", 3000, allocate_once=False),
        reservation("once", 2000, owners=(ReservationOwner(object=ObjectOwner("solo")),)),
    )
    w.go()
    w.see(web("x"), pod("solo", 500))
    w.go()
    before = [w.reservations.describe(name) for name in w.reservations.names()]
    w.cluster.rebuild(w.now_s)
    w.go()
    assert [w.reservations.describe(name) for name in w.reservations.names()] == before
    fresh = w.again()
    fresh.go()
    assert fresh.cluster.assigned() == w.cluster.assigned()
    assert fresh.reservations.describe("many").left == size(2000)  # type: ignore[union-attr]


def test_a_crash_between_the_owner_s_bind_and_the_word_that_it_succeeded() -> None:
    w = World(node("a"))
    w.see(reservation())
    w.go()
    held = w.held["uid-r"]
    w.see(web("owner", 2000))
    w.go()
    w.held["uid-r"] = held  # the last status was never written
    fresh = w.again()
    fresh.go()
    assert fresh.held["uid-r"].phase is ReservationPhase.SUCCEEDED
    fresh.see(pod("stranger", 2000))
    fresh.go()
    assert fresh.on("stranger") == "a"


def test_what_a_pod_on_another_node_says_is_not_believed() -> None:
    w = World(node("a"), node("b"))
    w.see(reservation(phase=ReservationPhase.AVAILABLE, node="a"))
    w.see(replace(web("liar", on="b"), holds=Holdings(reservation=AllocatedReservation("r", "uid-r"))))
    w.go()
    assert w.reservations.describe("r").left == size(3000)  # type: ignore[union-attr]
    assert w.held["uid-r"].phase is ReservationPhase.AVAILABLE


def test_a_reservation_of_another_scheduler_holds_its_room_and_is_left_alone() -> None:
    w = World(node("a"))
    w.see(reservation("theirs", scheduler="koord-scheduler", ttl_s=5.0))
    assert w.go() == ()
    w.see(reservation("theirs", scheduler="koord-scheduler", phase=ReservationPhase.AVAILABLE, node="a", ttl_s=5.0))
    w.see(pod("stranger", 2000))
    w.go(10.0)
    assert not w.on("stranger")
    assert w.held["uid-theirs"].phase is ReservationPhase.AVAILABLE


def test_an_owner_waits_for_room_beside_its_reservation() -> None:
    w = World(node("a"))
    w.see(reservation(cpu=3000), pod("other", 1000, on="a"))
    w.go()
    w.see(web("big", 3500))
    w.go()
    assert not w.on("big")
    w.delete("other")
    w.go(20.0)
    assert w.on("big") == "a"


def test_validate_finds_a_reservation_that_holds_too_little() -> None:
    w = World(node("a"))
    w.see(reservation())
    w.go()
    w.cluster.pod_gone("uid-r", 0.0)
    with pytest.raises(Exception, match="reservation r holds"):
        w.cluster.validate()


def test_the_state_of_what_stands_for_it() -> None:
    w = World(node("a"))
    w.see(reservation())
    assert w.cluster.state_of("uid-r") is SchedulingState.QUEUED
    w.go()
    assert w.cluster.state_of("uid-r") is SchedulingState.BOUND
    view = w.reservations.describe("r")
    assert view is not None
    assert (view.phase, view.node, view.reserved, view.ends_s) == (
        ReservationPhase.AVAILABLE,
        "a",
        size(3000),
        86_400.0,
    )
    assert w.reservations.on_node("a") == (view,)
    assert w.reservations.describe("nobody") is None


def test_a_pod_moves_without_a_gap() -> None:
    """Reserve, available, evict, and the replacement lands there, however tight it is and whoever else waits."""
    by = OwnedBy("apps/v1", "ReplicaSet", "web-1", "rs-1", True)
    w = World(node("a", 1500), node("b", 1500))
    w.see(web("old", 1000, on="a", owned_by=(by,)))
    w.see(reservation_for(w.pods["uid-old"], "move", w.now_s, uid="uid-move"))
    w.go()
    assert (w.held["uid-move"].phase, w.held["uid-move"].node) == (ReservationPhase.AVAILABLE, "b")
    w.see(pod("hungry", 1000, created_s=-1.0))
    w.go()
    assert not w.on("hungry")
    w.delete("old")
    w.see(web("new", 1000, owned_by=(by,)))
    w.go(20.0)
    assert (w.on("new"), w.on("hungry")) == ("b", "a")
    assert w.held["uid-move"].phase is ReservationPhase.SUCCEEDED


def test_an_owner_that_waits_is_told_of_its_reservations() -> None:
    w = World(node("a"))
    w.see(reservation(allocate_once=False, policy=AllocatePolicy.RESTRICTED))
    w.go()
    w.see(web("first", 2000))
    w.go()
    w.see(web("second", 2500))
    told = _told(w.go())["second"]
    assert told.startswith("0/1 nodes are available: 1 Insufficient cpu")
    assert told.endswith("Reservation r is Restricted and has 1 of cpu left, 2500m requested.")
    assert w.reservations.about("uid-second") == (
        "Reservation r is Restricted and has 1 of cpu left, 2500m requested.",
    )
    assert w.reservations.about("uid-first") == ()
    w.see(replace(reservation("once", 500), phase=ReservationPhase.AVAILABLE, node="a"))
    w.go()
    w.see(replace(web("holder", 500, on="a"), holds=Holdings(reservation=AllocatedReservation("once", "uid-once"))))
    assert "used once, and default/holder has it" in " ".join(w.reservations.about("uid-second"))


def test_many_reservations_are_tried_a_few_at_a_time_and_none_is_missed() -> None:
    nodes = [node(f"n{i}", 4000) for i in range(40)]
    w = World(*nodes)
    for i in range(40):
        # of all these only the last leaves its node's other CPU to the owner
        w.see(reservation(f"r{i:02}", 3000, phase=ReservationPhase.AVAILABLE, node=f"n{i}", order=i + 1))
        if i < 39:
            w.see(pod(f"other-{i}", 1000, on=f"n{i}"))
    w.go()
    w.see(web("big", 3500), web("none", 3900))
    w.go()
    assert w.on("big") == "n39"
    w.see(web("small", 1000))
    w.go()
    assert w.cluster.find("default/small").holds.reservation.name == "r00"  # type: ignore[union-attr]
    assert not w.on("none")
