"""CPUs, memory and devices of one pod on the same NUMA nodes, through a whole cluster's engine."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.cluster.cpu_cluster import GIB, Api, cpus, node, pod, tells, zones

from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.rules.cpus.rules import Cpus
from cotenant.engine.rules.devices.rules import DeviceRules
from cotenant.engine.state.narrowing import Narrowing
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.cpus.spec import NumaTopologySpec, TopologyPolicy
from cotenant.model.cpus.topology import CpuTopology
from cotenant.model.devices.device import Device, DeviceType
from cotenant.model.devices.inventory import NodeDevices
from cotenant.model.errors import Permanent
from cotenant.model.resources import GPU, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, NVIDIA_GPU, RDMA, Amounts

WHOLE = Amounts.of({GPU_CORE: 100, GPU_MEMORY_RATIO: 100, GPU_MEMORY: 80 * GIB})
WIDE = CpuTopology.of(cpus(nodes=2, cores=4))  # two NUMA nodes of eight CPUs: 0-7 and 8-15
POLICIES = ("BestEffort", "Restricted", "SingleNUMANode")


def devices(name: str, gpus: str = "0011", ill: str = "", cards: str = "") -> NodeDevices:
    """The NUMA node of each GPU and network card."""
    found = [
        Device(DeviceType.GPU, i, WHOLE, str(i) not in ill, numa=int(numa), pcie=f"{numa}.{i}", id=f"{name}-{i}")
        for i, numa in enumerate(gpus)
    ]
    found += [Device(DeviceType.RDMA, i, Amounts.of({RDMA: 100}), numa=int(numa)) for i, numa in enumerate(cards)]
    return NodeDevices(name, tuple(found))


def with_gpus(name: str, gpus: int = 1, cpu: int = 2, policy: str = "", rdma: int = 0, **more: object) -> ObservedPod:
    """`policy`: the pod's own NUMA policy."""
    numa = NumaTopologySpec(TopologyPolicy(policy)) if policy else None
    made = pod(name, cpu, numa=numa, **more)  # type: ignore[arg-type]
    asked = dict(made.pod.requests) | {NVIDIA_GPU: gpus} | ({RDMA: rdma} if rdma else {})
    return replace(made, pod=replace(made.pod, requests=Amounts.of(asked)))


def world(*names: str, policy: str = "", **told: str) -> Api:
    """Nodes of 16 CPUs on two NUMA nodes, two GPUs on each."""
    labels = {"numa_topology_policy": policy} if policy else {}
    api = Api(
        *(node(name, 16, **labels) for name in names), told=[tells(name, WIDE, zones=zones(32, 32)) for name in names]
    )
    for name in names:
        api.cluster.plugins.devices.seen(devices(name, **told))
    return api


def gpus_of(api: Api, name: str) -> list[int]:
    return [device.minor for device in api.pods[f"uid-{name}"].holds.devices if device.type is DeviceType.GPU]


def numa_of(api: Api, name: str) -> set[int]:
    """The NUMA nodes of its allocations: CPUs, amounts, GPUs of the standard four."""
    holds = api.pods[f"uid-{name}"].holds
    found = {minor // 2 for minor in gpus_of(api, name)}
    if holds.cpus is not None:
        found |= {cpu // 8 for cpu in holds.cpus.cpus} | {numa_amount.node for numa_amount in holds.cpus.numa}
    return found


def apart(policy: str, *, own: bool = True) -> Api:
    """A first pod leaves CPUs on NUMA node 1 only; GPUs alone would be taken on NUMA node 0."""
    api = world("a", policy=policy)
    api.create(pod("first", 6))
    api.turn()
    assert numa_of(api, "first") == {0}
    api.create(with_gpus("x", cpu=4, qos=QoSClass.LSR if own else QoSClass.LS))
    api.turn()
    return api


# ---- both


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("own", [True, False])
def test_gpus_are_aligned_with_cpus(policy: str, own: bool) -> None:
    api = apart(policy, own=own)
    assert numa_of(api, "x") == {1}
    assert gpus_of(api, "x") == [2]


def test_without_a_policy_each_is_taken_by_itself() -> None:
    api = apart("")
    assert (numa_of(api, "x"), gpus_of(api, "x")) == ({0, 1}, [0])


@pytest.mark.parametrize("policy", POLICIES)
def test_cpus_are_aligned_with_gpus_by_the_pods_own_policy(policy: str) -> None:
    api = world("a", ill="01")
    api.create(with_gpus("x", policy=policy))
    api.turn()
    assert numa_of(api, "x") == {1}
    assert api.has("x") == (8, 9)


@pytest.mark.parametrize("policy", POLICIES)
def test_without_a_common_numa_node_only_best_effort_policy_places(policy: str) -> None:
    api = world("a", policy=policy, ill="23")
    api.create(pod("first", 8))
    api.turn()
    api.create(with_gpus("x"))
    api.turn()
    if policy == "BestEffort":
        assert numa_of(api, "x") == {0, 1}
        return
    assert api.where("x") == ""
    assert f"1 NUMA topology policy {policy} cannot be satisfied" in api.waits["x"]
    assert "cpu fits NUMA 1; gpu fits NUMA 0; memory fits NUMA 0 or 1" in api.missing["x"]
    api.delete("first")
    api.turn()
    assert numa_of(api, "x") == {0}


def test_the_node_with_an_alignment_is_preferred() -> None:
    api = world("a", "b", "c", policy="BestEffort", ill="23")
    api.create(*(pod(f"first-{number}", 8) for number in range(2)))
    api.turn()
    free = ({"a", "b", "c"} - {api.where(f"first-{number}") for number in range(2)}).pop()
    api.create(with_gpus("x"))
    api.turn()
    assert api.where("x") == free


def test_a_request_for_two_numa_nodes_passes_restricted_and_waits_with_single() -> None:
    api = world("a")
    api.create(with_gpus("wide", cpu=12, policy="Restricted"), with_gpus("no", cpu=12, policy="SingleNUMANode"))
    api.turn()
    assert (numa_of(api, "wide"), gpus_of(api, "wide")) == ({0, 1}, [0])
    assert len(api.has("wide")) == 12
    api.delete("wide")
    api.turn()
    assert "cpu fits NUMA 0+1 at best; gpu fits NUMA 0 or 1" in api.missing["no"]


def test_all_device_types_are_aligned() -> None:
    api = world("a", policy="SingleNUMANode", cards="1")
    api.create(with_gpus("x", rdma=50))
    api.turn()
    assert numa_of(api, "x") == {1}
    api.create(with_gpus("y", 2, rdma=50))
    api.turn()
    assert "gpu and rdma fits NUMA 0+1 at best" in api.missing["y"]


# ---- single resources


@pytest.mark.parametrize("policy", POLICIES)
def test_gpus_alone_are_aligned_where_the_node_requires_it(policy: str) -> None:
    api = world("a", policy=policy)
    api.create(with_gpus("first", cpu=0, cpu_m=0, gib=0), with_gpus("pair", 2, cpu=0, gib=0))
    api.turn()
    assert gpus_of(api, "first") == [0]
    assert gpus_of(api, "pair") == [2, 3]
    api.create(with_gpus("three", 3, cpu=0, gib=0))
    api.turn()
    assert api.where("three") == ""
    assert "gpu devices" in api.waits["three"]
    api.delete("first")
    api.delete("pair")
    api.turn()
    assert (api.where("three") == "") == (policy == "SingleNUMANode")


@pytest.mark.parametrize("policy", POLICIES)
def test_cpus_alone_are_aligned_where_possible(policy: str) -> None:
    api = world("a", policy=policy)
    api.create(pod("first", 6), pod("second", 6))
    api.turn()
    assert (numa_of(api, "first"), numa_of(api, "second")) == ({0}, {1})
    api.create(pod("third", 4))
    api.turn()
    assert (api.where("third") == "a") == (policy == "BestEffort")


# ---- which rules judge, and retries


def test_a_node_without_a_topology_accepts_gpu_pods_and_refuses_those_with_a_policy() -> None:
    api = Api(node("a", 16), told=[])
    api.cluster.plugins.devices.seen(devices("a"))
    api.create(with_gpus("x", qos=QoSClass.LS), with_gpus("y", qos=QoSClass.LS, policy="SingleNUMANode"))
    api.turn()
    assert (api.where("x"), api.where("y")) == ("a", "")
    assert "node(s) without a usable CPU topology" in api.waits["y"]


def test_a_node_without_device_objects_counts_cards_and_aligns_the_rest() -> None:
    api = Api(node("a", 16, numa_topology_policy="SingleNUMANode"), told=[tells("a", WIDE)])
    size = dict(api.nodes[0].allocatable) | {NVIDIA_GPU: 4}
    api.nodes[0] = replace(api.nodes[0], allocatable=Amounts.of(size))
    api.cluster.node_seen(api.nodes[0])
    api.create(with_gpus("x"))
    api.turn()
    assert (api.where("x"), numa_of(api, "x")) == ("a", {0})


def test_a_recovered_device_wakes_the_pod() -> None:
    api = world("a", policy="SingleNUMANode", ill="23")
    api.create(pod("first", 8))
    api.turn()
    api.create(with_gpus("x"))
    api.turn()
    assert api.where("x") == ""
    api.cluster.plugins.devices.seen(devices("a"))
    api.turn()
    assert numa_of(api, "x") == {1}


def test_a_new_label_aligns_later_pods() -> None:
    api = world("a")
    api.create(pod("first", 6))
    api.turn()
    api.create(with_gpus("x", cpu=4))
    api.turn()
    assert numa_of(api, "x") == {0, 1}
    api.nodes[0] = node("a", 16, numa_topology_policy="SingleNUMANode")
    api.cluster.node_seen(api.nodes[0])
    api.delete("x")
    api.create(with_gpus("y", cpu=4))
    api.turn()
    assert numa_of(api, "y") == {1}


@pytest.mark.parametrize("policy", ["", "SingleNUMANode"])
def test_one_pod_is_evicted_for_a_device_and_the_preemptor_gets_it(policy: str) -> None:
    api = world("a", policy=policy)
    api.create(*(with_gpus(f"low-{number}", 2, cpu=2, qos=QoSClass.LS, priority=5000) for number in range(2)))
    api.turn()
    api.create(with_gpus("high", 1, cpu=2, qos=QoSClass.LS, priority=9500))
    api.turn()
    assert "gpu devices" in api.waits["high"]
    (victim,) = api.victims
    api.delete(victim)
    api.turn()
    assert api.where("high") == "a"


def test_the_numa_node_that_costs_the_least_important_pod_is_cleared() -> None:
    """Two GPUs of one NUMA node are needed: each of its pods of one GPU must go, the pods of the other NUMA node
    stay.
    """
    api = world("a", policy="SingleNUMANode")
    for place, priority in enumerate((5000, 5200, 5100, 5100)):
        api.create(with_gpus(f"low-{place}", 1, cpu=2, qos=QoSClass.LS, priority=priority))
        api.turn()
    api.create(with_gpus("high", 2, cpu=4, qos=QoSClass.LS, priority=9500))
    api.turn()
    gone = sorted(api.victims)
    assert len({numa for name in gone for numa in numa_of(api, name)}) == 1
    assert "low-1" not in gone
    for name in gone:
        api.delete(name)
    api.turn()
    assert len(numa_of(api, "high")) == 1


def test_no_eviction_where_no_numa_node_would_suffice() -> None:
    api = world("a", policy="SingleNUMANode")
    api.create(*(with_gpus(f"low-{number}", 1, cpu=2, qos=QoSClass.LS, priority=5000) for number in range(4)))
    api.turn()
    api.create(with_gpus("high", 3, cpu=2, qos=QoSClass.LS, priority=9500))
    api.turn()
    assert api.victims == []


def test_what_was_given_is_the_same_after_a_restart_and_all_of_it_comes_back() -> None:
    api = apart("SingleNUMANode")
    held = api.cluster.plugins.devices.describe("a")
    api.restart()
    api.cluster.plugins.devices.seen(devices("a"))
    api.cluster.validate()
    assert api.cluster.plugins.devices.describe("a") == held
    api.delete("x")
    api.delete("first")
    api.create(with_gpus("y", 4, cpu=16, policy=""))
    api.turn()
    assert api.where("y") == ""  # it does not fit one NUMA node
    api.create(with_gpus("z", 2, cpu=8))
    api.turn()
    assert numa_of(api, "z") == {0}


def test_among_numa_nodes_the_strategy_of_devices_still_says_which_node() -> None:
    api = world("a", "b", policy="SingleNUMANode")
    halves = [
        replace(
            observed_pod,
            pod=replace(observed_pod.pod, requests=Amounts.of(dict(observed_pod.pod.requests.items) | {GPU: 50})),
        )
        for observed_pod in (pod(f"half-{place}", 1, qos=QoSClass.LS) for place in range(2))
    ]
    for half in halves:
        api.create(half)
        api.turn()
    assert {api.where("half-0")} == {api.where("half-1")}
    assert gpus_of(api, "half-0") == gpus_of(api, "half-1")


def test_a_host_must_allocate_before_its_providers() -> None:
    with pytest.raises(Permanent, match="NodeNUMAResource must come before"):
        Narrowing(Encoder(64.0), (DeviceRules(), Cpus()))
