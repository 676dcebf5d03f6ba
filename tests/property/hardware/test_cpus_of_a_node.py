"""For any request for a node's CPUs: exactly the requested number or none, no CPU shared beyond the limit, and
exclusion kept where it is required.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.few import examples, first_cases

from cotenant.model.cpus.spec import BindPolicy, ExclusivePolicy, NumaStrategy
from cotenant.model.cpus.topology import CpuTopology, numbers_in
from cotenant.model.machine.counters import LogicalCpu
from cotenant.policy.placement.cpus.accumulator import CpuAsk, CpuChoice, take
from cotenant.policy.placement.cpus.ledger import CpuHolding, CpuLedger


@st.composite
def topologies(draw: st.DrawFn) -> CpuTopology:
    sockets, nodes = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    cores, threads = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    every = sockets * nodes * cores
    adjacent = draw(st.booleans())
    return CpuTopology.of(
        LogicalCpu(
            core * threads + thread if adjacent else thread * every + core, core, core // (nodes * cores), core // cores
        )
        for core in range(every)
        for thread in range(threads)
    )


@st.composite
def asks(draw: st.DrawFn, topology: CpuTopology) -> CpuAsk:
    every = topology.mask.bit_count()
    return CpuAsk(
        draw(st.integers(1, every)),
        draw(st.sampled_from([BindPolicy.FULL_CORES, BindPolicy.SPREAD])),
        draw(st.booleans()),
        draw(st.sampled_from(ExclusivePolicy)),
        draw(st.booleans()),
        draw(st.sampled_from(NumaStrategy)),
        draw(st.integers(0, topology.mask)),
        draw(st.none() | st.integers(0, topology.mask)),
    )


@pytest.mark.slow
@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_a_node_gives_exactly_the_requested_cpus_or_none(data: st.DataObject) -> None:
    topology = data.draw(topologies())
    ledger = empty = CpuLedger.empty(topology, data.draw(st.integers(1, 3)), data.draw(st.integers(0, topology.mask)))
    for number in range(data.draw(st.integers(1, 6))):
        ask = data.draw(asks(topology))
        got = take(ledger, ask)
        assert got == take(ledger, ask)
        if not isinstance(got, CpuChoice):
            assert got.nearest
            usable = ledger.free if ask.within is None else ledger.free & ask.within
            if ask.exclusive_required:
                usable &= ~ledger.exclusive(ask.exclusive)
            parts = [(core.mask & usable).bit_count() for core in topology.cores]
            if ask.bind_required and ask.bind is BindPolicy.SPREAD:
                assert sum(map(bool, parts)) < ask.count
            elif ask.bind_required:
                whole = sum(part for part in parts if part == topology.threads_per_core)
                assert whole < ask.count or ask.count % topology.threads_per_core
            else:
                assert usable.bit_count() < ask.count
            continue
        assert got.cpus.bit_count() == ask.count
        assert not got.cpus & ~ledger.free
        assert ask.within is None or not got.cpus & ~ask.within
        beside = 0
        for group in topology.cores if ask.exclusive is ExclusivePolicy.CORE else topology.numa:
            held = any(
                cpu_holding.exclusive is ask.exclusive and cpu_holding.cpus & group.mask
                for cpu_holding in ledger.holdings
            )
            beside |= bool(held and ask.exclusive is not ExclusivePolicy.NONE and group.mask & got.cpus)
        assert got.alone == (not beside)
        assert got.alone or not ask.exclusive_required
        assert got.bound or not ask.bind_required
        assert set(got.numa) == {node.id for node in topology.numa if node.mask & got.cpus}
        preferred = ledger.free & ask.preferred & (topology.mask if ask.within is None else ask.within)
        if not ask.exclusive_required and not ask.bind_required:
            assert (got.cpus & preferred).bit_count() == min(ask.count, preferred.bit_count())
        ledger = ledger.given(CpuHolding(f"p{number}", got.cpus, ask.exclusive))
        ledger.validate()
        assert all(ledger.users(cpu) <= ledger.max_users for cpu in numbers_in(topology.mask))
    assert not (topology.mask & ~ledger.free & ~ledger.reserved) or ledger.holdings
    for holding in data.draw(st.permutations(ledger.holdings)):
        ledger = ledger.returned(holding.uid)
        ledger.validate()
    assert ledger == empty


test_first_cases = first_cases(
    test_a_node_gives_exactly_the_requested_cpus_or_none,
)
