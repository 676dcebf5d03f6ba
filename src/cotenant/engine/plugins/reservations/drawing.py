"""One judgement of an owner: which reservations it may draw from on which node, and their room lifted meanwhile.

Problem: an owner must see its node as if the reservation were not there, in the sums and in every rule about neighbours, and afterwards all must be
as it was. Choice: of each node's reservations one is chosen before, the best first; their pods leave the ledger and the narrowing for the one
judgement and come back after it, then those drawn from shrink. Where no node takes the pod by its best one, the second best of each are tried, and
so on. A reservation of which something is left keeps its place among the node's pods, so there must be one place more for the owner. Limits: whether
the rest fits beside the reservation is estimated by requests to rank several on a node; the profile's own filters decide. With many reservations
for one pod its score is compared over a few nodes at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from cotenant.engine.framework.node_rules import Lending, Lent
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.plugins.reservations.records import Record
from cotenant.engine.state.assignments import Assignments
from cotenant.model.arrays import PODS, Mask, NodeArrays
from cotenant.model.cluster.demands import NO_HOLDINGS
from cotenant.model.groups.reservation_notes import Allocated
from cotenant.model.resources import ResourceAxis
from cotenant.policy.placement.reservations.drawing import Rank, covers, rank, shortage, strict

_AT_ONCE = 16  # rows that an owner is judged over together


@dataclass(slots=True)
class Drawing:
    """An owner that is judged, and the reservation on each row that it would draw from."""

    entry: PodInfo
    chosen: Mapping[int, Record]

    def drawn_on(self, row: int) -> Allocated | None:
        """From which it draws, now that it has this row."""
        record = self.chosen.get(row)
        return Allocated(record.reservation.name, record.reservation.uid) if record is not None else None

    def lift(self, assignments: Assignments) -> None:
        """Let the judgement not see them, and the owner's needs be met from what they hold."""
        entries = self._entries()
        assignments.suspend(entries)
        for entry in entries:
            assignments.narrowing.unassign(entry.number)
        lent = {row: Lent(record.kept.holds, strict(record.reservation)) for row, record in self._with_numbers()}
        if lent:
            for keeper in _lending(assignments, self.entry):
                keeper.draw(self.entry.number, lent)

    def lay(self, assignments: Assignments) -> None:
        """Put all of them back, the one that was drawn from with what is left of its devices and CPUs."""
        entries = self._entries()
        if any(self._with_numbers()):
            for keeper in _lending(assignments, self.entry):
                keeper.draw(self.entry.number, {})
        for _, record in self._with_numbers():
            if record.entry is not None:
                for keeper in _lending(assignments, record.entry):
                    keeper.keep(record.entry.number, record.kept.holds)
        assignments.resume(entries)
        for entry in entries:
            assignments.narrowing.assign(entry.number, entry.row)

    def _entries(self) -> list[PodInfo]:
        return [record.entry for record in self.chosen.values() if record.entry is not None]

    def _with_numbers(self) -> Iterator[tuple[int, Record]]:
        return ((row, record) for row, record in self.chosen.items() if record.held != NO_HOLDINGS)


def _lending(assignments: Assignments, entry: PodInfo) -> list[Lending]:
    """The keepers that have something for this pod and lend."""
    return [each for each in assignments.narrowing.node_rules_of(entry.number) if isinstance(each, Lending)]


def candidates(
    entry: PodInfo, records: Sequence[Record], nodes: NodeArrays, axis: ResourceAxis, only: Mask
) -> Iterator[dict[int, Record]]:
    """Row -> the reservation that the pod would draw from there, the better ones before the others, a few rows at a time.

    The best one of every row, then the second best of every row that has two, and so on; to be left at the first success. Among those that are
    as good on their rows, the ones with a lower order come before all others; among a few the profile's score decides.
    `only` narrows the rows, empty = all.
    """
    request = entry.seen.pod.requests
    ranked: dict[int, list[tuple[Rank, Record]]] = {}
    for record in records:
        at = record.entry
        if at is None or at.row < 0 or (len(only) and not only[at.row]):
            continue
        left = at.seen.pod.requests  # what stands for it is as large as what is left
        if shortage(record.reservation, left, request, record.held.devices):
            continue
        free = nodes.capacity[at.row] - nodes.requested[at.row]
        # who takes all by amount may leave a device
        if free[PODS] < (0 if covers(left, request) and record.held == NO_HOLDINGS else 1):
            continue
        fits = all(
            amount <= left.get(name) + int(free[axis.column(name)]) for name, amount in request if name in axis.names
        )
        ranked.setdefault(at.row, []).append((rank(record.reservation, left, request, fits), record))
    choices = [
        _Choice(nth, found, row, record)
        for row, here in ranked.items()
        for nth, (found, record) in enumerate(sorted(here, key=itemgetter(0)))
    ]
    for _, alike in groupby(sorted(choices, key=itemgetter(0, 1)), key=_sort_of):
        rows = [(choice.row, choice.record) for choice in alike]
        for start in range(0, len(rows), _AT_ONCE):
            yield dict(rows[start : start + _AT_ONCE])


class _Choice(NamedTuple):
    """One of a row's reservations; lower ones are tried first."""

    nth: int  # of those on its row
    rank: Rank
    row: int
    record: Record


def _sort_of(choice: _Choice) -> tuple[int, bool, float]:
    return (choice.nth, choice.rank.unfitting, choice.rank.order)
