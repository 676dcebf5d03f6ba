"""What a quota frees by evictions is promised to the pods for which they are made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cotenant.engine.framework.instructions import Evict, Victim
from cotenant.engine.plugins.quotas.accounts import Account

REASON = "QuotaPreempted"
PROMISED_S = 60.0  # afterwards the pod may retry


@dataclass(frozen=True, slots=True)
class Promise:
    """Freed quota is kept for these pods, which are alike, or for the members of this gang."""

    uids: frozenset[str]
    name: str  # for messages
    quota: str
    priority: int
    until_s: float
    victims: Mapping[str, Account]  # by UID
    gangs: tuple[tuple[str, ...], ...] = ()  # those of them that go as a whole
    together: bool = False  # a gang: it ends with any of them
    awaited: tuple[str, ...] = ()  # namespace/name of pods whose budgets allow no disruption now; nobody is evicted
    least: int = 0  # the lowest priority of its pods; `priority` is the highest
    joins: int = 0  # attempts


def evictions(name: str, quota: str, priority: int, victims: Iterable[Account]) -> list[Evict]:
    """The evictions for the pods of this name."""
    what = f"{name} of the same quota {quota} is more important ({priority}) and does not fit beside it"
    return [Evict(Victim(victim.uid, victim.entry.seen.pod.key, victim.entry.node), REASON, what) for victim in victims]
