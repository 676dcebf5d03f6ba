"""Scheduling slices of the tasks in groups: how long a task may run before the fair class takes the CPU from it for one
that wakes.

Since Linux 6.6 a task that wakes waits until the running one's slice is over, whatever their weights, and an idle class
below a group that is not idle does not help; only a task with a shorter slice is let in at once. So best-effort tasks
with a longer slice than anybody else yield to every service that wakes, and lose nothing. `sched_setattr` on each task
of the followed groups that has the kernel's own slice; forks inherit it, later tasks are found at the next call. A
group that is followed no more gets the kernel's slice back. Tasks with a slice or a class of their own are left alone.
Limits: Linux 6.12 and later; tasks are found by listing, so a new container has the usual slice until the next call;
after a crash tasks keep the slice until their end.

Source: Linux, kernel/sched/fair.c (protection of the slice, preemption by a shorter one) and sched(7).
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import struct
from collections.abc import Iterator, Sequence

from cotenant.drivers.cgroup.files import CgroupTree, parts_of
from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.drivers.cgroup.schedstat import DEEPEST
from cotenant.model.machine.counters import Gap
from cotenant.model.whole_number import whole_number

_log = logging.getLogger(__name__)
MIN_US, MAX_US = 100, 100_000  # the kernel's own bounds
_MAX_TASKS = 20_000
_CALLS = {"x86_64": (314, 315), "aarch64": (274, 275)}  # sched_setattr, sched_getattr
_ATTRIBUTES = struct.Struct("IIQiIQQQII")  # size, policy, flags, nice, priority, runtime, deadline, period, two clamps
_FAIR = (os.SCHED_OTHER, os.SCHED_BATCH)
_KEEP_FLAGS = 0x01  # reset on fork


class TaskSlices:
    """Gives the tasks of groups a slice. Not thread-safe. `gap` says why nothing is done, None where it is."""

    def __init__(self, layout: CgroupLayout, slice_us: int) -> None:
        self._slice_ns = min(MAX_US, max(MIN_US, slice_us)) * 1000
        self._followed: frozenset[str] = frozenset()
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._calls = _CALLS.get(os.uname().machine)
        hierarchy = layout.by_controller.get("cpu")
        self._tree = None if hierarchy is None else CgroupTree(hierarchy.path)
        self._list = "tasks" if hierarchy is not None and hierarchy.version == 1 else "cgroup.threads"
        self._usual_ns = 0
        self._was_refused = False
        self.gap: Gap | None = None
        own = self._attributes(0)
        if self._tree is None:
            self.gap = Gap("slices of best-effort tasks", "the cpu controller")
        elif own is None or own[5] == 0:
            self.gap = Gap("slices of best-effort tasks", "Linux 6.12")
        else:
            self._usual_ns = own[5]

    def close(self) -> None:
        """Close the tree; tasks keep what they have."""
        if self._tree is not None:
            self._tree.close()

    def follow(self, groups: Sequence[str]) -> int:
        """Give the tasks at and below these groups the slice, and those of groups of an earlier call theirs back.
        Returns the number of tasks changed.
        """
        if self.gap is not None:
            return 0
        now = frozenset(groups)
        changed = 0
        for group in sorted(self._followed - now):
            changed += sum(self._change(task, self._slice_ns, 0) for task in self._tasks(group))
        for group in sorted(now):
            changed += sum(self._change(task, self._usual_ns, self._slice_ns) for task in self._tasks(group))
        self._followed = now
        return changed

    def slice_us(self, task: int) -> int | None:
        """A task's slice; None where it is gone or not of the fair class."""
        found = self._attributes(task)
        return found[5] // 1000 if found is not None and found[1] in _FAIR else None

    def _change(self, task: int, from_ns: int, to_ns: int) -> bool:
        """Whether a task had the one slice and has the other now."""
        found = self._attributes(task)
        if found is None or found[1] not in _FAIR or found[5] != from_ns or self._calls is None:
            return False
        size, policy, flags, nice, priority = found[:5]
        wanted = _ATTRIBUTES.pack(size, policy, flags & _KEEP_FLAGS, nice, priority, to_ns, 0, 0, 0, 0)
        if self._libc.syscall(self._calls[0], task, wanted, 0) == 0:
            return True
        if ctypes.get_errno() == errno.EPERM and not self._was_refused:
            self._was_refused = True
            _log.warning("slices of best-effort tasks of other users: need CAP_SYS_NICE")
        return False

    def _attributes(self, task: int) -> tuple[int, ...] | None:
        if self._calls is None:
            return None
        buffer = ctypes.create_string_buffer(_ATTRIBUTES.size)
        if self._libc.syscall(self._calls[1], task, buffer, _ATTRIBUTES.size, 0) != 0:
            return None
        return _ATTRIBUTES.unpack(buffer.raw)

    def _tasks(self, group: str) -> Iterator[int]:
        assert self._tree is not None
        left, waiting = _MAX_TASKS, [(group, 0)]
        while waiting and left > 0:
            at, depth = waiting.pop()
            try:
                listed = self._tree.read_all(at, self._list).split()
                with self._tree.folder(parts_of(at)) as folder:
                    has_children = os.fstat(folder).st_nlink > 2
                below = self._tree.children(at) if has_children and depth < DEEPEST else []
            except OSError:
                continue  # gone meanwhile
            waiting.extend((f"{at}/{name}", depth + 1) for name in below)
            for text in listed[:left]:
                task = whole_number(text)
                if task:  # 0: a task that this process's namespace does not show
                    yield task
            left -= len(listed)
