"""Gang admission: whether a gang's pods may enter the queue, and whether they may be bound, by the counts of its match
policy.

What counts towards the minimum (members waiting with a node, running members, the past) depends on the policy, and all
gangs of a bundle must reach theirs. One tally per gang. `GangTally.is_met` says whether enough of its members have a
node; `pre_enqueue` checks over the tallies of a bundle whether there are enough members at all.
Limits: the caller counts, and asks every gang of a bundle.

Source: Koordinator, pkg/scheduler/plugins/coscheduling/core (PreEnqueue, Permit). One point is stricter: with
once-satisfied, bound members count towards a minimum that has not been reached yet, where upstream takes any bound
member as proof that it was once reached.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.groups.gang import GangSpec, MatchPolicy


class QueueGate(StrEnum):
    """Whether a pod may enter the queue."""

    OK = "ok"
    NOT_INITIALISED = "gang-not-initialized"  # the gang has no specification
    NOT_ENOUGH = "not-enough-members"


@dataclass(frozen=True, slots=True)
class GangTally:
    """Counts of one gang. `spec` None = it has no specification."""

    key: str
    spec: GangSpec | None
    waiting: int = 0  # with a node but not bound
    bound: int = 0
    members: int = 0  # existing, bound or not
    satisfied: bool = False  # whether its minimum was reached once

    def is_met(self) -> bool:
        """Whether its own minimum allows its pods to be bound."""
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


def pre_enqueue(bound_together: Iterable[GangTally]) -> tuple[QueueGate, GangTally | None]:
    """Whether a gang's pods may enter the queue, and the first gang that prevents it."""
    tallies = tuple(bound_together)
    for tally in tallies:
        if tally.spec is None:
            return QueueGate.NOT_INITIALISED, tally
    for tally in tallies:
        if tally.spec is not None and not tally.satisfied and tally.members < tally.spec.min_available:
            return QueueGate.NOT_ENOUGH, tally
    return QueueGate.OK, None
