"""A lease's way from wish to undone, as a table of legal transitions, and what is told of it.

Problem: a lease that is forgotten while its value stands leaves a group throttled for good, and nobody notices. Choice: one state a lease,
changed along `LEGAL` only, each edge with its reason; an illegal change raises with the lease's story. Limits: the story keeps the last
`REMEMBERED` changes, and goes when the lease is over; the audit trail has the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cotenant.model.errors import Permanent
from cotenant.model.machine.knob import LeaseState, Target

REMEMBERED = 12

OVER = frozenset({LeaseState.RESTORED, LeaseState.YIELDED, LeaseState.GONE, LeaseState.REFUSED})

LEGAL: dict[tuple[LeaseState | None, LeaseState], str] = {
    (None, LeaseState.INTENDED): "wished, old value read",
    (None, LeaseState.HELD): "found in the state file",
    (None, LeaseState.RESTORING): "found in the state file, on its way back",
    (LeaseState.INTENDED, LeaseState.HELD): "written and read back, or left at the value held before",
    (LeaseState.INTENDED, LeaseState.RESTORING): "not taken as a whole, goes back",
    (LeaseState.INTENDED, LeaseState.RESTORED): "was never written",
    (LeaseState.INTENDED, LeaseState.REFUSED): "was not written",
    (LeaseState.INTENDED, LeaseState.GONE): "its group is gone",
    (LeaseState.HELD, LeaseState.INTENDED): "another value wished",
    (LeaseState.HELD, LeaseState.RESTORING): "expired, given back, or left behind",
    (LeaseState.HELD, LeaseState.RESTORED): "what stood before stands already",
    (LeaseState.HELD, LeaseState.YIELDED): "somebody else wrote it",
    (LeaseState.HELD, LeaseState.GONE): "its group is gone",
    (LeaseState.RESTORING, LeaseState.RESTORED): "put back",
    (LeaseState.RESTORING, LeaseState.INTENDED): "wished anew before it was back",
    (LeaseState.RESTORING, LeaseState.YIELDED): "somebody else wrote it meanwhile",
    (LeaseState.RESTORING, LeaseState.GONE): "its group is gone",
}


@dataclass(slots=True, eq=False)
class Story:
    """The changes of one lease."""

    target: Target
    state: LeaseState | None = None
    changes: list[tuple[float, LeaseState | None, LeaseState]] = field(default_factory=list)  # Unix time

    def move(self, after: LeaseState, at_s: float) -> None:
        """Change the state. Raises `Permanent` with the story where `LEGAL` has no such edge."""
        if (self.state, after) not in LEGAL:
            raise Permanent(
                f"lease of {self.target} cannot go from {self.state or 'nothing'} to {after}; "
                f"its story: {'; '.join(self.lines()) or 'none'}"
            )
        self.changes.append((at_s, self.state, after))
        self.state = after
        if len(self.changes) > REMEMBERED:
            del self.changes[0]

    def lines(self) -> tuple[str, ...]:
        """What happened to it, oldest first."""
        return tuple(f"{at_s:.3f} s: {after} ({LEGAL[before, after]})" for at_s, before, after in self.changes)
