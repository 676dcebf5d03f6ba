"""The policy table of a zone's kernel scheduler, and what that scheduler reports.

A decision changes a row, the kernel reads it at the next dispatch, and an event reports what came of it; all three must
mean the same by class and unit. One row per cgroup, in microseconds, with zero for the scheduler's default; threads of
one application may have rows by their names.
Limits: a row applies to the tasks in that cgroup, not to the groups below it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from cotenant.model.errors import InvalidInput

HEAVIEST = 10_000  # of cgroup v2's cpu.weight
LONGEST_SLICE_US = 100_000
LONGEST_LATE_US = 10_000_000
LONGEST_THREAD_NAME = 15  # of a task in the kernel
MOST_THREAD_ROWS = 16  # of a group


class ZoneClass(IntEnum):
    """Class of a group's tasks; the numbers are those of bpf/zone.h."""

    SYSTEM = 0  # as tasks without a row: served first
    SERVICE = 1
    BATCH = 2


@dataclass(frozen=True, slots=True)
class ThreadRow:
    """Threads of a group that are scheduled unlike the rest of it: those of this name, or whose name begins so where it
    ends in `*`. `slice_us` 0: the scheduler's own. Weight and, of services, `late_us` are the group's.
    """

    name: str
    zone_class: ZoneClass
    slice_us: int = 0

    def __post_init__(self) -> None:
        beginning = self.name.removesuffix("*")
        if (
            not beginning
            or "*" in beginning
            or not beginning.isprintable()
            or len(beginning.encode()) > LONGEST_THREAD_NAME
        ):
            expected = f"1 to {LONGEST_THREAD_NAME} bytes of a thread's name, with * after its beginning"
            raise InvalidInput("zone row: threads: name", self.name, expected)
        if not 0 <= self.slice_us <= LONGEST_SLICE_US:
            raise InvalidInput("zone row: threads: slice_us", self.slice_us, f"0 to {LONGEST_SLICE_US}")


@dataclass(frozen=True, slots=True)
class ZoneRow:
    """How tasks of one cgroup are scheduled. `weight` 0: the cgroup's cpu.weight; `slice_us` 0: the scheduler's
    own; `late_us` 0: no events. `memory_low_bytes`, `io_weight`: its protection beyond the CPU, 0: its own;
    `reclaim_to_bytes`: its memory is reclaimed in steps until it has no more than this, 0: it is left alone; `threads`:
    those with a row of their own; `party`: of the rules about what never runs at once (apart.py), "": none.
    """

    zone_class: ZoneClass
    weight: int = 0
    slice_us: int = 0
    late_us: int = 0
    memory_low_bytes: int = 0
    io_weight: int = 0
    reclaim_to_bytes: int = 0
    threads: tuple[ThreadRow, ...] = ()
    party: str = ""

    def __post_init__(self) -> None:
        for name, value, most in (
            ("weight", self.weight, HEAVIEST),
            ("slice_us", self.slice_us, LONGEST_SLICE_US),
            ("late_us", self.late_us, LONGEST_LATE_US),
            ("memory_low_bytes", self.memory_low_bytes, 1 << 60),
            ("io_weight", self.io_weight, HEAVIEST),
            ("reclaim_to_bytes", self.reclaim_to_bytes, 1 << 60),
        ):
            if not 0 <= value <= most:
                raise InvalidInput(f"zone row: {name}", value, f"0 to {most}")
        names = [thread.name for thread in self.threads]
        if len(names) > MOST_THREAD_ROWS or len(set(names)) < len(names):
            raise InvalidInput("zone row: threads", ", ".join(names), f"at most {MOST_THREAD_ROWS} names, each once")


@dataclass(frozen=True, slots=True)
class LateDispatch:
    """A task that waited for a CPU longer than its row's `late_us`. `at_us`: monotonic time of the dispatch."""

    at_us: int
    cgroup: int
    waited_us: int
    pid: int
    zone_class: ZoneClass


@dataclass(frozen=True, slots=True)
class SchedulerExit:
    """Why a scheduler ended, in the kernel's words. `ejected`: the kernel ended it because of an error."""

    at_us: int
    kind: int
    reason: str
    message: str

    @property
    def ejected(self) -> bool:
        """Whether the kind is one of the kernel's errors (include/linux/sched/ext.h: SCX_EXIT_ERROR and above)."""
        return self.kind >= 1024


@dataclass(frozen=True, slots=True)
class SchedulerState:
    """What /sys/kernel/sched_ext reports. `name` is None where no scheduler is attached; `sequence` counts
    schedulers since boot.
    """

    state: str
    name: str | None
    sequence: int

    def runs(self, name: str) -> bool:
        """Whether the scheduler of this name is enabled: attaching may succeed although it is not."""
        return self.state == "enabled" and self.name == name
