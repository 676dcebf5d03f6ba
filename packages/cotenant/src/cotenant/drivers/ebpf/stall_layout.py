"""The binary layout shared with bpf/stalls.bpf.c. Little-endian and 8-byte aligned, as `layout`."""

from __future__ import annotations

import struct

from cotenant.drivers.ebpf.run_history import FRAMES, TIMELINE_BYTES
from cotenant.model.machine.run_queue import BUCKETS

KEY = struct.Struct("=QQ")  # group, kind
WAITS = struct.Struct(f"=QQ{BUCKETS}Q")
GROUP = struct.Struct("=Q")
COUNTS = struct.Struct("=QQ")  # runnable, blocked
LONG_WAIT = struct.Struct(f"=QQQQIIIIQ16s16s{FRAMES}Q")
RUN_QUEUE_END = struct.Struct("=Q")  # after a LONG_WAIT for a CPU, then the CPU's timeline
LONG_RUN_QUEUE_WAIT_BYTES = LONG_WAIT.size + RUN_QUEUE_END.size + TIMELINE_BYTES
SHARE = struct.Struct("=QQQ")  # read, bytes, lost
CONSTANTS = struct.Struct("=?7xQQ")  # v1, long_ns, slot_ns
LOST = struct.Struct("=QQ")  # events, waits
RING_BYTES = 524288
SLOTS_OF_LIMIT = 8  # the slots of a CPU's timeline reach back over twice the limit


def text_of(name: bytes) -> str:
    """A task's name."""
    return name.partition(b"\0")[0].decode(errors="replace")
