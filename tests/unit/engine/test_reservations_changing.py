"""Reservations that are edited, and what pods say of them, while pods wait and sit."""

from __future__ import annotations

from dataclasses import replace

from tests.fakes.reservation_world import World, node, reservation, web

from cotenant.model.reservation import ObjectOwner, Owner


def named(name: str) -> tuple[Owner, ...]:
    return (Owner(object=ObjectOwner(name, "default")),)


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
