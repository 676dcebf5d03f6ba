"""One gang as a cluster's engine sees it: what it asks, who belongs to it, and who of them sits where.

Problem: every question about a gang is a count of members by where they stand. Choice: one mutable record a gang, changed only by engine/plugins/gangs/plugin.py. A member
is *placed* (bound, or decided for good), *holding* (NonStrict: keeps a node until the minimum is there), or without a node. Members that have ended
count as placed while others of the gang still are; where none is, those that succeeded do, as long as they are not all that the gang is said to have: the last
one's second try needs only itself. Limits: a gang that has run to its end and is filled anew begins anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from cotenant.engine.framework.pod_state import PodInfo
from cotenant.model.cluster.observed import Phase
from cotenant.model.groups.gang import GangSpec, MatchPolicy, Mode, PodGroup, PodGroupStatus
from cotenant.policy.placement.gangs.permit import Tally


@dataclass(slots=True, eq=False)
class Gang:
    """One gang."""

    key: str
    group: PodGroup | None = None
    spec: GangSpec | None = None
    problems: tuple[str, ...] = ()  # of the spec
    members: dict[str, PodInfo] = field(default_factory=dict)  # by uid
    oldest: PodInfo | None = None  # whose annotations count where there is no PodGroup
    placed: set[str] = field(default_factory=set)
    holding: dict[str, PodInfo] = field(default_factory=dict)
    ended: dict[str, Phase] = field(default_factory=dict)
    satisfied: bool = False
    open: bool = False  # as its gate last said
    held_since_s: float = inf  # since when members hold nodes
    stands_back_for: str = ""
    stands_back_until_s: float = inf
    why: str = ""  # as last refused
    status: PodGroupStatus | None = None  # what its PodGroup says, or was told last

    def bound(self) -> int:
        """Members that count as bound."""
        return len(self.placed) + self._ended_that_count()

    def _ended_that_count(self) -> int:
        if self.placed:
            return len(self.ended)
        if self.spec is None:
            return 0
        succeeded = sum(phase is Phase.SUCCEEDED for phase in self.ended.values())
        return succeeded if succeeded < max(self.spec.min_available, self.spec.total) else 0

    def unplaced(self) -> int:
        """Members without a node."""
        return len(self.members) - len(self.placed) - len(self.holding)

    def tally(self, waiting: int = 0) -> Tally:
        """Counted, with so many more members that have a node for the moment."""
        return Tally(
            self.key,
            self.spec,
            waiting + len(self.holding),
            self.bound(),
            len(self.members) + self._ended_that_count(),
            self.satisfied,
        )

    def goes_alone(self) -> bool:
        """Whether its members are judged one by one: it was satisfied once.

        Where fewer than the minimum are bound and as many wait as are missing (a scheduler that died between binds), they are still judged together.
        """
        if self.spec is None or self.spec.match_policy is not MatchPolicy.ONCE_SATISFIED:
            return False
        return self.satisfied or (bool(self.placed) and self.bound() + self.unplaced() < self.spec.min_available)

    def is_strict(self) -> bool:
        """Whether members that found a node give it back when others do not."""
        return self.spec is None or self.spec.mode is Mode.STRICT

    def find_oldest(self) -> PodInfo | None:
        """The member whose word counts."""
        return min(self.members.values(), key=_age, default=None)

    def is_older(self, entry: PodInfo) -> bool:
        """Whether this member's word goes before that of the oldest so far."""
        return self.oldest is None or _age(entry) < _age(self.oldest)


def _age(entry: PodInfo) -> tuple[float, str]:
    return entry.seen.created_s, entry.seen.uid
