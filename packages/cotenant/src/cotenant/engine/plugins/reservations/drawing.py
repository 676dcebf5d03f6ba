"""One scheduling attempt of an owner pod: the reservation to use per node, with the reserved amounts released
meanwhile.

An owner must be evaluated as if the reservation were absent, in the node sums and in every rule about co-located pods,
and the previous state must be restored afterwards. One reservation per node is chosen beforehand, best first. Their
placeholder pods are removed from the ledger and the narrowing for the attempt and restored afterwards; the reservations
used then shrink. If no node accepts the pod with its best reservation, the second best of each node are tried, and so
on. A partly used reservation keeps its pod slot on the node, so the owner needs another slot.
Limits: to rank several reservations on a node, the fit of the remaining request is estimated from requests; the
profile's own filters decide. With many reservations for one pod, scores are compared over a few nodes at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from cotenant.engine.framework.node_rules import LendingRules, Lent
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.plugins.reservations.records import ReservationRecord
from cotenant.engine.state.assignments import Assignments
from cotenant.model.arrays import PODS, Mask, NodeArrays
from cotenant.model.cluster.demands import NO_HOLDINGS
from cotenant.model.groups.reservation_notes import AllocatedReservation
from cotenant.model.resources import ResourceAxis
from cotenant.policy.placement.reservations.drawing import Rank, covers, rank, shortage, strict

_AT_ONCE = 16  # rows evaluated together for one owner


@dataclass(slots=True)
class ReservationDraw:
    """An owner pod under evaluation, and the reservation it would use on each row."""

    entry: PodInfo
    chosen: Mapping[int, ReservationRecord]

    def drawn_on(self, row: int) -> AllocatedReservation | None:
        """The reservation it uses if assigned to this row, or None."""
        record = self.chosen.get(row)
        return AllocatedReservation(record.reservation.name, record.reservation.uid) if record is not None else None

    def hide(self, assignments: Assignments) -> None:
        """Hide the chosen reservations from the attempt, and offer what they hold to the owner."""
        entries = self._entries()
        assignments.suspend(entries)
        for entry in entries:
            assignments.narrowing.unassign(entry.number)
        lent = {row: Lent(record.kept.holds, strict(record.reservation)) for row, record in self._numbered()}
        if lent:
            for node_rule in _lending(assignments, self.entry):
                node_rule.draw(self.entry.number, lent)

    def restore(self, assignments: Assignments) -> None:
        """Restore the reservations; a used one comes back with its remaining devices and CPUs."""
        entries = self._entries()
        if any(self._numbered()):
            for node_rule in _lending(assignments, self.entry):
                node_rule.draw(self.entry.number, {})
        for _, record in self._numbered():
            if record.entry is not None:
                for node_rule in _lending(assignments, record.entry):
                    node_rule.keep(record.entry.number, record.kept.holds)
        assignments.resume(entries)
        for entry in entries:
            assignments.narrowing.assign(entry.number, entry.row)

    def _entries(self) -> list[PodInfo]:
        return [record.entry for record in self.chosen.values() if record.entry is not None]

    def _numbered(self) -> Iterator[tuple[int, ReservationRecord]]:
        return ((row, record) for row, record in self.chosen.items() if record.held != NO_HOLDINGS)


def _lending(assignments: Assignments, entry: PodInfo) -> list[LendingRules]:
    """The node rules that apply to this pod and support lending."""
    return [
        node_rules
        for node_rules in assignments.narrowing.node_rules_of(entry.number)
        if isinstance(node_rules, LendingRules)
    ]


def candidates(
    entry: PodInfo, records: Sequence[ReservationRecord], nodes: NodeArrays, axis: ResourceAxis, only: Mask
) -> Iterator[dict[int, ReservationRecord]]:
    """Yield maps of row -> reservation the pod would use there, better ones first, a few rows at a time.

    The best one of every row comes first, then the second best of every row that has two, and so on; the caller stops
    at the first success. Among equal ranks on their rows, a lower order comes first; within one map the profile's score
    decides. `only` is a mask over rows; empty = all.
    """
    request = entry.seen.pod.requests
    ranked: dict[int, list[tuple[Rank, ReservationRecord]]] = {}
    for record in records:
        at = record.entry
        if at is None or at.row < 0 or (len(only) and not only[at.row]):
            continue
        left = at.seen.pod.requests  # the placeholder pod requests exactly the remaining amount
        if shortage(record.reservation, left, request, record.held.devices):
            continue
        free = nodes.capacity[at.row] - nodes.requested[at.row]
        # an owner that takes the whole amount may still leave a device
        if free[PODS] < (0 if covers(left, request) and record.held == NO_HOLDINGS else 1):
            continue
        fits = all(
            name in axis.names and amount <= left.get(name) + int(free[axis.column(name)]) for name, amount in request
        )
        ranked.setdefault(at.row, []).append((rank(record.reservation, left, request, fits), record))
    choices = [
        _Choice(nth, found, row, record)
        for row, here in ranked.items()
        for nth, (found, record) in enumerate(sorted(here, key=itemgetter(0)))
    ]
    for _, alike in groupby(sorted(choices, key=itemgetter(0, 1)), key=_batch_key):
        rows = [(choice.row, choice.record) for choice in alike]
        for start in range(0, len(rows), _AT_ONCE):
            yield dict(rows[start : start + _AT_ONCE])


class _Choice(NamedTuple):
    """One reservation of a row; lower values are tried first."""

    nth: int  # rank position on its row, from 0
    rank: Rank
    row: int
    record: ReservationRecord


def _batch_key(choice: _Choice) -> tuple[int, bool, float]:
    return (choice.nth, choice.rank.unfitting, choice.rank.order)
