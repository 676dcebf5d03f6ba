"""A preemption that needs no victim any more: room became free while it was looked for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.engine.cycle.eviction.test_preemption import binds, cluster, pod, preemptions

from cotenant.engine.cluster import Cluster
from cotenant.engine.cycle.outcomes import Nominated
from cotenant.engine.framework.instructions import Preempt, Unschedulable
from cotenant.engine.framework.queueing import QueueStanding

FLUSH_S = 300.0  # what waits for an event alone is tried again after that


def nominated(c: Cluster, now_s: float, *ends: str) -> None:
    """The pod x is found to need nothing but what ends already on a."""
    entry = c.find("default/x")
    assert entry is not None
    group = c._components.queue.group_of("uid-x")
    assert group is not None
    assert group.verdict is not None
    found = Nominated(entry, Preempt("uid-x", "default/x", "a", ()), frozenset(ends), group.verdict)
    c._rounds._applying.apply(found, now_s)


def waiting() -> Cluster:
    c = cluster(pod("peer", 10, on="a"), pod("x", 10))
    assert any(isinstance(one, Unschedulable) for one in c.decide(0.0))
    assert c.next_s() == FLUSH_S
    return c


def test_it_is_tried_again_after_its_back_off_and_not_only_at_an_event() -> None:
    c = waiting()
    nominated(c, 1.0)
    assert c.reserved() == {"uid-x": "a"}
    assert c._components.queue.sizes()[QueueStanding.BACKOFF] == 1
    assert c._components.queue.next_s() == 3.0  # refused for the second time a second ago
    c.validate()


def test_its_back_off_grows_with_its_refusals() -> None:
    waits = []
    for refusals in (0, 3):
        c = waiting()
        group = c._components.queue.group_of("uid-x")
        assert group is not None
        group.refusals = refusals
        nominated(c, 1.0)
        waits.append(c._components.queue.next_s() - 1.0)
    assert waits == [1.0, 8.0]


def test_where_pods_end_for_it_their_end_wakes_it() -> None:
    c = waiting()
    nominated(c, 1.0, "uid-peer")
    assert c._components.queue.sizes()[QueueStanding.UNSCHEDULABLE] == 1
    c.pod_gone("uid-peer", 5.0)
    assert binds(c.decide(20.0)) == {"uid-x": "a"}


@pytest.mark.parametrize("node", ["a", "b"])
def test_who_was_promised_that_node_before_looks_elsewhere(node: str) -> None:
    c = cluster(pod("peer", 10, on="a"), pod("x", 10), pod("low", 5, cpu=1000, nominated_node=node), nodes=("a", "b"))
    c.pod_seen(replace(pod("full", 10, on="b")), 0.0)
    assert preemptions(c.decide(0.0)) == {}
    c._components.nominations.drop("uid-low")
    low = c.find("default/low")
    assert low is not None
    c._components.nominations.add(low, node, set())
    nominated(c, 1.0, "uid-peer")
    assert c.reserved() == ({"uid-x": "a"} if node == "a" else {"uid-x": "a", "uid-low": "b"})
