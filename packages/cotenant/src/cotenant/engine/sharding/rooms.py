"""Room of quotas that one shard lends another, as a state machine without I/O: a part of `ShardMember`.

One shard decides for a quota's tree. It may lend another an amount of a quota, with which that one decides for the
quota's pods whose workload is its own. There is a room for those that may be preempted, one for those that may not, and
one for each gang (`RoomFor`):
- the borrower asks, for so many pods of at most such a size; for a gang as for one pod of the size of all that waits;
- the lender counts the amount as used in its own account at once, gives up those pods, lets its binds of them end, and
  then writes what it grants. What it was about to write counts until the table has a newer version, after which that
  write can only be refused;
- the borrower binds what fits into the grant, says what it has bound (`used`), may ask for more, and returns the rest
  after its binds have ended: at the end of its time, which it counts from before it asked, or where it has no use of
  it. Nobody takes it back by a clock of his own;
- what was used or returned counts as lent until the own watch of pods is as new as the version that says so: the pods
  that it was used for count by themselves from then on.
So what counts as used is never less than what is used or may still be. Every shard counts everybody's grants, whoever
made them, so another one that becomes the tree's shard goes on with the same sums. A borrower that lost its Lease keeps
its grant until its pending pods are changed (`FenceLost`), and then it is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from types import MappingProxyType
from typing import NamedTuple

from cotenant.model.resources import MAX_AMOUNT, NOTHING, Amounts
from cotenant.model.shards.table import ROOMS_FORMAT, QuotaRoom, RoomFor, RoomKey, ShardTable
from cotenant.policy.sharding.borrowing import MAX_ROOM_BYTES, LoanLimits, room_bytes

_REPORT_S = 0.25  # between two reports of what was used


class RoomAsk(NamedTuple):
    """Pods of one room that wait, whose workloads are the own: how many more than there is room for, and the largest
    of them; of a gang 1, and the sum of what there is no room for.
    """

    pods: int
    each: Amounts
    priority: int


class RoomCharge(NamedTuple):
    """What a shard counts for another in a quota: as used, and as asked for."""

    used: Amounts
    asked: Amounts


class RoomPromise(NamedTuple):
    """What is about to be written in the place of a room."""

    of: QuotaRoom
    found: QuotaRoom


@dataclass(frozen=True, slots=True)
class RoomView:
    """What a shard knows of quotas at the moment of a step. `lend` says for how many of the pods of an ask it grants
    room, and counts that as used from then on.
    """

    asks: Mapping[RoomFor, RoomAsk] = field(default_factory=lambda: MappingProxyType({}))
    used: Mapping[RoomFor, Amounts] = field(default_factory=lambda: MappingProxyType({}))  # of the own grants, bound
    spare: frozenset[RoomFor] = frozenset()  # borrowed, and nothing waits for it
    useless: frozenset[RoomFor] = frozenset()  # borrowed, and what waits cannot use it
    in_flight: frozenset[RoomKey] = frozenset()  # binds decided or under way: for which, and whose workload it is
    owner: Callable[[str], int] = lambda quota: -1  # the slot of a quota's tree; -1 = it is in none
    lend: Callable[[RoomKey, QuotaRoom], int] = lambda key, room: 0


class LentRooms:
    """What a shard counts for rooms that others have. A grant counts until the own watch of pods is as new as the table
    in which its use was said, or its return: then the pods that it was used for count by themselves.
    """

    def __init__(self, slot: int) -> None:
        self._slot = slot
        self._counted: dict[RoomKey, Amounts] = {}  # of `used`: what the own watch of pods has
        self._reported: dict[RoomKey, list[tuple[int, Amounts]]] = {}  # `used` by later versions of the table
        self._returned: dict[RoomKey, list[tuple[int, Amounts]]] = {}  # what was left at the end, by version
        self.promised: dict[RoomKey, RoomPromise] = {}
        self.charges: Mapping[RoomKey, RoomCharge] = {}
        self.away: frozenset[RoomKey] = frozenset()

    def seen(self, before: ShardTable, table: ShardTable, version: int) -> None:
        """A newer version of the table."""
        for key in {*before.rooms, *table.rooms}:
            if key.borrower == self._slot:
                continue
            room, after, promise = before.rooms.get(key), table.rooms.get(key), self.promised.get(key)
            if promise is not None and after != promise.of:  # written, and perhaps used since, or refused from now on
                del self.promised[key]
                was_lent = promise.of.is_lent or (after is not None and after.is_lent)
                room = room if after is not None and was_lent and _continues(promise.of, after) else promise.found
            if room is not None and room.is_lent and (after is None or not _continues(room, after)):
                left = less(room.granted, self._counted.pop(key, NOTHING))
                self._returned.setdefault(key, []).append((version, left))
                self._reported.pop(key, None)
                room = None
            if after is not None and after.used != (room.used if room is not None else NOTHING):
                self._reported.setdefault(key, []).append((version, after.used))

    def lags(self, pods_version: int) -> bool:
        """Whether something counts twice until newer changes of pods are seen."""
        waits = (*self._reported.values(), *self._returned.values())
        return any(version > pods_version for kept in waits for version, _ in kept)

    def settle(self, table: ShardTable, pods_version: int) -> None:
        """What counts now."""
        for key, reports in list(self._reported.items()):
            for version, used in reports:
                if version <= pods_version:
                    self._counted[key] = used
            self._reported[key] = [report for report in reports if report[0] > pods_version]
            if not self._reported[key]:
                del self._reported[key]
        for key, kept in list(self._returned.items()):
            self._returned[key] = [one for one in kept if one[0] > pods_version]
            if not self._returned[key]:
                del self._returned[key]
        charges: dict[RoomKey, RoomCharge] = {}
        for key in {*table.rooms, *self._returned}:
            if key.borrower == self._slot:
                continue
            promise = self.promised.get(key)
            room = promise.found if promise is not None else table.rooms.get(key)
            used = sum((left for _, left in self._returned.get(key, ())), NOTHING)
            asked = used
            if room is not None and room.is_lent:
                left = less(room.granted, self._counted.get(key, NOTHING))
                used, asked = used + left, asked + left + times(room.each, room.asked)
            if used or asked:
                charges[key] = RoomCharge(used, asked)
        self.charges = charges
        lent = {key for key, room in table.rooms.items() if room.is_lent and key.borrower != self._slot}
        self.away = frozenset(lent | self._returned.keys() | self.promised.keys())


class QuotaRooms:
    """Those of one term of a slot."""

    def __init__(self, slot: int, limits: LoanLimits) -> None:
        self._slot = slot
        self._limits = limits
        self._asked_s: dict[RoomFor, float] = {}
        self._grown_s: dict[RoomFor, float] = {}  # when the grant last grew, or nothing was asked
        self._wrote_s: dict[RoomFor, float] = {}
        self._refused_s: dict[RoomFor, float] = {}
        self._closed: set[RoomFor] = set()  # own, about to be returned
        self.own: Mapping[RoomFor, Amounts | None] = {}  # what was granted; None = not to be used any more
        self.lent = LentRooms(slot)

    def seen(self, before: ShardTable, table: ShardTable, version: int) -> None:
        """A newer version of the table."""
        self.lent.seen(before, table, version)
        for key, room in before.rooms.items():
            after = table.rooms.get(key)
            if key.borrower != self._slot:
                continue
            if after is None and not room.is_lent:
                self._refused_s.setdefault(key.of, inf)  # from the next step on
            elif after is not None and after.granted != room.granted:
                self._grown_s.pop(key.of, None)

    def settle(self, table: ShardTable, now_s: float, pods_version: int) -> None:
        """What follows from the newest table, now."""
        self.lent.settle(table, pods_version)
        for of, since_s in list(self._refused_s.items()):
            if since_s == inf:
                self._refused_s[of] = now_s
            elif now_s >= since_s + self._limits.refused_s:
                del self._refused_s[of]
        own: dict[RoomFor, Amounts | None] = {}
        for key, room in table.rooms.items():
            if key.borrower == self._slot and room.is_lent:
                if key.of not in self._asked_s or now_s >= self._asked_s[key.of] + self._limits.loan_s:
                    self._closed.add(key.of)
                own[key.of] = None if key.of in self._closed else room.granted
        self.own = own
        self._closed &= own.keys()

    def step(
        self, table: ShardTable, now_s: float, view: RoomView, may_lend: bool = True
    ) -> Mapping[RoomKey, QuotaRoom]:
        """The rooms after this step; only while everybody acts by the newest ring, so that owners are agreed on.
        `may_lend`: this one does too, so that it has seen every bind of whoever decided before.
        """
        rooms = dict(table.rooms)
        for key, room in table.rooms.items():
            if key.borrower == self._slot:
                changed = self._borrowed(key, room, now_s, view)
            elif may_lend and view.owner(key.of.quota) == self._slot:
                changed = self._asked_of_us(table, key, view)
            else:
                continue
            if changed is None:
                del rooms[key]
            else:
                rooms[key] = changed
        size = sum(_bytes(key, room) for key, room in rooms.items()) if view.asks else 0
        for of, ask in view.asks.items():
            key = RoomKey(of, self._slot)
            if len(rooms) >= self._limits.max_rooms or table.format < ROOMS_FORMAT:
                break
            if key in rooms or key in table.rooms or of in self._refused_s or not ask.pods:
                continue
            if view.owner(of.quota) not in (-1, self._slot):
                room = QuotaRoom(ask.pods, ask.each, ask.priority)
                size += _bytes(key, room)
                if size > MAX_ROOM_BYTES:
                    break
                rooms[key] = room
                self._asked_s[of] = now_s
                self._grown_s.pop(of, None)
                self._wrote_s[of] = now_s
        kept = {key.of for key in (*rooms, *table.rooms) if key.borrower == self._slot}
        for times_s in (self._asked_s, self._grown_s, self._wrote_s):
            for of in times_s.keys() - kept:  # gangs end
                del times_s[of]
        return rooms

    def _borrowed(self, key: RoomKey, room: QuotaRoom, now_s: float, view: RoomView) -> QuotaRoom | None:
        """One of our own after this step; None = it is returned."""
        of, limits = key.of, self._limits
        ask = view.asks.get(of, RoomAsk(0, room.each, room.priority))
        is_ours = view.owner(of.quota) not in (-1, self._slot)
        if not room.is_lent:
            is_over = of not in self._asked_s or now_s >= self._asked_s[of] + limits.loan_s
            return None if is_over or not is_ours or not ask.pods else room
        used = view.used.get(of, NOTHING).maximum(room.used)
        if not ask.pods:
            self._grown_s.pop(of, None)
        since_s = self._grown_s.setdefault(of, now_s)
        if of not in self._closed and is_ours and now_s >= since_s + limits.room_wait_s and ask.pods:
            self._closed.add(of)  # whoever decides for the tree may evict for it, or has pods that go first
            self._refused_s[of] = now_s
        if of in view.useless:
            self._refused_s[of] = now_s
        if of in view.useless or of in view.spare:
            self._closed.add(of)
        if of in self._closed or not is_ours:
            self._closed.add(of)
            return room if any(flying.of == of for flying in view.in_flight) else None
        if now_s < self._wrote_s.get(of, -inf) + _REPORT_S:
            return room
        changed = replace(room, asked=ask.pods, each=ask.each, priority=ask.priority, used=used)
        if changed != room:
            self._wrote_s[of] = now_s
        return changed

    def _asked_of_us(self, table: ShardTable, key: RoomKey, view: RoomView) -> QuotaRoom | None:
        """One that we may lend, after this step; None = it is refused."""
        room = table.rooms[key]
        promise = self.lent.promised.get(key)
        if promise is None:
            is_small = all(amount < MAX_AMOUNT // 4 for _, amount in room.granted)
            may = is_small and table.format >= ROOMS_FORMAT
            pods = view.lend(key, room) if room.asked and may else 0
            if not pods:
                return room if room.is_lent else None
            granted = room.granted + times(room.each, pods)
            found = replace(room, asked=room.asked - pods, is_lent=True, granted=granted)
            promise = self.lent.promised[key] = RoomPromise(room, found)
        if not room.is_lent and key in view.in_flight:
            return room  # its pods are given up from now on, and the binds of them end
        return promise.found


def times(amounts: Amounts, count: int) -> Amounts:
    """So many of them."""
    return Amounts.of((name, amount * count) for name, amount in amounts) if count > 0 else NOTHING


def less(amounts: Amounts, others: Amounts) -> Amounts:
    """The first without the second, never below zero."""
    return Amounts.of((name, max(0, amount - others.get(name))) for name, amount in amounts)


def _continues(room: QuotaRoom, after: QuotaRoom) -> bool:
    """Whether a later room is not one that was asked for anew."""
    return after.is_lent >= room.is_lent and _covers(after.granted, room.granted) and _covers(after.used, room.used)


def _covers(amounts: Amounts, others: Amounts) -> bool:
    """Whether the first are at least the second, in every resource."""
    return all(amounts.get(name) >= amount for name, amount in others)


def _bytes(key: RoomKey, room: QuotaRoom) -> int:
    names = {*room.each.names(), *room.granted.names()}
    return room_bytes(len(key.of.quota) + len(key.of.gang), names)
