from __future__ import annotations

import pytest

from cotenant.model.cpus.spec import BindPolicy, ExclusivePolicy, NumaStrategy
from cotenant.model.cpus.topology import CpuTopology, mask_of, numbers_in
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.counters import LogicalCpu
from cotenant.policy.placement.cpus.accumulator import CpuAsk, CpuChoice, take
from cotenant.policy.placement.cpus.ledger import CpuHolding, CpuLedger
from cotenant.policy.placement.refusal import Refusal


def machine(sockets: int = 2, nodes: int = 1, cores: int = 4, threads: int = 2) -> CpuTopology:
    """CPUs as Linux numbers them on most machines: the first threads of all cores, then the second ones."""
    every = sockets * nodes * cores
    return CpuTopology.of(
        LogicalCpu(thread * every + core, core, core // (nodes * cores), core // cores)
        for thread in range(threads)
        for core in range(every)
    )


def chosen(ledger: CpuLedger, ask: CpuAsk) -> tuple[int, ...]:
    got = take(ledger, ask)
    assert isinstance(got, CpuChoice), got
    return numbers_in(got.cpus)


def test_both_threads_of_a_core_wherever_they_are_numbered() -> None:
    assert chosen(CpuLedger.empty(machine()), CpuAsk(4)) == (0, 1, 8, 9)


def test_a_spread_takes_one_thread_of_each_core() -> None:
    assert chosen(CpuLedger.empty(machine()), CpuAsk(4, BindPolicy.SPREAD)) == (0, 1, 2, 3)


def test_reserved_cpus_are_never_given() -> None:
    ledger = CpuLedger.empty(machine(), reserved=mask_of((0, 8)))
    assert chosen(ledger, CpuAsk(2)) == (1, 9)
    got = take(ledger, CpuAsk(16))
    assert isinstance(got, Refusal)
    assert got.nearest == "14 free of 16"


def test_a_required_bind_policy_refuses_what_is_no_whole_core() -> None:
    got = take(CpuLedger.empty(machine()), CpuAsk(3, bind_required=True))
    assert isinstance(got, Refusal)
    assert "2 or 4 would be" in got.nearest


def test_a_required_bind_policy_rejects_a_partial_core_and_a_preferred_one_reports_it() -> None:
    ledger = CpuLedger.empty(machine(sockets=1, cores=2)).given(CpuHolding("a", 1 << 0))
    got = take(ledger, CpuAsk(2, BindPolicy.SPREAD, bind_required=True))
    assert isinstance(got, CpuChoice)
    broken = ledger.given(CpuHolding("b", 1 << 1))
    got = take(broken, CpuAsk(2, bind_required=True))
    assert isinstance(got, Refusal)
    assert got.nearest == "0 CPUs on whole free cores of 2; 2 free in all"
    loose = take(broken, CpuAsk(2))
    assert isinstance(loose, CpuChoice)
    assert not loose.bound


def test_a_required_spread_goes_beyond_one_numa_node_rather_than_double_up() -> None:
    ledger = CpuLedger.empty(machine())
    assert chosen(ledger, CpuAsk(5, BindPolicy.SPREAD)) == (0, 1, 2, 3, 8)
    required = CpuAsk(5, BindPolicy.SPREAD, bind_required=True)
    assert chosen(ledger, required) == (0, 1, 2, 3, 4)
    assert chosen(ledger, CpuAsk(5, BindPolicy.SPREAD, bind_required=True, preferred=1 << 9)) == (4, 5, 6, 7, 9)
    refused = take(ledger, CpuAsk(9, BindPolicy.SPREAD, bind_required=True))
    assert isinstance(refused, Refusal)
    assert refused.nearest == "8 cores with a free CPU of 9"


def test_required_exclusivity_refuses_where_the_preferred_one_gives_way() -> None:
    ledger = CpuLedger.empty(machine(sockets=1, cores=2)).given(CpuHolding("a", 1 << 0, ExclusivePolicy.CORE))
    ask = CpuAsk(3, BindPolicy.SPREAD, exclusive=ExclusivePolicy.CORE)
    got = take(ledger, ask)
    assert isinstance(got, CpuChoice)
    assert not got.alone
    refused = take(ledger, CpuAsk(3, BindPolicy.SPREAD, exclusive=ExclusivePolicy.CORE, exclusive_required=True))
    assert isinstance(refused, Refusal)
    assert refused.nearest == "2 free of 3 (1 more beside pods of the policy PCPULevel)"


def test_whole_cores_keep_away_from_an_exclusive_numa_node_also_across_sockets() -> None:
    ledger = CpuLedger.empty(machine(sockets=2, nodes=2, cores=2)).given(CpuHolding("a", 0b1, ExclusivePolicy.NUMA))
    got = take(ledger, CpuAsk(8, exclusive=ExclusivePolicy.NUMA))
    assert isinstance(got, CpuChoice)
    assert got.alone
    assert got.numa == (2, 3)


def test_the_choice_stays_within_the_numa_nodes_it_was_given() -> None:
    topology = machine()
    ledger = CpuLedger.empty(topology)
    got = take(ledger, CpuAsk(2, within=topology.numa_mask((1,))))
    assert isinstance(got, CpuChoice)
    assert got.numa == (1,)
    refused = take(ledger, CpuAsk(10, within=topology.numa_mask((1,))))
    assert isinstance(refused, Refusal)
    assert refused.nearest == "8 free of 10 (16 on the whole node)"


def test_the_emptiest_numa_node_or_the_fullest() -> None:
    ledger = CpuLedger.empty(machine()).given(CpuHolding("a", mask_of((0, 8))))
    assert chosen(ledger, CpuAsk(2)) == (1, 9)
    assert chosen(ledger, CpuAsk(2, strategy=NumaStrategy.LEAST_ALLOCATED)) == (4, 12)


def test_a_cpu_is_shared_only_up_to_its_limit() -> None:
    ledger = CpuLedger.empty(machine(sockets=1, cores=1), max_users=2)
    for uid in ("a", "b"):
        ledger = ledger.given(CpuHolding(uid, 0b11))
    assert ledger.free == 0
    with pytest.raises(InvalidInput, match="c holds CPUs of others"):
        ledger.given(CpuHolding("c", 0b1))
    assert ledger.returned("a").returned("b") == CpuLedger.empty(ledger.topology, 2)
    assert ledger.returned("nobody") is ledger


def test_no_number_of_cpus_below_one() -> None:
    assert isinstance(take(CpuLedger.empty(machine()), CpuAsk(0)), Refusal)


def test_a_topology_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(InvalidInput, match="each CPU once"):
        CpuTopology.of([LogicalCpu(0, 0, 0, 0), LogicalCpu(0, 1, 0, 0)])
    with pytest.raises(InvalidInput, match="threads of one core"):
        CpuTopology.of([LogicalCpu(0, 0, 0, 0), LogicalCpu(1, 0, 0, 1)])
    with pytest.raises(InvalidInput, match="each NUMA node in one socket"):
        CpuTopology.of([LogicalCpu(0, 0, 0, 0), LogicalCpu(1, 1, 1, 0)])


def test_a_spread_over_the_numa_nodes_of_a_socket_counts_cores_and_not_cpus() -> None:
    """No NUMA node has five free CPUs. Socket 0 has seven cores with one free CPU each; socket 1 has six, two of them
    with both CPUs, so that it is the fuller one although more of its CPUs are free.
    """
    wide = machine(sockets=2, nodes=2, cores=4)  # first threads 0-15, second threads 16-31
    taken = (*range(16, 24), 7, 25, 26, 11, 27, 29, 30, 15, 31)
    ledger = CpuLedger.empty(wide).given(CpuHolding("a", mask_of(taken)))
    assert chosen(ledger, CpuAsk(5, BindPolicy.SPREAD)) == (8, 9, 10, 12, 13)


def test_where_cores_differ_a_required_number_that_cuts_one_is_refused_and_nothing_is_said_to_be_missing() -> None:
    """CPU 5 is offline: cores of two, one and two threads."""
    uneven = CpuTopology.of(LogicalCpu(cpu, cpu % 3, 0, 0) for cpu in (0, 1, 2, 3, 5))
    assert [core.mask.bit_count() for core in uneven.cores] == [2, 1, 2]
    refused = take(CpuLedger.empty(uneven), CpuAsk(2, bind_required=True, within=mask_of((1, 2, 5))))
    assert isinstance(refused, Refusal)
    assert refused == Refusal(
        "requested CPUs are not whole cores", "2 of the 3 CPUs on whole free cores, whose numbers of threads differ"
    )
    assert chosen(CpuLedger.empty(uneven), CpuAsk(2, bind_required=True)) == (0, 3)
