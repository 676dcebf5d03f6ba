"""A gang as people see it, in one frozen value.

Why a gang waits is spread over its PodGroup, its pods' annotations, the queue and other gangs. One value, made on
request (`Gangs.describe`), from which pages and commands are written.
Limits: it is valid for one moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from cotenant.model.groups.gang import GangPhase, GangSpec


@dataclass(frozen=True, slots=True)
class MemberView:
    """One pod of a gang."""

    pod: str  # namespace/name
    uid: str
    state: str  # a `SchedulingState` in lower case; succeeded or failed for one that has ended
    node: str = ""
    told: str = ""  # the last message of its condition


@dataclass(frozen=True, slots=True)
class GangView:
    """One gang."""

    key: str  # namespace/name
    spec: GangSpec | None  # None: no object says how many must run together
    problems: tuple[str, ...]  # what of its PodGroup or annotations was not used as written
    phase: GangPhase
    members: tuple[MemberView, ...]
    judged_with: tuple[str, ...]  # gangs that are placed together with it, itself included
    needs: tuple[str, ...]  # every gang that must be satisfied with it, itself included
    satisfied: bool  # its minimum was reached once
    placed: int  # members that are bound, and ended ones that count
    holding: int  # members that keep a node until the minimum is there (NonStrict)
    waiting: int  # members without a node
    why: str  # why it waits, empty if it does not
    holds_until_s: float  # when members that hold a node release it, Unix time; inf = none holds
    stands_back_for: str = ""  # the gang that it lets go first
    backs_off_until_s: float = -inf  # until when it takes nodes only all together, Unix time; -inf = not in back-off
    representative: str = (
        ""  # namespace/name of the member whose rank in the queue is that of the gangs that are placed together
    )
