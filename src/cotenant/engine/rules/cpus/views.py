"""What is known of one node's CPUs, as a value to be shown.

Problem: "why does it not get its CPUs" is answered by who has them. Choice: the facts of one node in one frozen value, from its books. Limits: pods
without CPUs of their own are not listed; they share what is available.

Source: Koordinator's endpoints availableCPUs and cpuTopologyOptions of NodeNUMAResource.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.engine.rules.cpus.accounts import CpuBooks
from cotenant.model.cpus.reported import PPM
from cotenant.model.cpus.spec import ExclusivePolicy, NumaAmount
from cotenant.model.cpus.topology import CpuTopology, numbers_in
from cotenant.model.machine.counters import LogicalCpu
from cotenant.policy.placement.cpus.node_fit import AS_USUAL, NodeOptions


@dataclass(frozen=True, slots=True)
class CpuHolder:
    """A pod with CPUs or NUMA amounts of its own. `missing`: CPUs that it claims and that others claim too, or that are not the node's to give."""

    pod: str  # namespace/name
    cpus: tuple[int, ...]
    exclusive: ExclusivePolicy
    numa: tuple[NumaAmount, ...] = ()
    missing: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class NumaRoomLeft:
    """One NUMA node; None = its memory is not told."""

    node: int
    cpus: tuple[int, ...]
    available: tuple[int, ...]
    cpu_free_m: int
    memory_free_bytes: int | None


@dataclass(frozen=True, slots=True)
class CpusOfNode:
    """One node. Without a topology, only its holders are known."""

    node: str
    is_told: bool
    cpus: tuple[LogicalCpu, ...] = ()
    options: NodeOptions = AS_USUAL
    ratio_ppm: int = PPM
    kept: tuple[tuple[str, tuple[int, ...]], ...] = ()  # who keeps which CPUs from everybody
    available: tuple[int, ...] = ()
    numa: tuple[NumaRoomLeft, ...] = ()
    holders: tuple[CpuHolder, ...] = ()


def described(name: str, books: CpuBooks) -> CpusOfNode:
    """From the books, at this moment."""
    met = books.met()
    holders = tuple(
        CpuHolder(claim.pod, numbers_in(claim.cpus), claim.exclusive, claim.numa, numbers_in(met.get(number, 0)))
        for number, claim in sorted(books.claims.items(), key=lambda pair: pair[1].pod)
    )
    told, node = books.told, books.node
    if told is None or node is None:
        return CpusOfNode(name, False, holders=holders)
    free = node.ledger.free
    cpu_rooms, memory_rooms = node.amounts.cpu_rooms_m(), node.amounts.memory_rooms()
    return CpusOfNode(
        node=name,
        is_told=True,
        cpus=_logical(told.topology),
        options=node.options,
        ratio_ppm=told.ratio_ppm,
        kept=tuple((each.who, numbers_in(each.cpus)) for each in told.kept),
        available=numbers_in(free),
        numa=tuple(
            NumaRoomLeft(
                group.id,
                numbers_in(group.mask),
                numbers_in(group.mask & free),
                cpu_rooms[place].free,
                memory_rooms[place].free if memory_rooms is not None else None,
            )
            for place, group in enumerate(told.topology.numa)
        ),
        holders=holders,
    )


def _logical(topology: CpuTopology) -> tuple[LogicalCpu, ...]:
    """CPUs with the places of their cores, ascending."""
    return tuple(
        sorted(
            (
                LogicalCpu(cpu, place, topology.sockets[core.socket].id, topology.numa[core.numa].id)
                for place, core in enumerate(topology.cores)
                for cpu in numbers_in(core.mask)
            ),
            key=lambda each: each.cpu,
        )
    )
