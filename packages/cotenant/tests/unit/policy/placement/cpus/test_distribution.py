"""CPUs of several NUMA nodes, as evenly as whole cores allow, on as few nodes as can have them evenly."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.unit.policy.placement.cpus.test_accumulator import machine

from cotenant.model.cpus.spec import BindPolicy, NumaStrategy
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
