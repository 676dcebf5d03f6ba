"""CPU and memory that pods hold on each NUMA node.

A pod whose resources are aligned takes amounts of NUMA nodes, with or without own CPUs, and the remainder decides where
the next one fits. A frozen value beside the CPU ledger: totals by NUMA node, every holding by its pod.
Limits: pods that are not aligned use some of every NUMA node, and are not included.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace

from cotenant.model.cpus.amplification import NOT_AMPLIFIED, Ratios, amplified
from cotenant.model.cpus.reported import NodeTopology
from cotenant.model.cpus.spec import NumaAmount
from cotenant.policy.placement.cpus.ledger import CpuLedger
from cotenant.policy.placement.numa import NumaRoom

Holding = tuple[str, tuple[NumaAmount, ...]]


@dataclass(frozen=True, slots=True)
class NumaAmounts:
    """`totals`: capacity of each NUMA node; memory is None where it is not reported."""

    totals: tuple[NumaAmount, ...]
    holdings: tuple[Holding, ...] = ()

    @classmethod
    def empty(cls, topology: NodeTopology, ratios: Ratios = NOT_AMPLIFIED) -> NumaAmounts:
        """Without holdings. The CPUs of each NUMA node are those that are not reserved; amounts are amplified like
        the node's.
        """
        memory = {zone.node: zone.memory_bytes for zone in topology.zones}
        usable = topology.topology.mask & ~topology.reserved
        return cls(
            tuple(
                NumaAmount(
                    node.id,
                    amplified((node.mask & usable).bit_count() * 1000, ratios.cpu_ppm),
                    None if memory.get(node.id) is None else amplified(memory[node.id] or 0, ratios.memory_ppm),
                )
                for node in topology.topology.numa
            )
        )

    def given(self, uid: str, amounts: Iterable[NumaAmount]) -> NumaAmounts:
        """With this pod's holding, which may exceed the capacity if another scheduler allocated it."""
        return replace(self, holdings=(*self.holdings, (uid, tuple(amounts))))

    def returned(self, uid: str) -> NumaAmounts:
        """Without this pod's holding."""
        left = tuple(holding for holding in self.holdings if holding[0] != uid)
        return self if len(left) == len(self.holdings) else replace(self, holdings=left)

    def used(self) -> dict[int, tuple[int, int]]:
        """Amounts held of each NUMA node with any: milli-CPU, bytes of memory."""
        found: dict[int, tuple[int, int]] = {}
        for _, amounts in self.holdings:
            for amount in amounts:
                cpu_m, memory_bytes = found.get(amount.node, (0, 0))
                found[amount.node] = (cpu_m + (amount.cpu_m or 0), memory_bytes + (amount.memory_bytes or 0))
        return found

    def likeness(self) -> Hashable:
        """Equal for equal remainders of each NUMA node, whoever the holders."""
        used = self.used()
        return self.totals, tuple([used.get(total.node) for total in self.totals]), self.mixed()

    def mixed(self) -> frozenset[int]:
        """NUMA nodes with a pod that also holds a part of another NUMA node."""
        return frozenset(amount.node for _, amounts in self.holdings if len(amounts) > 1 for amount in amounts)

    def cpu_rooms_m(self) -> tuple[NumaRoom, ...]:
        """CPU of each NUMA node, in milli-CPU."""
        used = self.used()
        return tuple(
            [
                NumaRoom(total.node, total.cpu_m or 0, max(0, (total.cpu_m or 0) - used.get(total.node, (0, 0))[0]))
                for total in self.totals
            ]
        )

    def memory_rooms(self) -> tuple[NumaRoom, ...] | None:
        """Memory of each NUMA node, in bytes; None where a NUMA node does not report its memory."""
        rooms = []
        used = self.used()
        for total in self.totals:
            if total.memory_bytes is None:
                return None
            left = max(0, total.memory_bytes - used.get(total.node, (0, 0))[1])
            rooms.append(NumaRoom(total.node, total.memory_bytes, left))
        return tuple(rooms)


def cpu_rooms(ledger: CpuLedger) -> tuple[NumaRoom, ...]:
    """The allocatable CPUs of each NUMA node, for pods with own CPUs."""
    usable, free = ledger.topology.mask & ~ledger.reserved, ledger.free
    return tuple(
        NumaRoom(node.id, (node.mask & usable).bit_count(), (node.mask & free).bit_count())
        for node in ledger.topology.numa
    )


def spread_amount(amount: int, rooms: Iterable[NumaRoom]) -> dict[int, int]:
    """An amount distributed over NUMA nodes, by id: the one with most free first; what does not fit stays with that
    one.
    """
    ordered = sorted(rooms, key=lambda room: (-room.free, room.node))
    found: dict[int, int] = {}
    left = amount
    for room in ordered:
        part = min(left, room.free)
        if part > 0:
            found[room.node] = part
            left -= part
    if left > 0 and ordered:
        found[ordered[0].node] = found.get(ordered[0].node, 0) + left
    return found
