"""Topology of a node's hardware threads: cores, NUMA nodes, sockets.

CPU allocation asks constantly which CPUs are free on which core. A set of CPUs is one integer, bit n for CPU n; cores,
NUMA nodes and sockets are such masks, so "free and whole" is two operations regardless of the machine's size.
Limits: immutable; a CPU that goes offline makes another topology.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cotenant.model.cpus.cpulist import LARGEST
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.counters import LogicalCpu


@dataclass(frozen=True, slots=True)
class Core:
    """One physical core; `numa` and `socket` are indexes into the topology's tuples."""

    mask: int
    numa: int
    socket: int


@dataclass(frozen=True, slots=True)
class CpuGroup:
    """A NUMA node or a socket. `socket` is the index of its socket (its own, for a socket)."""

    id: int
    mask: int
    cores: tuple[int, ...]  # indexes into `CpuTopology.cores`
    socket: int
    threads: tuple[int, ...]  # masks: the first threads of its cores, the second threads, ...


@dataclass(frozen=True, slots=True)
class CpuTopology:
    """The whole node; cores, NUMA nodes and sockets in the order of their ids."""

    mask: int
    threads_per_core: int  # the largest number over all cores
    cores: tuple[Core, ...]
    numa: tuple[CpuGroup, ...]
    sockets: tuple[CpuGroup, ...]

    @classmethod
    def of(cls, cpus: Iterable[LogicalCpu]) -> CpuTopology:
        """From a list of logical CPUs. Raises `InvalidInput` where a CPU is listed twice or a core spans two NUMA
        nodes or sockets.
        """
        core_masks: dict[
            tuple[int, int, int], int
        ] = {}  # (socket, core, NUMA node): core numbers may restart in each socket
        seen = 0
        for cpu in sorted(cpus, key=lambda logical_cpu: logical_cpu.cpu):
            if not 0 <= cpu.cpu <= LARGEST or seen >> cpu.cpu & 1:
                raise InvalidInput("cpu", cpu.cpu, f"each CPU once, numbers within 0-{LARGEST}")
            seen |= 1 << cpu.cpu
            key = (cpu.socket, cpu.core, cpu.numa)
            core_masks[key] = core_masks.get(key, 0) | 1 << cpu.cpu
        if len({key[:2] for key in core_masks}) != len(core_masks):
            raise InvalidInput("numa", sorted(core_masks), "the threads of one core on one NUMA node")
        by_first = sorted(core_masks, key=lambda key: (key[1], key[0]))
        sockets = tuple(sorted({key[0] for key in by_first}))
        socket_of = {numa: socket for socket, _, numa in by_first}
        if len({(key[0], key[2]) for key in by_first}) != len(socket_of):
            raise InvalidInput("numa", sorted(socket_of), "each NUMA node in one socket")
        nodes = tuple(sorted(socket_of))
        cores = tuple(Core(core_masks[key], nodes.index(key[2]), sockets.index(key[0])) for key in by_first)
        return cls(
            mask=seen,
            threads_per_core=max((core.mask.bit_count() for core in cores), default=1),
            cores=cores,
            numa=tuple(
                _group(id_, [place for place, core in enumerate(cores) if core.numa == index], cores)
                for index, id_ in enumerate(nodes)
            ),
            sockets=tuple(
                _group(id_, [place for place, core in enumerate(cores) if core.socket == index], cores)
                for index, id_ in enumerate(sockets)
            ),
        )

    @property
    def is_even(self) -> bool:
        """Whether all cores have the same number of threads; false with offline CPUs or two kinds of cores."""
        return len(self.cores) * self.threads_per_core == self.mask.bit_count()

    def numa_mask(self, ids: Iterable[int]) -> int:
        """The CPUs of the NUMA nodes with these ids; unknown ids are ignored."""
        wanted = set(ids)
        mask = 0
        for node in self.numa:
            if node.id in wanted:
                mask |= node.mask
        return mask

    def numa_of(self, cpus: int) -> tuple[int, ...]:
        """Ids of the NUMA nodes that contain any of these CPUs, ascending."""
        return tuple(node.id for node in self.numa if node.mask & cpus)


def mask_of(numbers: Iterable[int]) -> int:
    """A set of numbers as one integer."""
    mask = 0
    for number in numbers:
        mask |= 1 << number
    return mask


def numbers_in(mask: int) -> tuple[int, ...]:
    """The numbers in a mask, ascending."""
    return tuple(_bits(mask))


def lowest(mask: int, count: int) -> int:
    """The `count` lowest numbers of a mask; all of it where it has no more."""
    if mask.bit_count() <= count:
        return mask
    kept = 0
    for _ in range(count):
        bit = mask & -mask
        kept |= bit
        mask ^= bit
    return kept


def _bits(mask: int) -> Iterator[int]:
    while mask:
        bit = mask & -mask
        yield bit.bit_length() - 1
        mask ^= bit


def _group(id_: int, places: list[int], cores: tuple[Core, ...]) -> CpuGroup:
    mask = 0
    threads: list[int] = []
    for place in places:
        mask |= cores[place].mask
        for nth, cpu in enumerate(_bits(cores[place].mask)):
            threads += [0] * (nth + 1 - len(threads))
            threads[nth] |= 1 << cpu
    return CpuGroup(id_, mask, tuple(places), cores[places[0]].socket, tuple(threads))
