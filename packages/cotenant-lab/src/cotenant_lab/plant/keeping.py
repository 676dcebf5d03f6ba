"""A keeper over simulated knobs: the real engine of leases, with a state file in memory.

Requests of the agent on a simulated node must take the same path as on a real one, including leases, read-backs and
restores. `engine.leases.Leases` is driven here as the privileged process drives it.
Limits: persisting never fails, and nothing blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cotenant.engine.leases.instructions import (
    AuditLine,
    DropLeases,
    FailureKind,
    InstructionFailure,
    KnobReading,
    Persist,
    ReadBack,
    ReadCurrent,
    Restore,
    Write,
)
from cotenant.engine.leases.leases import Leases
from cotenant.engine.node.interfaces import KnobPort
from cotenant.model.errors import CotenantError, Transient
from cotenant.model.machine.knob import GiveBack, KnobLease, LeaseAnswer, LeaseState, SetKnob, Vanished


class PlantKeeper:
    """Holds leases over a port. `clock_us` is virtual; `wall` gives Unix seconds, those of that clock where it is
    not given.
    """

    def __init__(self, port: KnobPort, clock_us: Callable[[], int], wall: Callable[[], float] | None = None) -> None:
        self._wall = wall or (lambda: clock_us() / 1e6)
        self._port = port
        self._clock_us = clock_us
        self._leases = Leases()

    def hold(self, desired: Sequence[SetKnob]) -> tuple[LeaseAnswer, ...]:
        """As the Protocol `Keeper`. Knobs without an undo are written once and answered RESTORED."""
        lasting = [wish for wish in desired if wish.target.knob.undoable]
        now = self._clock_us()
        self._leases.hold(lasting, now, self._wall())
        self._carry_out()
        answers = iter(self._leases.answers())
        return tuple(next(answers) if wish.target.knob.undoable else self._write_once(wish) for wish in desired)

    def give_back(self, requests: Sequence[GiveBack]) -> tuple[LeaseAnswer, ...]:
        """As the Protocol `Keeper`."""
        now = self._clock_us()
        self._leases.end(requests, now, self._wall())
        self._carry_out()
        return self._leases.answers()

    def tick(self) -> None:
        """Restore what has expired."""
        now = self._clock_us()
        self._leases.tick(now, self._wall())
        self._carry_out()

    def leases(self) -> tuple[KnobLease, ...]:
        """All current leases."""
        return self._leases.leases()

    def _write_once(self, setting: SetKnob) -> LeaseAnswer:
        try:
            self._port.write(setting.target, setting.value)
        except CotenantError as error:
            return LeaseAnswer(setting.target, LeaseState.REFUSED, str(error))
        return LeaseAnswer(setting.target, LeaseState.RESTORED)

    def _carry_out(self) -> None:
        while stage := self._leases.next():
            for instruction in stage:
                match instruction:
                    case Persist():
                        self._leases.persisted()
                    case DropLeases() | AuditLine():
                        pass
                    case ReadCurrent() | ReadBack() | Write() | Restore():
                        try:
                            self._perform(instruction)
                        except Vanished as error:
                            self._leases.failed(instruction, InstructionFailure(FailureKind.GONE, str(error)))
                        except Transient as error:
                            self._leases.failed(instruction, InstructionFailure(FailureKind.TRANSIENT, str(error)))
                        except CotenantError as error:
                            self._leases.failed(instruction, InstructionFailure(FailureKind.PERMANENT, str(error)))

    def _perform(self, instruction: ReadCurrent | ReadBack | Write | Restore) -> None:
        target = instruction.target
        match instruction:
            case Write(value=value):
                self._port.write(target, value)
                self._leases.written(target)
            case Restore(raw=raw):
                self._port.restore(target, raw)
                self._leases.written(target)
            case ReadCurrent(raw=raw) | ReadBack(raw=raw):
                self._leases.read(target, KnobReading(self._port.read(target), self._port.raw(target) if raw else None))
