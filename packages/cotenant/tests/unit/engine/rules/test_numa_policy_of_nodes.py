"""A NUMA policy of a node applies to plain pods too: without exclusive CPUs, devices or a policy of their own."""

from __future__ import annotations

import pytest
from tests.fakes.cluster.cpu_cluster import EIGHT, Api, node, pod, tells, zones

from cotenant.model.cluster.node import Node
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.cpus.spec import TopologyPolicy


def world(*nodes: Node, **reported: object) -> Api:
    """Each node has two NUMA nodes of four CPUs and 8 GiB."""
    return Api(*nodes, told=[tells(entry.name, EIGHT, zones=zones(8, 8), **reported) for entry in nodes])


def numa_of(api: Api, name: str) -> list[int]:
    status = api.pods[f"uid-{name}"].holds.cpus
    return [numa_amount.node for numa_amount in status.numa] if status is not None else []


def plain(name: str, cpu: int = 3, gib: int = 1, **more: object):  # type: ignore[no-untyped-def]
    return pod(name, cpu, gib=gib, qos=QoSClass.LS, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", ["SingleNUMANode", "Restricted"])
def test_plain_pods_are_aligned_and_refused_where_no_numa_node_has_room(policy: str) -> None:
    api = world(node("a", numa_topology_policy=policy))
    api.create(plain("x"), plain("y"), plain("z", 2))
    api.turn()
    assert sorted(numa_of(api, "x") + numa_of(api, "y")) == [0, 1]
    assert api.where("z") == ""  # two CPUs are free, one on each NUMA node
    assert f"1 NUMA topology policy {policy} cannot be satisfied" in api.waits["z"]
    api.delete("x")
    api.turn()
    assert api.where("z") == "a"


def test_memory_alone_is_aligned() -> None:
    api = world(node("a", numa_topology_policy="SingleNUMANode"))
    api.create(plain("big", 1, gib=9))
    api.turn()
    assert api.where("big") == ""


def test_the_policy_of_the_kubelet_counts_like_the_label() -> None:
    api = world(node("a"), policy=TopologyPolicy.SINGLE_NUMA_NODE)
    api.create(plain("x"), plain("y"), plain("z", 2))
    api.turn()
    assert api.where("z") == ""


def test_pods_go_where_no_policy_refuses_them() -> None:
    api = world(node("a", numa_topology_policy="SingleNUMANode"), node("b"))
    api.create(plain("wide", 6))
    api.turn()
    assert api.where("wide") == "b"
    assert numa_of(api, "wide") == []


def test_best_effort_prefers_one_numa_node_and_refuses_nothing() -> None:
    api = world(node("a", numa_topology_policy="BestEffort"))
    api.create(plain("x"), plain("y"), plain("z", 2))
    api.turn()
    assert api.where("z") == "a"


def test_pods_that_were_added_before_the_policy_are_judged_by_it() -> None:
    api = world(node("a"))
    api.create(plain("x"))
    api.turn()
    api.create(plain("late", 6))
    api.turn()
    assert (api.where("x"), api.where("late")) == ("a", "")
    api.nodes[0] = node("a", numa_topology_policy="SingleNUMANode")
    api.cluster.node_seen(api.nodes[0])
    api.delete("x")
    api.turn()
    assert api.where("late") == ""
    assert "NUMA topology policy" in api.waits["late"]


def test_preemption_frees_one_numa_node_for_a_plain_pod() -> None:
    api = world(node("a", numa_topology_policy="SingleNUMANode"))
    for name, priority in (("a0", 5000), ("a1", 5001), ("b0", 5003), ("b1", 5002)):
        api.create(plain(name, 2, priority=priority))
        api.turn()
    api.create(plain("new", 4, priority=9000))
    api.turn()
    assert len({numa for name in api.victims for numa in numa_of(api, name)}) == 1
    for name in list(api.victims):
        api.delete(name)
    api.turn()
    assert api.where("new") == "a"


def test_holdings_of_plain_pods_survive_a_restart() -> None:
    api = world(node("a", numa_topology_policy="SingleNUMANode"))
    api.create(plain("x"), plain("y"))
    api.turn()
    api.restart()
    api.create(plain("z", 2))
    api.turn()
    assert api.where("z") == ""
    api.cluster.validate()
