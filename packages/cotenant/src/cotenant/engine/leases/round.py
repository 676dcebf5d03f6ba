"""One round of requests: read all knobs, persist all original values, write, read back, settle.

Holding ten knobs one after another would sync the disk ten times, and a crash between two steps must always find the
original values on disk. Four stages. READ reads all knobs of the round; DECIDE (`deciding.py`) sorts the requests, and
asks for one durable write of the state file; WRITE writes and reads back in the order that the kernel accepts
(`write_order.py`); SETTLE (`settling.py`) makes each lease's next state from what was read back, and emits state-file
updates and audit lines.
Limits: a target requested twice in one round is written twice; the last value remains.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cotenant.engine.leases.deciding import Deciding
from cotenant.engine.leases.idle_weight import IdleWeight
from cotenant.engine.leases.instructions import (
    AuditLine,
    DropLeases,
    Instruction,
    Persist,
    ReadBack,
    ReadCurrent,
    Restore,
    Write,
)
from cotenant.engine.leases.round_state import Bound, Request, RoundState, unbounded
from cotenant.engine.leases.settling import Settling
from cotenant.engine.leases.table import LeaseTable, partner_of, weight_of
from cotenant.model.machine.knob import Knob, KnobTarget, LeaseAnswer, LeaseState

_Stage = Callable[[], tuple[Instruction, ...]]


class LeaseRound:
    """A round over the table. Outcomes of instructions are reported into `state` between stages."""

    def __init__(
        self,
        table: LeaseTable,
        requests: Sequence[Request],
        now_us: int,
        wall_s: float,
        who: str,
        most: int,
        bound: Bound = unbounded,
    ) -> None:
        self.state = RoundState(table, list(requests), now_us, wall_s, who, most, bound)
        self._table = table
        self._answered = len(requests)  # the first of the requests; those after them are implied
        self._pinned: IdleWeight | None = None
        self._stages: list[_Stage] = [self._read, self._decide, self._write, self._settle] if requests else []
        self._add_deferred_weights()

    @property
    def is_under_way(self) -> bool:
        """Whether stages are left."""
        return bool(self._stages)

    def next(self) -> tuple[Instruction, ...]:
        """The next stage with instructions; () ends the round."""
        while self._stages:
            stage = self._stages.pop(0)()
            if stage:
                return stage
        return ()

    def answers(self) -> tuple[LeaseAnswer, ...]:
        """The outcomes of the requests, in their order."""
        requests = self.state.requests[: self._answered]
        return tuple(request.answer or self.state.answer(request.target) for request in requests)

    def _add_deferred_weights(self) -> None:
        """A weight that waits for its group's cpu.idle is restored together with it."""
        requested = {request.target for request in self.state.requests}
        for request in tuple(self.state.requests):
            idle = request.target
            if idle.knob is not Knob.CPU_IDLE or (request.desired is not None and request.desired.value != "0"):
                continue
            weight = self._table.leases.get(weight_of(idle))
            if weight is None or weight.target in requested:
                continue
            if weight.target in self._table.deferred_weights or weight.state is LeaseState.RESTORING:
                self.state.requests.append(Request(weight.target, None, request.reason))
                requested.add(weight.target)

    @property
    def _coupling(self) -> IdleWeight:
        if self._pinned is None:
            self._pinned = IdleWeight(self.state)
        return self._pinned

    # The stages

    def _read(self) -> tuple[Instruction, ...]:
        leases = self._table.leases
        known = {target for target, lease in leases.items() if lease.state is LeaseState.HELD}
        known -= self.state.restored_targets()
        is_raw: dict[KnobTarget, bool] = {}
        for request in self.state.requests:
            if request.desired is not None or request.target in leases:
                is_raw[request.target] = request.target not in known
        for target in tuple(is_raw):
            partner = partner_of(target)
            if partner is not None:
                is_raw[partner] = is_raw.get(partner, False) or partner.knob is Knob.CPU_WEIGHT
        return tuple(ReadCurrent(target, raw=raw) for target, raw in is_raw.items())

    def _decide(self) -> tuple[Instruction, ...]:
        touched = Deciding(self.state, self._coupling).decide()
        intended = any(lease.state is LeaseState.INTENDED for lease in touched)
        return (Persist(touched, durable=intended),) if touched else ()

    def _write(self) -> tuple[Instruction, ...]:
        if self.state.persist_error:
            Settling(self.state, self._coupling).refuse_unpersisted()
        instructions: list[Instruction] = []
        for target, value in self.state.writes:
            lease = self._table.leases[target]
            if value is None:
                instructions += (Restore(target, lease.raw_before), ReadBack(target, raw=True))
            else:
                instructions += (Write(target, value), ReadBack(target, raw=False))
            if target.knob is Knob.CPU_IDLE:
                instructions += self._coupling.after_idle(target, value or lease.before)
        return (*instructions, *self._coupling.resets())

    def _settle(self) -> tuple[Instruction, ...]:
        live = Settling(self.state, self._coupling).settle()
        persist = (Persist(live, durable=False),) if live else ()
        ended = tuple(target for target in self.state.ended if target not in self._table.leases)
        drop = (DropLeases(ended),) if ended else ()
        return (*persist, *drop, *map(AuditLine, self.state.changes))
