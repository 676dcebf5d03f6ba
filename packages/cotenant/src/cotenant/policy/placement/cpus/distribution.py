"""Even distribution of a pod's CPUs over several NUMA nodes (DistributeEvenly).

A pod that needs more than one NUMA node runs as slowly as its smallest part. Where no NUMA node suffices alone, the
smallest set that can provide equal shares is used, the emptiest first; shares differ by one core (or one CPU, for a
spread) at most. Where there is no such set, the CPUs are taken as without the strategy.
Limits: every set of NUMA nodes is tried, at most 2^8.

Source: the kubelet's option distribute-cpus-across-numa.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from cotenant.model.cpus.spec import BindPolicy, NumaStrategy
from cotenant.model.cpus.topology import CpuGroup
from cotenant.policy.placement.cpus.accumulator import CpuAsk, CpuChoice, take
from cotenant.policy.placement.cpus.ledger import CpuHolding, CpuLedger
from cotenant.policy.placement.refusal import Refusal

_MAX_NUMA_NODES = 8


def take_by_strategy(ledger: CpuLedger, ask: CpuAsk) -> CpuChoice | Refusal:
    """`take`, with support for DistributeEvenly."""
    choice = take(ledger, ask)
    if ask.strategy is not NumaStrategy.DISTRIBUTE_EVENLY or not isinstance(choice, CpuChoice) or len(choice.numa) < 2:
        return choice
    return _shared_out(ledger, ask) or choice


def _shared_out(ledger: CpuLedger, ask: CpuAsk) -> CpuChoice | None:
    nodes = sorted(ledger.topology.numa, key=lambda node: (-(node.mask & ledger.free).bit_count(), node.id))
    if len(nodes) > _MAX_NUMA_NODES:
        return None
    unit = 1 if ask.bind is BindPolicy.SPREAD else ledger.topology.threads_per_core
    for size in range(2, len(nodes) + 1):
        shares = _shares(ask.count, size, unit)
        for chosen in combinations(nodes, size):
            found = _each(ledger, ask, chosen, shares)
            if found is not None:
                return found
    return None


def _shares(count: int, size: int, unit: int) -> list[int]:
    """Whole units as evenly as possible, the larger shares first; the remainder below a unit goes to the last."""
    units, rest = divmod(count, unit)
    shares = [(units // size + (place < units % size)) * unit for place in range(size)]
    shares[-1] += rest
    return shares


def _each(ledger: CpuLedger, ask: CpuAsk, nodes: tuple[CpuGroup, ...], shares: list[int]) -> CpuChoice | None:
    cpus, alone, bound = 0, True, True
    for node, share in zip(nodes, shares, strict=True):
        if not share:
            return None  # fewer NUMA nodes would suffice
        within = node.mask if ask.within is None else node.mask & ask.within
        part = take(ledger, replace(ask, count=share, within=within))
        if not isinstance(part, CpuChoice):
            return None
        ledger = ledger.given(CpuHolding(f"part {node.id}", part.cpus))
        cpus, alone, bound = cpus | part.cpus, alone and part.alone, bound and part.bound
    return CpuChoice(cpus, ledger.topology.numa_of(cpus), alone, bound)
