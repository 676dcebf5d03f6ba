"""The table of shards is replaced on its version alone, and a Lease that stands still is taken from its holder."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any, cast

import msgspec
import pytest
from tests.fakes.servers.kept_leases import Leases

from cotenant.drivers.kube.kinds.parts import ObjectMeta
from cotenant.drivers.kube.kinds.shard_table import written_table
from cotenant.drivers.kube.leaderelection.election import Timing
from cotenant.engine.sharding.member import ShardMember, ShardView, WriteTable
from cotenant.engine.sharding.rooms import RoomAsk, RoomView
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.resources import Amounts
from cotenant.model.shards.table import Loan, QuotaRoom, RoomFor, RoomKey, ShardRing, ShardTable, SlotMember
from cotenant.policy.sharding.borrowing import LoanLimits
from cotenant.services.scheduler.shards.agreement import Agreement

TEAM = RoomFor("team")
TABLE = ShardTable(
    (ShardRing(3, (0, 2)),),
    (SlotMember(0, "a", "t", 3), SlotMember(2, "b", "u", 2)),
    (SlotMember(1, "c", "v", 1),),
    {"n1": Loan(2), "n2": Loan(0, is_lent=True)},
    {
        RoomKey(TEAM, 2): QuotaRoom(3, Amounts.of({"cpu": 500, "pods": 1}), 7),
        RoomKey(TEAM, 0): QuotaRoom(granted=Amounts.of({"pods": 9}), is_lent=True, used=Amounts.of({"pods": 2})),
    },
)
OTHER = ShardTable((ShardRing(4, (0,)),))
MEMBER = SlotMember(1, "a", "t", 0)
LEASE = "s-shard-1"


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def agreement(leases: Leases, clock: Clock | None = None) -> Agreement:
    return Agreement(
        cast(Any, leases), "ns", "s", clock or Clock(), Timing(lease_s=15.0, renew_deadline_s=10.0, retry_s=2.0)
    )


def run(work: Any) -> Any:
    return asyncio.run(work)


def test_a_table_is_created_read_and_replaced_with_the_version_that_was_read() -> None:
    leases = Leases()
    one, other = agreement(leases), agreement(leases)
    assert run(one.read()) == (ShardTable(), 0)
    assert run(one.replace(TABLE, 0)) == (TABLE, 7)
    assert list(leases.objects) == ["s-shards"]
    assert leases.objects["s-shards"].metadata.namespace == "ns"
    assert run(other.read()) == (TABLE, 7)
    assert run(other.replace(OTHER, 7)) == (OTHER, 8)
    assert run(other.replace(TABLE, 8)) == (TABLE, 9)  # its own write counts as read
    assert (one.conflicts, other.conflicts) == (0, 0)


def test_of_two_that_replace_one_version_the_second_is_told_to_read_again() -> None:
    leases = Leases()
    one, other = agreement(leases), agreement(leases)
    run(one.replace(TABLE, 0))
    assert run(other.read()) == (TABLE, 7)
    assert run(one.replace(OTHER, 7)) == (OTHER, 8)
    assert run(other.replace(TABLE, 7)) is None
    assert other.conflicts == 1
    assert run(other.replace(TABLE, 6)) is None  # not what it has read last: the server need not be asked
    assert (leases.writes, other.conflicts) == (2, 1)
    assert run(other.read()) == (OTHER, 8)


def test_of_two_that_create_the_table_the_second_is_told_to_read_again() -> None:
    leases = Leases()
    one, other = agreement(leases), agreement(leases)
    run(one.read())
    run(other.read())
    run(one.replace(TABLE, 0))
    assert run(other.replace(OTHER, 0)) is None
    assert other.conflicts == 1
    assert run(other.read()) == (TABLE, 7)
    del leases.objects["s-shards"]
    assert run(other.replace(OTHER, 7)) is None  # deleted meanwhile
    assert other.conflicts == 2


class Older(msgspec.Struct):
    """The table as versions read and write it that know of no forms: members of four fields, and rooms of eight."""

    rings: tuple[tuple[int, tuple[int, ...]], ...] = ()
    members: tuple[tuple[int, str, str, int], ...] = ()
    lost: tuple[tuple[int, str, str, int], ...] = ()
    asked: dict[str, int] = {}
    lent: dict[str, int] = {}


def members(*formats: int) -> tuple[SlotMember, ...]:
    return tuple(SlotMember(slot, f"r{slot}", f"t{slot}", 3, form) for slot, form in enumerate(formats))


def stored(leases: Leases) -> str:
    return str((leases.objects["s-shards"].metadata.annotations or {})["cotenant.io/shards"])


def store(leases: Leases, text: str) -> None:
    lease = leases.objects["s-shards"]
    meta = msgspec.structs.replace(lease.metadata, annotations={"cotenant.io/shards": text})
    leases.objects["s-shards"] = msgspec.structs.replace(lease, metadata=meta)


def test_rooms_of_gangs_and_of_what_nobody_may_preempt_are_kept() -> None:
    leases = Leases()
    one = agreement(leases)
    rooms = {
        RoomKey(RoomFor("team", preemptible=False), 1): QuotaRoom(2, Amounts.of({"cpu": 500}), 1),
        RoomKey(RoomFor("team", gang="ns/g"), 1): QuotaRoom(0, granted=Amounts.of({"cpu": 900}), is_lent=True),
        RoomKey(RoomFor("team"), 1): QuotaRoom(1),
    }
    table = replace(TABLE, members=members(2, 2), rooms=rooms)
    run(one.read())
    run(one.replace(table, 0))
    assert run(agreement(leases).read())[0] == table


def test_beside_an_older_member_the_table_stays_as_that_one_reads_it() -> None:
    leases = Leases()
    one = agreement(leases)
    table = ShardTable((ShardRing(3, (0, 1)),), members(2, 0), members(2)[:1])
    run(one.read())
    run(one.replace(table, 0))
    older = msgspec.json.decode(stored(leases), type=Older)
    assert older.members == ((0, "r0", "t0", 3), (1, "r1", "t1", 3))
    assert run(agreement(leases).read())[0] == table
    store(leases, msgspec.json.encode(older).decode())  # as it writes it: what others keep is no longer said
    assert run(one.read())[0].members == members(0, 0)


def test_once_all_members_keep_rooms_an_older_one_cannot_read_the_table_and_so_writes_nothing() -> None:
    leases = Leases()
    one = agreement(leases)
    run(one.read())
    run(one.replace(ShardTable((ShardRing(3, (0, 1)),), members(2, 2)), 0))
    with pytest.raises(msgspec.ValidationError, match="members"):
        msgspec.json.decode(stored(leases), type=Older)
    last = run(one.read())[0]
    run(one.replace(replace(last, members=(), lost=members(2, 2)), 7))  # the last are lost: it stays so
    with pytest.raises(msgspec.ValidationError, match="lost"):
        msgspec.json.decode(stored(leases), type=Older)
    run(one.replace(ShardTable((ShardRing(4, ()),)), 8))  # and where the last one left, an older one may begin
    assert msgspec.json.decode(stored(leases), type=Older).rings == ((4, ()),)


def test_a_table_of_a_newer_version_is_left_as_it_is_and_said() -> None:
    leases = Leases()
    one = agreement(leases)
    run(one.read())
    run(one.replace(TABLE, 0))
    newer = json.loads(stored(leases)) | {"format": 3, "members": [[0, "a", "t", 3, 3, {"more": 1}]]}
    store(leases, json.dumps(newer))
    with pytest.raises(InvalidInput, match=r"form 3.*at most 2.*newer version.*update this replica"):
        run(one.read())
    assert json.loads(stored(leases)) == newer


def holder(one: Agreement) -> str:
    return str(run(one.holder(MEMBER)))


def test_a_lease_without_a_holder_is_nobodys() -> None:
    leases = Leases()
    one = agreement(leases)
    assert holder(one) == ""
    leases.put(LEASE, None)
    assert holder(one) == ""
    leases.put(LEASE, "", spec=False)
    assert holder(one) == ""
    leases.put(LEASE, "a")
    assert holder(one) == "a"
    assert leases.writes == 0


@pytest.mark.parametrize(("duration_s", "within_s"), [(None, 15.0), (9, 9.0)])
def test_one_that_stands_for_its_duration_is_taken_from_its_holder(duration_s: int | None, within_s: float) -> None:
    leases, clock = Leases(), Clock()
    leases.put(LEASE, "a", duration_s)
    one = agreement(leases, clock)
    seen = []
    while not seen or seen[-1] == "a":
        seen.append(holder(one))
        clock.now_s += 1.0
    assert seen == ["a"] * int(within_s) + [""]
    spec = leases.objects[LEASE].spec
    assert spec is not None
    assert (spec.holder_identity, spec.lease_duration_seconds) == ("", duration_s)
    assert leases.writes == 1
    assert holder(one) == ""
    assert leases.writes == 1


def test_a_renewal_begins_anew() -> None:
    leases, clock = Leases(), Clock()
    leases.put(LEASE, "a")
    one = agreement(leases, clock)
    for second in range(40):
        clock.now_s += 1.0
        if second % 14 == 13:
            leases.put(LEASE, "a")
        assert holder(one) == "a"
    assert leases.writes == 0


def test_a_jump_of_the_clock_is_no_lost_lease() -> None:
    leases, clock = Leases(), Clock()
    leases.put(LEASE, "a")
    one = agreement(leases, clock)
    assert holder(one) == "a"
    for step_s in (1000.0, -500.0, 1000.0, 1000.0):  # each counts as twice the time between tries: 4 s, 0, 4, 4
        clock.now_s += step_s
        assert holder(one) == "a"
    clock.now_s += 2.9
    assert holder(one) == "a"
    clock.now_s += 0.1
    assert holder(one) == ""


def test_a_lease_that_was_renewed_meanwhile_or_cannot_be_written_stays_its_holders() -> None:
    leases, clock = Leases(), Clock()
    leases.put(LEASE, "a", 3)
    one = agreement(leases, clock)
    assert holder(one) == "a"
    clock.now_s += 3.0
    leases.before_write = lambda: leases.put(LEASE, "a", 3)
    assert holder(one) == "a"
    leases.before_write = lambda: None
    assert holder(one) == "a"  # the renewed one is young
    clock.now_s += 3.0
    leases.before_write = lambda: leases.broken.add(LEASE)
    assert holder(one) == "a"
    assert leases.writes == 0
    assert msgspec.structs.asdict(leases.objects[LEASE])["spec"].holder_identity == "a"


def test_a_table_that_was_deleted_is_not_taken_for_one_that_never_was() -> None:
    leases = Leases()
    one = agreement(leases)
    run(one.read())
    run(one.replace(TABLE, 0))
    del leases.objects["s-shards"]
    with pytest.raises(Permanent, match="Lease ns/s-shards was deleted: stop all shards, then start them again"):
        run(one.read())
    assert run(agreement(leases).read()) == (ShardTable(), 0)  # for one that starts there is none


def test_what_may_be_lent_fits_into_the_annotations_that_a_server_takes() -> None:
    member, name = ShardMember(0, "a" * 63, "t0", LoanLimits(max_share=1.0)), "n" * 245
    everybody = tuple(SlotMember(slot, "a" * 63, f"t{slot}", 1, 2) for slot in range(64))
    table = ShardTable((ShardRing(1, tuple(range(64))),), everybody)
    large = Amounts.of({f"example.com/{'r' * 40}-{i}": 2**52 for i in range(12)})
    asks = {RoomFor(f"{i:0>63}", gang=f"ns/{i:0>63}"): RoomAsk(9, large, 0) for i in range(300)}
    lends = RoomView(asks, owner=lambda quota: 1)
    wanted, version = tuple(f"{name}-{i}" for i in range(3000)), 1
    member.table_seen(table, version)
    (written,) = member.step(1.0, ShardView(pods_version=1 << 40, wanted=wanted, rooms=lends))
    assert isinstance(written, WriteTable)
    rooms = {key: replace(room, is_lent=True, granted=large, used=large) for key, room in written.table.rooms.items()}
    text = stored_text(replace(written.table, rooms=rooms))
    assert 100_000 < len(text) < 250_000
    assert len(written.table.loans) > 300
    assert len(rooms) > 30


def stored_text(table: ShardTable) -> str:
    return str((written_table(table, ObjectMeta(name="s")).metadata.annotations or {})["cotenant.io/shards"])
