from __future__ import annotations

import pytest

from cotenant.model.cpus.amplification import amplified
from cotenant.model.cpus.spec import BindPolicy, ExclusivePolicy, NodeBindPolicy, ResourceSpec, TopologyPolicy
from cotenant.model.cpus.topology import CpuTopology
from cotenant.model.machine.counters import LogicalCpu
from cotenant.policy.placement.cpus.accumulator import CpuAsk
from cotenant.policy.placement.cpus.amplification import amplified_fit
from cotenant.policy.placement.cpus.demands import cpu_ask, kubelet_policy, topology_policy
from cotenant.policy.placement.cpus.ledger import CpuHolding, CpuLedger
from cotenant.policy.placement.cpus.numa_amounts import cpu_rooms
from cotenant.policy.placement.numa import NumaRoom
from cotenant.policy.placement.refusal import Refusal


def test_bound_cpu_counts_times_the_ratio_on_both_sides() -> None:
    assert amplified(1001, 1_500_000) == 1502
    assert amplified(1000, 900_000) == 1000
    assert amplified_fit(4000, False, 15_000, 10_000, 0, 1_500_000) is None
    refused = amplified_fit(4000, True, 15_000, 10_000, 2000, 1_500_000)
    assert refused is not None
    assert refused.nearest == "2000m short: 6000m asked, 4000m of 15000m left"


def test_the_cpus_of_each_numa_node() -> None:
    topology = CpuTopology.of(LogicalCpu(cpu, cpu // 2, 0, cpu // 4) for cpu in range(8))
    ledger = CpuLedger.empty(topology, reserved=0b1).given(CpuHolding("a", 0b110))
    assert cpu_rooms(ledger) == (NumaRoom(0, 3, 1), NumaRoom(1, 4, 4))


@pytest.mark.parametrize(
    ("spec", "node", "bind", "required"),
    [
        (ResourceSpec(), NodeBindPolicy.NONE, BindPolicy.FULL_CORES, False),
        (ResourceSpec(preferred=BindPolicy.SPREAD), NodeBindPolicy.NONE, BindPolicy.SPREAD, False),
        (ResourceSpec(BindPolicy.SPREAD), NodeBindPolicy.NONE, BindPolicy.SPREAD, True),
        (ResourceSpec(preferred=BindPolicy.SPREAD), NodeBindPolicy.FULL_CORES_ONLY, BindPolicy.FULL_CORES, True),
        (ResourceSpec(BindPolicy.SPREAD), NodeBindPolicy.SPREAD, BindPolicy.SPREAD, True),
    ],
)
def test_what_pod_and_node_demand_together(
    spec: ResourceSpec, node: NodeBindPolicy, bind: BindPolicy, required: bool
) -> None:
    got = cpu_ask(4000, spec, node)
    assert isinstance(got, CpuAsk)
    assert (got.count, got.bind, got.bind_required) == (4, bind, required)


def test_conflicts_of_pod_and_node_are_reported() -> None:
    got = cpu_ask(2000, ResourceSpec(BindPolicy.SPREAD), NodeBindPolicy.FULL_CORES_ONLY)
    assert isinstance(got, Refusal)
    assert got.nearest == "node FullPCPUsOnly, pod SpreadByPCPUs"
    odd = cpu_ask(1500, ResourceSpec(exclusive=ExclusivePolicy.CORE))
    assert isinstance(odd, Refusal)
    assert odd.nearest == "1500m requested; 2000m would be"
    clash = topology_policy(TopologyPolicy.RESTRICTED, TopologyPolicy.BEST_EFFORT)
    assert isinstance(clash, Refusal)
    assert topology_policy(TopologyPolicy.NONE, TopologyPolicy.BEST_EFFORT) is TopologyPolicy.BEST_EFFORT
    assert topology_policy(TopologyPolicy.RESTRICTED, TopologyPolicy.NONE) is TopologyPolicy.RESTRICTED
    assert kubelet_policy("single-numa-node") is TopologyPolicy.SINGLE_NUMA_NODE
    assert kubelet_policy("other") is None
