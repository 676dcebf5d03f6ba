"""CPUs and NUMA nodes in a cluster's engine, pod by pod."""

from __future__ import annotations

from tests.fakes.cluster.cpu_cluster import EIGHT, GIB, Api, cpus, node, pod, tells, zones

from cotenant.model.cluster.qos import QoSClass
from cotenant.model.cpus.spec import (
    BindPolicy,
    ExclusivePolicy,
    NumaTopologySpec,
    ResourceSpec,
    TopologyPolicy,
)
from cotenant.model.cpus.topology import CpuTopology

FULL = ResourceSpec(required=BindPolicy.FULL_CORES)
SPREAD = ResourceSpec(required=BindPolicy.SPREAD)
SINGLE = NumaTopologySpec(TopologyPolicy.SINGLE_NUMA_NODE)


def test_a_latency_critical_pod_gets_whole_cores_of_its_own() -> None:
    api = Api(node("a"))
    api.create(pod("x"), pod("y"), pod("shares", qos=QoSClass.LS), pod("batch", qos=QoSClass.BE, priority=5500))
    api.turn()
    assert {api.has("x"), api.has("y")} == {(0, 1), (2, 3)}
    assert api.has("shares") == api.has("batch") == ()
    assert api.available("a") == (4, 5, 6, 7)
    api.delete("x")
    api.turn()
    assert len(api.available("a")) == 6


def test_a_required_bind_policy_gets_exclusive_cpus_except_for_best_effort() -> None:
    api = Api(node("a"))
    api.create(pod("ls", qos=QoSClass.LS, spec=FULL), pod("be", qos=QoSClass.BE, priority=5500, spec=FULL))
    api.turn()
    assert (api.has("ls"), api.has("be")) == ((0, 1), ())


def test_a_pod_waits_with_figures_until_enough_cpus_are_free() -> None:
    api = Api(node("a", 64), node("b", 64))
    api.create(pod("one", 6), pod("two", 5), pod("wants", 4))
    api.turn()
    assert api.where("wants") == ""
    assert api.waits["wants"].startswith("0/2 nodes are available: 2 not enough free CPUs.")
    assert api.missing["wants"] == "2 nodes fit but for not enough free CPUs (3 free of 4)"
    api.delete("one")
    api.turn()
    assert api.where("wants") != ""


def test_cpus_come_whole() -> None:
    api = Api(node("a"))
    api.create(pod("x", cpu_m=1500))
    api.turn()
    assert "own CPUs must be whole CPUs" in api.waits["x"]
    assert "2000m would be" in api.missing["x"]


def test_nodes_without_a_topology_give_no_exclusive_cpus_and_accept_other_pods() -> None:
    api = Api(node("a"), node("b"), told=[tells("b")])
    api.create(pod("own", 8), pod("strict", 2, spec=FULL), pod("shares", 2, qos=QoSClass.LS))
    api.turn()
    assert api.where("own") == "b"
    assert api.where("shares") == "a"
    assert "1 node(s) without a usable CPU topology" in api.waits["strict"]


def test_without_any_topology_only_pods_that_require_one_wait() -> None:
    api = Api(node("a"), told=[])
    api.create(pod("own"), pod("insists", spec=FULL))
    api.turn()
    assert (api.where("own"), api.has("own")) == ("a", ())
    assert "node(s) without a usable CPU topology" in api.waits["insists"]
    api.tell(tells("a"))
    api.turn()
    assert api.has("insists") == (0, 1)


def test_node_labels_set_the_cpu_layout() -> None:
    api = Api(node("full", cpu_bind_policy="FullPCPUsOnly"))
    api.create(pod("odd", 3), pod("spreads", 2, spec=SPREAD), pod("fits", 2))
    api.turn()
    assert "1 requested CPUs are not whole cores" in api.waits["odd"]
    assert "1 the node's CPU bind policy conflicts with the pod's" in api.waits["spreads"]
    assert api.has("fits") == (0, 1)
    api = Api(node("spread", 64, cpu_bind_policy="SpreadByPCPUs"))
    api.create(pod("x", 2), pod("y", 4))
    api.turn()
    assert api.has("x") == (0, 2)
    assert api.has("y") == (1, 3, 4, 6)
    api = Api(node("spread", cpu_bind_policy="SpreadByPCPUs"))
    api.create(pod("z", 5))
    api.turn()
    assert "1 not enough cores to spread over" in api.waits["z"]
    most, least = Api(node("m")), Api(node("l", numa_allocate_strategy="LeastAllocated"))
    for entry in (most, least):
        entry.create(pod("first"))
        entry.turn()
        entry.create(pod("second"))
        entry.turn()
    assert (most.has("second"), least.has("second")) == ((2, 3), (4, 5))


def test_cpus_over_several_numa_nodes_are_shared_out_evenly_where_the_node_says_so() -> None:
    told = [tells("a", CpuTopology.of(cpus(nodes=2, cores=4)))]
    api = Api(node("a", 16, numa_allocate_strategy="DistributeEvenly"), told=told)
    api.create(pod("x", 12))
    api.turn()
    assert len([cpu for cpu in api.has("x") if cpu < 8]) == 6


def test_exclusion_decides_between_nodes() -> None:
    apart = ResourceSpec(exclusive=ExclusivePolicy.NUMA)
    api = Api(node("a", 64), node("b", 4000))
    api.create(pod("first", 2, spec=apart))
    api.turn()
    assert api.where("first") == "b"
    api.create(pod("fills", 6))
    api.turn()
    api.create(pod("second", 2, spec=apart))
    api.turn()
    assert api.where("second") == "a"


def test_reserved_cpus_of_the_kubelet_are_not_allocated() -> None:
    api = Api(node("a"), told=[tells("a", kept=(0, 1, 2, 3))])
    api.create(pod("x", 4), pod("y", 2))
    api.turn()
    assert {api.has("x"), api.has("y")} == {(4, 5, 6, 7), ()}


def test_a_numa_policy_keeps_cpus_and_memory_together() -> None:
    api = Api(node("a", 64, numa_topology_policy="SingleNUMANode"), told=[tells("a", zones=zones(32, 4))])
    api.create(pod("x", 2, gib=8), pod("y", 2, gib=3))
    api.turn()
    status = api.pods["uid-x"].holds.cpus
    assert status is not None
    assert status.cpus == (0, 1)
    assert [(numa_amount.node, numa_amount.cpu_m, numa_amount.memory_bytes) for numa_amount in status.numa] == [
        (0, 2000, 8 * GIB)
    ]
    api.create(pod("wide", 5, gib=1))
    api.turn()
    assert "NUMA topology policy SingleNUMANode cannot be satisfied" in api.waits["wide"]


def test_a_pods_numa_policy_holds_without_cpus_of_its_own_and_must_not_contradict_the_nodes() -> None:
    api = Api(node("a"), node("r", numa_topology_policy="Restricted"), told=[tells("a", zones=zones(8, 4)), tells("r")])
    api.create(pod("x", 3, gib=6, qos=QoSClass.LS, numa=SINGLE))
    api.turn()
    status = api.pods["uid-x"].holds.cpus
    assert api.where("x") == "a"
    assert status is not None
    assert (status.cpus, [numa_amount.node for numa_amount in status.numa]) == ((), [0])
    api.create(pod("y", 2, gib=6, qos=QoSClass.LS, numa=SINGLE))
    api.turn()
    assert "1 the node's NUMA topology policy conflicts with the pod's" in api.waits["y"]
    assert "1 NUMA topology policy SingleNUMANode cannot be satisfied" in api.waits["y"]


def test_exclusive_cpus_count_times_the_amplification_ratio() -> None:
    api = Api(node("a", 12), told=[tells("a", ratio_ppm=1_500_000)])
    api.create(pod("x", 4))
    api.turn()
    api.create(pod("shares", 5, qos=QoSClass.LS))
    api.turn()
    api.create(pod("y", 2))
    api.turn()
    assert (api.where("x"), api.where("shares")) == ("a", "a")
    assert "1 Insufficient amplified cpu" in api.waits["y"]
    assert "2000m short" in api.missing["y"]


def test_pods_that_claim_the_same_cpus_are_counted_and_both_stay() -> None:
    api = Api(node("a"))
    api.create(pod("x", on="a", has="0-1"), pod("y", on="a", has="1-2"), pod("far", on="a", has="70"))
    api.turn()
    assert api.cluster.counts["CPUs claimed by two pods, or not available on their node"] == 2
    told = api.cluster.plugins.cpus.describe("a")
    assert told is not None
    assert {holder.pod: holder.missing for holder in told.holders} == {
        "default/x": (),
        "default/y": (1,),
        "default/far": (70,),
    }
    assert told.available == (3, 4, 5, 6, 7)
    api.delete("x")
    api.turn()
    assert api.available("a") == (0, 3, 4, 5, 6, 7)


def test_a_reported_topology_is_described() -> None:
    api = Api(node("a", numa_allocate_strategy="LeastAllocated"), told=[tells("a", kept=(7,), zones=zones(8, 8))])
    api.create(pod("x"))
    api.turn()
    told = api.cluster.plugins.cpus.describe("a")
    assert told is not None
    assert (len(told.cpus), told.kept, told.available) == (8, (("kubelet", (7,)),), (2, 3, 4, 5, 6))
    assert [(holder.pod, holder.cpus) for holder in told.holders] == [("default/x", (0, 1))]
    assert [(left.node, left.available, left.memory_free_bytes) for left in told.numa] == [
        (0, (2, 3), 8 * GIB),
        (1, (4, 5, 6), 8 * GIB),
    ]
    assert api.cluster.plugins.cpus.describe("nobody") is None
    assert api.cluster.plugins.cpus.nodes() == ("a",)


def test_pods_of_lower_priority_are_evicted_for_cpus() -> None:
    api = Api(node("a", 64))
    api.create(pod("low", 4, priority=9100), pod("mid", 4, priority=9200))
    api.turn()
    api.create(pod("high", 4, priority=9900))
    api.turn()
    assert api.victims == ["low"]
    api.delete("low")
    api.turn()
    assert api.where("high") == "a"
    assert len(api.has("high")) == 4


def test_cpus_that_become_free_for_another_preemptor_are_not_counted_twice() -> None:
    api = Api(node("a", 64))
    api.create(pod("low", 4, priority=9100), pod("mid", 4, priority=9200))
    api.turn()
    for name in ("high", "higher"):
        api.create(pod(name, 4, priority=9900))
        api.turn()
    assert api.victims == ["low", "mid"]


def test_no_eviction_where_it_would_not_free_cpus() -> None:
    api = Api(node("a", 64), told=[tells("a", kept=(0, 1, 2, 3, 4, 5))])
    api.create(pod("shares", 60, qos=QoSClass.LS, priority=9100), pod("high", 4, priority=9900))
    api.turn()
    assert api.victims == []
    assert "not enough free CPUs" in api.waits["high"]


def test_evictions_for_whole_cores_free_whole_cores() -> None:
    api = Api(node("a", 64))
    api.create(*(pod(f"half{core}", 1, on="a", has=str(2 * core), priority=9100) for core in range(4)))
    api.create(pod("high", 4, spec=FULL, priority=9900))
    api.turn()
    assert len(api.victims) == 2
    for name in api.victims:
        api.delete(name)
    api.turn()
    assert len(api.has("high")) == 4


def test_a_smaller_topology_keeps_what_it_can() -> None:
    api = Api(node("a"))
    api.create(pod("x"), pod("y"))
    api.turn()
    api.tell(tells("a", CpuTopology.of(cpus(without=(1, 7)))))
    api.turn()
    assert api.available("a") == (4, 5, 6)
    told = api.cluster.plugins.cpus.describe("a")
    assert told is not None
    assert sorted(holder.missing for holder in told.holders) == [(), (1,)]
    api.tell(tells("a", EIGHT))
    api.turn()
    assert api.available("a") == (4, 5, 6, 7)
