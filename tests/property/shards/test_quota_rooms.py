"""Room of quotas between shards, tried step by step: the server's register, one lender and two borrowers whose watches
of pods and reads of the table lag as they like, writes that are lost, late or stored without an answer, and borrowers
that bind, let pods end and return in any order. At each moment what is bound must be within the quota; and once
everybody hears of everything, all of the quota can be used again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.few import examples

from cotenant.engine.sharding.rooms import LentRooms, QuotaRooms, RoomAsk, RoomView
from cotenant.model.resources import Amounts
from cotenant.model.shards.table import ROOMS_FORMAT, QuotaRoom, RoomFor, RoomKey, ShardTable, SlotMember
from cotenant.policy.sharding.borrowing import LoanLimits, pods_to_grant

LENDER, WHOLE = 0, 10
TEAM = RoomFor("q")
EMPTY = ShardTable(members=(SlotMember(LENDER, "", "", 0, ROOMS_FORMAT),))
LIMITS = LoanLimits(loan_s=6.0, refused_s=1.0, room_wait_s=2.0)


@dataclass
class Late:
    """A write on its way, and the version that it would replace."""

    table: ShardTable
    version: int


class Scene:
    """The register, what is bound, and three shards."""

    def __init__(self) -> None:
        self.version = 1  # of everything that is stored
        self.table, self.stored_at = EMPTY, 0
        self.bound: dict[str, int] = {}  # pod -> the version of its bind
        self.ended: dict[str, int] = {}  # pod -> the version of its end
        self.late: list[Late] = []
        self.now_s = 0.0
        self.shards = [Side(slot, self) for slot in range(3)]

    def use(self) -> int:
        return len(self.bound.keys() - self.ended.keys())

    def bind(self) -> None:
        self.version += 1
        self.bound[f"pod-{len(self.bound)}"] = self.version
        assert self.use() <= WHOLE, f"{self.use()} of {WHOLE}: {self.table.rooms}"

    def end(self, number: int) -> None:
        running = sorted(self.bound.keys() - self.ended.keys())
        if running:
            self.version += 1
            self.ended[running[number % len(running)]] = self.version

    def swap(self, late: Late) -> bool:
        if late.version != self.stored_at:
            return False
        self.version += 1
        self.table, self.stored_at = late.table, self.version
        return True


class Side:
    """One shard. It reads the table, and hears of pods, as far as it is let."""

    def __init__(self, slot: int, scene: Scene) -> None:
        self.slot = slot
        self.scene = scene
        self.rooms = QuotaRooms(slot, LIMITS)
        self.table, self.seen_at, self.pods_at = EMPTY, -1, 0
        self.used = 0
        self.under_way = 0  # own binds that the server has not got yet
        self.binds: list[int] = []  # versions of those that it has
        self.wants = self.promised = 0

    def read(self) -> None:
        if self.scene.stored_at > self.seen_at:
            self.rooms.seen(self.table, self.scene.table, self.scene.stored_at)
            self.table, self.seen_at = self.scene.table, self.scene.stored_at
        self._settle()

    def hear(self, share: float) -> None:
        self.pods_at += int(share * (self.scene.version - self.pods_at))
        self._settle()

    def _settle(self) -> None:
        self.rooms.settle(self.table, self.scene.now_s, self.pods_at)
        if TEAM not in self.rooms.own:
            self.used = 0

    def counted(self) -> int:
        """What the lender counts as used: what it has heard of, its own binds, and what others may bind."""
        known = sum(at <= self.pods_at for at in self.scene.bound.values())
        known -= sum(at <= self.pods_at for at in self.scene.ended.values())
        own = self.under_way + sum(at > self.pods_at for at in self.binds)
        return known + own + sum(charge.used.get("pods") for charge in self.rooms.lent.charges.values())

    def lend(self, key: RoomKey, room: QuotaRoom) -> int:
        pods = pods_to_grant(room.asked, max(0, WHOLE - self.counted() - self.promised), self.wants)
        self.promised += pods
        return pods

    def step(self, is_sent: bool, is_answered: bool, is_spare: bool) -> None:
        if self.seen_at < 0:
            return
        self.promised = 0
        left = self.left()
        asks = {TEAM: RoomAsk(max(0, self.wants - left), Amounts.of({"pods": 1}), 0)} if self.wants else {}
        view = RoomView(
            asks if self.slot != LENDER else {},
            {TEAM: Amounts.of({"pods": self.used})},
            frozenset({TEAM} if is_spare else ()),
            frozenset(),
            frozenset({RoomKey(TEAM, self.slot)} if self.under_way else ()),
            lambda quota: LENDER,
            self.lend,
        )
        rooms = self.rooms.step(self.table, self.scene.now_s, view)
        self._settle()
        if dict(rooms) == dict(self.table.rooms):
            return
        late = Late(replace(self.table, rooms=rooms), self.seen_at)
        if not is_sent:
            self.scene.late.append(late)
        elif self.scene.swap(late) and is_answered:
            self.read()

    def left(self) -> int:
        granted = self.rooms.own.get(TEAM)
        return granted.get("pods") - self.used - self.under_way if granted is not None else 0

    def decide(self) -> None:
        """Begin one bind, where that is allowed."""
        may = WHOLE - self.counted() > 0 if self.slot == LENDER else self.left() > 0
        if may and self.wants:
            self.under_way += 1
            self.wants -= 1

    def deliver(self) -> None:
        """One bind reaches the server, which answers."""
        if self.under_way:
            self.under_way -= 1
            self.scene.bind()
            self.used += self.slot != LENDER
            self.binds.append(self.scene.version)


ACTS = st.tuples(st.integers(0, 11), st.integers(0, 2), st.integers(0, 7))


def act(at: Scene, what: int, slot: int, more: int) -> None:
    side = at.shards[slot]
    if what == 0:
        side.wants += 1 + more
    elif what == 1:
        side.read()
    elif what == 2:
        side.hear((1 + more) / 8)
    elif what in (3, 4, 5):
        side.step(is_sent=more != 0, is_answered=more not in (1, 2), is_spare=more == 7)
    elif what in (6, 7):
        side.decide()
    elif what in (8, 9):
        side.deliver()
    elif what == 10 and at.late:
        at.swap(at.late.pop(more % len(at.late)))
    elif what == 11:
        at.now_s += more
        if more % 2:
            at.end(more)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(ACTS, min_size=20, max_size=200))
def test_never_more_than_the_quota_is_bound_and_all_of_it_is_used_in_the_end(acts: list[tuple[int, int, int]]) -> None:
    at = Scene()
    for what, slot, more in acts:
        act(at, what, slot, more)
    at.late.clear()
    for side in at.shards:
        side.wants = 0 if side.slot != 2 else WHOLE
    for _ in range(60):
        at.now_s += 0.5
        for side in at.shards:
            side.read()
            side.hear(1.0)
            side.step(is_sent=True, is_answered=True, is_spare=not side.wants and not side.under_way)
            for _ in range(WHOLE):
                side.decide()
            for _ in range(WHOLE):
                side.deliver()
    assert at.use() == WHOLE
    assert not at.table.rooms or at.shards[2].wants


def lent_twice() -> None:
    """All of a quota is lent, used and returned; then another asks, and the lender has not heard of a pod yet."""
    at = Scene()
    lender, borrower, other = at.shards
    borrower.wants = WHOLE
    for _ in range(2):
        at.now_s += 0.5
        for side in (borrower, lender):
            side.read()
            side.step(is_sent=True, is_answered=True, is_spare=False)
    borrower.read()
    for _ in range(WHOLE):
        borrower.decide()
        borrower.deliver()
    assert at.use() == WHOLE
    at.now_s += 0.5
    borrower.step(is_sent=True, is_answered=True, is_spare=True)
    other.wants = 1
    for side in (lender, other, lender, other):
        side.read()
        side.step(is_sent=True, is_answered=True, is_spare=False)
    other.decide()
    other.deliver()


def test_what_was_used_and_returned_counts_until_the_lender_has_heard_of_the_pods(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lent_twice()
    settle = LentRooms.settle
    monkeypatch.setattr(LentRooms, "settle", lambda self, table, pods_version: settle(self, table, 1 << 60))
    with pytest.raises(AssertionError, match="11 of 10"):
        lent_twice()


def bind_all(*sides: Side) -> None:
    for side in sides:
        for _ in range(WHOLE):
            side.decide()
            side.deliver()


def test_what_an_older_replica_erases_is_lent_twice() -> None:
    """So no room is lent beside one that does not say that it keeps it."""
    at = Scene()
    lender, borrower, other = at.shards
    borrower.wants = other.wants = WHOLE
    for _ in range(3):
        at.now_s += 0.5
        for side in (borrower, lender):
            side.read()
            side.step(is_sent=True, is_answered=True, is_spare=False)
    borrower.read()
    assert borrower.left() == WHOLE
    assert at.swap(Late(replace(at.table, rooms={}), at.stored_at))
    for side in (lender, other, lender, other):
        at.now_s += 0.5
        side.read()
        side.hear(1.0)
        side.step(is_sent=True, is_answered=True, is_spare=False)
    with pytest.raises(AssertionError, match=f"{WHOLE + 1} of {WHOLE}"):
        bind_all(other, borrower)  # which has not read the table since
