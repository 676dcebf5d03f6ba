"""What tasks of groups wait for besides a CPU, as values: uninterruptible sleep, direct reclaim, and how many wait.

Monotonic counters in the buckets of `run_queue.WaitHistogram`, levels of tasks, and single long waits with who ended
them, where in the kernel they were, and, of a wait for a CPU, who ran meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from cotenant.model.machine.run_queue import NoCulprit, WaitHistogram


class StallKind(IntEnum):
    """What a task waited for; the numbers are those of bpf/stalls.bpf.c."""

    BLOCKED = 0  # uninterruptible sleep: mostly block I/O, sometimes a lock
    RECLAIM = 1  # it freed memory itself before it got some
    RUNNABLE = 2  # a CPU; of these only the long ones are known


@dataclass(frozen=True, slots=True)
class GroupStalls:
    """One group without those below it. `runnable`, `uninterruptible`: its tasks now, running ones included. `lost`:
    its long waits that found no room.
    """

    group: str
    blocked: WaitHistogram = field(default_factory=WaitHistogram)
    reclaim: WaitHistogram = field(default_factory=WaitHistogram)
    runnable: int = 0
    uninterruptible: int = 0
    lost: int = 0


@dataclass(frozen=True, slots=True)
class RanMeanwhile:
    """A group that ran on the CPU that a task waited for, with its task that ran longest at once."""

    group: str | NoCulprit
    ran_us: int
    pid: int = 0
    command: str = ""


@dataclass(frozen=True, slots=True)
class LongWait:
    """One wait beyond the limit.

    `waker`: the task that ended it, in its group; its own for reclaim; of a wait for a CPU the task that ran last.
    `stack`: innermost first, where the task slept in the kernel; of a wait for a CPU where the task `stack_pid` left
    it, which is the last that had run for a quarter of the limit at once, or else the one that ran last. `ran`: of a
    wait for a CPU, the groups that ran there meanwhile, longest first; `others_us`: what others did, or nobody knows
    who. `withheld`: the group's own quota ended its run in this wait or shortly before.
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
    ran: tuple[RanMeanwhile, ...] = ()
    others_us: int = 0
    withheld: bool = False
    stack_pid: int = 0


@dataclass(frozen=True, slots=True)
class StallReading:
    """All groups that waited or have tasks that wait. `lost`: long waits that found no room; `uncounted`: waits of more
    groups than are counted.
    """

    at_us: int
    groups: tuple[GroupStalls, ...]
    lost: int = 0
    uncounted: int = 0
