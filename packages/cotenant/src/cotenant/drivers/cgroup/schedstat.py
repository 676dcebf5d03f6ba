"""Run delay of a group's tasks, from the scheduler's own account of each task.

Schedstat is per task, tasks come and go and change groups, and a group's sum must never fall. Each reading adds to a
group what its tasks, and those of groups below it, waited since the previous reading; a task is known by its number
wherever it is. A task not seen before counts from its start if it can have been created since, else from now.
Limits: what a task waited between the last reading and its end is lost, so groups of short processes read low (eBPF
does not); at most `max_tasks` tasks and groups per reading, some 10 us each; memory is bounded by the tasks that exist
now.

Source: Linux, Documentation/scheduler/sched-stats.rst: field 2 of /proc/TID/schedstat is nanoseconds spent waiting to
run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cotenant.drivers.cgroup.files import CgroupTree, parts_of
from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.model.errors import Unsupported
from cotenant.model.machine.counters import Gap
from cotenant.model.whole_number import whole_number

MAX_TASKS = 20_000
DEEPEST = 32  # levels below a group: groups may be nested without limit, and each costs its whole path
_READ_BYTES = 64
_SLACK_NS = 10_000_000  # a wait is accounted when it ends, after our clock is read


@dataclass(slots=True)
class _Pass:
    """One reading under way."""

    elapsed_ns: int | None  # since the previous one; None for the first
    left: int
    seen: dict[int, int]
    waited: dict[str, int | None]  # ns by group without those below; None = no such group


class RunDelayReader:
    """Reads run delay by group, in microseconds since this reader first saw the group."""

    def __init__(self, layout: CgroupLayout, proc_root: str = "/proc", max_tasks: int = MAX_TASKS) -> None:
        hierarchy = layout.by_controller.get("cpu") or layout.unified
        if hierarchy is None:
            raise Unsupported("run delay by group", "the cpu controller")
        self._tree = CgroupTree(hierarchy.path)
        self._list = "tasks" if hierarchy.version == 1 else "cgroup.threads"
        try:
            self._proc = os.open(proc_root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            self._tree.close()
            raise Unsupported("run delay by group", f"{proc_root} ({error.strerror})") from error
        self.max_tasks = max_tasks
        self._last: dict[int, int] = {}  # ns by task
        self._totals: dict[str, int] = {}  # ns by requested group
        self._at_us: int | None = None
        self._gap: Gap | None = None
        if not self._has_schedstat():
            self._gap = Gap("run delay", "a kernel with CONFIG_SCHED_INFO (/proc/PID/schedstat)")

    def close(self) -> None:
        """Close both trees."""
        self._tree.close()
        if self._proc >= 0:
            os.close(self._proc)
            self._proc = -1

    def gaps(self) -> tuple[Gap, ...]:
        """What cannot be read here."""
        return () if self._gap is None else (self._gap,)

    def read(self, groups: Sequence[str], now_us: int) -> Mapping[str, int]:
        """Microseconds by group; those that are gone are left out. `now_us`: monotonic clock."""
        elapsed_ns = None if self._at_us is None else (now_us - self._at_us) * 1000 + _SLACK_NS
        self._at_us = now_us
        current = _Pass(elapsed_ns, self.max_tasks, {}, {})
        totals = {}
        for group in groups:
            waited = self._below(group, current)
            if waited is not None:
                totals[group] = self._totals.get(group, 0) + waited
        self._last = current.seen
        self._totals = totals
        return {group: total // 1000 for group, total in totals.items()}

    def _below(self, group: str, current: _Pass) -> int | None:
        """Nanoseconds that the group and all below it waited since the last reading."""
        total = self._own(group, current)
        if total is None:
            return None
        waiting = [(group, 0)]
        while waiting and current.left > 0:
            parent, depth = waiting.pop()
            for name in self._children(parent) if depth < DEEPEST else ():
                child = f"{parent}/{name}" if parent else name
                waited = self._own(child, current)
                if waited is not None:
                    total += waited
                    waiting.append((child, depth + 1))
        return total

    def _children(self, group: str) -> list[str]:
        try:
            with self._tree.folder(parts_of(group)) as at:
                # a folder of a cgroup tree has a link for each folder in it
                if os.fstat(at).st_nlink == 2:
                    return []
            return self._tree.children(group)
        except OSError:
            return []

    def _own(self, group: str, current: _Pass) -> int | None:
        if group in current.waited:
            return current.waited[group]
        current.left -= 1
        try:
            tasks = self._tree.read_all(group, self._list).split()
        except OSError:
            # a threaded group's processes are listed in the group where they started
            tasks = []
            if not self._tree.exists(group):
                current.waited[group] = None
                return None
        waited = 0
        for task in tasks:
            number = whole_number(task)
            if number is None:
                continue
            current.left -= 1
            if current.left < 0:
                self._gap = Gap("run delay of some tasks", f"eBPF: there are more than {self.max_tasks} tasks")
                break
            waited += self._since(number, current)
        current.waited[group] = waited
        return waited

    def _since(self, task: int, current: _Pass) -> int:
        total = self._delay_ns(task)
        if total is None:
            return 0
        current.seen[task] = total
        before = self._last.get(task)
        if before is not None and total >= before:
            return total - before
        # a new task, or one that reuses the number of an exited one
        return total if current.elapsed_ns is not None and total <= current.elapsed_ns else 0

    def _delay_ns(self, task: int) -> int | None:
        try:
            at = os.open(f"{task}/schedstat", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._proc)
        except OSError:
            return None
        try:
            words = os.read(at, _READ_BYTES).split()
        except OSError:
            return None
        finally:
            os.close(at)
        return whole_number(words[1]) if len(words) == 3 else None

    def _has_schedstat(self) -> bool:
        try:
            os.close(os.open("self/schedstat", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._proc))
        except OSError:
            return False
        return True
