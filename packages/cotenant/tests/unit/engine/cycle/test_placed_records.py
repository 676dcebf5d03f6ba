"""The record of a placed pod counts each node once: those that were rejected, by the reason, and the others."""

from __future__ import annotations

import pytest
from tests.fakes.cluster.questions import cluster, node, pod

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind
from cotenant.model.cluster.affinity import PodTerm
from cotenant.model.cluster.labels import HOSTNAME, Labels, LabelSelector
from cotenant.model.decisions.record import DecisionRecord

WEB = Labels.of({"app": "web"})
APART = (PodTerm(HOSTNAME, LabelSelector.of({"app": "web"})),)
NARROWED = "node(s) did not suit the pod's rules on other pods, its claims, or what it needs of a node"


def record(c: Cluster, name: str = "x") -> DecisionRecord:
    (found,) = [one.record for one in c.decide(0.0) if isinstance(one, Bind) and one.uid == f"uid-{name}"]
    return found


def told(found: DecisionRecord) -> dict[tuple[str, str], int]:
    return {(one.filter, one.reason): one.nodes for one in found.rejections}


def six() -> Cluster:
    """Two nodes that take a web pod, two with one, one that is down and one that is full."""
    c = cluster(*(node(name) for name in "abcd"), node("down", ready=False), node("small", 500))
    for on in "ab":
        c.pod_seen(pod(f"web-{on}", 100, on=on, labels=WEB), 0.0)
    return c


def test_nodes_that_rules_between_pods_exclude_are_counted_apart() -> None:
    c = six()
    c.pod_seen(pod("x", labels=WEB, anti_affinity=APART), 0.0)
    found = record(c)
    assert (found.nodes, found.node, found.pod) == (6, "c", "default/x")
    assert told(found) == {
        ("Narrowing", NARROWED): 2,
        ("NodeReady", "node(s) were not ready or unschedulable"): 1,
        ("NodeResourcesFit", "Insufficient cpu"): 1,
    }
    assert [one.node for one in found.candidates] == ["c", "d"]


def test_without_such_rules_nothing_is_narrowed() -> None:
    c = six()
    c.pod_seen(pod("x"), 0.0)
    assert ("Narrowing", NARROWED) not in told(record(c))


def test_nodes_that_are_gone_are_not_counted() -> None:
    c = six()
    c.node_gone("d", 0.0)
    c.pod_seen(pod("x", labels=WEB, anti_affinity=APART), 0.0)
    found = record(c)
    assert (found.nodes, sum(told(found).values())) == (5, 4)


def test_nodes_of_another_shard_are_counted_as_such() -> None:
    c = six()
    c.closed.close(("d",), 0.0)
    c.pod_seen(pod("x", labels=WEB, anti_affinity=APART), 0.0)
    found = told(record(c))
    assert sum(found.values()) == 5
    assert {reason: count for (_, reason), count in found.items() if "shard" in reason} == {
        "node(s) belonged to another shard": 1
    }
    assert found["Narrowing", NARROWED] == 2


@pytest.mark.parametrize("rule", [(), APART])
def test_brief_records_have_the_node_alone(rule: tuple[PodTerm, ...]) -> None:
    c = cluster(node("a"), node("b"), detailed_records=False)
    c.pod_seen(pod("web-a", 100, on="a", labels=WEB), 0.0)
    c.pod_seen(pod("x", labels=WEB, anti_affinity=rule), 0.0)
    found = record(c)
    assert (found.nodes, found.rejections, found.candidates, found.policy) == (2, (), (), "least-allocated")
