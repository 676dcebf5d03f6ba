"""Gives itself a scheduling slice of its own, then becomes a program: `python -m bench.guard.sliced MICROSECONDS
PROGRAM ...`

The fair class does not take the CPU from a running task before its slice is over, unless the one that wakes has a
shorter slice; the slice of best-effort work thus decides what a service waits, whatever the weights. `sched_setattr`
with a runtime, which children inherit.
Limits: Linux 6.12 and later; older kernels ignore the runtime of the fair class.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

_SYSCALL = {"x86_64": 314, "aarch64": 274}
_SIZE = 56  # of struct sched_attr, up to its fields for utilisation clamps


def set_slice(slice_us: int) -> None:
    """Give this process a slice in the fair class. Raises OSError."""
    number = _SYSCALL.get(os.uname().machine)
    if number is None:
        raise OSError("sched_setattr's number is not known on this architecture")
    # size, policy, flags, nice, priority, runtime, deadline, period, two clamps
    attributes = struct.pack("IIQiIQQQII", _SIZE, os.SCHED_OTHER, 0, 0, 0, slice_us * 1000, 0, 0, 0, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(number, 0, attributes, 0):
        raise OSError(ctypes.get_errno(), "sched_setattr")


if __name__ == "__main__":
    set_slice(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])
