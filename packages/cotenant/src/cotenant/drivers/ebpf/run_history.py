"""The binary layout of bpf/run_history.h, and who ran in a time according to it.

A slot has the run times of whole runs, one after the other. Of a slot in which the time begins, the part before it is
taken from the slot's first run, whose length is known, and what is left of it from all runs in proportion: wrong by
less than a slot, and the sums are exact.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

SLOTS = 16
RUNNERS = 4
IDLE = 0
HEAD = struct.Struct("=QQ")  # slots written, until when
SLOT = struct.Struct("=QQQQ")  # begin, length of the first run, of groups without a place, places used
RUNNER = struct.Struct("=QQII16s")  # group, run time, task that ran longest at once, for how long, its name
FRAMES = 16
LONG_RUN = struct.Struct(f"=QQII{FRAMES}Q")  # begin, end, task, frames, stack
SLOT_BYTES = SLOT.size + RUNNERS * RUNNER.size
_LONG_RUN_AT = HEAD.size + SLOTS * SLOT_BYTES
TIMELINE_BYTES = _LONG_RUN_AT + LONG_RUN.size


class Ran(NamedTuple):
    """A group that ran, with its task that ran longest at once."""

    group: int
    ran_ns: int
    pid: int
    command: bytes


def long_run(line: bytes, begin_ns: int) -> tuple[int, tuple[int, ...]] | None:
    """The task of the last long run, and its stack; None where that was over at `begin_ns`."""
    _, end_ns, pid, frames, *stack = LONG_RUN.unpack_from(line, _LONG_RUN_AT)
    return (pid, tuple(stack[:frames])) if frames and end_ns > begin_ns else None


def who_ran(line: bytes, begin_ns: int, end_ns: int) -> tuple[list[Ran], int]:
    """The groups that ran from `begin_ns` until `end_ns`, which is when the line was read, longest first; and the time
    of which no group is known.
    """
    written, until_ns = HEAD.unpack_from(line)
    sums: dict[int, int] = {}
    tasks: dict[int, tuple[int, int, bytes]] = {}
    unknown_ns = max(0, end_ns - max(until_ns, begin_ns))
    until_ns = min(until_ns, end_ns)
    for back in range(1, min(written, SLOTS) + 1):
        if until_ns <= begin_ns:
            break
        at = HEAD.size + ((written - back) & (SLOTS - 1)) * SLOT_BYTES
        slot_ns, first_ns, others_ns, used = SLOT.unpack_from(line, at)
        runners = [RUNNER.unpack_from(line, at + SLOT.size + place * RUNNER.size) for place in range(used)]
        length_ns = until_ns - slot_ns
        before_ns = max(0, begin_ns - slot_ns)
        cut_ns = min(before_ns, first_ns)
        left_ns, whole_ns = length_ns - before_ns, max(1, length_ns - cut_ns)
        for place, (group, ran_ns, pid, longest, command) in enumerate(runners):
            part_ns = (ran_ns - (0 if place else cut_ns)) * left_ns // whole_ns
            if part_ns > 0:
                sums[group] = sums.get(group, 0) + part_ns
                tasks[group] = max(tasks.get(group, (0, 0, b"")), (longest, pid, command))
        unknown_ns += others_ns * left_ns // whole_ns
        until_ns = slot_ns
    unknown_ns += max(0, until_ns - begin_ns)
    found = [Ran(group, ran_ns, *tasks[group][1:]) for group, ran_ns in sums.items()]
    return sorted(found, key=lambda ran: ran.ran_ns, reverse=True), unknown_ns
