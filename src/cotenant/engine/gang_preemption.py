"""Whom to evict so that a whole Strict gang fits: found by a rehearsal on the real arrays, of which nothing is left but the answer.

Problem: to evict for one member after the other costs others their nodes although the gang may not fit in the end. Choice: the gang is placed as far as it goes;
for each member that is missing, victims are looked for as for a single pod (less important ones, those whose budgets bear it first, no more than needed), taken
off their nodes for the moment, and the member placed there; if the minimum is reached that way the victims and the nodes are the answer, and in any case everything is
put back. Members of other gangs are spared where it goes without them; else a Strict gang that would fall below its minimum goes whole, and one that has a
member too important for that is spared. Limits: victims for at most `MOST_LOOKS` members a gang; members of a gang that goes whole are not asked for their
budgets one by one; ordinary pods that preempt do not know gangs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cotenant.engine.cluster_parts import Parts
from cotenant.engine.gang_members import Gang
from cotenant.engine.gangs import Gangs
from cotenant.engine.podstate import Entry
from cotenant.model.arrays import Int

MOST_LOOKS = 128
_SPARED = np.int64(1) << np.int64(40)  # above every priority


@dataclass(frozen=True, slots=True)
class Plan:
    """Who goes, and where the gang's members are expected."""

    rows: tuple[tuple[Entry, int], ...]
    victims: tuple[Entry, ...]
    breaks_budgets: int


@dataclass(slots=True)
class _Rehearsal:
    placed: list[Entry]
    gone: list[tuple[Entry, int]]  # victims and their rows
    breaks_budgets: int = 0


class GangPreempting:
    """Looks for victims for whole gangs."""

    def __init__(self, parts: Parts, gangs: Gangs) -> None:
        self._parts = parts
        self._gangs = gangs

    def attempt(self, keys: tuple[str, ...], entries: list[Entry], now_s: float) -> Plan | str:
        """A plan, or why there is none. The bundle's promises and those of less important pods are lifted; nothing is changed."""
        if any(not entry.seen.preempts for entry in entries):
            return "not eligible due to preemptionPolicy=Never"
        priority = min(entry.seen.pod.priority for entry in entries)
        if not self._could_help(entries, priority):
            return ""
        plan: Plan | str = ""
        for spared in dict.fromkeys((self._members_of_gangs(priority, False), self._members_of_gangs(priority, True))):
            plan = self._rehearse(keys, entries, priority, spared, now_s)
            if isinstance(plan, Plan):
                break
        return plan

    def _could_help(self, entries: list[Entry], priority: int) -> bool:
        """Whether free room and everything less important are enough in total."""
        ledger = self._parts.seating.ledger
        seated = np.flatnonzero(ledger.row >= 0)
        lower = seated[self._parts.seating.priorities[seated] < priority]
        if len(lower) == 0:
            return False
        nodes = ledger.nodes
        free = np.maximum(0, nodes.capacity - nodes.requested)[nodes.ready].sum(axis=0)
        least = self._gangs.least_of(dict.fromkeys(self._gangs.key_of(entry.seen.uid) for entry in entries))
        asked = np.sort(ledger.shapes.request[[entry.shape for entry in entries]], axis=0)[:least].sum(axis=0)
        return bool((free + ledger.shapes.request[ledger.shape[lower]].sum(axis=0) >= asked).all())

    def _members_of_gangs(self, priority: int, only_too_important: bool) -> tuple[int, ...]:
        """Numbers of residents that are not to be evicted: members of gangs, or only of those that cannot go whole."""
        found: list[int] = []
        for gang in self._gangs.with_placed():
            members = [gang.members[uid] for uid in gang.placed]
            whole = not only_too_important or any(each.seen.pod.priority >= priority for each in members)
            if whole:
                found += [each.number for each in members if each.seen.pod.priority < priority]
        return tuple(sorted(found))

    def _rehearse(
        self, keys: tuple[str, ...], entries: list[Entry], priority: int, spared: tuple[int, ...], now_s: float
    ) -> Plan | str:
        seating, placing = self._parts.seating, self._parts.placing
        priorities = seating.priorities.copy()
        priorities[list(spared)] = _SPARED
        mark = placing.mark()
        done = _Rehearsal([], [])
        try:
            why = self._place_all(keys, entries, priority, priorities, done, now_s)
            rows = tuple((entry, int(seating.ledger.row[entry.number])) for entry in done.placed)
        finally:
            placing.undo(done.placed, mark)
            self._put_back(done.gone)
        if why:
            return why
        victims = [victim for victim, _ in done.gone]
        victims += self._rest_of_gangs(victims)
        return Plan(rows, tuple(victims), done.breaks_budgets)

    def _place_all(
        self,
        keys: tuple[str, ...],
        entries: list[Entry],
        priority: int,
        priorities: Int,
        done: _Rehearsal,
        now_s: float,
    ) -> str:
        """Place members, with evictions where it takes them, until the minimum is there; why not."""
        seating, placing = self._parts.seating, self._parts.placing
        judged = placing.place(entries, now_s)
        done.placed += [entry for entry, judgement in zip(entries, judged, strict=True) if judgement.row >= 0]
        missing = [entry for entry, judgement in zip(entries, judged, strict=True) if judgement.row < 0]
        looks = 0
        for entry in missing:
            if not self._gangs.lacking(keys, done.placed):
                return ""
            if done.gone and placing.place([entry], now_s)[0].row >= 0:
                done.placed.append(entry)
                continue
            looks += 1
            if looks > MOST_LOOKS:
                return f"preemption: victims are looked for on behalf of {MOST_LOOKS} members at most"
            found = self._parts.preempting.look(entry, priority, priorities)
            if found.row < 0:
                return found.headline(len(seating.encoder.node_rows))
            self._take_off([seating.by_number[number] for number in found.victims], done)
            done.breaks_budgets += found.violations
            only = np.zeros(len(seating.names), dtype=np.bool_)
            only[found.row] = True
            if placing.place([entry], now_s, only)[0].row < 0:
                return "preemption: a member does not fit although everything less important was taken away"
            done.placed.append(entry)
        return "" if not self._gangs.lacking(keys, done.placed) else "preemption: too few members"

    def _take_off(self, victims: Sequence[Entry], done: _Rehearsal) -> None:
        seating = self._parts.seating
        for victim in victims:
            row = int(seating.ledger.row[victim.number])
            seating.ledger.remove(np.array([victim.number]))
            seating.narrowing.leave(victim.number)
            seating.memory.changed(row)
            done.gone.append((victim, row))

    def _put_back(self, gone: list[tuple[Entry, int]]) -> None:
        seating = self._parts.seating
        for victim, row in reversed(gone):
            seating.ledger.place(np.array([victim.number]), np.array([row]), np.array([victim.shape]))
            seating.narrowing.seat(victim.number, row)
            seating.memory.changed(row)

    def _rest_of_gangs(self, victims: Sequence[Entry]) -> list[Entry]:
        """The other members of Strict gangs that would fall below their minimum."""
        lost: dict[str, set[str]] = {}
        for victim in victims:
            key = self._gangs.key_of(victim.seen.uid)
            if key:
                lost.setdefault(key, set()).add(victim.seen.uid)
        rest: list[Entry] = []
        for key, uids in lost.items():
            gang = self._gangs.get(key)
            if gang is not None and _falls_short(gang, len(uids)):
                rest += [gang.members[uid] for uid in sorted(gang.placed - uids)]
        return rest


def _falls_short(gang: Gang, fewer: int) -> bool:
    return gang.spec is not None and gang.is_strict() and len(gang.placed) - fewer < gang.spec.min_available
