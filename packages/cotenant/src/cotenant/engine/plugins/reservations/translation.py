"""Instructions about stand-ins, as instructions about their reservations.

A reservation waits in the queue as a pod that does not exist; whoever carries instructions out must never hear of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from cotenant.engine.framework.instructions import Bind, ClearNomination, Evict, Instruction, Preempt, Unschedulable
from cotenant.engine.framework.plugin import PluginHost
from cotenant.engine.plugins.reservations.instructions import ReserveNode, is_stand_in
from cotenant.engine.plugins.reservations.lifecycle import Lifecycle
from cotenant.engine.plugins.reservations.preallocation import PreAllocating
from cotenant.engine.plugins.reservations.records import ReservationRecord, owner_of
from cotenant.engine.plugins.reservations.waiting import Waiters


class Translation:
    """Replaces the instructions of one cluster's stand-ins."""

    def __init__(
        self,
        records: Mapping[str, ReservationRecord],
        waiters: Waiters,
        lifecycle: Lifecycle,
        preallocating: PreAllocating,
    ) -> None:
        self._records = records
        self._waiters = waiters
        self._lifecycle = lifecycle
        self._preallocating = preallocating

    def of(self, instructions: Iterable[Instruction], now_s: float, host: PluginHost) -> tuple[Instruction, ...]:
        """What is to be carried out; a waiting owner is told why it does not draw."""
        told: list[Instruction] = []
        for instruction in instructions:
            if isinstance(instruction, (Bind, Unschedulable, ClearNomination, Preempt)) and is_stand_in(
                instruction.key
            ):
                told += self._of_stand_in(instruction, now_s, host)
            elif isinstance(instruction, Evict) and is_stand_in(instruction.victim.key):
                host.count("a reservation cannot be evicted")
            elif isinstance(instruction, Unschedulable) and instruction.uid in self._waiters:
                about = " ".join(self._waiters.about(instruction.uid))
                told.append(replace(instruction, message=f"{instruction.message} {about}"))
            else:
                told.append(instruction)
        return tuple(told)

    def _of_stand_in(
        self, instruction: Bind | Unschedulable | ClearNomination | Preempt, now_s: float, host: PluginHost
    ) -> list[Instruction]:
        record = self._records.get(instruction.uid)
        if record is None:
            return []
        if isinstance(instruction, Bind):
            return [_reserve(record, instruction, now_s)]
        if isinstance(instruction, Unschedulable):
            record.refusal = " ".join(
                filter(None, (instruction.message, self._preallocating.sentence(instruction.uid)))
            )
            status = record.status(now_s)
            if status is not None and not record.is_written(status):
                record.last_status, record.last_status_s = status, now_s
                self._lifecycle.schedule(record, now_s)
                return [status]
            return []
        host.count("a reservation does not preempt")
        return []


def _reserve(record: ReservationRecord, bind: Bind, now_s: float) -> ReserveNode:
    record.refusal = ""
    granted = record.granted(bind.node, now_s)
    has = None if record.decided_before else record.reservation.holds
    record.decided_before = True
    takes = tuple(owner_of(entry) for entry in record.taken.values())
    name = record.reservation.name
    return ReserveNode(name, bind.uid, bind.node, granted, bind.record, bind.holds, has, takes, bind.number)
