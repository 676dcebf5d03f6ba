"""Who gives back when NonStrict gangs hold nodes and none of them can finish.

Problem: members that found a node keep it while the rest of their gang waits, so several half-placed gangs can fill a cluster and wait for one another for ever.
Choice: when every gang that holds nodes is stuck, the least important one gives all of its nodes back (the youngest of equally important ones) and stands back
for the most important one; a single stuck gang keeps its nodes until its waiting time is over. One gang a step, so that no more is given back than is needed.
Limits: `stuck` is the caller's finding: everybody that is missing was refused, and nothing is under way that could help.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Holder:
    """A gang whose members hold nodes and wait for the rest."""

    key: str
    priority: int
    created_s: float  # of its oldest member, Unix time
    stuck: bool


@dataclass(frozen=True, slots=True)
class Way:
    """Who gives back, and for whom."""

    gives: str
    to: str


def give_way(holders: Sequence[Holder]) -> Way | None:
    """The next step out of a deadlock; None where there is none."""
    if len(holders) < 2 or not all(holder.stuck for holder in holders):
        return None
    ordered = sorted(holders, key=lambda holder: (-holder.priority, holder.created_s, holder.key))
    return Way(ordered[-1].key, ordered[0].key)
