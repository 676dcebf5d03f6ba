"""The choice of CPUs, the order of equally good ones included, as a plain search over sets of numbers makes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pytest

from cotenant.model.cpus.spec import BindPolicy, ExclusivePolicy, NumaStrategy
from cotenant.model.cpus.topology import CpuGroup, CpuTopology, mask_of, numbers_in
from cotenant.model.machine.counters import LogicalCpu
from cotenant.policy.placement.cpus.accumulator import CpuAsk, CpuChoice, shortage, spread_order, take
from cotenant.policy.placement.cpus.ledger import CpuHolding, CpuLedger

Cpus = frozenset[int]


def cpus_in(mask: int) -> Cpus:
    return frozenset(numbers_in(mask))


class Plain:
    """One choice. `of`: the CPUs of each core, NUMA node and socket."""

    def __init__(self, ledger: CpuLedger, ask: CpuAsk) -> None:
        self.ledger, self.ask, self.topology = ledger, ask, ledger.topology
        self.cores = [sorted(cpus_in(core.mask)) for core in self.topology.cores]
        self.avoided = cpus_in(ledger.exclusive(ask.exclusive))
        self.fullest = 1 if ask.strategy is NumaStrategy.MOST_ALLOCATED else -1
        self.need, self.taken = ask.count, frozenset[int]()

    def take(self) -> Cpus | None:
        ask, threads = self.ask, self.topology.threads_per_core
        usable = cpus_in(self.ledger.free)
        if ask.within is not None:
            usable &= cpus_in(ask.within)
        if ask.exclusive_required:
            usable -= self.avoided
        whole_cores = ask.bind is BindPolicy.FULL_CORES
        if ask.count < 1 or len(usable) < ask.count or (ask.bind_required and whole_cores and ask.count % threads):
            return None
        first = usable & cpus_in(ask.preferred)
        if ask.bind_required and whole_cores:
            first, usable = self.whole(first), self.whole(usable)
        elif ask.bind_required:
            first, usable = self.nth(first, 0), self.nth(usable, 0)
            beside = {cpu for core in self.cores if first & set(core) for cpu in core}
            usable = first | (usable - beside)
        if len(usable) < ask.count:
            return None
        for part, most in ((first, len(first)), (usable - first, ask.count)):
            self.need = min(most, ask.count - len(self.taken))
            if self.need:
                self.collect(part)
        is_cut = whole_cores and self.whole(self.taken) != self.taken  # cores with different numbers of threads
        return None if ask.bind_required and is_cut else self.taken

    def collect(self, usable: Cpus) -> None:
        spread = self.ask.bind is BindPolicy.SPREAD
        if not spread or self.topology.threads_per_core == 1:
            self.take_whole_cores(usable)
        if self.need and spread:
            self.take_spread(usable, self.topology.numa) or self.take_spread(usable, self.topology.sockets)
        for allowed in (usable - self.avoided, usable):
            for cpu in self.anywhere(allowed - self.taken):
                if self.need:
                    self.keep({cpu})

    def take_whole_cores(self, usable: Cpus) -> None:
        every = self.whole(usable)
        tries = (every - self.avoided, every)
        for groups in (self.topology.numa, self.topology.sockets):
            for allowed in tries:
                for group in self.ordered(groups, allowed, allowed):
                    if len(cpus_in(group.mask) & allowed) >= self.need:
                        self.keep(self.first_cores(group, allowed, self.need))
                        return
        allowed = tries[0] if len(tries[0]) >= self.need else every
        rooms = {group.id: cpus_in(group.mask) & allowed for group in self.topology.sockets}
        larger_first = sorted(
            self.ordered(self.topology.sockets, allowed, allowed), key=lambda one: -len(rooms[one.id])
        )
        left = []
        for group in larger_first:
            if len(rooms[group.id]) <= self.need:
                self.keep(rooms[group.id])
            else:
                left.append(group)
        for group in sorted(left, key=lambda one: len(rooms[one.id])):
            whole = self.need - self.need % self.topology.threads_per_core
            self.keep(self.first_cores(group, allowed, whole))

    def take_spread(self, usable: Cpus, groups: Sequence[CpuGroup]) -> bool:
        threads = range(self.topology.threads_per_core)
        for allowed, is_distinct in ((usable - self.avoided, True), (usable, False)):
            by_cores = is_distinct and groups is self.topology.sockets
            counted = self.nth(allowed, 0) if by_cores else allowed
            for group in self.ordered(groups, counted, allowed):
                room = (self.nth(allowed, 0) if is_distinct else allowed) & cpus_in(group.mask)
                if len(room) >= self.need:
                    for nth in threads:
                        mine = self.nth(allowed, nth) & cpus_in(group.mask)
                        self.keep(sorted(mine, key=self.rank)[: self.need])
                    return True
        return False

    def anywhere(self, usable: Cpus) -> Iterator[int]:
        def free(mask: int) -> int:
            return len(cpus_in(mask) & usable)

        keyed = []
        for place, core in enumerate(self.topology.cores):
            mine = [cpu for cpu in self.cores[place] if cpu in usable]
            if mine:
                socket = self.topology.sockets[core.socket].mask
                key = (
                    -len(cpus_in(socket) & self.taken),
                    self.fullest * free(socket),
                    self.fullest * free(self.topology.numa[core.numa].mask),
                    len(mine),
                    core.socket,
                    sum(map(self.ledger.users, mine)),
                    place,
                )
                keyed.append((key, sorted(mine, key=self.rank)))
        cores = [mine for _, mine in sorted(keyed)]
        return iter([mine[nth] for nth in range(self.topology.threads_per_core) for mine in cores if nth < len(mine)])

    def ordered(self, groups: Sequence[CpuGroup], counted: Cpus, in_socket: Cpus) -> list[CpuGroup]:
        def key(group: CpuGroup) -> tuple[int, int, int]:
            socket = cpus_in(self.topology.sockets[group.socket].mask)
            return (
                self.fullest * len(cpus_in(group.mask) & counted),
                self.fullest * len(socket & in_socket),
                group.id,
            )

        return sorted((group for group in groups if cpus_in(group.mask) & counted), key=key)

    def first_cores(self, group: CpuGroup, allowed: Cpus, count: int) -> Cpus:
        cores = [self.cores[place] for place in group.cores if allowed & set(self.cores[place])]
        cores.sort(key=lambda core: sum(map(self.ledger.users, core)))
        if sum(map(len, cores)) == count:
            return frozenset(cpu for core in cores for cpu in core)
        return frozenset([cpu for core in cores for cpu in core][:count])

    def whole(self, usable: Cpus) -> Cpus:
        return frozenset(cpu for core in self.cores if usable >= set(core) for cpu in core)

    def nth(self, usable: Cpus, nth: int) -> Cpus:
        """Of each core the first, second, ... usable CPU, the least used ones first."""
        parts = [sorted(usable & set(core), key=self.rank) for core in self.cores]
        return frozenset(part[nth] for part in parts if nth < len(part))

    def rank(self, cpu: int) -> tuple[int, int]:
        return self.ledger.users(cpu), cpu

    def keep(self, cpus: Iterable[int]) -> None:
        found = frozenset(cpus)
        self.taken |= found
        self.need -= len(found)


def drawn(rng: np.random.Generator, is_even: bool) -> tuple[CpuLedger, CpuAsk]:
    sockets, nodes, cores, threads = (int(rng.integers(1, most)) for most in (4, 4, 5, 4))
    every = sockets * nodes * cores
    cpus = [
        LogicalCpu(core + thread * every, core, core // (nodes * cores), core // cores)
        for thread in range(threads)
        for core in range(every)
        if is_even or thread == 0 or rng.random() < 0.8
    ]
    topology = CpuTopology.of(cpus)
    numbers = [cpu.cpu for cpu in cpus]
    ledger = CpuLedger.empty(topology, int(rng.integers(1, 4)), some(rng, numbers, 0.05))
    for holder in range(int(rng.integers(0, 5))):
        held = some(rng, numbers, 0.25) & ledger.free
        ledger = ledger.given(CpuHolding(f"h{holder}", held, list(ExclusivePolicy)[rng.integers(3)]))
    ask = CpuAsk(
        int(rng.integers(1, len(numbers) + 1)),
        (BindPolicy.FULL_CORES, BindPolicy.SPREAD)[rng.integers(2)],
        bool(rng.random() < 0.3),
        list(ExclusivePolicy)[rng.integers(3)],
        bool(rng.random() < 0.2),
        list(NumaStrategy)[rng.integers(2)],
        some(rng, numbers, 0.3) if rng.random() < 0.3 else 0,
        some(rng, numbers, 0.8) if rng.random() < 0.3 else None,
    )
    return ledger, ask


def some(rng: np.random.Generator, numbers: list[int], share: float) -> int:
    return mask_of(number for number in numbers if rng.random() < share)


@pytest.mark.parametrize("seed", range(8))
def test_the_choice_is_that_of_a_plain_search(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(40):
        ledger, ask = drawn(rng, is_even=seed % 2 == 0)
        found, expected = take(ledger, ask), Plain(ledger, ask).take()
        assert (cpus_in(found.cpus) if isinstance(found, CpuChoice) else None) == expected, (ledger, ask)


@pytest.mark.parametrize("seed", range(4))
def test_counting_alone_refuses_what_a_choice_refuses(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    for _ in range(60):
        ledger, ask = drawn(rng, is_even=True)
        found = take(ledger, ask)
        assert shortage(ledger, ask) == (None if isinstance(found, CpuChoice) else found), (ledger, ask)


def test_the_order_of_a_spread_over_the_node() -> None:
    rng = np.random.default_rng(7)
    for _ in range(40):
        ledger, ask = drawn(rng, is_even=True)
        plain = Plain(ledger, CpuAsk(0, BindPolicy.SPREAD, strategy=ask.strategy))
        assert spread_order(ledger, ask.strategy) == tuple(plain.anywhere(cpus_in(ledger.free)))
