"""An Autonomy: how far the movers may go in some namespaces, when, and whether they are frozen."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo
from enum import IntEnum, StrEnum


class Action(StrEnum):
    """Kinds of acting."""

    SIZES = "sizes"
    LENDING = "lending"
    MOVES = "moves"
    RECOVERY = "recovery"  # on nodes, by their agents: rungs of recovery, and evictions
    WEIGHTS = "weights"  # of quotas, by a federation's joiner


class AutonomyRung(IntEnum):
    """How far a mover may go; each includes those below it."""

    SHADOW = 0  # learn, and show nothing
    SUGGEST = 1
    APPROVE = 2  # act on what a person approved
    ACT = 3


class MoveMode(StrEnum):
    """How far a rebalancer goes by itself, where it acts at all."""

    APPROVE = "approve"  # every move waits for a person
    ACT = "act"
    EARNED = "earned"  # as far as the moves of the namespace have helped; begins as `approve`


@dataclass(frozen=True, slots=True)
class ActionWindow:
    """When something may be begun, by a wall clock. `until_min` at or before `from_min` is of the next day."""

    days: frozenset[int]  # of its beginning; 0 = Monday
    from_min: int  # minutes of the day
    until_min: int
    zone: tzinfo


@dataclass(frozen=True, slots=True)
class Blackout:
    """A time in which nothing is begun, Unix seconds."""

    from_s: float
    until_s: float
    why: str = ""


@dataclass(frozen=True, slots=True)
class Freeze:
    """Nothing is begun and nothing goes on but proofs and undoing."""

    why: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class Autonomy:
    """An object of the cluster. `wrong`: sentences on its spec; a freeze is in force even so."""

    name: str
    namespaces: frozenset[str] = frozenset()  # empty = all, and what has no namespace
    actions: frozenset[Action] = frozenset()  # empty = all
    ceiling: AutonomyRung = AutonomyRung.ACT
    windows: tuple[ActionWindow, ...] = ()  # empty = at any time
    blackouts: tuple[Blackout, ...] = ()
    freeze: Freeze | None = None
    wrong: tuple[str, ...] = ()

    def covers(self, action: Action, namespace: str) -> bool:
        """Whether it is about this."""
        return (not self.actions or action in self.actions) and (not self.namespaces or namespace in self.namespaces)


@dataclass(frozen=True, slots=True)
class Permission:
    """What may be done now. `why`: what lowers it, empty = nothing does."""

    rung: AutonomyRung = AutonomyRung.ACT
    may_begin: bool = True  # inside a window, and outside of blackouts
    is_frozen: bool = False
    why: str = ""

    @property
    def may_act(self) -> bool:
        """Whether a change that a person did not approve may be begun."""
        return self.rung >= AutonomyRung.ACT and self.may_begin and not self.is_frozen


FREE = Permission()
