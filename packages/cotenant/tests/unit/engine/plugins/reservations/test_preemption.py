"""Preemption beside reservations: owners that preempt, and others on the same node."""

from __future__ import annotations

from tests.fakes.cluster.reservation_world import World, node, pod, reservation, web

from cotenant.engine.framework.instructions import Preempt


def test_who_fits_with_no_victim_once_an_owner_drew_is_tried_again_soon() -> None:
    w = World(node("a", 8000))
    w.see(reservation("r", 2000, allocate_once=False, ttl_s=0.0))
    w.go()
    w.see(pod("keeps", 1000, priority=9500), pod("tiny"), web("low-owner", 2000), pod("low", 4000))
    w.go()
    w.see(pod("big", 4000, priority=9000, created_s=1.0))
    w.see(web("new-owner", 2000, priority=9000, created_s=2.0))
    preempts = [instruction for instruction in w.go() if isinstance(instruction, Preempt)]
    assert [[victim.key for victim in preempt.victims] for preempt in preempts] == [
        ["default/low"],
        ["default/low-owner"],
    ]
    w.delete("low")
    w.delete("low-owner")  # its 2000 are the reservation's again, and stand beside the room promised to the new owner
    w.go()
    assert (w.on("big"), w.on("new-owner")) == ("", "a")
    w.go(10.0)
    assert w.on("big") == "a"
