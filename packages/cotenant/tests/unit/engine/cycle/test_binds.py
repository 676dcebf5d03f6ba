"""What requests and watches say of one bind, in any order."""

from __future__ import annotations

from dataclasses import replace

from tests.fakes.cluster.gang_world import cluster, pod, see

from cotenant.engine.framework.instructions import Bind


def test_a_read_that_is_older_than_what_the_watch_has_told_has_no_effect() -> None:
    """The pod was bound by another scheduler and deleted, while the answer of our read was on its way."""
    c = cluster(2, 1000)
    waits = pod("p", cpu=600)
    see(c, waits)
    (bind,) = [instruction for instruction in c.decide(0.0) if isinstance(instruction, Bind)]
    assert c.sending(bind.uid, 0.0)
    elsewhere = replace(waits, node="n1" if bind.node == "n0" else "n0")
    c.pod_gone(bind.uid, 1.0)
    c.bound_elsewhere(elsewhere, 2.0)
    c.validate()
    see(c, pod("q", cpu=1000), pod("r", cpu=1000))
    # nothing is taken for it
    assert len([instruction for instruction in c.decide(3.0) if isinstance(instruction, Bind)]) == 2


def test_a_pod_that_another_scheduler_bound_counts_where_it_is_at_once() -> None:
    c = cluster(2, 1000)
    waits = pod("p", cpu=600)
    see(c, waits)
    (bind,) = [instruction for instruction in c.decide(0.0) if isinstance(instruction, Bind)]
    assert c.sending(bind.uid, 0.0)
    there = "n1" if bind.node == "n0" else "n0"
    c.bound_elsewhere(replace(waits, node=there), 1.0)
    c.validate()
    see(c, pod("q", cpu=1000))
    (other,) = [instruction for instruction in c.decide(3.0) if isinstance(instruction, Bind)]
    assert other.node == bind.node
