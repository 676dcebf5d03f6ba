"""Counters of many groups, every second, at low cost.

A dozen small files per group, each an open, a read and a close: ten thousand system calls per second for a node that is
only watched. Descriptors stay open and are read again in place; those of groups no longer requested are closed, and
where there are more groups than descriptors, the rest are opened each time. What rarely changes is read only every
`SELDOM` readings: limits, numbers of tasks and out-of-memory kills, which no decision needs each second; throttling and
I/O of a group that used no CPU since; throttling without a limit; memory's statistics while its sum does not change;
I/O and pressure while the whole machine had none. A descriptor of a removed group returns ENODEV: then the files are
opened again, since the group may have been recreated under its name.
Limits: what cannot be read is None with one `Gap` per file, never an error; a missing file is looked for again every
`RETRY` readings; what the kernel writes back for a sleeping group, and pages that only age, are seen some readings
late. I/O reports over how many readings it grew.

Parsing of the texts: figures.py.
"""

from __future__ import annotations

import errno
import os
import resource
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from types import TracebackType

from cotenant.drivers.cgroup.figures import Figures
from cotenant.drivers.cgroup.files import CgroupTree, parts_of
from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.model.errors import Unsupported
from cotenant.model.machine.counters import Gap, GroupCounters

RETRY = 30  # readings after which missing files are looked for again
SELDOM = 8  # readings between two reads of what rarely changes
IDLE = 16  # readings without a request, after which a group's descriptors are closed
_READ_BYTES = 16_384
_MAX_GAPS = 64
_SELDOM = frozenset({"quota", "period", "oom", "pids"})
_NO_LIMIT = b"-1\n"  # of v1's quota
# Unchanged while the other file is. Not the charged memory: reclaim from a sleeping group must be seen.
_FOLLOWS = {"throttling": "usage", "io": "usage", "memory.stat": "memory"}


@dataclass(frozen=True, slots=True)
class _File:
    """One file to read: its place, and the gap to report where it is missing."""

    path: str  # of the hierarchy
    name: str
    field: str
    needs: str
    seldom: bool = False  # read every `SELDOM` readings only
    follows: int = -1  # as `seldom` while the file at this slot is unchanged
    waits_for: str = ""  # as `seldom` while the machine has no stalls of this resource, a name in `calm`
    limit: int = -1  # as `seldom` while the file at this slot has no limit


class _Descriptors:
    """The descriptors of one group, in the order of the reader's files; -1 where there is none."""

    __slots__ = (
        "age",
        "counters",
        "fds",
        "io_age",
        "io_grew",
        "io_span",
        "io_text",
        "is_recent",
        "missing",
        "phase",
        "texts",
        "used",
    )

    def __init__(self, fds: list[int], phase: int) -> None:
        self.fds = fds
        self.missing = -1 in fds
        self.age = 0
        self.phase = phase  # staggers the seldom reads of different groups
        self.used = 0
        self.io_age = 0  # when I/O was last read ...
        self.io_grew = False  # ... and whether it had grown
        self.io_span = 1
        self.io_text: bytes | None = None
        self.is_recent = False  # the texts are of this reading or the previous one
        self.texts: list[bytes | None] = []  # as last read, and the counters parsed from them
        self.counters: GroupCounters | None = None


class CgroupReader:
    """Reads counters of groups; `gaps()` lists what could not be read. `reads` and `bytes_read` count system calls
    and bytes.
    """

    def __init__(self, layout: CgroupLayout, max_open: int | None = None) -> None:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.max_open = soft * 3 // 4 if max_open is None else max_open
        self.reads = 0
        self.opens = 0
        self.bytes_read = 0
        self._held: OrderedDict[str, _Descriptors] = OrderedDict()
        self._open_count = 0
        self._turn = 0
        self._gaps: dict[str, Gap] = {}
        self._trees: dict[str, CgroupTree] = {}
        self._files: list[_File] = []
        self._slots: dict[str, int] = {}
        # Slots and files to read this time, where all were read recently.
        self._moving: list[tuple[int, _File]] = []
        self._plan(layout)
        try:
            for path in {file.path for file in self._files}:
                self._trees[path] = CgroupTree(path)
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
        """What could not be read so far, one per file name."""
        return tuple(self._gaps.values())

    def read(self, groups: Sequence[str], calm: Collection[str] = ()) -> tuple[GroupCounters, ...]:
        """The counters of these groups now, in their order; those that do not exist are left out.

        `calm`: those of "cpu", "memory" and "io" for which no task on this machine waited since the last reading, so
        none in any group did; "disk" where its disks moved nothing.
        """
        self._turn += 1
        self._moving = [(slot, file) for slot, file in self._all if not (file.seldom or file.waits_for in calm)]
        found = []
        for group in groups:
            counters = self._read_group(group)
            if counters is not None:
                found.append(counters)
        for group, held in list(self._held.items()):
            if self._turn - held.used >= IDLE:
                self._drop(group)
        return tuple(found)

    # Files

    def _plan(self, layout: CgroupLayout) -> None:
        unified = layout.unified

        def add(slot: str, controller: str, v1: str, v2: str, field: str) -> None:
            hierarchy = layout.by_controller.get(controller)
            if hierarchy is None:
                self._add_gap(field, f"the {controller} controller")
                return
            name = v1 if hierarchy.version == 1 else v2
            if name:
                self._slots[slot] = len(self._files)
                needs = f"the file {name} of the {controller} controller"
                follows = self._slots.get(_FOLLOWS.get(slot, ""), -1)
                limit = self._slots["quota"] if slot == "throttling" else -1
                waits_for = "disk" if slot == "io" else ""
                self._files.append(
                    _File(hierarchy.path, name, field, needs, slot in _SELDOM, follows, waits_for, limit)
                )

        def add_unified(slot: str, name: str, field: str) -> None:
            if unified is None:
                self._add_gap(field, "a cgroup v2 tree, which may be mounted beside v1")
                return
            self._slots[slot] = len(self._files)
            resource, _, kind = slot.partition(".")
            waits_for = resource if kind == "pressure" else ""
            self._files.append(_File(unified.path, name, field, f"the file {name} of cgroup v2", waits_for=waits_for))

        if layout.version("cpuacct") == 1:
            add("usage", "cpuacct", "cpuacct.usage", "", "CPU use")
        else:
            add_unified("usage", "cpu.stat", "CPU use")
        add("quota", "cpu", "cpu.cfs_quota_us", "cpu.max", "CPU limit")
        # on v2 usage and throttling are in one file
        if layout.version("cpu") == 1:
            add("throttling", "cpu", "cpu.stat", "", "throttling")
        add("period", "cpu", "cpu.cfs_period_us", "", "CPU limit")
        add("memory", "memory", "memory.usage_in_bytes", "memory.current", "memory")
        add("memory.stat", "memory", "memory.stat", "memory.stat", "working set")
        add("oom", "memory", "memory.oom_control", "memory.events", "out-of-memory kills")
        add("io", "io", "blkio.throttle.io_service_bytes_recursive", "io.stat", "I/O")
        add("pids", "pids", "pids.current", "pids.current", "tasks")
        for name in ("cpu", "memory", "io"):
            add_unified(f"{name}.pressure", f"{name}.pressure", f"{name} pressure")
        self._all = list(enumerate(self._files))
        self._io = self._slots.get("io", -1)
        self._figures = Figures(layout, self._slots, self._garbage)

    def _add_gap(self, what: str, needs: str) -> None:
        if len(self._gaps) < _MAX_GAPS:
            self._gaps.setdefault(what, Gap(what, needs))

    # Descriptors

    def _open(self, group: str) -> _Descriptors | None:
        """All files of a group; None where it exists in no tree."""
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
                self._record_error(error, "some groups", "")
        # the root has fewer files than its children, and a group that is just being removed has none
        if there and group and -1 in fds:
            for fd, file in zip(fds, self._files):
                if fd < 0 and self._trees[file.path].exists(group):
                    self._add_gap(file.field, file.needs)
        return _Descriptors(fds, self.opens) if there else None

    def _open_file(self, at: int, file: _File) -> int:
        self.opens += 1
        try:
            return os.open(file.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
        except OSError as error:
            self._record_error(error, file.field, file.name)
            return -1

    def _record_error(self, error: OSError, what: str, name: str) -> None:
        """Record a gap for an error other than absence."""
        if error.errno in (errno.EMFILE, errno.ENFILE):
            self._add_gap(what, "more file descriptors (ulimit -n)")
        elif name and error.errno not in (errno.ENOENT, errno.ENODEV):
            self._add_gap(what, f"{name} to be readable ({error.strerror})")

    def _hold(self, group: str) -> tuple[_Descriptors | None, bool]:
        """The group's descriptors, and whether they are to be closed after use."""
        held = self._held.get(group)
        earlier = None
        if held is not None and held.missing and held.age >= RETRY:
            self._drop(group)
            held, earlier = None, held
        if held is None:
            held = self._open(group)
            if held is None:
                return None, False
            if earlier is not None:
                held.io_age, held.io_text = earlier.io_age - earlier.age, earlier.io_text
            count = sum(fd >= 0 for fd in held.fds)
            while self._open_count + count > self.max_open:
                oldest = next(iter(self._held), None)
                if oldest is None or self._held[oldest].used == self._turn:
                    return held, True
                self._drop(oldest)
            self._held[group] = held
            self._open_count += count
        held.age += 1
        held.is_recent = self._turn - held.used <= 1
        held.used = self._turn
        self._held.move_to_end(group)
        return held, False

    def _drop(self, group: str) -> None:
        held = self._held.pop(group)
        self._open_count -= sum(fd >= 0 for fd in held.fds)
        _close_all(held)

    # Reading

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
                held.counters = self._figures.read(group, texts, held.texts, held.counters)
                held.texts = texts
            if held.counters.io_span != held.io_span:
                held.counters = replace(held.counters, io_span=held.io_span)
            return held.counters
        return None

    def _texts(self, held: _Descriptors) -> list[bytes | None]:
        """The texts of the files. Raises `_Removed` where the group has been removed since they were opened."""
        before = held.texts
        is_partial = bool(before) and held.is_recent and (held.age + held.phase) % SELDOM != 0
        texts: list[bytes | None] = before.copy() if is_partial else [None] * len(self._files)
        for slot, file in self._moving if is_partial else self._all:
            fd = held.fds[slot]
            if fd < 0 or (
                is_partial
                and (
                    (file.follows >= 0 and texts[file.follows] == before[file.follows] is not None)
                    or (file.limit >= 0 and texts[file.limit] == _NO_LIMIT)
                )
            ):
                if slot == self._io:
                    held.io_span = 0 if held.io_grew else 1
                continue
            self.reads += 1
            try:
                text = os.pread(fd, _READ_BYTES, 0)
            except OSError as error:
                if error.errno == errno.ENODEV:
                    raise _Removed from None
                self._record_error(error, file.field, file.name)
                texts[slot] = None
                continue
            self.bytes_read += len(text)
            texts[slot] = text
            if slot == self._io:
                held.io_grew = held.io_text not in (None, text)
                held.io_span = held.age - held.io_age if held.io_grew else 1
                held.io_age, held.io_text = held.age, text
        return texts

    def _garbage(self, slot: int) -> None:
        file = self._files[slot]
        self._add_gap(file.field, f"{file.name} in the kernel's own form")


class _Removed(Exception):
    """The group of these descriptors was removed."""


def _close_all(held: _Descriptors) -> None:
    for fd in held.fds:
        if fd >= 0:
            os.close(fd)
