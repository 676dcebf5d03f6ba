"""Choose a pod's CPUs on one node, given their number.

A latency-critical pod's CPUs should be close together, on whole cores or spread over cores as it requests, away from
the pods it avoids, and the remainder should stay useful for the next pod. Choice, the first of these that suffices:

- whole cores: one NUMA node; one socket; else the largest sockets whole and the rest from the smallest; a number that
  is not a multiple of a core, or for which no whole core is left, as for spread.
- spread: one NUMA node with a core for each CPU; one NUMA node; one socket likewise; else anywhere, near CPUs already
  taken.

Among several NUMA nodes or sockets the fullest that suffices, or the emptiest (`NumaStrategy`). Each step first tries
CPUs away from the avoided pods. CPUs with fewer users go first. CPUs of a matched reservation (`preferred`) go before
all others.

Limits: avoidance is a preference unless `exclusive_required`; pods of other policies are not avoided. Allocated CPUs
are never moved.

Source: Koordinator, NodeNUMAResource (cpu_accumulator). Upstream takes whole cores of a socket without regard to
avoided pods; here not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from cotenant.model.cpus.spec import BindPolicy, ExclusivePolicy, NumaStrategy
from cotenant.model.cpus.topology import Core, CpuGroup, CpuTopology, lowest
from cotenant.policy.placement.cpus.ledger import CpuLedger
from cotenant.policy.placement.refusal import Refusal


@dataclass(frozen=True, slots=True)
class CpuAsk:
    """A request for a number of CPUs. Masks: `preferred` are taken first; `within` bounds the choice, None is the
    whole node.
    """

    count: int
    bind: BindPolicy = BindPolicy.FULL_CORES
    bind_required: bool = False
    exclusive: ExclusivePolicy = ExclusivePolicy.NONE
    exclusive_required: bool = False
    strategy: NumaStrategy = NumaStrategy.MOST_ALLOCATED
    preferred: int = 0
    within: int | None = None


@dataclass(frozen=True, slots=True)
class CpuChoice:
    """The chosen CPUs, as a mask, and which preferences they satisfy."""

    cpus: int
    numa: tuple[int, ...]  # ids of their NUMA nodes
    alone: bool  # no avoided pod is on the same core or NUMA node
    bound: bool  # whole cores, or one CPU per core, as requested


def take(ledger: CpuLedger, ask: CpuAsk) -> CpuChoice | Refusal:
    """Exactly `ask.count` CPUs, or the reason why not."""
    topology = ledger.topology
    avoided = ledger.exclusive(ask.exclusive)
    usable = ledger.free if ask.within is None else ledger.free & ask.within
    if ask.exclusive_required:
        usable &= ~avoided
    refusal = _impossible(ledger, ask, usable)
    if refusal is not None:
        return refusal
    work = _Work(topology, ledger.at_least, ask, avoided)
    first, bindable = usable & ask.preferred, usable
    if ask.bind_required:
        first, bindable = work.bindable(first), work.bindable(usable)
        if ask.bind is BindPolicy.SPREAD:  # on cores with a preferred CPU it is that one
            bindable = first | (bindable & ~_beside(topology, first))
        if bindable.bit_count() < ask.count:
            return _unbound(topology, ask, usable)
        usable = bindable
    if first:
        work.need = min(ask.count, first.bit_count())
        work.collect(first)
        work.need = ask.count - work.taken.bit_count()
        usable &= ~first
    if work.need:
        work.collect(usable)
    bound = _bound(topology, ask.bind, work.taken)
    if ask.bind_required and not bound:
        return Refusal(
            "requested CPUs are not whole cores",
            f"{ask.count} of the {bindable.bit_count()} CPUs on whole free cores, whose numbers of threads differ",
        )
    return CpuChoice(work.taken, topology.numa_of(work.taken), not work.taken & avoided, bound)


def shortage(ledger: CpuLedger, ask: CpuAsk) -> Refusal | None:
    """Why `take` would fail, by counting alone; None where it would succeed. For topologies with even cores
    (`CpuTopology.is_even`).
    """
    usable = ledger.free if ask.within is None else ledger.free & ask.within
    if ask.exclusive_required:
        usable &= ~ledger.exclusive(ask.exclusive)
    refusal = _impossible(ledger, ask, usable)
    if refusal is not None or not ask.bind_required:
        return refusal
    topology = ledger.topology
    if ask.bind is BindPolicy.SPREAD:
        lying = (
            sum(1 for core in topology.cores if core.mask & usable) if usable != topology.mask else len(topology.cores)
        )
    else:
        lying = _whole(topology, usable).bit_count()
    return None if lying >= ask.count else _unbound(topology, ask, usable)


def spread_order(ledger: CpuLedger, strategy: NumaStrategy) -> tuple[int, ...]:
    """Every free CPU in the order in which a spread over the whole node takes them."""
    work = _Work(ledger.topology, ledger.at_least, CpuAsk(0, BindPolicy.SPREAD, strategy=strategy), 0)
    return tuple(bit.bit_length() - 1 for bit in work.anywhere(ledger.free))


class _Work:
    """State of one allocation: what is still needed and what was taken, as masks."""

    __slots__ = ("avoided", "need", "shared", "sign", "taken", "topology", "whole_first")

    def __init__(self, topology: CpuTopology, at_least: Sequence[int], ask: CpuAsk, avoided: int) -> None:
        self.topology = topology
        # CPUs with 1, 2, ... or more users that may be allocated once more
        self.shared = tuple(mask for mask in at_least[:-1] if mask)
        self.avoided = avoided
        self.sign = 1 if ask.strategy is NumaStrategy.MOST_ALLOCATED else -1
        self.whole_first = ask.bind is not BindPolicy.SPREAD
        self.need = ask.count
        self.taken = 0

    def bindable(self, usable: int) -> int:
        """CPUs of which any subset satisfies the bind policy: for spread one per core, else whole cores."""
        return _whole(self.topology, usable) if self.whole_first else self._by_thread(usable)[0]

    def collect(self, usable: int) -> None:
        """Take `need` CPUs of `usable`, which has at least that many."""
        if self.whole_first or self.topology.threads_per_core == 1:
            self._whole_cores(usable)
        if self.need and not self.whole_first:
            self._spread_within(usable, self.topology.numa) or self._spread_within(usable, self.topology.sockets)
        for allowed in self._tries(usable):
            if not self.need:
                return
            for bit in self.anywhere(allowed & ~self.taken):
                self._keep(bit)
                if not self.need:
                    return

    def anywhere(self, usable: int) -> Iterator[int]:
        """Single CPUs, round-robin over cores; first cores near CPUs already taken, then of the fullest or emptiest
        socket and NUMA node.
        """
        topology = self.topology
        sign = self.sign
        in_socket = [
            (-(group.mask & self.taken).bit_count(), sign * (group.mask & usable).bit_count())
            for group in topology.sockets
        ]
        in_numa = [sign * (group.mask & usable).bit_count() for group in topology.numa]
        keyed = []
        for place, core in enumerate(topology.cores):
            free = core.mask & usable
            if free:
                key = (
                    in_socket[core.socket],
                    in_numa[core.numa],
                    free.bit_count(),
                    core.socket,
                    self._users(free),
                    place,
                )
                keyed.append((key, free))
        keyed.sort()
        waiting = [list(self._by_users(free)) for _, free in keyed]
        for nth in range(topology.threads_per_core):
            for bits in waiting:
                if nth < len(bits):
                    yield bits[nth]

    def _whole_cores(self, usable: int) -> None:
        whole = _whole(self.topology, usable)
        for groups in (self.topology.numa, self.topology.sockets):
            for allowed in self._tries(whole):
                for group in self._ordered(groups, allowed, allowed):
                    if (group.mask & allowed).bit_count() >= self.need:
                        self._keep(self._first_cores(group, allowed, self.need))
                        return
        allowed = next((mask for mask in self._tries(whole) if mask.bit_count() >= self.need), whole)
        smaller = []
        for group in sorted(
            self._ordered(self.topology.sockets, allowed, allowed),
            key=lambda cpu_group: -(cpu_group.mask & allowed).bit_count(),
        ):
            cpus = group.mask & allowed
            if cpus.bit_count() <= self.need:
                self._keep(cpus)
            else:
                smaller.append(group)
        for group in sorted(smaller, key=lambda cpu_group: (cpu_group.mask & allowed).bit_count()):
            if self.need >= self.topology.threads_per_core:
                count = self.need - self.need % self.topology.threads_per_core
                self._keep(self._first_cores(group, allowed, count))

    def _spread_within(self, usable: int, groups: Sequence[CpuGroup]) -> bool:
        """Take all needed CPUs from one of these groups: first with a core for each CPU and away from avoided pods,
        then without these conditions.
        """
        if all((group.mask & usable).bit_count() < self.need for group in groups):
            return False
        for allowed, distinct in ((usable & ~self.avoided, True), (usable, False)):
            by_thread = self._by_thread(allowed)
            counted = by_thread[0] if distinct and groups is self.topology.sockets else allowed
            for group in self._ordered(groups, counted, allowed):
                if (group.mask & (by_thread[0] if distinct else allowed)).bit_count() >= self.need:
                    for mask in by_thread:
                        for equal in self._equally_used(mask & group.mask):
                            self._keep(lowest(equal, self.need))
                            if not self.need:
                                return True
        return False

    def _by_thread(self, usable: int) -> list[int]:
        """One mask per thread index: the first free CPU of every core, the second, ..."""
        masks = [0] * self.topology.threads_per_core
        cores = self.topology.cores
        for node in self.topology.numa:
            free = node.mask & usable
            if free == node.mask and not self.shared:
                for nth, cpus in enumerate(node.threads):
                    masks[nth] |= cpus
            elif free:
                for place in node.cores:
                    for nth, bit in enumerate(self._by_users(cores[place].mask & free)):
                        masks[nth] |= bit
        return masks

    def _ordered(self, groups: Sequence[CpuGroup], counted: int, in_socket: int) -> list[CpuGroup]:
        """Groups with any of `counted`, the fullest or the emptiest first; ties by how full their socket is, then
        by id.
        """
        sign = self.sign
        sockets = self.topology.sockets
        return sorted(
            (group for group in groups if group.mask & counted),
            key=lambda group: (
                sign * (group.mask & counted).bit_count(),
                sign * (sockets[group.socket].mask & in_socket).bit_count(),
                group.id,
            ),
        )

    def _first_cores(self, group: CpuGroup, allowed: int, count: int) -> int:
        """`count` CPUs of the group's whole cores, the least used cores first."""
        if (group.mask & allowed).bit_count() == count:
            return group.mask & allowed
        cores: Iterable[Core] = (self.topology.cores[place] for place in group.cores)
        if self.shared:
            cores = sorted(cores, key=lambda core: self._users(core.mask & allowed))
        found = 0
        for core in cores:
            if core.mask & allowed:
                missing = count - found.bit_count()
                if missing <= 0:
                    break
                found |= lowest(core.mask, missing)
        return found

    def _tries(self, usable: int) -> tuple[int, ...]:
        apart = usable & ~self.avoided
        return (usable,) if apart == usable else (apart, usable)

    def _users(self, cpus: int) -> int:
        return sum((mask & cpus).bit_count() for mask in self.shared)

    def _equally_used(self, cpus: int) -> Iterator[int]:
        """Parts of a mask with equal numbers of users, the least used first."""
        if not self.shared:
            yield cpus
            return
        for mask in self.shared:
            yield cpus & ~mask
            cpus &= mask
        yield cpus

    def _by_users(self, cpus: int) -> Iterator[int]:
        for equal in self._equally_used(cpus):
            while equal:
                bit = equal & -equal
                yield bit
                equal ^= bit

    def _keep(self, cpus: int) -> None:
        self.taken |= cpus
        self.need -= cpus.bit_count()


def _whole(topology: CpuTopology, cpus: int) -> int:
    """The CPUs of this mask whose whole core is in it."""
    whole = 0
    for node in topology.numa:
        part = node.mask & cpus
        if part == node.mask:
            whole |= part
        elif part:
            for place in node.cores:
                mask = topology.cores[place].mask
                if mask & part == mask:
                    whole |= mask
    return whole


def _beside(topology: CpuTopology, cpus: int) -> int:
    """All CPUs of the cores that any of these is on."""
    found = 0
    for core in topology.cores:
        if core.mask & cpus:
            found |= core.mask
    return found


def _bound(topology: CpuTopology, bind: BindPolicy, cpus: int) -> bool:
    """Whether these CPUs satisfy the bind policy: at most one per core for a spread, else whole cores only."""
    if bind is not BindPolicy.SPREAD:
        return _whole(topology, cpus) == cpus
    for node in topology.numa:
        if node.mask & cpus and any((topology.cores[place].mask & cpus).bit_count() > 1 for place in node.cores):
            return False
    return True


def _impossible(ledger: CpuLedger, ask: CpuAsk, usable: int) -> Refusal | None:
    threads = ledger.topology.threads_per_core
    if ask.count < 1:
        return Refusal("requested number of CPUs is not positive", f"{ask.count} requested")
    if ask.bind_required and ask.bind is BindPolicy.FULL_CORES and ask.count % threads:
        near = f"{ask.count - ask.count % threads} or {ask.count - ask.count % threads + threads}"
        return Refusal(
            "requested CPUs are not whole cores", f"{ask.count} CPUs on cores of {threads} threads; {near} would be"
        )
    free = usable.bit_count()
    if free >= ask.count:
        return None
    why = []
    if ask.within is not None:
        why.append(f"{ledger.free.bit_count()} on the whole node")
    if ask.exclusive_required:
        avoided = ledger.free & ledger.exclusive(ask.exclusive)
        why.append(f"{avoided.bit_count()} more beside pods of the policy {ask.exclusive.value}")
    besides = f" ({', '.join(why)})" if why else ""
    return Refusal("not enough free CPUs", f"{free} free of {ask.count}{besides}", ask.count - free)


def _unbound(topology: CpuTopology, ask: CpuAsk, usable: int) -> Refusal:
    whole = _whole(topology, usable).bit_count()
    used = sum(1 for core in topology.cores if core.mask & usable)
    if ask.bind is BindPolicy.SPREAD:
        return Refusal(
            "not enough cores to spread over", f"{used} cores with a free CPU of {ask.count}", ask.count - used
        )
    nearest = f"{whole} CPUs on whole free cores of {ask.count}; {usable.bit_count()} free in all"
    return Refusal("not enough whole free cores", nearest, ask.count - whole)
