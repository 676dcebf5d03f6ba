"""How much CPU and memory of each NUMA node pods hold.

Problem: a pod whose resources shall lie together takes amounts of NUMA nodes, CPUs of its own or not, and what is left there decides about the
next. Choice: a frozen value beside the CPU ledger: totals by NUMA node, every holding by its pod. Limits: pods that nobody aligned use
some of every NUMA node, and are not here.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace

from cotenant.model.cpus.reported import NodeTopology
from cotenant.model.cpus.spec import NumaAmount
from cotenant.policy.placement.cpus.ledger import CpuLedger
from cotenant.policy.placement.numa import NumaRoom

Holding = tuple[str, tuple[NumaAmount, ...]]


@dataclass(frozen=True, slots=True)
class NumaAmounts:
    """`totals`: what each NUMA node has to give; memory is None where nobody tells."""

    totals: tuple[NumaAmount, ...]
    holdings: tuple[Holding, ...] = ()

    @classmethod
    def empty(cls, told: NodeTopology) -> NumaAmounts:
        """Nobody holds any. The CPUs of each NUMA node are those that nobody keeps."""
        memory = {zone.node: zone.memory_bytes for zone in told.zones}
        usable = told.topology.mask & ~told.reserved
        return cls(
            tuple(
                NumaAmount(node.id, (node.mask & usable).bit_count() * 1000, memory.get(node.id))
                for node in told.topology.numa
            )
        )

    def given(self, uid: str, amounts: Iterable[NumaAmount]) -> NumaAmounts:
        """With what this pod holds; more than there is where somebody else said so."""
        return replace(self, holdings=(*self.holdings, (uid, tuple(amounts))))

    def returned(self, uid: str) -> NumaAmounts:
        """Without what this pod held."""
        left = tuple(holding for holding in self.holdings if holding[0] != uid)
        return self if len(left) == len(self.holdings) else replace(self, holdings=left)

    def used(self) -> dict[int, tuple[int, int]]:
        """What is held of each NUMA node of which any is: milli-CPU, bytes of memory."""
        found: dict[int, tuple[int, int]] = {}
        for _, amounts in self.holdings:
            for each in amounts:
                cpu_m, memory_bytes = found.get(each.node, (0, 0))
                found[each.node] = (cpu_m + (each.cpu_m or 0), memory_bytes + (each.memory_bytes or 0))
        return found

    def likeness(self) -> Hashable:
        """Equal where as much is left of each NUMA node, whoever holds the rest."""
        used = self.used()
        return self.totals, tuple([used.get(each.node) for each in self.totals]), self.mixed()

    def mixed(self) -> frozenset[int]:
        """NUMA nodes of which a pod holds some that also holds some of another."""
        return frozenset(each.node for _, amounts in self.holdings if len(amounts) > 1 for each in amounts)

    def cpu_rooms_m(self) -> tuple[NumaRoom, ...]:
        """In milli-CPU."""
        used = self.used()
        return tuple(
            [
                NumaRoom(each.node, each.cpu_m or 0, max(0, (each.cpu_m or 0) - used.get(each.node, (0, 0))[0]))
                for each in self.totals
            ]
        )

    def memory_rooms(self) -> tuple[NumaRoom, ...] | None:
        """In bytes; None where not every NUMA node tells its memory."""
        rooms = []
        used = self.used()
        for each in self.totals:
            if each.memory_bytes is None:
                return None
            left = max(0, each.memory_bytes - used.get(each.node, (0, 0))[1])
            rooms.append(NumaRoom(each.node, each.memory_bytes, left))
        return tuple(rooms)


def cpu_rooms(ledger: CpuLedger) -> tuple[NumaRoom, ...]:
    """The CPUs of each NUMA node that can be given, for pods with CPUs of their own."""
    usable, free = ledger.topology.mask & ~ledger.reserved, ledger.free
    return tuple(
        NumaRoom(node.id, (node.mask & usable).bit_count(), (node.mask & free).bit_count())
        for node in ledger.topology.numa
    )


def spread_amount(amount: int, rooms: Iterable[NumaRoom]) -> dict[int, int]:
    """An amount over NUMA nodes, by id: the one with most room first; what nobody has room for stays with that one."""
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
