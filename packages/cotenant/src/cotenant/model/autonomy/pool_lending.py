"""A PoolLending: how far the manager may lend on the nodes of one pool, and what came of it day by day.

A pool is a level of the ConfigMap: the cluster, or one of its `nodeConfigs`. What a restart must not forget is in the
status: the days that were judged, and the one that is being judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

MAX_DAYS = 60  # that are kept: an outcome is forgotten after more days than two promotions need
DAY_S = 86_400.0
HOUR_S = 3_600.0


class LendMode(StrEnum):
    """How far lending goes by itself."""

    SHADOW = "shadow"  # amounts are computed and judged, and none is shown
    SUGGEST = "suggest"  # amounts are shown, and none is written on a node
    APPROVE = "approve"  # a person allows the pool's rules
    ACT = "act"
    EARNED = "earned"  # as far as the days of the pool have held; begins as `suggest`


class LendingOutcome(StrEnum):
    """How a day ended."""

    HELD = "held"
    EXCEEDED = "exceeded"  # less was free than the stated risk allows
    OBJECTIVE = "objective"  # a service beside batch pods began to miss its objective
    UNDONE = "undone"  # a person took it back


@dataclass(frozen=True, slots=True)
class LendingDay:
    """One day (UTC) of a pool, in node-hours in which something was offered and measured."""

    day: int  # since 1970
    hours: int = 0
    exceeded: int = 0  # of those in which prod + offered exceeded the capacity
    lent: int = 0  # of those in which it was on the node, and not only suggested
    cpu_m_hours: int = 0  # offered
    memory_mib_hours: int = 0
    objective: str = ""  # that began to burn


@dataclass(frozen=True, slots=True)
class LendingReceipt:
    """A day that was judged. `id` is its date."""

    id: str
    outcome: LendingOutcome
    day: LendingDay
    rung: str
    allowed_by: str
    why: str


@dataclass(frozen=True, slots=True)
class LendingSuggestion:
    """What would be lent. The id changes with the rules, and after a fall or an undo: an approval ends with them."""

    id: str
    rules: str
    nodes: int = 0
    cpu_m: int = 0
    memory_mib: int = 0


@dataclass(frozen=True, slots=True)
class LendingStatus:
    """What is stored."""

    state: str = ""  # off, shadow, suggested, waiting, lent, stopped
    message: str = ""
    mode: str = ""
    rung: str = ""  # by mode and days
    suggestion: LendingSuggestion | None = None
    receipts: tuple[LendingReceipt, ...] = ()  # the newest first
    open: tuple[LendingDay, ...] = ()  # days that are not judged yet
    term: int = 0  # falls and undos so far
    stopped: str = ""  # why nothing is lent until a person approves, whatever the mode


@dataclass(frozen=True, slots=True)
class PoolLending:
    """An object. `wrong`: sentences on its spec; an approval beside one does not count."""

    name: str
    uid: str = ""
    approved: str = ""  # id of a suggestion
    approved_by: str = ""
    undo: str = ""  # id of a receipt
    wrong: tuple[str, ...] = ()
    status: LendingStatus = LendingStatus()
