"""The state machine of a lease: a table of legal transitions, and a bounded history for diagnosis.

A lease that is forgotten while its value is set leaves a group throttled for good, unnoticed. One state per lease,
changed along `LEGAL` only, each edge with its meaning; an illegal change raises with the lease's history.
Limits: the history keeps the last `HISTORY_LENGTH` changes and is dropped when the lease is over; the audit trail has
the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cotenant.model.errors import Permanent
from cotenant.model.machine.knob import KnobTarget, LeaseState

HISTORY_LENGTH = 12

OVER = frozenset({LeaseState.RESTORED, LeaseState.YIELDED, LeaseState.GONE, LeaseState.REFUSED})

LEGAL: dict[tuple[LeaseState | None, LeaseState], str] = {
    (None, LeaseState.INTENDED): "requested, original value read",
    (None, LeaseState.HELD): "found in the state file",
    (None, LeaseState.RESTORING): "found in the state file while being restored",
    (LeaseState.INTENDED, LeaseState.HELD): "written and read back, or left at the value held before",
    (LeaseState.INTENDED, LeaseState.RESTORING): "not taken as a whole, to be restored",
    (LeaseState.INTENDED, LeaseState.RESTORED): "was never written",
    (LeaseState.INTENDED, LeaseState.REFUSED): "was not written",
    (LeaseState.INTENDED, LeaseState.GONE): "its group is gone",
    (LeaseState.HELD, LeaseState.INTENDED): "another value requested",
    (LeaseState.HELD, LeaseState.RESTORING): "expired, given back, or left behind",
    (LeaseState.HELD, LeaseState.RESTORED): "had its original value already",
    (LeaseState.HELD, LeaseState.YIELDED): "another process wrote it",
    (LeaseState.HELD, LeaseState.GONE): "its group is gone",
    (LeaseState.RESTORING, LeaseState.RESTORED): "restored",
    (LeaseState.RESTORING, LeaseState.INTENDED): "requested again before it was restored",
    (LeaseState.RESTORING, LeaseState.YIELDED): "another process wrote it meanwhile",
    (LeaseState.RESTORING, LeaseState.GONE): "its group is gone",
}


@dataclass(slots=True, eq=False)
class LeaseHistory:
    """The state changes of one lease."""

    target: KnobTarget
    state: LeaseState | None = None
    changes: list[tuple[float, LeaseState | None, LeaseState]] = field(default_factory=list)  # Unix time

    def transition(self, after: LeaseState, at_s: float) -> None:
        """Change the state. Raises `Permanent` with the history where `LEGAL` has no such edge."""
        if (self.state, after) not in LEGAL:
            raise Permanent(
                f"lease of {self.target} cannot change from {self.state or 'nothing'} to {after}; "
                f"history: {'; '.join(self.lines()) or 'none'}"
            )
        self.changes.append((at_s, self.state, after))
        self.state = after
        if len(self.changes) > HISTORY_LENGTH:
            del self.changes[0]

    def lines(self) -> tuple[str, ...]:
        """One line per change, oldest first."""
        return tuple(f"{at_s:.3f} s: {after} ({LEGAL[before, after]})" for at_s, before, after in self.changes)
