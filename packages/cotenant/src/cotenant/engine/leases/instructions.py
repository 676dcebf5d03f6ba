"""The instructions that the lease engine emits, and the outcomes reported back to it.

Instructions are carried out by a real process, by a test that dies between two steps, or by a dry run. Instructions and
outcomes are values. `Leases.next()` returns a stage of instructions; each is carried out and its outcome reported, in
order, before the next stage is requested.
Limits: an instruction does not say how it is carried out.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.machine.knob import KnobChange, KnobLease, KnobTarget


@dataclass(frozen=True, slots=True)
class ReadCurrent:
    """Read identity and value; the raw form too where `raw`. Outcome: `read` or `failed`."""

    target: KnobTarget
    raw: bool


@dataclass(frozen=True, slots=True)
class Persist:
    """Write these leases to the state file; where `durable`, they are on disk before anything else happens.

    Outcome: `persisted` or `not_persisted`.
    """

    leases: tuple[KnobLease, ...]
    durable: bool


@dataclass(frozen=True, slots=True)
class DropLeases:
    """These leases are over; the state file may forget them. No outcome."""

    targets: tuple[KnobTarget, ...]


@dataclass(frozen=True, slots=True)
class Write:
    """Set a knob to a canonical value. Outcome: `written` or `failed`."""

    target: KnobTarget
    value: str


@dataclass(frozen=True, slots=True)
class Restore:
    """Write back exactly the original value. Outcome: `written` or `failed`."""

    target: KnobTarget
    raw: str


@dataclass(frozen=True, slots=True)
class ReadBack:
    """Read what the kernel made of the last write; also where the write failed. Outcome: `read` or `failed`."""

    target: KnobTarget
    raw: bool


@dataclass(frozen=True, slots=True)
class AuditLine:
    """A line of the audit trail. No outcome."""

    change: KnobChange


Instruction = ReadCurrent | Persist | DropLeases | Write | Restore | ReadBack | AuditLine


@dataclass(frozen=True, slots=True)
class KnobReading:
    """A knob's value. `raw` where it was asked for; `identity` "" where the port has none."""

    value: str
    raw: str | None = None
    identity: str = ""


class FailureKind(StrEnum):
    """What a failure means for the lease."""

    GONE = "gone"  # the group does not exist
    TRANSIENT = "transient"  # may succeed when retried
    PERMANENT = "permanent"  # refused


@dataclass(frozen=True, slots=True)
class InstructionFailure:
    """Why an instruction was not carried out. `identity`: the group's, where that could be read."""

    kind: FailureKind
    detail: str
    identity: str = ""
