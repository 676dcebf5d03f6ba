"""Everything a person may ask of a gang, as one frozen value.

Problem: why a gang waits is spread over its PodGroup, its pods' annotations, the queue and other gangs. Choice: one value, made when somebody asks
(`Gangs.describe`), from which pages and commands are written. Limits: it is of one moment.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.groups.gang import GangPhase, GangSpec


@dataclass(frozen=True, slots=True)
class MemberView:
    """One pod of a gang."""

    pod: str  # namespace/name
    uid: str
    state: str  # of podstate.State, lower case; succeeded or failed for one that has ended
    node: str = ""
    told: str = ""  # what its owner was last told


@dataclass(frozen=True, slots=True)
class GangView:
    """One gang."""

    key: str  # namespace/name
    spec: GangSpec | None  # None: nobody says how many of it must run together
    problems: tuple[str, ...]  # what of its PodGroup or annotations was not taken as written
    phase: GangPhase
    members: tuple[MemberView, ...]
    judged_with: tuple[str, ...]  # gangs that are placed in one transaction with it, itself included
    needs: tuple[str, ...]  # every gang that must be satisfied with it, itself included
    satisfied: bool  # its minimum was reached once
    placed: int  # members on a node for good, ended ones that count included
    holding: int  # members that keep a node until the minimum is there (NonStrict)
    waiting: int  # members without a node
    why: str  # why it waits, empty if it does not
    holds_until_s: float  # when members that hold a node give it back, Unix time; inf = none holds
    stands_back_for: str = ""  # the gang that it lets go first
