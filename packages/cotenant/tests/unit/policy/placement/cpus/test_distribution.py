"""CPUs of several NUMA nodes, as evenly as whole cores allow, on as few nodes as can have them evenly."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.unit.policy.placement.cpus.test_accumulator import machine

from cotenant.model.cpus.spec import BindPolicy, ExclusivePolicy, NumaStrategy
from cotenant.model.cpus.topology import numbers_in
from cotenant.policy.placement.cpus.accumulator import CpuAsk, CpuChoice, take
from cotenant.policy.placement.cpus.distribution import _shares, take_by_strategy
from cotenant.policy.placement.cpus.ledger import CpuHolding, CpuLedger

EVENLY = NumaStrategy.DISTRIBUTE_EVENLY
FOUR = machine(sockets=2, nodes=2)  # four NUMA nodes of four cores with two threads each


def split(ledger: CpuLedger, ask: CpuAsk) -> list[int]:
    """How many CPUs of each NUMA node, the most first."""
    got = take_by_strategy(ledger, ask)
    assert isinstance(got, CpuChoice)
    numbers = numbers_in(got.cpus)
    assert len(numbers) == ask.count
    of = Counter(node.id for node in ledger.topology.numa for cpu in numbers if node.mask >> cpu & 1)
    assert set(got.numa) == set(of)
    return sorted(of.values(), reverse=True)


@pytest.mark.parametrize(
    ("count", "bind", "shares"),
    [
        (4, BindPolicy.FULL_CORES, [4]),  # one node has room for all
        (8, BindPolicy.FULL_CORES, [8]),
        (10, BindPolicy.FULL_CORES, [6, 4]),  # whole cores
        (12, BindPolicy.FULL_CORES, [6, 6]),
        (16, BindPolicy.FULL_CORES, [8, 8]),
        (18, BindPolicy.FULL_CORES, [6, 6, 6]),
        (26, BindPolicy.FULL_CORES, [8, 6, 6, 6]),
        (11, BindPolicy.SPREAD, [6, 5]),  # single threads
    ],
)
def test_nodes_share_what_one_of_them_cannot_have(count: int, bind: BindPolicy, shares: list[int]) -> None:
    assert split(CpuLedger.empty(FOUR), CpuAsk(count, bind, strategy=EVENLY)) == shares


def test_other_strategies_fill_one_node_after_the_other() -> None:
    ask = CpuAsk(10)
    empty = CpuLedger.empty(FOUR)
    assert take_by_strategy(empty, ask) == take(empty, ask)
    assert split(empty, ask) == [8, 2]


def test_nodes_that_are_partly_held_share_what_they_have() -> None:
    ledger = CpuLedger.empty(FOUR)
    for node in FOUR.numa[:2]:
        first = take(ledger, CpuAsk(6, within=node.mask))
        assert isinstance(first, CpuChoice)
        ledger = ledger.given(CpuHolding(f"held {node.id}", first.cpus))
    assert split(ledger, CpuAsk(10, strategy=EVENLY)) == [6, 4]
    within = FOUR.numa[0].mask | FOUR.numa[2].mask
    got = take_by_strategy(ledger, CpuAsk(10, strategy=EVENLY, within=within))
    assert isinstance(got, CpuChoice)  # evenly is not possible there: it has them as they are
    assert not got.cpus & ~within


def test_what_is_refused_stays_refused() -> None:
    empty = CpuLedger.empty(FOUR)
    assert take_by_strategy(empty, CpuAsk(33, strategy=EVENLY)) == take(empty, CpuAsk(33, strategy=EVENLY))


@pytest.mark.parametrize("unit", [1, 2, 4])
def test_shares_are_whole_units_and_the_rest_goes_to_the_last(unit: int) -> None:
    for count in range(1, 40):
        for size in range(1, 6):
            shares = _shares(count, size, unit)
            whole = [*shares[:-1], shares[-1] - count % unit]
            assert sum(shares) == count
            assert len(shares) == size
            assert all(share % unit == 0 for share in whole)
            assert whole == sorted(whole, reverse=True)
            assert whole[0] - whole[-1] in (0, unit)


def held(ledger: CpuLedger, *cpus: int) -> CpuLedger:
    mask = sum(1 << cpu for cpu in cpus)
    return ledger.given(CpuHolding(f"held {len(ledger.holdings)}", mask))


def test_no_part_is_empty() -> None:
    """Each NUMA node has one free CPU: three are of three nodes, and no fourth one takes part with none."""
    few = CpuLedger.empty(machine(sockets=2, nodes=2, cores=1, threads=1))
    got = take_by_strategy(few, CpuAsk(3, strategy=EVENLY))
    assert isinstance(got, CpuChoice)
    assert got.numa == (0, 1, 2)
    # two nodes have one whole core each, and a third CPU is nowhere whole: a share of no core is no share
    cores = CpuLedger.empty(machine(sockets=2, nodes=1, cores=1))
    assert split(cores, CpuAsk(3, strategy=EVENLY)) == [2, 1]


def test_the_emptiest_nodes_share_and_of_equal_ones_the_first() -> None:
    ledger = held(CpuLedger.empty(FOUR), 0, 4, 5)  # NUMA node 0 has seven free CPUs, node 1 six
    got = take_by_strategy(ledger, CpuAsk(10, strategy=EVENLY))
    assert isinstance(got, CpuChoice)
    assert got.numa == (2, 3)
    first = take_by_strategy(CpuLedger.empty(FOUR), CpuAsk(10, strategy=EVENLY))
    assert isinstance(first, CpuChoice)
    assert first.numa == (0, 1)


def test_a_choice_is_alone_and_bound_where_each_of_its_parts_is() -> None:
    empty = CpuLedger.empty(FOUR)
    whole = take_by_strategy(empty, CpuAsk(10, strategy=EVENLY))
    assert isinstance(whole, CpuChoice)
    assert (whole.alone, whole.bound) == (True, True)
    # a NUMA node of four cores: the fifth and sixth CPU of a spread are beside the first ones
    doubled = take_by_strategy(empty, CpuAsk(12, BindPolicy.SPREAD, strategy=EVENLY))
    assert isinstance(doubled, CpuChoice)
    assert not doubled.bound
    avoided = empty
    for node in FOUR.numa:
        first = numbers_in(node.mask)[0]
        avoided = avoided.given(CpuHolding(f"n{node.id}", 1 << first, ExclusivePolicy.CORE))
    ask = CpuAsk(14, BindPolicy.SPREAD, exclusive=ExclusivePolicy.CORE, strategy=EVENLY)
    beside = take_by_strategy(avoided, ask)
    assert isinstance(beside, CpuChoice)
    assert not beside.alone


def test_beyond_eight_numa_nodes_no_even_set_is_looked_for() -> None:
    for sockets, shares in ((8, [2, 2]), (9, [3, 1])):
        ledger = CpuLedger.empty(machine(sockets=sockets, nodes=1, cores=3, threads=1))
        assert split(ledger, CpuAsk(4, strategy=EVENLY)) == shares
