"""How many of a group's tasks run, want to run, or wait without being interruptible, and its time in the kernel.

Source: proc(5), state of /proc/PID/stat; Linux, Documentation/admin-guide/cgroup-v1/cpuacct.rst and cgroup-v2.rst.
"""

from __future__ import annotations

import os

from cotenant.drivers.cgroup.files import CgroupTree
from cotenant.drivers.cgroup.layout import CgroupLayout

_TICK_US = 1_000_000 // os.sysconf("SC_CLK_TCK")
_COUNTED = b"RD"


class TaskStates:
    """Reads groups. Holds its trees open until `close`. `proc_root`: the host's /proc."""

    def __init__(self, layout: CgroupLayout, proc_root: str = "/proc") -> None:
        self._proc = proc_root
        cpu = layout.by_controller.get("cpu") or layout.unified
        accounting = layout.by_controller.get("cpuacct") or cpu
        self._tasks_file = "tasks" if cpu is not None and cpu.version == 1 else "cgroup.threads"
        self._has_ticks = accounting is not None and accounting.version == 1
        self._tasks = CgroupTree(cpu.path) if cpu is not None else None
        self._accounting = CgroupTree(accounting.path) if accounting is not None else None

    def close(self) -> None:
        """Close the trees."""
        for tree in (self._tasks, self._accounting):
            if tree is not None:
                tree.close()

    def loaded(self, group: str, max_tasks: int) -> int | None:
        """Tasks that run or wait; None where the group is gone, or has more than `max_tasks` tasks."""
        if self._tasks is None:
            return None
        try:
            tasks = self._tasks.read_all(group, self._tasks_file).split()
        except OSError:
            return None
        return None if len(tasks) > max_tasks else sum(self._is_loaded(task) for task in tasks)

    def system_us(self, group: str) -> int | None:
        """CPU time that its tasks spent in the kernel."""
        if self._accounting is None:
            return None
        name = "cpuacct.stat" if self._has_ticks else "cpu.stat"
        try:
            words = self._accounting.read(group, name).split()
        except OSError:
            return None
        found = dict(zip(words[::2], words[1::2], strict=False))
        text = found.get("system" if self._has_ticks else "system_usec", "")
        if not text.isdecimal():
            return None
        return int(text) * (_TICK_US if self._has_ticks else 1)

    def _is_loaded(self, task: str) -> bool:
        try:
            with open(f"{self._proc}/{task}/stat", "rb", buffering=0) as stream:
                text = stream.read(512)
        except OSError:
            return False
        state = text.rpartition(b") ")[2][:1]
        return state in _COUNTED and state != b""
