"""Counters of many groups, every second, at little cost.

Problem: a dozen small files a group, each an open, a read and a close: ten thousand system calls a second for a node that is only watched. Choice:
descriptors stay open and are read again in place; those of groups that are not asked for any more are closed, and where there are more groups than
descriptors, the rest are opened each time. Files that say what they said before are not read into numbers again, and limits, numbers of tasks and out-of-memory kills, by which nobody
decides from one second to the next, are read every `SELDOM` readings. A descriptor of a removed group says ENODEV: then the files are opened anew, since the group may have come
back under its name. Limits: what cannot be read is None with one `Gap` a file, never an error; a file that is missing is looked for again every
`RETRY` readings; bytes that pass through device-mapper count once a layer, as kubelet counts them.

Source of the working set: kubelet (usage less inactive file pages); of fields: see parsing.py.
"""

from __future__ import annotations

import errno
import os
import resource
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

from cotenant.drivers.cgroup import parsing
from cotenant.drivers.cgroup.files import Tree, parts_of
from cotenant.drivers.cgroup.layout import Layout
from cotenant.drivers.psi.parsing import parse_pressure
from cotenant.model.counters import Gap, GroupCounters, Pressure, Stall
from cotenant.model.errors import Unsupported

RETRY = 30  # readings after which missing files are looked for again
SELDOM = 8  # readings between two of what changes seldom
IDLE = 16  # readings without being asked for, after which a group's descriptors are closed
_READ_BYTES = 16_384
_MOST_GAPS = 64
_SELDOM = frozenset({"quota", "period", "oom", "pids"})


@dataclass(frozen=True, slots=True)
class _File:
    """One file to read: where it stands, and who misses it."""

    path: str  # of the hierarchy
    name: str
    field: str
    needs: str
    seldom: bool = False  # read every `SELDOM` readings only


class _Held:
    """The descriptors of one group, in the order of the reader's files; -1 where there is none."""

    __slots__ = ("age", "counters", "fds", "missing", "phase", "texts", "used")

    def __init__(self, fds: list[int], phase: int) -> None:
        self.fds = fds
        self.missing = -1 in fds
        self.age = 0
        self.phase = phase  # groups take turns with what is read seldom
        self.used = 0
        self.texts: list[bytes | None] = []  # as last read, and what they say
        self.counters: GroupCounters | None = None


class CgroupReader:
    """`read(groups)` as often as wanted; `gaps()` says what could not be read. `reads` and `bytes_read` count system calls and bytes."""

    def __init__(self, layout: Layout, most_open: int | None = None) -> None:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.most_open = soft * 3 // 4 if most_open is None else most_open
        self.reads = 0
        self.opens = 0
        self.bytes_read = 0
        self._held: OrderedDict[str, _Held] = OrderedDict()
        self._open_count = 0
        self._turn = 0
        self._gaps: dict[str, Gap] = {}
        self._trees: dict[str, Tree] = {}
        self._files: list[_File] = []
        self._slots: dict[str, int] = {}
        self._plan(layout)
        try:
            for path in {file.path for file in self._files}:
                self._trees[path] = Tree(path)
        except OSError as error:
            self.close()
            raise Unsupported("reading cgroups", f"trees that can be opened: {error}") from error

    def close(self) -> None:
        """Close every descriptor."""
        for group in list(self._held):
            self._drop(group)
        for tree in self._trees.values():
            tree.close()
        self._trees.clear()

    def __enter__(self) -> CgroupReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def gaps(self) -> tuple[Gap, ...]:
        """What could not be read so far, one a file's name."""
        return tuple(self._gaps.values())

    def read(self, groups: Sequence[str]) -> tuple[GroupCounters, ...]:
        """These groups now, in their order; those that do not exist are left out."""
        self._turn += 1
        found = []
        for group in groups:
            counters = self._read_group(group)
            if counters is not None:
                found.append(counters)
        for group, held in list(self._held.items()):
            if self._turn - held.used >= IDLE:
                self._drop(group)
        return tuple(found)

    # which files

    def _plan(self, layout: Layout) -> None:
        unified = layout.unified

        def want(slot: str, controller: str, v1: str, v2: str, field: str) -> None:
            hierarchy = layout.by_controller.get(controller)
            if hierarchy is None:
                self._miss(field, f"the {controller} controller")
                return
            name = v1 if hierarchy.version == 1 else v2
            if name:
                self._slots[slot] = len(self._files)
                needs = f"the file {name} of the {controller} controller"
                self._files.append(_File(hierarchy.path, name, field, needs, slot in _SELDOM))

        def want_unified(slot: str, name: str, field: str) -> None:
            if unified is None:
                self._miss(field, "a cgroup v2 tree, which may be mounted beside v1")
                return
            self._slots[slot] = len(self._files)
            self._files.append(_File(unified.path, name, field, f"the file {name} of cgroup v2"))

        if layout.version("cpuacct") == 1:
            want("usage", "cpuacct", "cpuacct.usage", "", "CPU use")
        else:
            want_unified("usage", "cpu.stat", "CPU use")
        # on v2 usage and throttling stand in one file
        if layout.version("cpu") == 1:
            want("throttling", "cpu", "cpu.stat", "", "throttling")
        want("quota", "cpu", "cpu.cfs_quota_us", "cpu.max", "CPU limit")
        want("period", "cpu", "cpu.cfs_period_us", "", "CPU limit")
        want("memory", "memory", "memory.usage_in_bytes", "memory.current", "memory")
        want("memory.stat", "memory", "memory.stat", "memory.stat", "working set")
        want("oom", "memory", "memory.oom_control", "memory.events", "out-of-memory kills")
        want("io", "io", "blkio.throttle.io_service_bytes_recursive", "io.stat", "I/O")
        want("pids", "pids", "pids.current", "pids.current", "tasks")
        for name in ("cpu", "memory", "io"):
            want_unified(f"{name}.pressure", f"{name}.pressure", f"{name} pressure")
        self._nanoseconds = layout.version("cpuacct") == 1
        self._v1_memory = layout.version("memory") == 1
        self._v1_io = layout.version("io") == 1

    def _miss(self, what: str, needs: str) -> None:
        if len(self._gaps) < _MOST_GAPS:
            self._gaps.setdefault(what, Gap(what, needs))

    # descriptors

    def _open(self, group: str) -> _Held | None:
        """All files of a group; None where it does not exist in any tree."""
        try:
            parts = parts_of(group)
        except OSError:
            return None
        fds = [-1] * len(self._files)
        there = False
        for path, tree in self._trees.items():
            try:
                with tree.folder(parts) as at:
                    there = True
                    self.opens += len(parts)
                    for slot, file in enumerate(self._files):
                        if file.path == path:
                            fds[slot] = self._open_file(at, file)
            except OSError as error:
                self._told(error, "some groups", "")
        # the root has fewer files than its children, and a group that is just being removed has none
        if there and group and -1 in fds:
            for fd, file in zip(fds, self._files):
                if fd < 0 and self._trees[file.path].exists(group):
                    self._miss(file.field, file.needs)
        return _Held(fds, self.opens) if there else None

    def _open_file(self, at: int, file: _File) -> int:
        self.opens += 1
        try:
            return os.open(file.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
        except OSError as error:
            self._told(error, file.field, file.name)
            return -1

    def _told(self, error: OSError, what: str, name: str) -> None:
        """Keep what an error means, if it is not just absence."""
        if error.errno in (errno.EMFILE, errno.ENFILE):
            self._miss(what, "more file descriptors (ulimit -n)")
        elif name and error.errno not in (errno.ENOENT, errno.ENODEV):
            self._miss(what, f"{name} to be readable ({error.strerror})")

    def _hold(self, group: str) -> tuple[_Held | None, bool]:
        """The group's descriptors, and whether they are to be closed after use."""
        held = self._held.get(group)
        if held is not None and held.missing and held.age >= RETRY:
            self._drop(group)
            held = None
        if held is None:
            held = self._open(group)
            if held is None:
                return None, False
            count = sum(fd >= 0 for fd in held.fds)
            while self._open_count + count > self.most_open:
                oldest = next(iter(self._held), None)
                if oldest is None or self._held[oldest].used == self._turn:
                    return held, True
                self._drop(oldest)
            self._held[group] = held
            self._open_count += count
        held.age += 1
        held.used = self._turn
        self._held.move_to_end(group)
        return held, False

    def _drop(self, group: str) -> None:
        held = self._held.pop(group)
        self._open_count -= sum(fd >= 0 for fd in held.fds)
        _close_all(held)

    # reading

    def _read_group(self, group: str) -> GroupCounters | None:
        for _ in range(2):
            held, passing = self._hold(group)
            if held is None:
                return None
            try:
                texts = self._texts(held)
            except _Removed:
                if not passing:
                    self._drop(group)
                continue
            finally:
                if passing:
                    _close_all(held)
            if held.counters is None or texts != held.texts:
                held.texts, held.counters = texts, self._counters(group, texts)
            return held.counters
        return None

    def _texts(self, held: _Held) -> list[bytes | None]:
        """What the files say. Raises `_Removed` where the group has been removed since they were opened."""
        texts: list[bytes | None] = []
        rests = bool(held.texts) and (held.age + held.phase) % SELDOM != 0
        for slot, (fd, file) in enumerate(zip(held.fds, self._files)):
            if fd < 0:
                texts.append(None)
                continue
            if rests and file.seldom:
                texts.append(held.texts[slot])
                continue
            self.reads += 1
            try:
                text = os.pread(fd, _READ_BYTES, 0)
            except OSError as error:
                if error.errno == errno.ENODEV:
                    raise _Removed from None
                self._told(error, file.field, file.name)
                texts.append(None)
                continue
            self.bytes_read += len(text)
            texts.append(text)
        return texts

    def _counters(self, group: str, texts: list[bytes | None]) -> GroupCounters:
        slots, files = self._slots, self._files

        def text(slot: str) -> bytes | None:
            return texts[slots[slot]] if slot in slots else None

        def checked(slot: str, value: int | None) -> int | None:
            """A text was there and did not say it: that is told, once."""
            if value is None and text(slot) is not None:
                self._garbage(files[slots[slot]])
            return value

        usage, throttling = text("usage"), text("throttling" if "throttling" in slots else "usage")
        used = None
        if usage is not None:
            used = parsing.number(usage) if self._nanoseconds else parsing.field(usage, b"usage_usec ")
        periods = None if throttling is None else parsing.field(throttling, b"nr_periods ")
        throttled, throttled_us = None, None
        if periods is not None and throttling is not None:
            throttled = parsing.field(throttling, b"nr_throttled ")
            throttled_us = parsing.field(throttling, b"throttled_usec ")
            nanoseconds = parsing.field(throttling, b"throttled_time ") if throttled_us is None else None
            if nanoseconds is not None:
                throttled_us = nanoseconds // 1000
        memory, stat = text("memory"), text("memory.stat")
        charged = None if memory is None else checked("memory", parsing.number(memory))
        inactive = refaults = None
        if stat is not None:
            before = b"total_" if self._v1_memory else b""
            inactive = checked("memory.stat", parsing.field(stat, before + b"inactive_file "))
            refaults = parsing.total(
                stat,
                before + b"workingset_refault_anon ",
                before + b"workingset_refault_file ",
                before + b"workingset_refault ",
            )
        moved = None
        if (io := text("io")) is not None:
            moved = parsing.throttle_bytes(io) if self._v1_io else parsing.io_stat(io)
            checked("io", None if moved is None else 0)
        pids, oom = text("pids"), text("oom")
        checked("usage", used)
        return GroupCounters(
            group,
            cpu_us=used // 1000 if used is not None and self._nanoseconds else used,
            periods=periods,
            throttled_periods=throttled,
            throttled_us=throttled_us,
            memory_bytes=charged,
            working_set_bytes=None if charged is None or inactive is None else max(0, charged - inactive),
            refaults=refaults,
            oom_kills=None if oom is None else parsing.field(oom, b"oom_kill "),
            io_read_bytes=None if moved is None else moved.read_bytes,
            io_written_bytes=None if moved is None else moved.written_bytes,
            tasks=None if pids is None else checked("pids", parsing.number(pids)),
            pressure=self._pressure(text("cpu.pressure"), text("memory.pressure"), text("io.pressure")),
            cpu_m_limit=self._limit(text("quota"), text("period")),
        )

    def _pressure(self, *texts: bytes | None) -> Pressure:
        stalls: list[Stall | None] = []
        for name, text in zip(("cpu.pressure", "memory.pressure", "io.pressure"), texts):
            stall = None if text is None else parse_pressure(text)
            if stall is None and text is not None:
                self._garbage(self._files[self._slots[name]])
            stalls.append(stall)
        return Pressure(*stalls)

    def _limit(self, quota: bytes | None, period: bytes | None) -> int | None:
        if quota is None or ("period" in self._slots and period is None):
            return None
        readable, limit_m = parsing.cpu_max_m(quota) if period is None else parsing.cfs_m(quota, period)
        if not readable:
            self._garbage(self._files[self._slots["quota"]])
        return limit_m

    def _garbage(self, file: _File) -> None:
        self._miss(file.field, f"{file.name} in the kernel's own form")


class _Removed(Exception):
    """The group of these descriptors is no more."""


def _close_all(held: _Held) -> None:
    for fd in held.fds:
        if fd >= 0:
            os.close(fd)
