"""What requests and watches say of one bind, in any order."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.cluster.gang_world import cluster, pod, see

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind
from cotenant.engine.framework.pod_state import SchedulingState
from cotenant.engine.framework.settings import EngineSettings


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


def bind_of(c: Cluster, now_s: float) -> Bind:
    (bind,) = [instruction for instruction in c.decide(now_s) if isinstance(instruction, Bind)]
    return bind


def test_a_bind_that_was_withdrawn_is_not_sent_in_the_name_of_the_next() -> None:
    """Its node went away while it waited for a slot, and the pod was given another one."""
    c = cluster(2, 1000)
    see(c, pod("p", cpu=600))
    first = bind_of(c, 0.0)
    c.node_gone(first.node, 1.0)
    second = bind_of(c, 2.0)
    assert second.node != first.node
    assert not c.sending(first.uid, 3.0, first.number)
    assert c.sending(second.uid, 3.0, second.number)
    c.bound(second.uid, 4.0, second.number)
    assert c.state_of("uid-default-p") is SchedulingState.BOUND
    c.validate()


@pytest.mark.parametrize("is_sent", [False, True])
def test_a_late_answer_to_the_first_bind_says_nothing_of_the_second(is_sent: bool) -> None:
    c = cluster(2, 1000, EngineSettings(unanswered_s=60.0))
    see(c, pod("p", cpu=600))
    first = bind_of(c, 0.0)
    assert c.sending(first.uid, 0.0, first.number)
    c.decide(61.0)  # nobody answered: it is judged again after its back-off
    second = bind_of(c, 100.0)
    if is_sent:
        assert c.sending(second.uid, 100.0, second.number)
    before = c.state_of("uid-default-p")
    c.bind_failed(first.uid, "Conflict", 101.0, number=first.number)
    c.bind_failed(first.uid, "pod not found", 101.0, retry=False, number=first.number)
    c.bound(first.uid, 101.0, first.number)
    assert c.state_of("uid-default-p") is before
    assert is_sent or c.sending(second.uid, 102.0, second.number)
    c.bound(second.uid, 103.0, second.number)
    assert (c.state_of("uid-default-p"), c.assigned()) == (SchedulingState.BOUND, {"uid-default-p": second.node})
    c.validate()
