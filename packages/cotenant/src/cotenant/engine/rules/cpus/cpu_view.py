"""The CPUs of one node as a value for display.

"why does this pod not get its CPUs" is answered by listing their holders. The facts of one node in one frozen value,
from its account.
Limits: pods without exclusive CPUs are not listed; they share the remaining CPUs.

Source: Koordinator's endpoints availableCPUs and cpuTopologyOptions of NodeNUMAResource.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.engine.rules.cpus.accounts import CpuAccount
from cotenant.model.cpus.amplification import PPM
from cotenant.model.cpus.spec import ExclusivePolicy, NumaAmount
from cotenant.model.cpus.topology import CpuTopology, numbers_in
from cotenant.model.machine.counters import LogicalCpu
from cotenant.policy.placement.cpus.node_fit import AS_USUAL, NodeOptions


@dataclass(frozen=True, slots=True)
class CpuHolder:
    """A pod with exclusive CPUs or NUMA amounts. `missing`: CPUs that it claims and cannot have: claimed by others
    too, or not available on the node.
    """

    pod: str  # namespace/name
    cpus: tuple[int, ...]
    exclusive: ExclusivePolicy
    numa: tuple[NumaAmount, ...] = ()
    missing: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class NumaRoomLeft:
    """One NUMA node. `memory_free_bytes` None = its memory is not reported."""

    node: int
    cpus: tuple[int, ...]
    available: tuple[int, ...]
    cpu_free_m: int
    memory_free_bytes: int | None


@dataclass(frozen=True, slots=True)
class CpusOfNode:
    """One node. Without a reported topology only its holders are known."""

    node: str
    is_told: bool
    cpus: tuple[LogicalCpu, ...] = ()
    options: NodeOptions = AS_USUAL
    ratio_ppm: int = PPM
    kept: tuple[tuple[str, tuple[int, ...]], ...] = ()  # reserved CPUs, by the component that reserves them
    available: tuple[int, ...] = ()
    numa: tuple[NumaRoomLeft, ...] = ()
    holders: tuple[CpuHolder, ...] = ()


def described(name: str, account: CpuAccount) -> CpusOfNode:
    """A snapshot of the account."""
    conflicts = account.conflicts()
    holders = tuple(
        CpuHolder(claim.pod, numbers_in(claim.cpus), claim.exclusive, claim.numa, numbers_in(conflicts.get(number, 0)))
        for number, claim in sorted(account.claims.items(), key=lambda pair: pair[1].pod)
    )
    reported, node = account.reported, account.node
    if reported is None or node is None:
        return CpusOfNode(name, False, holders=holders)
    free = node.ledger.free
    cpu_rooms, memory_rooms = node.amounts.cpu_rooms_m(), node.amounts.memory_rooms()
    return CpusOfNode(
        node=name,
        is_told=True,
        cpus=_logical(reported.topology),
        options=node.options,
        ratio_ppm=account.ratios.cpu_ppm,
        kept=tuple((reserved_cpus.who, numbers_in(reserved_cpus.cpus)) for reserved_cpus in reported.kept),
        available=numbers_in(free),
        numa=tuple(
            NumaRoomLeft(
                group.id,
                numbers_in(group.mask),
                numbers_in(group.mask & free),
                cpu_rooms[place].free,
                memory_rooms[place].free if memory_rooms is not None else None,
            )
            for place, group in enumerate(reported.topology.numa)
        ),
        holders=holders,
    )


def _logical(topology: CpuTopology) -> tuple[LogicalCpu, ...]:
    """CPUs with the index of their core, ascending."""
    return tuple(
        sorted(
            (
                LogicalCpu(cpu, place, topology.sockets[core.socket].id, topology.numa[core.numa].id)
                for place, core in enumerate(topology.cores)
                for cpu in numbers_in(core.mask)
            ),
            key=lambda logical_cpu: logical_cpu.cpu,
        )
    )
