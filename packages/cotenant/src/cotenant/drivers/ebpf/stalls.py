"""Waits of all groups for block I/O and memory, and how many of their tasks run or wait: the user-space side of
bpf/stalls.bpf.c.

Every group is counted by its own id, so nothing is configured when one comes; ids become paths at reading. Tasks are
counted by an iterator over all of them, one pass in the kernel at each `read`.
Limits: a group that was removed before the reading has no name and is left out.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import TracebackType

from cotenant.drivers.ebpf import stall_layout as layout
from cotenant.drivers.ebpf.digests import check_digest
from cotenant.drivers.ebpf.groups import CgroupIndex
from cotenant.drivers.ebpf.kernel_symbols import symbol
from cotenant.drivers.ebpf.libbpf import LoadedObject, objects_folder
from cotenant.drivers.ebpf.ring import RingReader
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.run_queue import WaitHistogram
from cotenant.model.machine.stalls import GroupStalls, LongWait, StallKind, StallReading

OBJECT = "stalls.bpf.o"
_ITERATOR = "count_tasks"


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
        path = path or objects_folder() / OBJECT
        check_digest(path)
        self._object = LoadedObject(
            path, lambda loaded: loaded.set_variables(".rodata", layout.CONSTANTS.pack(version == 1, long_us * 1000))
        )
        try:
            self._waited = self._object.table("waited", layout.KEY.size, layout.WAITS.size)
            self._counted = self._object.table("counted", layout.GROUP.size, layout.COUNTS.size)
            self._stacks = self._object.table("stacks", layout.STACK_KEY.size, layout.STACK.size)
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
        waits = {layout.KEY.unpack(key): layout.WAITS.unpack(value) for key, value in self._waited.entries()}
        ids = {*tasks, *(group for group, _ in waits)}
        self._learn(ids)
        groups = []
        for group_id in sorted(ids):
            name = self._index.path(group_id)
            if name is None:
                continue
            runnable, uninterruptible = tasks.get(group_id, (0, 0))
            blocked, reclaim = (_histogram(waits.get((group_id, kind))) for kind in StallKind)
            groups.append(GroupStalls(name, blocked, reclaim, runnable, uninterruptible))
        (lost,) = layout.LOST.unpack(self._object.variables(".bss", layout.LOST.size))
        return StallReading(at_us, tuple(groups), lost)

    def long_waits(self) -> list[LongWait]:
        """Those since the last call, oldest first."""
        records = [layout.LONG_WAIT.unpack(record) for record in self._ring.drain()]
        self._learn({group for record in records for group in (record[1], record[3])})
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
                self._stack(stack),
            )
            for at_ns, group, wait_ns, waker_group, kind, pid, waker_pid, stack, comm, waker_comm in records
        ]

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

    def _stack(self, number: int) -> tuple[str, ...]:
        if number < 0:
            return ()
        value = self._stacks.get(layout.STACK_KEY.pack(number))
        frames = layout.STACK.unpack(value) if value is not None else ()
        names = [symbol(frame) for frame in frames if frame]
        # what took the stack is on top of it
        while names and names[0].startswith(("bpf_", "__bpf_")):
            names.pop(0)
        return tuple(names)

    def _name(self, group_id: int) -> str:
        name = self._index.path(group_id)
        return f"#{group_id}" if name is None else name


def _histogram(value: tuple[int, ...] | None) -> WaitHistogram:
    if value is None:
        return WaitHistogram()
    count, wait_ns, *buckets = value
    return WaitHistogram(count, wait_ns // 1000, tuple(buckets))
