"""The binary layout shared with bpf/stalls.bpf.c. Little-endian and 8-byte aligned, as `layout`."""

from __future__ import annotations

import struct

from cotenant.model.machine.run_queue import BUCKETS

KEY = struct.Struct("=QQ")  # group, kind
WAITS = struct.Struct(f"=QQ{BUCKETS}Q")
GROUP = struct.Struct("=Q")
COUNTS = struct.Struct("=QQ")  # runnable, blocked
LONG_WAIT = struct.Struct("=QQQQIIIi16s16s")
CONSTANTS = struct.Struct("=?7xQ")  # v1, long_ns
LOST = struct.Struct("=Q")
FRAMES = 16
STACK = struct.Struct(f"={FRAMES}Q")
STACK_KEY = struct.Struct("=I")
RING_BYTES = 65536


def text_of(name: bytes) -> str:
    """A task's name."""
    return name.partition(b"\0")[0].decode(errors="replace")
