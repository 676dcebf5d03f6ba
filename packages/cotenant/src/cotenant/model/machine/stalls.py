"""What tasks of groups wait for besides a CPU, as values: uninterruptible sleep, direct reclaim, and how many wait.

Monotonic counters in the buckets of `run_queue.WaitHistogram`, levels of tasks, and single long waits with who ended
them and where in the kernel they were.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from cotenant.model.machine.run_queue import WaitHistogram


class StallKind(IntEnum):
    """What a task waited for; the numbers are those of bpf/stalls.bpf.c."""

    BLOCKED = 0  # uninterruptible sleep: mostly block I/O, sometimes a lock
    RECLAIM = 1  # it freed memory itself before it got some


@dataclass(frozen=True, slots=True)
class GroupStalls:
    """One group without those below it. `runnable`, `uninterruptible`: its tasks now, running ones included."""

    group: str
    blocked: WaitHistogram = field(default_factory=WaitHistogram)
    reclaim: WaitHistogram = field(default_factory=WaitHistogram)
    runnable: int = 0
    uninterruptible: int = 0


@dataclass(frozen=True, slots=True)
class LongWait:
    """One wait beyond the limit. `waker`: the task that ended it, in its group; its own for reclaim. `stack`: where
    it slept in the kernel, innermost first; empty where that is not known any more.
    """

    at_us: int
    group: str
    kind: StallKind
    wait_us: int
    pid: int
    command: str
    waker_group: str
    waker_pid: int
    waker: str
    stack: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StallReading:
    """All groups that waited or have tasks that wait. `lost`: long waits that found no room."""

    at_us: int
    groups: tuple[GroupStalls, ...]
    lost: int = 0
