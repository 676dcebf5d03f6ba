"""The lease engine over in-memory knobs, and targets for its tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.fakes.node.kept_knobs import KeptKnobs

from cotenant.engine.leases.instructions import (
    AuditLine,
    FailureKind,
    Instruction,
    InstructionFailure,
    KnobReading,
    Persist,
    ReadBack,
    ReadCurrent,
    Restore,
    Write,
)
from cotenant.engine.leases.leases import Leases
from cotenant.model.errors import CotenantError, InvalidInput, Transient
from cotenant.model.machine.knob import (
    GiveBack,
    Knob,
    KnobChange,
    KnobTarget,
    LeaseAnswer,
    LeaseState,
    SetKnob,
    Vanished,
)
from cotenant.model.machine.node_decision import Reason

REASON = Reason("test", "because")
QUOTA = KnobTarget("be/a", Knob.CPU_MAX)
BURST = KnobTarget("be/a", Knob.CPU_BURST)
HIGH = KnobTarget("be/a", Knob.MEMORY_HIGH)
WEIGHT = KnobTarget("be/a", Knob.CPU_WEIGHT)
IDLE = KnobTarget("be/a", Knob.CPU_IDLE)
HALF = "50000 100000"


class World:
    """Executes instructions, and records them."""

    def __init__(self) -> None:
        self.knobs = KeptKnobs(["be/a", "be/b"])
        self.engine = Leases(most=8)
        self.disk_full = False
        self.executed: list[Instruction] = []
        self.audited: list[KnobChange] = []
        self.now_us = 0

    def run_round(self) -> tuple[LeaseAnswer, ...]:
        self.executed = []
        while stage := self.engine.next():
            for instruction in stage:
                self.executed.append(instruction)
                self._execute(instruction)
        self.engine.validate()
        return self.engine.answers()

    def _execute(self, instruction: Instruction) -> None:
        match instruction:
            case AuditLine(change=change):
                self.audited.append(change)
            case Persist(durable=durable):
                if self.disk_full and durable:
                    self.engine.not_persisted("no space left on device")
                else:
                    self.engine.persisted()
            case ReadCurrent() | ReadBack() | Write() | Restore():
                try:
                    self._read_or_write(instruction)
                except CotenantError as error:
                    failure_kinds = {Vanished: FailureKind.GONE, Transient: FailureKind.TRANSIENT}
                    self.engine.failed(
                        instruction,
                        InstructionFailure(failure_kinds.get(type(error), FailureKind.PERMANENT), str(error)),
                    )

    def _read_or_write(self, instruction: ReadCurrent | ReadBack | Write | Restore) -> None:
        target = instruction.target
        match instruction:
            case Write(value=value):
                self.knobs.write(target, value)
                self.engine.written(target)
            case Restore(raw=raw):
                self.knobs.restore(target, raw)
                self.engine.written(target)
            case ReadCurrent(raw=raw) | ReadBack(raw=raw):
                kept = self.knobs.raw(target) if raw else None
                identity = self.knobs.identity(target)
                try:
                    self.engine.read(target, KnobReading(self.knobs.read(target), kept, identity))
                except InvalidInput as error:
                    self.engine.failed(instruction, InstructionFailure(FailureKind.PERMANENT, str(error), identity))

    def hold(self, *requests: tuple[KnobTarget, str], ttl_us: int = 100) -> list[LeaseState]:
        made = [SetKnob(target, value, REASON, ttl_us) for target, value in requests]
        self.engine.hold(made, self.now_us, 1.0, "client")
        return [answer.state for answer in self.run_round()]

    def give_back(self, *targets: KnobTarget) -> list[LeaseState]:
        self.engine.end([GiveBack(target, REASON) for target in targets], self.now_us, 2.0)
        return [answer.state for answer in self.run_round()]

    def tick(self, now_us: int) -> None:
        self.now_us = now_us
        self.engine.tick(now_us, 3.0)
        self.run_round()

    @property
    def state(self) -> dict[KnobTarget, LeaseState]:
        return {lease.target: lease.state for lease in self.engine.leases()}


def instructions_of(world: World) -> Iterator[Instruction]:
    while stage := world.engine.next():
        yield from stage


def kinds(asked: Sequence[Instruction]) -> list[str]:
    return [type(instruction).__name__ for instruction in asked]
