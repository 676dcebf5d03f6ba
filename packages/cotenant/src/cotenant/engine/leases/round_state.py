"""What the stages of one round share, and the changes of one lease that any of them may make.

Deciding and settling both end, refuse and retry leases, and each such change has a state, an audit line and an answer
that belong together. The shared data and these changes are here; what is decided is in `deciding.py` and `settling.py`.
Limits: the outcomes of instructions are reported into this object between stages; nothing here emits instructions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from cotenant.engine.leases.instructions import FailureKind, InstructionFailure, KnobReading
from cotenant.engine.leases.table import LeaseTable
from cotenant.model.machine.knob import KnobChange, KnobLease, KnobTarget, LeaseAnswer, LeaseState, SetKnob
from cotenant.model.machine.knob_values import is_default
from cotenant.model.machine.node_decision import Reason

Bound = Callable[[KnobTarget, str, str], str | None]
"""Why a knob may not be set to this value where that one stood (both canonical); None where it may."""


@dataclass(slots=True, eq=False)
class Request:
    """One request of a round."""

    target: KnobTarget
    desired: SetKnob | None  # None: restore
    reason: Reason
    is_check: bool = False  # only look whether another process put it back
    answer: LeaseAnswer | None = None


@dataclass(slots=True, eq=False)
class RoundState:
    """The data of one round. `most` leases may be held."""

    table: LeaseTable
    requests: list[Request]
    now_us: int
    wall_s: float
    who: str
    most: int
    bound: Bound
    readings: dict[KnobTarget, KnobReading | InstructionFailure] = field(default_factory=dict)
    write_failures: dict[KnobTarget, InstructionFailure] = field(default_factory=dict)
    persist_error: str = ""
    previous: dict[KnobTarget, KnobLease] = field(default_factory=dict)  # leases that get another value, as they were
    writes: list[tuple[KnobTarget, str | None]] = field(default_factory=list)  # None: the original value
    ended: dict[KnobTarget, KnobLease] = field(default_factory=dict)
    changes: list[KnobChange] = field(default_factory=list)

    def answer(self, target: KnobTarget) -> LeaseAnswer:
        """The state of a lease of this round."""
        lease = self.table.leases.get(target) or self.ended[target]
        return LeaseAnswer(target, lease.state, lease.detail)

    def restored_targets(self) -> set[KnobTarget]:
        """The knobs that are requested to be restored."""
        return {request.target for request in self.requests if request.desired is None}

    def gone(self, target: KnobTarget) -> InstructionFailure | None:
        """The failure that says that the group does not exist; None where it does."""
        outcomes = (self.write_failures.get(target), self.readings[target])
        return next((f for f in outcomes if isinstance(f, InstructionFailure) and f.kind is FailureKind.GONE), None)

    # Changes of one lease

    def transition(self, lease: KnobLease, state: LeaseState) -> None:
        """Store the lease in this state."""
        self.table.transition(lease, state, self.wall_s)

    def finish(self, lease: KnobLease, state: LeaseState, detail: str, reason: Reason) -> None:
        """End the lease, with an audit line."""
        self.audit(lease, state, lease.before, detail, reason)
        self.close(lease, state, detail)

    def close(self, lease: KnobLease, state: LeaseState, detail: str) -> None:
        """End the lease."""
        self.table.close(lease.target, state, self.wall_s)
        self.ended[lease.target] = replace(lease, state=state, detail=detail)

    def retry_later(self, lease: KnobLease, detail: str, cause: Reason) -> None:
        """Schedule another try of a restore; the first failure has an audit line."""
        failures = self.table.retry_later(lease.target, self.now_us, cause)
        self.table.leases[lease.target] = replace(lease, detail=detail)
        if failures == 1:
            self.audit(lease, LeaseState.RESTORING, lease.before, detail, cause)

    def refuse(self, request: Request, desired: SetKnob, before: str, state: LeaseState, detail: str) -> None:
        """Answer a request for a knob without a lease."""
        target = desired.target
        request.answer = LeaseAnswer(target, state, detail)
        self.changes.append(
            KnobChange(self.wall_s, target, desired.reason, self.who, before, desired.value, before, state, detail)
        )

    def audit(self, lease: KnobLease, state: LeaseState, asked: str, detail: str, reason: Reason) -> None:
        """Add an audit line."""
        stood = self.previous.get(lease.target, lease).stands
        before = lease.before if stood is None else stood
        after = value_of(self.readings.get(lease.target)) or ""
        self.changes.append(
            KnobChange(self.wall_s, lease.target, reason, self.who, before, asked, after, state, detail)
        )


def unbounded(target: KnobTarget, value: str, before: str) -> str | None:
    """The bound that allows everything."""
    return None


def value_of(seen: KnobReading | InstructionFailure | None) -> str | None:
    """The value that was read; None where none was."""
    return seen.value if isinstance(seen, KnobReading) else None


def foreign(seen: KnobReading, lease: KnobLease) -> str:
    """The detail of a lease that yields."""
    return f"another process wrote {seen.value!r}, a value of its own; {lease.stands!r} was ours"


def is_put_back(seen: KnobReading, lease: KnobLease) -> bool:
    """Whether the foreign value is what stood before the lease, or what the knob has where nobody sets it: its
    writer means no value of its own.
    """
    if lease.state is not LeaseState.HELD or lease.stands is None:
        return False
    return seen.value == lease.before or is_default(lease.target.knob, seen.value)
