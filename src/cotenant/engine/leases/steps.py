"""What the engine of leases asks to be done, and how it is told.

Problem: whoever carries out may be a real process, a test that dies between two steps, or a dry run. Choice: instructions and outcomes are
values. `Leases.next()` hands out a stage of instructions; each is carried out and its outcome told, in order, before the next stage is asked for.
Limits: none of them says how.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.machine.knob import KnobChange, Lease, Target


@dataclass(frozen=True, slots=True)
class Look:
    """Read identity and value; the raw form too where `raw`. Told by `saw` or `failed`."""

    target: Target
    raw: bool


@dataclass(frozen=True, slots=True)
class Persist:
    """Write these leases down; where `durable`, they are on the disk before anything else happens. Told by `persisted` or `not_persisted`."""

    leases: tuple[Lease, ...]
    durable: bool


@dataclass(frozen=True, slots=True)
class Drop:
    """These leases are over; the state file need not know them any more. Not told."""

    targets: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class Write:
    """Turn a knob to a canonical value. Told by `done` or `failed`."""

    target: Target
    value: str


@dataclass(frozen=True, slots=True)
class Restore:
    """Put back exactly what stood. Told by `done` or `failed`."""

    target: Target
    raw: str


@dataclass(frozen=True, slots=True)
class ReadBack:
    """Read what the kernel made of it; asked also where the write failed. Told by `saw` or `failed`."""

    target: Target
    raw: bool


@dataclass(frozen=True, slots=True)
class Audit:
    """A line of the audit trail. Not told."""

    change: KnobChange


Instruction = Look | Persist | Drop | Write | Restore | ReadBack | Audit


@dataclass(frozen=True, slots=True)
class Standing:
    """What was read of a knob. `raw` where it was asked for; `identity` "" where the port has none."""

    value: str
    raw: str | None = None
    identity: str = ""


class Trouble(StrEnum):
    """What a failure means for the lease."""

    GONE = "gone"  # the group does not exist
    LATER = "later"  # may succeed when tried again
    NEVER = "never"  # refused


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an instruction was not carried out. `identity`: the group's, where that could be read."""

    trouble: Trouble
    detail: str
    identity: str = ""
