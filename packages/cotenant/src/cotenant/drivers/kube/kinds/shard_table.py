"""The table of a scheduler's shards, as text in an annotation of a Lease.

A Lease, because a scheduler has the rights for it anyway and it has nothing that other controllers act on; its holder
stays empty. Names are short, since every loan is one of up to 2,000.

Replicas of two versions meet during an update. One that is older than forms of the table were would erase what it does
not know, so members say which form they keep. While one of them says nothing, the table is as such a one reads it, what
the others say stands beside it, and no room is lent. Once all say `ROOMS_FORMAT`, members are written with
five fields: an older version cannot read that, writes nothing and takes no part. A newer form than the own is not read.
"""

from __future__ import annotations

import msgspec

from cotenant.drivers.kube.kinds.lease import Lease
from cotenant.drivers.kube.kinds.parts import ObjectMeta
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import Amounts
from cotenant.model.shards.table import (
    ROOMS_FORMAT,
    Loan,
    QuotaRoom,
    RoomFor,
    RoomKey,
    ShardRing,
    ShardTable,
    SlotMember,
)

TABLE = "cotenant.io/shards"
FENCED = "cotenant.io/shard-fence"  # of pods: the term of a member whose last binds must not count
EVICTS = "cotenant.io/shard-evicts"  # a label of pods: the term of the member that evicts it
STIRRED = "cotenant.io/shard-version"  # of pods: changed so that watches deliver a newer version


class _WrittenRoom(msgspec.Struct, frozen=True, array_like=True):
    quota: str
    slot: int
    is_lent: bool
    asked: int
    priority: int
    each: dict[str, int] = {}
    granted: dict[str, int] = {}
    used: dict[str, int] = {}
    preemptible: bool = True
    gang: str = ""


class _WrittenMember(msgspec.Struct, frozen=True, array_like=True):
    slot: int
    identity: str
    token: str
    settled: int
    format: int = 0


class _Written(msgspec.Struct, frozen=True):
    rings: tuple[tuple[int, tuple[int, ...]], ...] = ()
    members: tuple[_WrittenMember, ...] = ()
    lost: tuple[_WrittenMember, ...] = ()
    asked: dict[str, int] = {}  # node -> slot of the borrower
    lent: dict[str, int] = {}
    rooms: tuple[_WrittenRoom, ...] = ()
    formats: dict[str, int] = {}  # of members, by token, where they are written as before there were any
    format: int = 0  # of all of it, where that is more than an older version can read


def read_table(lease: Lease) -> ShardTable:
    """The table that a Lease carries; an empty one where it has none. Raises `InvalidInput`."""
    text = (lease.metadata.annotations or {}).get(TABLE, "")
    if not text:
        return ShardTable()
    try:
        found = msgspec.json.decode(text, type=_Written)
    except (msgspec.DecodeError, RecursionError) as error:
        hint = "stop all shards, delete the Lease, and start them again"
        raise InvalidInput(f"annotation {TABLE}", str(error), "a table of shards", hint) from error
    if found.format > ROOMS_FORMAT:
        expected = f"at most {ROOMS_FORMAT}: replicas of a newer version wrote it, and this one takes no part"
        raise InvalidInput(
            f"annotation {TABLE}", f"form {found.format}", expected, "update this replica, or stop theirs"
        )
    loans = {node: Loan(slot) for node, slot in found.asked.items()}
    loans |= {node: Loan(slot, is_lent=True) for node, slot in found.lent.items()}
    return ShardTable(
        tuple(ShardRing(epoch, slots) for epoch, slots in found.rings),
        tuple(_read_member(member, found.formats) for member in found.members),
        tuple(_read_member(member, found.formats) for member in found.lost),
        loans,
        {
            RoomKey(RoomFor(room.quota, room.preemptible, room.gang), room.slot): QuotaRoom(
                room.asked,
                Amounts.of(room.each),
                room.priority,
                room.is_lent,
                Amounts.of(room.granted),
                Amounts.of(room.used),
            )
            for room in found.rooms
        },
    )


def _read_member(written: _WrittenMember, formats: dict[str, int]) -> SlotMember:
    form = max(written.format, formats.get(written.token, 0))
    return SlotMember(written.slot, written.identity, written.token, written.settled, form)


def written_table(table: ShardTable, meta: ObjectMeta) -> Lease:
    """The Lease with this table; the version in its metadata makes the write conditional."""
    is_new = table.format >= ROOMS_FORMAT
    written = {
        "rings": [(ring.epoch, ring.slots) for ring in table.rings],
        "members": [_written_member(member, is_new) for member in table.members],
        "lost": [_written_member(member, is_new) for member in table.lost],
        "asked": {node: loan.borrower for node, loan in table.loans.items() if not loan.is_lent},
        "lent": {node: loan.borrower for node, loan in table.loans.items() if loan.is_lent},
        "rooms": [_written_room(key, room) for key, room in table.rooms.items()],
    }
    if is_new:
        written["format"] = ROOMS_FORMAT
    elif formats := {m.token: m.format for m in (*table.members, *table.lost) if m.format}:
        written["formats"] = formats
    annotations = {**(meta.annotations or {}), TABLE: msgspec.json.encode(written).decode()}
    return Lease(metadata=msgspec.structs.replace(meta, annotations=annotations))


def _written_member(member: SlotMember, is_new: bool) -> tuple[int | str, ...]:
    fields: tuple[int | str, ...] = (member.slot, member.identity, member.token, member.settled)
    return (*fields, member.format) if is_new else fields


def _written_room(key: RoomKey, room: QuotaRoom) -> _WrittenRoom:
    of, sums = key.of, (dict(room.each), dict(room.granted), dict(room.used))
    return _WrittenRoom(of.quota, key.borrower, room.is_lent, room.asked, room.priority, *sums, of.preemptible, of.gang)
