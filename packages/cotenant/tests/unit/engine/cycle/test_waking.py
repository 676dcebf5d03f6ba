"""Which events wake a waiting pod, by example: what may be evicted for it now, and what its nominated node has
become.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.fakes.cluster.gang_world import (
    binds,
    cluster,
    confirm,
    group,
    members,
    node,
    pod,
    preempted,
    see,
    settle,
    told,
)

from cotenant.engine.cluster import Cluster
from cotenant.engine.state.pod_columns import OVERDUE_S, PATIENCE_S
from cotenant.model.cluster.labels import HOSTNAME, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.cluster.taints import Taint
from cotenant.model.groups.quota import PREEMPTIBLE

BACK_OFF_S = 10.0


def labelled(seen: ObservedPod, **labels: str) -> ObservedPod:
    return replace(seen, pod=replace(seen.pod, labels=Labels.of(labels)))


def classed(seen: ObservedPod, qos: QoSClass) -> ObservedPod:
    return replace(seen, pod=replace(seen.pod, qos=qos))


def tainted(name: str) -> Node:
    return replace(node(name), taints=(Taint("disk-pressure"),))


# ---- a pod becomes evictable

Event = Callable[[Cluster], None]


def may_not_go(c: Cluster) -> Event:
    kept = labelled(pod("low", on="n0"), **{PREEMPTIBLE: "false"})
    see(c, kept)
    return lambda c: see(c, labelled(kept))


def beside_a_more_important_one(c: Cluster) -> Event:
    c.node_seen(node("n0", 1300))
    see(c, pod("low", on="n0", cpu=500), pod("other", on="n0", cpu=800, priority=9))
    return lambda c: c.pod_gone("uid-default-other", 5.0)


def behind_a_taint(c: Cluster) -> Event:
    c.node_seen(tainted("n0"))
    see(c, pod("low", on="n0"))
    return lambda c: c.node_seen(node("n0"))


def on_a_node_that_is_too_small(c: Cluster) -> Event:
    c.node_seen(node("n0", 500))
    see(c, pod("low", on="n0", cpu=500))
    return lambda c: c.node_seen(node("n0"))


def in_a_gang_with_a_more_important_member(c: Cluster) -> Event:
    c.node_seen(node("n1", 500))
    low, high = pod("g-0", "g", 2, on="n0"), pod("g-1", "g", 2, on="n1", cpu=500, priority=9)
    see(c, low, high)
    return lambda c: c.pod_gone(high.uid, 5.0)


def in_a_gang_that_can_spare_it(c: Cluster) -> Event:
    c.node_seen(node("n1", 500))
    see(c, pod("g-0", "g", 2, on="n0"), pod("g-1", "g", 2, on="n1", cpu=500, priority=9))
    return lambda c: c.plugins.gangs.pod_group_seen(group("g", 1), 5.0)


def best_effort(c: Cluster) -> Event:
    service = pod("low", on="n0")
    see(c, service)
    return lambda c: see(c, classed(service, QoSClass.BE))


@pytest.mark.parametrize(
    "arrange",
    [
        may_not_go,
        beside_a_more_important_one,
        behind_a_taint,
        on_a_node_that_is_too_small,
        in_a_gang_with_a_more_important_member,
        in_a_gang_that_can_spare_it,
    ],
)
def test_a_pod_that_may_be_evicted_now(arrange: Callable[[Cluster], Event]) -> None:
    c = cluster(1)
    event = arrange(c)
    see(c, pod("high", priority=5))
    assert preempted(settle(c, 0.0)) == {}
    event(c)
    assert list(preempted(settle(c, 5.0 + BACK_OFF_S))) == ["high"]


def test_best_effort_work_evicts_only_its_like() -> None:
    c = cluster(1)
    event = best_effort(c)
    batch = pod("batch", priority=5500)
    see(c, replace(batch, pod=replace(batch.pod, priority_class=PriorityClass.BATCH)))
    assert preempted(settle(c, 0.0)) == {}
    event(c)
    assert preempted(settle(c, BACK_OFF_S)) == {"batch": ("low",)}


# ---- the nominated node


def waiting(priorities: tuple[int, ...] = (0, 1), cpu: int = 1000) -> Cluster:
    """A pod nominated for n0, where a victim ends; n1 has one of higher priority."""
    c = cluster(len(priorities), cpu)
    see(c, *(pod(f"low{i}", on=f"n{i}", priority=priority, cpu=cpu) for i, priority in enumerate(priorities)))
    see(c, pod("high", priority=5, cpu=cpu))
    assert preempted(settle(c, 0.0)) == {"high": ("low0",)}
    see(c, replace(pod("low0", on="n0", cpu=cpu), ends_s=300.0))
    assert preempted(settle(c, 1.0)) == {}
    return c


@pytest.mark.parametrize(
    "event",
    [
        lambda c: c.node_seen(tainted("n0")),
        lambda c: c.node_seen(replace(node("n0"), unschedulable=True)),
        lambda c: c.node_seen(replace(node("n0"), ready=False)),
        lambda c: c.node_seen(node("n0", 500)),
        lambda c: c.node_gone("n0", 20.0),
        lambda c: see(c, pod("other", on="n0", priority=9)),
        lambda c: settle(c, 300.0 + OVERDUE_S + 1.0),
    ],
    ids=["tainted", "cordoned", "not ready", "smaller", "gone", "taken", "the victim does not end"],
)
def test_a_node_that_is_of_no_use_is_not_waited_for(event: Callable[[Cluster], object]) -> None:
    c = waiting()
    given = event(c)
    given = (given if isinstance(given, list) else []) + settle(c, 20.0)
    assert preempted(given) == {"high": ("low1",)}
    assert c.reserved() == {"uid-default-high": "n1"}
    c.pod_gone("uid-default-low1", 30.0)
    assert binds(settle(c, 401.0)) == {"high": "n1"}


def test_a_label_that_is_lost() -> None:
    c = cluster(2)
    see(c, pod("low0", on="n0"), pod("low1", on="n1", priority=1))
    high = pod("high", priority=5)
    for name in ("n0", "n1"):
        c.node_seen(replace(node(name), labels=Labels.of({HOSTNAME: name, "disk": "ssd"})))
    see(c, replace(high, pod=replace(high.pod, node_selector=Labels.of({"disk": "ssd"}))))
    assert preempted(settle(c, 0.0)) == {"high": ("low0",)}
    see(c, replace(pod("low0", on="n0"), ends_s=300.0))
    c.node_seen(node("n0"))
    assert preempted(settle(c, BACK_OFF_S)) == {"high": ("low1",)}


def test_nothing_else_is_evicted_while_the_node_is_fine() -> None:
    c = waiting()
    c.node_seen(replace(node("n0"), labels=Labels.of({HOSTNAME: "n0", "new": "x"})))
    see(c, replace(pod("low1", on="n1", priority=1), ends_s=400.0))
    assert preempted(settle(c, BACK_OFF_S)) == {}
    assert c.reserved() == {"uid-default-high": "n0"}


def test_a_nomination_that_is_in_vain_and_has_no_other_place_is_cleared() -> None:
    c = waiting((0, 9))
    c.node_seen(tainted("n0"))
    settle(c, 20.0)
    assert c.reserved() == {}
    c.node_seen(node("n0"))
    settle(c, 40.0)
    assert c.reserved() == {"uid-default-high": "n0"}


def test_an_overdue_victim_is_waited_for_where_there_is_no_other_place() -> None:
    c = waiting((0, 9))
    settle(c, 300.0 + OVERDUE_S + 1.0)
    assert c.reserved() == {"uid-default-high": "n0"}
    c.pod_gone("uid-default-low0", 500.0)
    assert binds(settle(c, 500.0)) == {"high": "n0"}


def test_a_grace_period_of_hours_is_not_waited_for_where_another_place_is() -> None:
    c = waiting()
    see(c, replace(pod("low0", on="n0"), ends_s=7201.0, grace_s=7200), now_s=1.0)
    assert preempted(settle(c, PATIENCE_S - 9.0)) == {}
    assert c.next_s() <= 1.0 + PATIENCE_S
    out = settle(c, 1.0 + PATIENCE_S)
    assert preempted(out) == {"high": ("low1",)}
    words = "it waits for n1, where default/low1 must end first, as default/low0 on n0 did not end in time."
    assert words in told(out)["high"]


@pytest.mark.parametrize(("ends_s", "grace_s"), [(300.0, 0), (7201.0, 7200)])
def test_a_pod_says_that_what_it_waits_for_did_not_end_in_time(ends_s: float, grace_s: int) -> None:
    c = waiting((0, 9))
    see(c, replace(pod("low0", on="n0"), ends_s=ends_s, grace_s=grace_s), now_s=1.0)
    out = settle(c, 1.0 + PATIENCE_S)
    assert "It waits on: default/low0 on n0 did not end in time." in told(out)["high"]
    assert c.reserved() == {"uid-default-high": "n0"}


def test_a_gang_does_not_wait_for_one_that_does_not_end_on_another_node_of_its_own() -> None:
    c = cluster(3)
    see(c, *(pod(f"low{i}", on=f"n{i}", priority=i) for i in range(3)))
    see(c, *members("gang", 2, priority=5))
    (waits, _), _ = sorted(preempted(settle(c, 0.0)).items())
    on = c.reserved()[f"uid-default-{waits}"]
    stays = "low1" if on == "n0" else "low0"
    see(c, *(replace(pod(f"low{i}", on=f"n{i}", priority=i), ends_s=30.0) for i in range(2)), now_s=1.0)
    settle(c, 1.0)
    c.pod_gone("uid-default-low0" if stays == "low1" else "uid-default-low1", 31.0)
    settle(c, 31.0)
    assert c.next_s() <= 30.0 + OVERDUE_S
    out = settle(c, 30.0 + OVERDUE_S)
    assert [victim for names in preempted(out).values() for victim in names] == ["low2"]
    assert f"default/{stays} on " in told(out)["gang-0"]


def test_room_on_the_nominated_node_is_used() -> None:
    c = cluster(1, 4000)
    see(c, pod("a", on="n0", cpu=2000), pod("b", on="n0", cpu=2000), pod("high", cpu=2000, priority=5))
    (victim,) = preempted(settle(c, 0.0))["high"]
    see(c, replace(pod(victim, on="n0", cpu=2000), ends_s=300.0))
    settle(c, 1.0)
    c.pod_gone(f"uid-default-{'ab'.replace(victim, '')}", 5.0)
    assert binds(settle(c, BACK_OFF_S)) == {"high": "n0"}


def test_a_gang_whose_node_is_of_no_use_preempts_elsewhere() -> None:
    c = cluster(3)
    see(c, *(pod(f"low{i}", on=f"n{i}", priority=i) for i in range(3)))
    see(c, *members("gang", 2, priority=5))
    assert sorted(v for entry in preempted(settle(c, 0.0)).values() for v in entry) == ["low0", "low1"]
    see(c, *(replace(pod(f"low{i}", on=f"n{i}", priority=i), ends_s=300.0) for i in range(2)))
    settle(c, 1.0)
    c.node_seen(tainted("n0"))
    assert [v for entry in preempted(settle(c, 20.0)).values() for v in entry] == ["low2"]
    c.pod_gone("uid-default-low1", 30.0)
    c.pod_gone("uid-default-low2", 30.0)
    out = settle(c, 40.0)
    confirm(c, out, 40.0)
    assert sorted(binds(out).values()) == ["n1", "n2"]


def test_the_second_gang_of_a_round_is_not_forgotten() -> None:
    c = cluster(3)
    c.node_seen(tainted("n2"))
    see(c, *(pod(f"low{i}", on=f"n{i}") for i in range(2)))
    see(c, *members("big", 3, priority=7), *members("small", 2, priority=5))
    assert sorted(preempted(settle(c, 0.0))) == ["small-0", "small-1"]


def test_a_preempted_pod_is_explained_and_its_preemptor_says_what_it_waits_for() -> None:
    c = cluster(1)
    see(c, pod("low", on="n0"), pod("high", priority=5))
    assert "it waits for n0, where default/low must end first" in told(settle(c, 0.0))["high"]
    c.pod_gone("uid-default-low", 2.0)
    settle(c, 2.0)
    answer = c.why.pod("default/low", 12.0)
    assert answer is not None
    assert answer.headline.startswith("it is gone: evicted from n0 for default/high 12 s ago")
    assert c.why.pod("default/nobody", 12.0) is None
