"""One gang as the engine sees it: its specification, its members, and which of them have a node.

Every question about a gang is a count of members by state. One mutable record per gang, changed by
engine/plugins/gangs/membership.py only. A member is *placed* (bound, or its bind is decided), *holding* (NonStrict: it
keeps a node until the minimum is reached), or without a node. Members that have ended count as placed while others of
the gang still are placed. Where none is, those that succeeded count as long as they are not all of the gang: so the
last member's second try needs only itself.
Limits: a gang that has run to its end and gets new members starts over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from cotenant.engine.framework.pod_state import PodInfo
from cotenant.model.cluster.observed import PodPhase
from cotenant.model.groups.gang import GangMode, GangSpec, MatchPolicy, PodGroup, PodGroupStatus
from cotenant.policy.placement.gangs.permit import GangTally


@dataclass(slots=True, eq=False)
class Gang:
    """One gang."""

    key: str
    group: PodGroup | None = None
    spec: GangSpec | None = None
    problems: tuple[str, ...] = ()  # of the spec
    obstacle: str = ""  # why it cannot be placed at all as specified
    members: dict[str, PodInfo] = field(default_factory=dict)  # by uid
    oldest: PodInfo | None = None  # its annotations count where there is no PodGroup
    placed: set[str] = field(default_factory=set)
    holding: dict[str, PodInfo] = field(default_factory=dict)
    ended: dict[str, PodPhase] = field(default_factory=dict)
    satisfied: bool = False
    open: bool = False  # its gate, when last checked
    held_since_s: float = inf  # since when members hold nodes
    yields_to: str = ""  # the gang that it lets go first
    yields_until_s: float = inf
    why: str = ""  # of its last rejection
    status: PodGroupStatus | None = None  # as read from its PodGroup, or last written

    def bound(self) -> int:
        """Members that count as bound."""
        return len(self.placed) + self._ended_that_count()

    def _ended_that_count(self) -> int:
        if self.placed:
            return len(self.ended)
        if self.spec is None:
            return 0
        succeeded = sum(phase is PodPhase.SUCCEEDED for phase in self.ended.values())
        return succeeded if succeeded < max(self.spec.min_available, self.spec.total) else 0

    def unplaced(self) -> int:
        """Members without a node."""
        return len(self.members) - len(self.placed) - len(self.holding)

    def tally(self, waiting: int = 0) -> GangTally:
        """Its counts; `waiting`: further members that would have a node."""
        return GangTally(
            self.key,
            self.spec,
            waiting + len(self.holding),
            self.bound(),
            len(self.members) + self._ended_that_count(),
            self.satisfied,
        )

    def goes_alone(self) -> bool:
        """Whether its members are placed one by one: it was satisfied once.

        Where fewer than the minimum are bound and enough wait (a scheduler that died between binds), those are still
        placed together.
        """
        if self.spec is None or self.spec.match_policy is not MatchPolicy.ONCE_SATISFIED:
            return False
        return self.satisfied or (bool(self.placed) and self.bound() + self.unplaced() < self.spec.min_available)

    def wait_s(self) -> float:
        """How long a member may hold a node without being bound (Permit); 0 for a gang without a specification."""
        return self.spec.wait_s if self.spec is not None else 0.0

    def is_strict(self) -> bool:
        """Whether members release their nodes when others find none."""
        return self.spec is None or self.spec.mode is GangMode.STRICT

    def find_oldest(self) -> PodInfo | None:
        """The oldest member: its annotations count."""
        return min(self.members.values(), key=_age, default=None)

    def is_older(self, entry: PodInfo) -> bool:
        """Whether this member is older than the oldest so far."""
        return self.oldest is None or _age(entry) < _age(self.oldest)


def _age(entry: PodInfo) -> tuple[float, str]:
    return entry.seen.created_s, entry.seen.uid
