"""Reservations that are edited, and what pods say of them, while pods wait and sit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.cluster.reservation_world import World, node, pod, reservation, size, web

from cotenant.engine.framework.instructions import Bind
from cotenant.model.cluster.demands import NO_HOLDINGS, Holdings
from cotenant.model.groups.reservation import ObjectOwner, ReservationOwner, ReservationPhase
from cotenant.model.groups.reservation_notes import AllocatedReservation
from cotenant.model.resources import GPU_CORE, GPU_MEMORY_RATIO, Amounts


def named(name: str) -> tuple[ReservationOwner, ...]:
    return (ReservationOwner(object=ObjectOwner(name, "default")),)


def test_who_is_an_owner_no_more_is_not_queued_with_who_is_one_now() -> None:
    w = World(node("a"))
    w.see(reservation(cpu=4000, owners=named("old"), allocate_once=False, unschedulable=True))
    w.see(web("old", 2000))
    w.go()
    w.see(replace(w.held["uid-r"], owners=named("new"), unschedulable=False))
    w.go(20.0)
    w.see(web("new", 2000))
    w.go()
    assert (w.on("old"), w.on("new")) == ("", "a")


def drew(name: str) -> Holdings:
    return Holdings(reservation=AllocatedReservation(name, f"uid-{name}"))


def left(w: World, name: str = "r") -> object:
    view = w.reservations.describe(name)
    assert view is not None
    return view.left


def test_a_note_is_not_believed_before_its_pod_has_a_node() -> None:
    w = World(node("a"))
    w.see(reservation(cpu=2000))
    w.go()
    w.see(replace(web("owner", 2000), holds=drew("another")))  # copied with its manifest
    w.go()
    assert w.pods["uid-owner"].holds == drew("r")
    w.see(pod("stranger", 2000))
    w.go()
    assert (w.on("owner"), w.on("stranger"), w.held["uid-r"].phase) == ("a", "a", ReservationPhase.SUCCEEDED)


def test_a_pod_that_does_not_draw_loses_its_copied_note_with_the_bind() -> None:
    w = World(node("a"))
    w.see(reservation(cpu=2000))
    w.go()
    w.see(replace(pod("stranger", 2000), holds=drew("r"), written=("note",)))
    (bind,) = (instruction for instruction in w.go() if isinstance(instruction, Bind))
    assert (bind.holds, bind.written) == (NO_HOLDINGS, ("note",))
    assert (w.on("stranger"), left(w), w.held["uid-r"].phase) == ("a", size(2000), ReservationPhase.AVAILABLE)


def test_what_a_bound_pod_says_later_is_counted() -> None:
    w = World(node("a"))
    w.see(reservation("r", 2000, allocate_once=False), reservation("s", 2000, allocate_once=False))
    w.go()
    for says, of_r, of_s in (("r", 1000, 2000), ("s", 2000, 1000), ("", 2000, 2000), ("r", 1000, 2000)):
        w.see(web("x", 1000, on="a", holds=drew(says) if says else NO_HOLDINGS))
        w.cluster.decide(w.now_s)
        w.cluster.validate()
        assert (left(w, "r"), left(w, "s")) == (size(of_r), size(of_s))


def test_a_template_that_is_moved_to_another_namespace() -> None:
    w = World(node("a"))
    w.see(reservation(cpu=3000))
    w.go()
    held = w.held["uid-r"]
    w.see(replace(held, pod=replace(held.pod, namespace="other")))
    w.go()
    assert w.cluster.find("default/reservation:r") is None
    assert w.cluster.find("other/reservation:r") is not None
    w.reservations.gone("r", w.now_s)
    w.go()
    assert w.cluster.find("other/reservation:r") is None


def test_a_template_that_asks_for_more_after_it_was_placed_is_said_on_the_reservation() -> None:
    w = World(node("a"))
    w.see(reservation(cpu=1000))
    w.go()
    held = w.held["uid-r"]
    assert [condition.message for condition in held.conditions] == ["", ""]
    w.see(replace(held, pod=replace(held.pod, requests=size(3000))))
    w.go()
    placed = w.held["uid-r"].conditions[0]
    assert "its template was changed and asks for 3 cpu instead of 1, " in placed.message
    assert "it keeps what it has" in placed.message
    assert left(w) == size(1000)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"kubernetes.io/batch-cpu": 2000}, "2000 kubernetes.io/batch-cpu instead of 0"),
        ({"cpu": 0}, "0 cpu instead of 1"),
        ({"example.com/licence": 3}, "3 example.com/licence instead of 0"),
        ({GPU_CORE: 100, GPU_MEMORY_RATIO: 100}, ""),  # what devices are asked for is not what is reserved of them
    ],
)
def test_whatever_a_placed_template_asks_for_otherwise_is_said(changed: dict[str, int], words: str) -> None:
    w = World(node("a"))
    w.see(reservation(cpu=1000))
    w.go()
    held = w.held["uid-r"]
    asked = Amounts.of({name: amount for name, amount in (dict(held.pod.requests) | changed).items() if amount})
    w.see(replace(held, pod=replace(held.pod, requests=asked)))
    w.go()
    assert words in w.held["uid-r"].conditions[0].message
    assert bool(w.held["uid-r"].conditions[0].message) == bool(words)
