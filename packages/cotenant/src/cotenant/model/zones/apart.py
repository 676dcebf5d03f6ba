"""Parties of a zone that never run at once, by rule.

Tenants that must not observe one another share no core at the same moment, and batch that a service suffers from keeps
off its cache while it runs. A rule names parties, each pair of which excludes the other within a core, a last-level
cache or the machine, always or while a service of theirs is late. The scheduler gets the rules as words of one byte a
party (`ApartTable`).
Limits: 8 parties of a zone; a group that names none is excluded by nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from cotenant.model.errors import InvalidInput

MOST_PARTIES = 8
MOST_RULES = 32
PARTY = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


def check_party(field_name: str, party: str) -> None:
    """Raises `InvalidInput` unless it is a name, or none."""
    if party and not PARTY.fullmatch(party):
        raise InvalidInput(field_name, party, "1 to 40 of a-z, 0-9 and -, as in tenant-a")


class Within(StrEnum):
    """Where parties exclude one another; the order is that of bpf/zone_apart.h."""

    CORE = "core"
    CACHE = "cache"  # the last level
    MACHINE = "machine"


class RuleTime(StrEnum):
    """When a rule holds."""

    ALWAYS = "always"
    LATE = "late"  # for a second after a service of its parties waited for longer than its `late_ms`


@dataclass(frozen=True, slots=True)
class ApartRule:
    """Of these parties never two run at once `within` the same place."""

    parties: tuple[str, ...]
    within: Within = Within.CORE
    when: RuleTime = RuleTime.ALWAYS

    def __post_init__(self) -> None:
        for party in self.parties:
            check_party("parties", party or " ")
        if not 2 <= len(set(self.parties)) == len(self.parties):
            raise InvalidInput("parties", ", ".join(self.parties), "two parties or more, each once")


_NOTHING = ((0,) * MOST_PARTIES,) * len(Within)


@dataclass(frozen=True, slots=True)
class ApartTable:
    """Rules as the scheduler reads them. `parties`: by their number less one; `always`, `late`: for each level of
    `Within` the word of the parties that each party excludes, a byte each; `cores`, `caches`: the lowest CPU of each
    CPU's core and last-level cache.
    """

    parties: tuple[str, ...] = ()
    always: tuple[tuple[int, ...], ...] = _NOTHING
    late: tuple[tuple[int, ...], ...] = _NOTHING
    cores: Mapping[int, int] = field(default_factory=dict)
    caches: Mapping[int, int] = field(default_factory=dict)

    def number(self, party: str) -> int:
        """Of a row's party; 0 where no rule names it."""
        return self.parties.index(party) + 1 if party in self.parties else 0


def parties_of(rules: Iterable[ApartRule]) -> tuple[str, ...]:
    """All that the rules name, in order of their names. Raises `InvalidInput` where they are too many."""
    found = tuple(sorted({party for rule in rules for party in rule.parties}))
    if len(found) > MOST_PARTIES:
        raise InvalidInput("apart", f"{len(found)} parties", f"at most {MOST_PARTIES}")
    return found


def words(rules: Sequence[ApartRule], when: RuleTime) -> tuple[tuple[int, ...], ...]:
    """For each level and party, the bytes of the parties that it excludes `when`."""
    parties = parties_of(rules)
    found = [[0] * MOST_PARTIES for _ in Within]
    for rule in rules:
        if rule.when is when:
            level = found[list(Within).index(rule.within)]
            for party in rule.parties:
                for other in set(rule.parties) - {party}:
                    level[parties.index(party)] |= 0xFF << 8 * parties.index(other)
    return tuple(map(tuple, found))
