"""The binary layout shared with bpf/runqueue.bpf.c.

Limits: little-endian and 8-byte aligned, as clang lays out the structures for this machine; a test compares the sizes
with the built object.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from cotenant.model.machine.run_queue import BUCKETS

KEY = struct.Struct("=Q")  # a cgroup's id
PAIR = struct.Struct("=QQ")  # victim, culprit
NANOSECONDS = struct.Struct("=Q")
CHANGES = 4
WATCH = struct.Struct(f"=QQQ{2 * CHANGES}Q")  # owner, threshold in ns, then state of the kernel side
WAITS = struct.Struct(f"=QQQQQ{BUCKETS}Q")
LATE = struct.Struct("=QQQQQII")
RING_BYTES = 65536
CONSTANTS = struct.Struct("=??6xQ")  # v1, everyone, quiet_ns
LOST = struct.Struct("=QQ")  # blame in ns, late waits

IDLE = 0
UNKNOWN = 2**64 - 1
_NONE = bytes(8)


class RawWaits(NamedTuple):
    """One group, summed over CPUs; nanoseconds."""

    number: int = 0
    wait_ns: int = 0
    throttled_ns: int = 0
    late: int = 0
    buckets: tuple[int, ...] = (0,) * BUCKETS

    def plus(self, other: RawWaits) -> RawWaits:
        """The sum of both."""
        return RawWaits(
            self.number + other.number,
            self.wait_ns + other.wait_ns,
            self.throttled_ns + other.throttled_ns,
            self.late + other.late,
            tuple(own + more for own, more in zip(self.buckets, other.buckets, strict=True)),
        )


def sum_over_cpus(value: bytes) -> RawWaits:
    """The sum of a per-CPU value of `struct waits`."""
    total = RawWaits()
    for start in range(0, len(value), WAITS.size):
        if value[start : start + 8] != _NONE:
            number, wait_ns, throttled_ns, late, _, *buckets = WAITS.unpack_from(value, start)
            total = total.plus(RawWaits(number, wait_ns, throttled_ns, late, tuple(buckets)))
    return total
