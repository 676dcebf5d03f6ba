"""May a gang's pods enter the queue, may they be bound: counts against minima, by match policy.

Problem: what counts towards the minimum (members that wait with a node, members that run, the past) differs by policy, and gangs that are bound together
must all have theirs. Choice: one tally a gang, and two questions over the tallies of all gangs that a gang is bound to: `pre_enqueue` asks whether there are
enough members at all, `permit` whether enough of them have a node. Limits: counting is the caller's.

Source: Koordinator, pkg/scheduler/plugins/coscheduling/core (PreEnqueue, Permit). One point is stricter: with once-satisfied, members that are bound count
towards a minimum that has not been reached yet, where upstream takes any bound member for a minimum that was once reached.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.groups.gang import WAIT_S, GangSpec, MatchPolicy


class Gate(StrEnum):
    """May a pod enter the queue."""

    OK = "ok"
    NOT_INITIALISED = "gang-not-initialized"  # nobody says what the gang asks
    NOT_ENOUGH = "not-enough-members"


@dataclass(frozen=True, slots=True)
class Tally:
    """One gang, counted. `spec` None = nobody has said what it asks."""

    key: str
    spec: GangSpec | None
    waiting: int = 0  # have a node and are not bound
    bound: int = 0
    members: int = 0  # that exist, bound or not
    satisfied: bool = False  # its minimum was reached once

    def is_met(self) -> bool:
        """Whether its pods may be bound, as far as it alone is concerned."""
        if self.spec is None:
            return False
        if self.spec.match_policy is MatchPolicy.ONLY_WAITING:
            return self.waiting >= self.spec.min_available
        if self.spec.match_policy is MatchPolicy.ONCE_SATISFIED and self.satisfied:
            return True
        return self.waiting + self.bound >= self.spec.min_available

    def lacks(self) -> int:
        """How many more members with a node it needs."""
        if self.spec is None or self.is_met():
            return 0
        counted = self.waiting + (0 if self.spec.match_policy is MatchPolicy.ONLY_WAITING else self.bound)
        return self.spec.min_available - counted


@dataclass(frozen=True, slots=True)
class Permit:
    """The answer for a pod that found a node."""

    allowed: bool
    wait_s: float = 0.0  # how long it may wait for the others
    lacking: tuple[str, ...] = ()  # gangs that have not enough yet


def permit(own: Tally, bound_together: Iterable[Tally]) -> Permit:
    """Whether every gang that the pod's own is bound to, itself included, has its minimum."""
    lacking = tuple(tally.key for tally in bound_together if not tally.is_met())
    if not lacking:
        return Permit(True)
    return Permit(False, own.spec.wait_s if own.spec is not None else WAIT_S, lacking)


def pre_enqueue(bound_together: Iterable[Tally]) -> tuple[Gate, Tally | None]:
    """Whether a gang's pods may enter the queue; the first gang that speaks against it."""
    tallies = tuple(bound_together)
    for tally in tallies:
        if tally.spec is None:
            return Gate.NOT_INITIALISED, tally
    for tally in tallies:
        if tally.spec is not None and not tally.satisfied and tally.members < tally.spec.min_available:
            return Gate.NOT_ENOUGH, tally
    return Gate.OK, None
