"""Waits of all groups for block I/O and memory, how many of their tasks run or wait, and single long waits, also for a
CPU, with who ran meanwhile: the user-space side of bpf/stalls.bpf.c.

Every group is counted by its own id, so nothing is configured when one comes; ids become paths at reading, and what the
kernel side keeps of a group that is gone is dropped then. Tasks are counted by an iterator over all of them, one pass
in the kernel at each `read`.
Limits: a group that was removed before the reading has no name and is left out.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType

from cotenant.drivers.ebpf import stall_layout as layout
from cotenant.drivers.ebpf.digests import check_digest
from cotenant.drivers.ebpf.groups import CgroupIndex
from cotenant.drivers.ebpf.kernel_symbols import symbol
from cotenant.drivers.ebpf.libbpf import LoadedObject, objects_folder, possible_cpus
from cotenant.drivers.ebpf.ring import RingReader
from cotenant.drivers.ebpf.run_history import IDLE, TIMELINE_BYTES, Ran, long_run, who_ran
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.run_queue import NoCulprit, WaitHistogram
from cotenant.model.machine.stalls import GroupStalls, LongWait, RanMeanwhile, StallKind, StallReading

OBJECT = "stalls.bpf.o"
MOST_RUNNERS = 4  # of a long wait
_ITERATOR = "count_tasks"
_AT_ONCE = 1024  # entries a system call
_NO_WAITS = WaitHistogram()
_COUNTED = (StallKind.BLOCKED, StallKind.RECLAIM)
_PROBE_FRAMES = ("bpf_", "__bpf_", "__traceiter_")


class StallTracer:
    """The running probe; a context manager that removes it from the kernel. `root`, `version`: as of `RunQueue`;
    `long_us`: a longer wait is an event, 0: none is. Raises `Unsupported` with what is missing.
    """

    def __init__(self, root: str, version: int, *, long_us: int = 0, path: Path | None = None) -> None:
        if version not in (1, 2):
            raise InvalidInput("cgroup version", version, "1 or 2")
        if long_us < 0:
            raise InvalidInput("long_us", long_us, "0 or more microseconds")
        self._index = CgroupIndex(root)
        self._seen: dict[bytes, tuple[bytes, WaitHistogram]] = {}  # as of the last reading
        path = path or objects_folder() / OBJECT
        check_digest(path)

        def prepare(loaded: LoadedObject) -> None:
            long_ns = long_us * 1000
            slot_ns = max(1, long_ns // layout.SLOTS_OF_LIMIT)
            loaded.set_variables(".rodata", layout.CONSTANTS.pack(version == 1, long_ns, slot_ns))
            loaded.resize("timelines", possible_cpus())

        self._object = LoadedObject(path, prepare)
        try:
            self._waited = self._object.table("waited", layout.KEY.size, layout.WAITS.size)
            self._counted = self._object.table("counted", layout.GROUP.size, layout.COUNTS.size)
            self._shares = self._object.table("shares", layout.GROUP.size, layout.SHARE.size)
            self._ring = RingReader(self._object.table("events", 0, 0).fd, layout.RING_BYTES)
        except BaseException:
            self._object.close()
            raise

    def fileno(self) -> int:
        """Becomes readable when a long wait was written."""
        return self._ring.fd

    def read(self) -> StallReading:
        """All groups now; waits since the probe was loaded."""
        at_us = time.monotonic_ns() // 1000
        tasks = self._count_tasks()
        waits = self._histograms()
        shares = {layout.GROUP.unpack(key)[0]: layout.SHARE.unpack(value) for key, value in self._shares.entries()}
        ids = {*tasks, *shares, *(group for group, _ in waits)}
        self._learn(ids)
        groups = []
        for group_id in sorted(ids):
            name = self._index.path(group_id)
            if name is None:
                continue
            runnable, uninterruptible = tasks.get(group_id, (0, 0))
            blocked, reclaim = (waits.get((group_id, kind), _NO_WAITS) for kind in _COUNTED)
            lost_here = shares[group_id][2] if group_id in shares else 0
            groups.append(GroupStalls(name, blocked, reclaim, runnable, uninterruptible, lost_here))
        self._drop_gone(waits, shares)
        lost, uncounted = layout.LOST.unpack(self._object.variables(".bss", layout.LOST.size))
        return StallReading(at_us, tuple(groups), lost, uncounted)

    def long_waits(self) -> list[LongWait]:
        """Those since the last call, oldest first."""
        records = [(layout.LONG_WAIT.unpack_from(record), *_ran(record)) for record in self._ring.drain()]
        ids = {group for (_, own, _, by, *_), ran, *_ in records for group in (own, by, *(one.group for one in ran))}
        self._learn(ids - {IDLE})
        return [
            LongWait(
                at_ns // 1000,
                self._name(group),
                StallKind(kind),
                wait_ns // 1000,
                pid,
                layout.text_of(comm),
                self._name(waker_group),
                waker_pid,
                layout.text_of(waker_comm),
                _names(stack),
                tuple(
                    RanMeanwhile(
                        NoCulprit.IDLE if one.group == IDLE else self._name(one.group),
                        one.ran_ns // 1000,
                        one.pid,
                        layout.text_of(one.command),
                    )
                    for one in ran[:MOST_RUNNERS]
                ),
                (unknown_ns + sum(one.ran_ns for one in ran[MOST_RUNNERS:])) // 1000,
                bool(withheld),
                stack_pid,
            )
            for (
                (at_ns, group, wait_ns, waker_group, kind, pid, waker_pid, _, withheld, comm, waker_comm, *_),
                ran,
                unknown_ns,
                stack_pid,
                stack,
            ) in records
        ]

    def kept(self) -> int:
        """Entries that the kernel side keeps of groups."""
        return sum(1 for table in (self._waited, self._shares) for _ in table.entries())

    def programs(self) -> tuple[tuple[str, int], ...]:
        """Name and descriptor of each program, for what they cost."""
        return self._object.programs()

    def close(self) -> None:
        """Remove the probe. Idempotent."""
        self._ring.close()
        self._object.close()

    def __enter__(self) -> StallTracer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _count_tasks(self) -> dict[int, tuple[int, int]]:
        for key, _ in list(self._counted.entries()):
            self._counted.drop(key)
        descriptor = self._object.iterator(_ITERATOR)
        try:
            while os.read(descriptor, 4096):
                pass  # the program writes nothing: reading runs it for every task
        finally:
            os.close(descriptor)
        found = {}
        for key, value in self._counted.entries():
            runnable, blocked = layout.COUNTS.unpack(value)
            found[layout.GROUP.unpack(key)[0]] = (runnable, blocked)
        return found

    def _learn(self, ids: set[int]) -> None:
        if any(self._index.is_new(group) for group in ids):
            self._index.refresh(ids)

    def _histograms(self) -> dict[tuple[int, int], WaitHistogram]:
        """By group and kind; the same object as before where nothing was added, which is most of them."""
        before, self._seen = self._seen, {}
        found = {}
        for key, value in self._waited.entries(_AT_ONCE):
            known = before.get(key)
            if known is None or known[0] != value:
                known = value, _histogram(layout.WAITS.unpack(value))
            self._seen[key] = known
            found[layout.KEY.unpack(key)] = known[1]
        return found

    def _drop_gone(self, waits: Iterable[tuple[int, int]], shares: Iterable[int]) -> None:
        for group_id, kind in waits:
            if self._index.path(group_id) is None:
                self._waited.drop(layout.KEY.pack(group_id, kind))
        for group_id in shares:
            if self._index.path(group_id) is None:
                self._shares.drop(layout.GROUP.pack(group_id))

    def _name(self, group_id: int) -> str:
        name = self._index.path(group_id)
        return f"#{group_id}" if name is None else name


def _ran(record: bytes) -> tuple[list[Ran], int, int, Sequence[int]]:
    """Who ran during a wait for a CPU, and for how long nobody is known; then whose stack is told, and the stack."""
    _, _, wait_ns, _, _, pid, waker_pid, frames, _, _, _, *stack = layout.LONG_WAIT.unpack_from(record)
    if len(record) < layout.LONG_RUN_QUEUE_WAIT_BYTES:
        return [], 0, pid, stack[:frames]
    (ended_ns,) = layout.RUN_QUEUE_END.unpack_from(record, layout.LONG_WAIT.size)
    line = record[layout.LONG_RUN_QUEUE_WAIT_BYTES - TIMELINE_BYTES :]
    ran, unknown_ns = who_ran(line, ended_ns - wait_ns, ended_ns)
    return ran, unknown_ns, *(long_run(line, ended_ns - wait_ns) or (waker_pid, stack[:frames]))


def _names(stack: Sequence[int]) -> tuple[str, ...]:
    """Frames by name, without those of the probe, which are on top where a task's own stack was walked."""
    names = [symbol(frame) for frame in stack if frame]
    ours = [at for at, name in enumerate(names[:8]) if name.startswith(_PROBE_FRAMES)]
    return tuple(names[ours[-1] + 1 :] if ours else names)


def _histogram(value: tuple[int, ...]) -> WaitHistogram:
    count, wait_ns, *buckets = value
    return WaitHistogram(count, wait_ns // 1000, tuple(buckets))
