"""Steps of members of a sharded scheduler, one by one; tests/property/shards tries what happens to many of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from cotenant.engine.sharding.member import FenceLost, ShardMember, ShardView, WriteTable
from cotenant.engine.sharding.rooms import RoomAsk, RoomView
from cotenant.model.resources import Amounts
from cotenant.model.shards.table import ROOMS_FORMAT, QuotaRoom, RoomFor, RoomKey, ShardTable
from cotenant.policy.sharding.borrowing import LoanLimits

LIMITS = LoanLimits(loan_s=10.0, refused_s=2.0)
NODES = tuple(f"n{number}" for number in range(40))
NOBODY: Mapping[str, str] = MappingProxyType({})


class Register:
    """The table, and members that all see each of its versions at once."""

    def __init__(self, *slots: int) -> None:
        self.table, self.version, self.now_s = ShardTable(), 0, 0.0
        self.members = {slot: ShardMember(slot, f"replica-{slot}", f"term-{slot}", LIMITS) for slot in slots}
        self.holders: dict[str, str] = {}
        self.fences: list[FenceLost] = []
        self.in_flight: dict[int, frozenset[str]] = {}
        self.wanted: dict[int, tuple[str, ...]] = {}
        self.pods_version = 1 << 30

    def turn(self, *slots: int, times: int = 1) -> None:
        """Let these members, or all, take a step each."""
        for _ in range(times):
            self.now_s += 0.1
            for slot in slots or tuple(self.members):
                member = self.members[slot]
                member.table_seen(self.table, self.version)
                view = ShardView(
                    dict(self.holders),
                    self.pods_version,
                    self.in_flight.get(slot, frozenset()),
                    wanted=self.wanted.get(slot, ()),
                )
                for given in member.step(self.now_s, view):
                    if isinstance(given, FenceLost):
                        self.fences.append(given)
                    elif isinstance(given, WriteTable) and given.version == self.version:
                        self.table, self.version = given.table, self.version + 1
                        member.table_seen(self.table, self.version)

    def owners(self, node: str) -> list[int]:
        return [slot for slot, member in self.members.items() if member.territory.owns_node(node)]


def joined(*slots: int) -> Register:
    made = Register(*slots)
    made.turn(times=4 * len(slots))
    assert made.table.is_settled
    assert len(made.table.members) == len(slots)
    return made


def test_every_node_has_one_owner_once_all_have_joined() -> None:
    made = joined(0, 1, 2)
    assert all(len(made.owners(node)) == 1 for node in NODES)
    assert all(not member.standing() for member in made.members.values())


def test_a_joining_member_waits_until_the_binds_of_others_have_ended() -> None:
    made = joined(0)
    made.in_flight[0] = frozenset(NODES)
    made.members[1] = ShardMember(1, "replica-1", "term-1", LIMITS)
    made.turn(times=6)
    mine = [node for node in NODES if made.owners(node) == []]
    assert mine
    assert not made.table.is_settled
    assert made.members[1].standing() == "waits for shard 0 to act by ring 2"
    made.in_flight[0] = frozenset()
    made.turn(times=3)
    assert all(made.owners(node) == [1] for node in mine)


def test_nothing_new_is_taken_before_the_watch_of_pods_is_as_new_as_the_agreement() -> None:
    made = Register(0)
    made.pods_version = 0
    made.turn(times=4)
    assert made.table.is_settled
    assert made.members[0].standing() == "waits for its watch of pods"
    assert not made.owners("n1")
    made.pods_version = made.version
    made.turn()
    assert made.owners("n1") == [0]


def test_a_lost_members_nodes_are_nobodys_until_it_is_fenced() -> None:
    made = joined(0, 1, 2)
    theirs = [node for node in NODES if made.owners(node) == [2]]
    made.holders["term-2"] = ""
    made.turn(0, 1, times=4)
    assert made.members[0].standing() == "waits until no bind can arrive any more of shard 2"
    assert not any(made.members[slot].territory.owns_node(node) for node in theirs for slot in (0, 1))
    assert {given.member.token for given in made.fences} == {"term-2"}
    assert made.fences[0].slots == (0, 1, 2)
    made.members[0].fenced("term-2", done=True)
    made.turn(0, 1, times=4)
    assert all(len([slot for slot in made.owners(node) if slot != 2]) == 1 for node in theirs)
    made.turn(2)
    assert not any(2 in made.owners(node) for node in NODES) or made.members[2].is_member


def test_a_read_of_a_lease_that_is_older_than_the_member_counts_for_nothing() -> None:
    made = joined(0, 1)
    made.holders["term-of-before"] = ""
    made.turn(times=3)
    assert len(made.table.members) == 2


def test_a_node_is_lent_when_its_owners_binds_have_ended_and_comes_back() -> None:
    made = joined(0, 1)
    node = next(node for node in NODES if made.owners(node) == [1])
    made.in_flight[1] = frozenset((node,))
    made.wanted[0] = (node,)
    made.turn(times=3)
    assert made.owners(node) == []
    assert not made.table.loans[node].is_lent
    made.in_flight[1] = frozenset()
    made.turn(times=3)
    assert made.owners(node) == [0]
    made.wanted[0] = ()
    made.in_flight[0] = frozenset((node,))
    made.now_s += LIMITS.loan_s
    made.turn(times=3)
    assert made.owners(node) == []  # over, and its last bind is under way
    made.in_flight[0] = frozenset()
    made.turn(times=3)
    assert made.owners(node) == [1]
    assert node not in made.table.loans
    assert made.members[0].refused == {node}  # it is not asked for again at once
    made.now_s += LIMITS.refused_s
    made.turn(0)
    assert not made.members[0].refused


def test_a_lost_borrowers_node_stays_closed_until_it_is_fenced() -> None:
    made = joined(0, 1, 2)
    node = next(node for node in NODES if made.owners(node) == [1])
    made.wanted[2] = (node,)
    made.turn(times=3)
    assert made.owners(node) == [2]
    made.holders["term-2"] = ""
    made.turn(0, 1, times=4)
    assert not made.members[1].territory.owns_node(node)
    made.members[0].fenced("term-2", done=True)
    made.turn(0, 1, times=4)
    assert node not in made.table.loans
    assert any(made.members[slot].territory.owns_node(node) for slot in (0, 1))


def test_who_leaves_hands_over_without_a_fence() -> None:
    made = joined(0, 1)
    leaving = made.members.pop(1).leave()
    assert leaving is not None
    made.table, made.version = leaving.table, made.version + 1
    made.turn(times=3)
    assert all(made.owners(node) == [0] for node in NODES)
    assert not made.fences


TEAM = RoomFor("team")


def of_two_versions() -> Register:
    """Two members, of which the second is of a version that erases what members say of forms."""
    made = joined(0, 1)
    assert made.table.format == ROOMS_FORMAT
    forgotten = tuple(replace(member, format=0) for member in made.table.members)
    made.table, made.version = replace(made.table, members=forgotten), made.version + 1
    return made


def ask(made: Register, slot: int, lender: int) -> None:
    """One step, in which a member wants room of a quota, or may lend it."""
    member = made.members[slot]
    member.table_seen(made.table, made.version)
    asks = {TEAM: RoomAsk(2, Amounts.of({"cpu": 1}), 0)}
    rooms = RoomView(asks if slot != lender else {}, owner=lambda quota: lender, lend=lambda key, room: room.asked)
    for given in member.step(made.now_s, ShardView(pods_version=1 << 30, rooms=rooms)):
        assert isinstance(given, WriteTable)
        made.table, made.version = given.table, made.version + 1


def test_a_member_says_again_which_form_it_keeps_where_that_was_erased() -> None:
    made = of_two_versions()
    made.turn(0)
    assert [member.format for member in made.table.members] == [ROOMS_FORMAT, 0]


def test_no_room_is_asked_for_or_lent_while_a_member_does_not_say_that_it_keeps_it() -> None:
    made = of_two_versions()
    ask(made, 0, lender=1)
    ask(made, 0, lender=1)
    assert not made.table.rooms
    asked = {RoomKey(TEAM, 1): QuotaRoom(2, Amounts.of({"cpu": 1}))}
    made.table, made.version = replace(made.table, rooms=asked), made.version + 1
    ask(made, 0, lender=0)
    assert not made.table.rooms
    made = joined(0, 1)
    ask(made, 0, lender=1)
    ask(made, 1, lender=1)
    assert made.table.rooms[RoomKey(TEAM, 0)].is_lent


def test_nothing_is_remembered_of_the_rooms_of_gangs_that_have_ended() -> None:
    made = joined(0, 1)
    rooms = made.members[0].rooms
    for number in range(5):
        of = RoomFor("team", gang=f"default/job-{number}")
        made.members[0].table_seen(made.table, made.version)
        asks = {of: RoomAsk(1, Amounts.of({"cpu": 100}), 0)}
        asked = rooms.step(made.table, made.now_s, RoomView(asks, owner=lambda quota: 1))
        assert list(asked) == [RoomKey(of, 0)]
        table = replace(made.table, rooms={RoomKey(of, 0): QuotaRoom(1, is_lent=True)})
        rooms.step(table, made.now_s, RoomView(asks, owner=lambda quota: 1))
        rooms.step(made.table, made.now_s, RoomView())  # it was returned
        made.now_s += 60.0
    assert [rooms._asked_s, rooms._grown_s, rooms._wrote_s] == [{}, {}, {}]
