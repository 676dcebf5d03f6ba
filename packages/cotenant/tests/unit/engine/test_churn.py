"""Months of pods and nodes that come and go leave the engine as small as it was, and as right."""

from __future__ import annotations

import numpy as np
import pytest

from cotenant.engine.cluster import Cluster
from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.framework.instructions import Bind
from cotenant.model.arrays import Param
from cotenant.model.cluster.labels import HOSTNAME, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import HostPort, Pod
from cotenant.model.cluster.taints import Taint
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

AT_ONCE = 50


def node(name: str, *taints: Taint) -> Node:
    size = Amounts.of({"cpu": 64_000, "memory": 1 << 40})
    return Node(name, size, Labels.of({HOSTNAME: name, "rack": "7"}), taints)


def cluster() -> Cluster:
    made = Cluster(profile("cotenant-requests"), np.random.default_rng(1))
    for name in ("a", "b", "c"):
        made.node_seen(node(name))
    return made


def pod(i: int, on: str = "") -> ObservedPod:
    """No two have a shape in common; every second one fits nowhere."""
    value = Pod(
        f"p{i}",
        requests=Amounts.of({"cpu": 1 + i % 900, "memory": i}),
        node_selector=Labels.of({"rack": "7"} if i % 2 else {"rack": f"none-{i}"}),
        labels=Labels.of({"index": str(i)}),
        host_ports=(HostPort(1 + i),),
    )
    return ObservedPod(value, f"uid-{i}", "cotenant", float(i), node=on)


def assert_small(c: Cluster) -> None:
    assignments = c._components.assignments
    assert len(assignments.ledger.row) <= 512
    assert len(assignments.pods.by_number) <= 512
    assert assignments.encoder.shape_rows <= 2048
    assert assignments.encoder.nodes().labels.shape[1] * 64 <= 2048
    assert len(assignments.narrowing.pod_counts._kinds) <= 512
    assert len(assignments.narrowing.pod_counts._counts) <= 512


def assert_rows_say_what_their_pods_are(c: Cluster, live: list[int]) -> None:
    """A reused row holds nothing of its shape before."""
    afresh = Encoder(32.0, c.profile.knobs.pressure_factor)
    for name in ("a", "b", "c"):
        afresh.add_node(node(name))
    for i in live:
        _, k = afresh.add_pod(pod(i).pod)
        entry = c.find(f"default/p{i}")
        assert entry is not None
        found, expected = c._components.assignments.encoder.shapes(), afresh.shapes()
        assert (found.request[entry.shape] == expected.request[k]).all()
        assert (
            np.delete(found.params[entry.shape], Param.ALLOWANCE) == np.delete(expected.params[k], Param.ALLOWANCE)
        ).all()
        assert found.group[entry.shape] == expected.group[k]


@pytest.mark.slow
def test_six_thousand_pods_and_as_many_shapes_leave_nothing_behind() -> None:
    c, now_s = cluster(), 0.0
    for start in range(0, 6000, AT_ONCE):
        now_s += 1.0
        for i in range(start, start + AT_ONCE):
            c.pod_seen(pod(i), now_s)
        bound = [instruction for instruction in c.decide(now_s) if isinstance(instruction, Bind)]
        assert len(bound) == AT_ONCE // 2
        for instruction in bound:
            assert c.sending(instruction.uid, now_s)
            c.bound(instruction.uid, now_s)
        if start % 1500 == 0:
            c.validate()
            assert_rows_say_what_their_pods_are(c, list(range(start, start + AT_ONCE)))
        for i in range(start, start + AT_ONCE):
            c.pod_gone(f"uid-{i}", now_s)
        assert_small(c)
    c.decide(now_s + 1.0)
    c.validate()
    assert c.size() == (3, 0)
    assert len(c.queue) == 0
    assert not c._components.assignments.ledger.nodes.requested.any()


@pytest.mark.slow
def test_a_replica_that_never_judges_gives_back_shapes_too() -> None:
    c = cluster()
    for i in range(6000):
        c.pod_seen(pod(i), 0.0)
        if i % 3 == 0:
            c.pod_seen(pod(i, on="b"), 0.0)
        c.pod_gone(f"uid-{i}", 0.0)
    assignments = c._components.assignments
    assert assignments.encoder.shape_rows <= 4096
    assert len(assignments.ledger.row) <= 4096
    c.validate()


@pytest.mark.slow
def test_nodes_that_come_and_go_with_their_taints_leave_nothing_behind() -> None:
    c = cluster()
    for i in range(3000):
        name = f"spot-{i}"
        c.node_seen(node(name, Taint("since", str(i))))
        c.pod_seen(pod(2 * i, on=name), 0.0)
        c.node_gone(name, 0.0)
        c.pod_gone(f"uid-{2 * i}", 0.0)
    assignments = c._components.assignments
    assert len(assignments.names) <= 8
    assert len(assignments.encoder._taints._lists) <= 1100
    assert not assignments.residents
    c.validate()
