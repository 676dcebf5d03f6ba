"""The binary layout shared with bpf/zone.h.

Limits: little-endian, as clang lays out the structures for this machine; a test compares the sizes with the built
objects.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from cotenant.model.errors import Unsupported
from cotenant.model.zones.apart import MOST_PARTIES, ApartTable, Within
from cotenant.model.zones.setting import MAX_CPUS
from cotenant.model.zones.table import LateDispatch, SchedulerExit, ZoneClass, ZoneRow

KEY = struct.Struct("=Q")  # a cgroup's id
ROW = struct.Struct("=BBHIII")
THREAD = struct.Struct("=IQ16s")
LATE = struct.Struct("=QQQII")
EXIT = struct.Struct("=QQ64s192s")
COUNT = struct.Struct("=Q")
INDEX = struct.Struct("=I")
RING_BYTES = 1 << 18
STARVED = struct.Struct("=Q")  # .rodata of the latency scheduler
_NAME_BYTES = 16
_WORDS = MAX_CPUS // 64
EXCLUSIVE = struct.Struct(f"=QQ{_WORDS}Q")  # .rodata of the exclusive scheduler
SIBLINGS = struct.Struct(f"=QQ{MAX_CPUS}H")  # .rodata of the siblings scheduler
_LEVEL = len(Within) * MOST_PARTIES
APART = struct.Struct(f"=QQ{_LEVEL}Q{_LEVEL}Q{2 * MAX_CPUS}H")  # .data of the apart scheduler
COUNTS = ("service", "batch", "late", "lost", "kicked", "kept", "overdue")


def pack_row(row: ZoneRow, party: int = 0) -> bytes:
    """`struct zone_row`; `party`: the number of the row's."""
    return ROW.pack(row.zone_class, party, len(row.threads), row.weight, row.slice_us, row.late_us)


def pack_threads(cgroup: int, row: ZoneRow, party: int = 0) -> dict[bytes, bytes]:
    """`struct zone_thread` and its row, of each of the row's threads, which are of the row's party."""
    found = {}
    for thread in row.threads:
        name = thread.name.removesuffix("*").encode()
        # an exact name is compared with the zeroes after it
        compared = 8 + (len(name) if thread.name.endswith("*") else _NAME_BYTES)
        late_us = row.late_us if thread.zone_class is ZoneClass.SERVICE else 0
        found[THREAD.pack(8 * compared, cgroup, name)] = ROW.pack(
            thread.zone_class, party, 0, row.weight, thread.slice_us, late_us
        )
    return found


def unpack_row(value: bytes) -> ZoneRow:
    """The row in a value of the policy table, without its party's name; its threads are in another."""
    zone_class, _, _, weight, slice_us, late_us = ROW.unpack(value)
    return ZoneRow(ZoneClass(zone_class), weight, slice_us, late_us)


def pack_exclusive(starved_ns: int, cpus: int, own: Iterable[int]) -> bytes:
    """Constants of the exclusive scheduler: `cpus`, one more than the highest CPU; `own`: CPUs of services. Raises
    `Unsupported` where none of both sides is left, or there are too many.
    """
    mask = sum(1 << cpu for cpu in set(own))
    if not 0 < mask < (1 << cpus) - 1 or cpus > MAX_CPUS:
        raise Unsupported("CPUs of services' own", f"a machine with 2 to {MAX_CPUS} CPUs, some of them left to batch")
    return EXCLUSIVE.pack(starved_ns, cpus, *(mask >> 64 * at & (1 << 64) - 1 for at in range(_WORDS)))


def pack_siblings(starved_ns: int, cpus: int, siblings: Mapping[int, int]) -> bytes:
    """Constants of the siblings scheduler: `cpus`, one more than the highest CPU; `siblings`: the other thread of a
    CPU's core. Raises `Unsupported` where there are too many.
    """
    if cpus > MAX_CPUS:
        raise Unsupported("cores kept from batch (siblings)", f"a machine with at most {MAX_CPUS} CPUs")
    return SIBLINGS.pack(starved_ns, cpus, *(siblings.get(cpu, cpu) for cpu in range(MAX_CPUS)))


def pack_apart(starved_ns: int, cpus: int, table: ApartTable) -> bytes:
    """Rules of the apart scheduler: `cpus`, one more than the highest CPU. Raises `Unsupported` where there are too
    many.
    """
    if cpus > MAX_CPUS:
        raise Unsupported("parties kept apart (apart)", f"a machine with at most {MAX_CPUS} CPUs")
    masks = [word for words in (table.always, table.late) for level in words for word in level]
    places = [where.get(cpu, cpu) for where in (table.cores, table.caches) for cpu in range(MAX_CPUS)]
    return APART.pack(starved_ns, cpus, *masks, *places)


def unpack_late(record: bytes) -> LateDispatch:
    """The event in a record of the ring buffer."""
    at_ns, cgroup, waited_ns, pid, zone_class = LATE.unpack(record[: LATE.size])
    return LateDispatch(at_ns // 1000, cgroup, waited_ns // 1000, pid, ZoneClass(zone_class))


def unpack_exit(value: bytes) -> SchedulerExit | None:
    """The last exit; None where no scheduler has ended yet."""
    at_ns, kind, reason, message = EXIT.unpack(value)
    if not kind:
        return None
    text = [part.partition(b"\0")[0].decode(errors="replace") for part in (reason, message)]
    return SchedulerExit(at_ns // 1000, kind, *text)
