"""Counters of many groups, every second, at little cost.

Problem: a dozen small files a group, each an open, a read and a close: ten thousand system calls a second for a node that is only watched. Choice:
descriptors stay open and are read again in place; those of groups that are not asked for any more are closed, and where there are more groups than
descriptors, the rest are opened each time. What is not likely to have changed is read every `SELDOM` readings only: limits, numbers of tasks and
out-of-memory kills, by which nobody decides from one second to the next; throttling and I/O of a group that used no CPU since; throttling without a
limit; memory's statistics where its sum stands still; I/O and pressure of which the whole machine had none. A descriptor of a removed group says ENODEV:
then the files are opened anew, since the group may have come back under its name. Limits: what cannot be read is None with one `Gap` a file, never an
error; a file that is missing is looked for again every `RETRY` readings; what the kernel writes back for a group that sleeps, and pages that only grow
old, are seen some readings late. I/O says over how many readings it grew.

What the texts say: figures.py.
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
from cotenant.drivers.cgroup.files import Tree, parts_of
from cotenant.drivers.cgroup.layout import Layout
from cotenant.model.errors import Unsupported
from cotenant.model.machine.counters import Gap, GroupCounters

RETRY = 30  # readings after which missing files are looked for again
SELDOM = 8  # readings between two of what changes seldom
IDLE = 16  # readings without being asked for, after which a group's descriptors are closed
_READ_BYTES = 16_384
_MOST_GAPS = 64
_SELDOM = frozenset({"quota", "period", "oom", "pids"})
_NO_LIMIT = b"-1\n"  # of v1's quota
# Stands still while the other does. Not the memory that is charged: what is reclaimed from a group that sleeps must be seen.
_FOLLOWS = {"throttling": "usage", "io": "usage", "memory.stat": "memory"}


@dataclass(frozen=True, slots=True)
class _File:
    """One file to read: where it stands, and who misses it."""

    path: str  # of the hierarchy
    name: str
    field: str
    needs: str
    seldom: bool = False  # read every `SELDOM` readings only
    follows: int = -1  # as `seldom` while the file at this slot says what it said
    waits_for: str = ""  # as `seldom` while the machine is calm in this: a name for `read`
    limit: int = -1  # as `seldom` while the file at this slot says that there is no limit


class _Held:
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
        self.phase = phase  # groups take turns with what is read seldom
        self.used = 0
        self.io_age = 0  # when I/O was last read ...
        self.io_grew = False  # ... and whether it had grown
        self.io_span = 1
        self.io_text: bytes | None = None
        self.is_recent = False  # the texts are of this reading or the last
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
        # Slots and files to look at this time, also where all were read lately.
        self._moving: list[tuple[int, _File]] = []
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

    def read(self, groups: Sequence[str], calm: Collection[str] = ()) -> tuple[GroupCounters, ...]:
        """These groups now, in their order; those that do not exist are left out.

        `calm`: of "cpu", "memory" and "io" those for which nobody on this machine waited since the last reading, so no group did; "disk" where
        its disks moved nothing.
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
                follows = self._slots.get(_FOLLOWS.get(slot, ""), -1)
                limit = self._slots["quota"] if slot == "throttling" else -1
                waits_for = "disk" if slot == "io" else ""
                self._files.append(
                    _File(hierarchy.path, name, field, needs, slot in _SELDOM, follows, waits_for, limit)
                )

        def want_unified(slot: str, name: str, field: str) -> None:
            if unified is None:
                self._miss(field, "a cgroup v2 tree, which may be mounted beside v1")
                return
            self._slots[slot] = len(self._files)
            resource, _, kind = slot.partition(".")
            waits_for = resource if kind == "pressure" else ""
            self._files.append(_File(unified.path, name, field, f"the file {name} of cgroup v2", waits_for=waits_for))

        if layout.version("cpuacct") == 1:
            want("usage", "cpuacct", "cpuacct.usage", "", "CPU use")
        else:
            want_unified("usage", "cpu.stat", "CPU use")
        want("quota", "cpu", "cpu.cfs_quota_us", "cpu.max", "CPU limit")
        # on v2 usage and throttling stand in one file
        if layout.version("cpu") == 1:
            want("throttling", "cpu", "cpu.stat", "", "throttling")
        want("period", "cpu", "cpu.cfs_period_us", "", "CPU limit")
        want("memory", "memory", "memory.usage_in_bytes", "memory.current", "memory")
        want("memory.stat", "memory", "memory.stat", "memory.stat", "working set")
        want("oom", "memory", "memory.oom_control", "memory.events", "out-of-memory kills")
        want("io", "io", "blkio.throttle.io_service_bytes_recursive", "io.stat", "I/O")
        want("pids", "pids", "pids.current", "pids.current", "tasks")
        for name in ("cpu", "memory", "io"):
            want_unified(f"{name}.pressure", f"{name}.pressure", f"{name} pressure")
        self._all = list(enumerate(self._files))
        self._io = self._slots.get("io", -1)
        self._figures = Figures(layout, self._slots, self._garbage)

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
            while self._open_count + count > self.most_open:
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
                held.counters = self._figures.read(group, texts, held.texts, held.counters)
                held.texts = texts
            if held.counters.io_span != held.io_span:
                held.counters = replace(held.counters, io_span=held.io_span)
            return held.counters
        return None

    def _texts(self, held: _Held) -> list[bytes | None]:
        """What the files say. Raises `_Removed` where the group has been removed since they were opened."""
        before = held.texts
        rests = bool(before) and held.is_recent and (held.age + held.phase) % SELDOM != 0
        texts: list[bytes | None] = before.copy() if rests else [None] * len(self._files)
        for slot, file in self._moving if rests else self._all:
            fd = held.fds[slot]
            if fd < 0 or (
                rests
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
                self._told(error, file.field, file.name)
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
        self._miss(file.field, f"{file.name} in the kernel's own form")


class _Removed(Exception):
    """The group of these descriptors is no more."""


def _close_all(held: _Held) -> None:
    for fd in held.fds:
        if fd >= 0:
            os.close(fd)
