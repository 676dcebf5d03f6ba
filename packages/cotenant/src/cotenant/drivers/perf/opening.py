"""Opens counters of the kernel's performance events for one cgroup on one CPU, one command, or one thread.

Python has no binding for perf_event_open. The system call through ctypes, and of its 128-byte attribute only the fields
that counting needs.
Limits: counting, not sampling; x86-64, arm64 and riscv64.

Source: perf_event_open(2); linux/perf_event.h.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from dataclasses import dataclass
from enum import Enum

from cotenant.model.errors import Permanent, Transient, Unsupported
from cotenant.model.machine.knob import Vanished

_CALL = {"x86_64": 298, "aarch64": 241, "riscv64": 241}
_ATTRIBUTE = struct.Struct("=IIQQQQQ")  # type, size, config, sample_period, sample_type, read_format, flags
_ATTRIBUTE_BYTES = 128
_READ_FORMAT = 1 | 2 | 8  # time enabled, time running, group
_READ_TIMES = 1 | 2
_BIT_DISABLED, _BIT_INHERIT, _BIT_ENABLE_ON_EXEC = 1 << 0, 1 << 1, 1 << 12
_FLAG_CGROUP, _FLAG_CLOEXEC = 4, 8
_HARDWARE, _SOFTWARE, _TRACEPOINT = 0, 1, 2


class PerfEvent(Enum):
    """Countable events: the kind, its number, and what a machine without it lacks."""

    CYCLES = (_HARDWARE, 0, "a hardware performance counter (PMU)")
    INSTRUCTIONS = (_HARDWARE, 1, "a hardware performance counter (PMU)")
    TASK_CLOCK = (_SOFTWARE, 1, "CONFIG_PERF_EVENTS")  # nanoseconds
    PAGE_FAULTS = (_SOFTWARE, 2, "CONFIG_PERF_EVENTS")
    CONTEXT_SWITCHES = (_SOFTWARE, 3, "CONFIG_PERF_EVENTS")
    MIGRATIONS = (_SOFTWARE, 4, "CONFIG_PERF_EVENTS")

    @property
    def needs(self) -> str:
        """What is required to count this."""
        return self.value[2]


@dataclass(frozen=True, slots=True)
class CounterReading:
    """Counters that are scheduled together, since they were opened."""

    enabled_ns: int  # time enabled
    running_ns: int  # time running: less where there are more events than counters
    values: tuple[int, ...]  # in the order in which they were opened


def open_counters(folder: int, cpu: int, events: tuple[PerfEvent, ...]) -> tuple[int, ...]:
    """Descriptors, the leader first, of events of a cgroup on one CPU. `folder`: an open folder of the perf_event
    hierarchy (v2: the one tree).

    Raises `Unsupported` where the machine lacks an event or we lack permission, `Vanished`, and `Transient` where
    descriptors ran out.
    """
    descriptors: list[int] = []
    try:
        for event in events:
            leader = descriptors[0] if descriptors else -1
            descriptors.append(_open(event, folder, cpu, leader))
    except BaseException:
        close_counters(descriptors)
        raise
    return tuple(descriptors)


def close_counters(descriptors: list[int] | tuple[int, ...]) -> None:
    """Close these descriptors."""
    for descriptor in descriptors:
        os.close(descriptor)


def read_counters(leader: int, count: int) -> CounterReading:
    """Read all `count` counters of a leader."""
    words = struct.unpack(f"={3 + count}Q", os.read(leader, 8 * (3 + count)))
    return CounterReading(words[1], words[2], words[3:])


def open_for_command(pid: int, event: PerfEvent) -> int:
    """A descriptor that counts a process and all that it starts, on every CPU, from its next exec on.

    Raises as `open_counters`.
    """
    packed = _packed(event, _READ_TIMES, _BIT_DISABLED | _BIT_INHERIT | _BIT_ENABLE_ON_EXEC)
    return _called(_words(event), event.needs, packed, pid, -1, -1, _FLAG_CLOEXEC)


def open_tracepoint(thread: int, number: int, name: str) -> int:
    """A descriptor that counts a tracepoint in one thread on every CPU, from now on; 8 bytes are read from it.

    Raises as `open_counters`.
    """
    packed = _ATTRIBUTE.pack(_TRACEPOINT, _ATTRIBUTE_BYTES, number, 0, 0, 0, 0)
    return _called(f"tracepoint {name}", "CONFIG_PERF_EVENTS", packed, thread, -1, -1, _FLAG_CLOEXEC)


def read_counter(descriptor: int) -> CounterReading:
    """Read a counter of `open_for_command`."""
    value, enabled_ns, running_ns = struct.unpack("=3Q", os.read(descriptor, 24))
    return CounterReading(enabled_ns, running_ns, (value,))


def _open(event: PerfEvent, folder: int, cpu: int, leader: int) -> int:
    packed = _packed(event, _READ_FORMAT, 0)
    return _called(_words(event), event.needs, packed, folder, cpu, leader, _FLAG_CGROUP | _FLAG_CLOEXEC)


def _packed(event: PerfEvent, read_format: int, bits: int) -> bytes:
    kind, config, _ = event.value
    return _ATTRIBUTE.pack(kind, _ATTRIBUTE_BYTES, config, 0, 0, read_format, bits)


def _words(event: PerfEvent) -> str:
    return event.name.lower().replace("_", " ")


def _called(what: str, needs: str, packed: bytes, target: int, cpu: int, leader: int, flags: int) -> int:
    number = _CALL.get(platform.machine())
    if number is None:
        raise Unsupported("performance events", "x86-64, arm64 or riscv64")
    attribute = ctypes.create_string_buffer(packed, _ATTRIBUTE_BYTES)
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.syscall(
        ctypes.c_long(number),
        attribute,
        ctypes.c_int(target),
        ctypes.c_int(cpu),
        ctypes.c_int(leader),
        ctypes.c_ulong(flags),
    )
    if descriptor >= 0:
        return int(descriptor)
    code = ctypes.get_errno()
    if code in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP, errno.ENOSYS):
        raise Unsupported(f"counting {what}", needs)
    if code in (errno.EACCES, errno.EPERM):
        raise Unsupported(f"counting {what}", "root, or CAP_PERFMON")
    if code in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EBUSY):
        raise Transient(f"counting {what}: {os.strerror(code)}")
    if code in (errno.EBADF, errno.ESRCH):
        raise Vanished(f"counting {what}: the group or thread is gone")
    raise Permanent(f"counting {what}: {os.strerror(code)}")
