"""Deadlocks between NonStrict gangs that hold nodes while none of them can complete.

Members that found a node keep it while the rest of their gang waits, so several partly placed gangs can fill a cluster
and wait for one another forever. When every gang that holds nodes is stuck, the least important one releases all of its
nodes (the youngest among equals) and yields to the most important one; a single stuck gang keeps its nodes until its
waiting time is over. A gang never yields to one that needs it: that one could not complete meanwhile. So linked gangs
that are stuck alone keep their nodes, as a single one does. One gang per step, so that no more is released than needed.
Limits: the caller determines `stuck`: all missing members were rejected, and nothing is in progress that could help.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HoldingGang:
    """A gang whose members hold nodes and wait for the others."""

    key: str
    priority: int
    created_s: float  # of its oldest member, Unix time
    stuck: bool
    needs: frozenset[str] = frozenset()  # the gangs that must be satisfied with it


@dataclass(frozen=True, slots=True)
class Way:
    """The gang that releases its nodes, and the gang it yields to."""

    gives: str
    to: str


def give_way(holders: Sequence[HoldingGang]) -> Way | None:
    """The next step out of a deadlock; None where there is none."""
    if len(holders) < 2 or not all(holder.stuck for holder in holders):
        return None
    ordered = sorted(holders, key=lambda holder: (-holder.priority, holder.created_s, holder.key))
    for gives in reversed(ordered):
        for to in ordered:
            if to is not gives and gives.key not in to.needs:
                return Way(gives.key, to.key)
    return None
