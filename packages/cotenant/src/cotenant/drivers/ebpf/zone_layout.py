"""The binary layout shared with bpf/zone.h.

Limits: little-endian, as clang lays out the structures for this machine; a test compares the sizes with the built
objects.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from cotenant.model.errors import Unsupported
from cotenant.model.zones.setting import MAX_CPUS
from cotenant.model.zones.table import LateDispatch, SchedulerExit, ZoneClass, ZoneRow

KEY = struct.Struct("=Q")  # a cgroup's id
ROW = struct.Struct("=IIII")
LATE = struct.Struct("=QQQII")
EXIT = struct.Struct("=QQ64s192s")
COUNT = struct.Struct("=Q")
INDEX = struct.Struct("=I")
RING_BYTES = 1 << 18
STARVED = struct.Struct("=Q")  # .rodata of the latency scheduler
_WORDS = MAX_CPUS // 64
EXCLUSIVE = struct.Struct(f"=QQ{_WORDS}Q")  # .rodata of the exclusive scheduler
COUNTS = ("service", "batch", "late", "lost", "kicked", "kept", "overdue")


def pack_row(row: ZoneRow) -> bytes:
    """`struct zone_row`."""
    return ROW.pack(row.zone_class, row.weight, row.slice_us, row.late_us)


def unpack_row(value: bytes) -> ZoneRow:
    """The row in a value of the policy table."""
    zone_class, weight, slice_us, late_us = ROW.unpack(value)
    return ZoneRow(ZoneClass(zone_class), weight, slice_us, late_us)


def pack_exclusive(starved_ns: int, cpus: int, own: Iterable[int]) -> bytes:
    """Constants of the exclusive scheduler: `cpus`, one more than the highest CPU; `own`: CPUs of services. Raises
    `Unsupported` where none of both sides is left, or there are too many.
    """
    mask = sum(1 << cpu for cpu in set(own))
    if not 0 < mask < (1 << cpus) - 1 or cpus > MAX_CPUS:
        raise Unsupported("CPUs of services' own", f"a machine with 2 to {MAX_CPUS} CPUs, some of them left to batch")
    return EXCLUSIVE.pack(starved_ns, cpus, *(mask >> 64 * at & (1 << 64) - 1 for at in range(_WORDS)))


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
