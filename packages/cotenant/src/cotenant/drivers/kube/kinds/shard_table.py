"""The table of a scheduler's shards, as text in an annotation of a Lease.

A Lease, because a scheduler has the rights for it anyway and it has nothing that other controllers act on; its holder
stays empty. Names are short, since every loan is one of up to 2,000.
"""

from __future__ import annotations

import msgspec

from cotenant.drivers.kube.kinds.lease import Lease
from cotenant.drivers.kube.kinds.parts import ObjectMeta
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import Amounts
from cotenant.model.shards.table import Loan, QuotaRoom, RoomKey, ShardRing, ShardTable, SlotMember

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


class _Written(msgspec.Struct, frozen=True):
    rings: tuple[tuple[int, tuple[int, ...]], ...] = ()
    members: tuple[tuple[int, str, str, int], ...] = ()
    lost: tuple[tuple[int, str, str, int], ...] = ()
    asked: dict[str, int] = {}  # node -> slot of the borrower
    lent: dict[str, int] = {}
    rooms: tuple[_WrittenRoom, ...] = ()


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
    loans = {node: Loan(slot) for node, slot in found.asked.items()}
    loans |= {node: Loan(slot, is_lent=True) for node, slot in found.lent.items()}
    return ShardTable(
        tuple(ShardRing(epoch, slots) for epoch, slots in found.rings),
        tuple(SlotMember(*member) for member in found.members),
        tuple(SlotMember(*member) for member in found.lost),
        loans,
        {
            RoomKey(room.quota, room.slot): QuotaRoom(
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


def written_table(table: ShardTable, meta: ObjectMeta) -> Lease:
    """The Lease with this table; the version in its metadata makes the write conditional."""
    written = _Written(
        tuple((ring.epoch, ring.slots) for ring in table.rings),
        tuple((m.slot, m.identity, m.token, m.settled) for m in table.members),
        tuple((m.slot, m.identity, m.token, m.settled) for m in table.lost),
        {node: loan.borrower for node, loan in table.loans.items() if not loan.is_lent},
        {node: loan.borrower for node, loan in table.loans.items() if loan.is_lent},
        tuple(
            _WrittenRoom(
                key.quota,
                key.borrower,
                room.is_lent,
                room.asked,
                room.priority,
                dict(room.each),
                dict(room.granted),
                dict(room.used),
            )
            for key, room in table.rooms.items()
        ),
    )
    annotations = {**(meta.annotations or {}), TABLE: msgspec.json.encode(written).decode()}
    return Lease(metadata=msgspec.structs.replace(meta, annotations=annotations))
