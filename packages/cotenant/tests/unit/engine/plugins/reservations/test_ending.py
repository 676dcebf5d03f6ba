"""How reservations end: by time, with their node, or deleted."""

from __future__ import annotations

from dataclasses import replace

from tests.fakes.cluster.reservation_world import World, node, pod, reservation, web

from cotenant.engine.plugins.reservations.instructions import DeleteReservation
from cotenant.model.groups.reservation import (
    ReservationPhase,
)


def test_time_is_over() -> None:
    w = World(node("a"))
    w.see(reservation(ttl_s=100.0))
    w.go()
    w.see(pod("stranger", 2000))
    w.go(50.0)
    assert not w.on("stranger")
    assert w.cluster.next_s() <= 100.0
    w.go(51.0)
    w.go(10.0)
    assert w.held["uid-r"].phase is ReservationPhase.FAILED
    assert [(c.type, c.reason) for c in w.held["uid-r"].conditions] == [
        ("Scheduled", "Scheduled"),
        ("Ready", "Expired"),
    ]
    assert w.on("stranger") == "a"


def test_an_end_wins_over_the_lifetime_and_zero_is_for_ever() -> None:
    w = World(node("a", 8000))
    w.see(reservation("by-end", expires_s=10.0, ttl_s=0.0), reservation("for-ever", ttl_s=0.0))
    w.go()
    w.go(11.0)
    assert w.held["uid-by-end"].phase is ReservationPhase.FAILED
    w.go(1e7)
    assert "uid-by-end" not in w.held  # deleted a day after its end
    assert w.held["uid-for-ever"].phase is ReservationPhase.AVAILABLE


def test_an_ended_one_is_deleted_a_day_later() -> None:
    w = World(node("a"))
    w.see(reservation(ttl_s=100.0))
    w.go()
    w.go(101.0)
    assert w.held["uid-r"].phase is ReservationPhase.FAILED
    w.go(86_000.0)
    assert "uid-r" in w.held
    given = w.go(500.0)
    assert DeleteReservation("r", "uid-r") in given


def test_one_without_a_recorded_end_is_deleted_a_day_after_it_was_first_seen_to_have_ended() -> None:
    w = World(node("a"))
    ended = reservation(phase=ReservationPhase.FAILED, ttl_s=100.0)
    w.see(ended)
    w.go(50_000.0)
    w.see(replace(ended, ttl_s=200.0))  # somebody writes to it
    w.go(36_000.0)
    assert "uid-r" in w.held
    assert DeleteReservation("r", "uid-r") in w.go(500.0)


def test_its_node_is_gone() -> None:
    w = World(node("a"), node("b"))
    w.see(reservation(phase=ReservationPhase.AVAILABLE, node="a"))
    w.go()
    w.cluster.node_gone("a", 1.0)
    w.go(1.0)
    assert w.held["uid-r"].phase is ReservationPhase.FAILED
    assert w.held["uid-r"].conditions[-1].message == "node a is gone"


def test_a_node_that_comes_back_before_the_next_judgement_changes_nothing() -> None:
    w = World(node("a"))
    w.see(reservation())
    w.go()
    w.cluster.node_gone("a", 1.0)
    w.cluster.node_seen(node("a"))
    w.go(1.0)
    assert w.held["uid-r"].phase is ReservationPhase.AVAILABLE


def test_a_deleted_reservation_gives_its_room_back_and_its_owners_stay() -> None:
    w = World(node("a"))
    w.see(reservation(allocate_once=False))
    w.go()
    w.see(web("x"))
    w.go()
    w.reservations.gone("r", w.now_s)
    del w.held["uid-r"]
    w.see(pod("stranger", 3000))
    w.go()
    assert (w.on("x"), w.on("stranger")) == ("a", "a")
    w.delete("x")
    w.go()


def test_a_name_that_is_used_again_is_another_reservation() -> None:
    w = World(node("a"))
    w.see(reservation())
    w.go()
    w.held.clear()
    w.see(replace(reservation(cpu=1000), uid="uid-r2", created_s=5.0))
    w.go()
    assert w.reservations.describe("r").uid == "uid-r2"  # type: ignore[union-attr]
    w.see(pod("stranger", 3000))
    w.go()
    assert w.on("stranger") == "a"


# ---- what goes wrong on the way
