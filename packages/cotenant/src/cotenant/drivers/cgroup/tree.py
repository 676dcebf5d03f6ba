"""Operations on groups and their processes: list, create, move, kill, remove.

With v1 controllers a group is one folder per hierarchy, and only together are they the group: pressure is in one tree,
the quota in another. `Groups` acts on all relevant trees at once; a v1 cpuset gets its parent's CPUs and memory nodes,
without which no process may enter; on v2 the parents delegate their controllers.
Limits: trees that a container may not see, or that hold no controller we use (devices, net_cls), are left alone; the
creator of a group removes it.

Source: cgroups(7); cgroup-v2.rst, "Organizing Processes and Threads" and "Controlling Controllers".
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType

from cotenant.drivers.cgroup.files import CgroupTree
from cotenant.drivers.cgroup.layout import CgroupLayout, Hierarchy
from cotenant.model.errors import InvalidInput, Permanent, Transient, Unsupported
from cotenant.model.machine.knob import Vanished
from cotenant.model.whole_number import whole_number

_USED = frozenset(["cpu", "cpuacct", "cpuset", "memory", "blkio", "io", "pids", "freezer", "perf_event"])
_DELEGATED = ("cpuset", "cpu", "io", "memory", "pids")
_PAUSE_S = 0.005
DEEPEST = 32  # levels: groups may be nested without limit, and each costs its whole path


@dataclass(frozen=True, slots=True)
class Walk:
    """Groups below one, parents before children. `cut`: there are more."""

    groups: tuple[str, ...]
    cut: bool


class Groups:
    """All hierarchies of a layout. Holds one descriptor per hierarchy until `close`."""

    def __init__(self, layout: CgroupLayout) -> None:
        self.layout = layout
        used = [tree for tree in layout.hierarchies if tree.version == 2 or tree.controllers & _USED]
        first = layout.by_controller.get("cpu") or layout.by_controller.get("memory") or used[0]
        # the tree with the CPU's knobs is used for listing; the pressure tree comes last, so that a group seen there is
        # complete
        used.sort(key=lambda tree: (tree is not first, tree.version))
        self._trees: dict[str, tuple[Hierarchy, CgroupTree]] = {}
        try:
            for hierarchy in used:
                self._trees[hierarchy.path] = (hierarchy, CgroupTree(hierarchy.path))
        except OSError as error:
            self.close()
            raise Unsupported(f"cgroups at {hierarchy.path}", f"a tree that can be opened: {error.strerror}") from error
        self._first = self._trees[first.path][1]

    def close(self) -> None:
        """Close the trees."""
        for _, tree in self._trees.values():
            tree.close()
        self._trees.clear()

    def __enter__(self) -> Groups:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Listing

    def exists(self, group: str) -> bool:
        """Whether the group exists in the tree that has the CPU's knobs."""
        return self._first.exists(group)

    def missing(self, group: str) -> tuple[str, ...]:
        """The hierarchies, by path, that lack this group; () for a complete group."""
        return tuple(path for path, (_, tree) in self._trees.items() if not tree.exists(group))

    def children(self, group: str) -> tuple[str, ...]:
        """The groups directly below, as paths. Raises `Vanished`."""
        try:
            names = self._first.children(group)
        except OSError as error:
            raise _error(group, error) from error
        return tuple(f"{group}/{name}" if group else name for name in names)

    def walk(self, group: str = "", most: int = 10_000) -> Walk:
        """The groups below this one, breadth first, at most `most` and `DEEPEST` levels. Those that vanish
        meanwhile are left out.
        """
        found: list[str] = []
        waiting = deque((group,))
        deepest = group.count("/") + DEEPEST + (1 if group else 0)
        while waiting:
            parent = waiting.popleft()
            try:
                below = self.children(parent)
            except Vanished:
                continue
            if below and parent and parent.count("/") + 1 >= deepest:
                return Walk(tuple(found), cut=True)
            if len(found) + len(below) > most:
                return Walk((*found, *below[: most - len(found)]), cut=True)
            found += below
            waiting.extend(below)
        return Walk(tuple(found), cut=False)

    def pids(self, group: str) -> tuple[int, ...]:
        """The processes in the group itself. Raises `Vanished`."""
        return self._numbers(group, "cgroup.procs")

    def threads(self, group: str) -> tuple[int, ...]:
        """The threads in the group itself. Raises `Vanished`."""
        with suppress(FileNotFoundError):
            return self._numbers(group, "tasks" if self._trees[self._first.path][0].version == 1 else "cgroup.threads")
        return self._numbers(group, "cgroup.procs")

    def _numbers(self, group: str, name: str) -> tuple[int, ...]:
        try:
            return tuple(
                n for word in self._first.read_all(group, name).split() if (n := whole_number(word)) is not None
            )
        except FileNotFoundError as error:
            if self._first.exists(group):
                raise
            raise _error(group, error) from error
        except OSError as error:
            raise _error(group, error) from error

    # Changes

    def make(self, group: str) -> None:
        """Create the group, and its parents where they are missing, in every hierarchy. An existing one is completed.

        Raises `InvalidInput` for a name that the kernel refuses, `Permanent` where it may not be created; then nothing
        new is left behind.
        """
        _refuse_root(group)
        made: list[tuple[CgroupTree, str]] = []
        parts = group.split("/")
        try:
            for hierarchy, tree in self._trees.values():
                for depth in range(len(parts)):
                    path, above = "/".join(parts[: depth + 1]), "/".join(parts[:depth])
                    if hierarchy.version == 2:
                        _delegate(tree, above, hierarchy.controllers)
                    if not tree.exists(path):
                        tree.make(path)
                        made.append((tree, path))
                    if hierarchy.version == 1 and "cpuset" in hierarchy.controllers:
                        _fill_cpuset(tree, path, above)
        except OSError as error:
            for tree, path in reversed(made):
                with suppress(OSError):
                    tree.remove(path)
            if error.errno in (errno.EINVAL, errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR):
                raise InvalidInput("group", group, "a valid cgroup path", error.strerror or "") from error
            raise _error(group, error) from error

    def move(self, pid: int, group: str) -> None:
        """Put a process with all its threads into the group, in every hierarchy. 0 is the calling process. Raises
        `Vanished`.
        """
        for _, tree in self._trees.values():
            try:
                tree.write(group, "cgroup.procs", str(pid))
            except ProcessLookupError as error:
                raise Permanent(f"process {pid} has exited") from error
            except OSError as error:
                raise _error(group, error) from error

    def kill(self, group: str) -> None:
        """Kill every process in the group and below it. Returns once the signals are sent."""
        _refuse_root(group)
        inside = (group, *self.walk(group).groups)
        for hierarchy, tree in self._trees.values():
            if hierarchy.version == 2 and tree.has(group, "cgroup.kill"):
                with suppress(OSError):
                    tree.write(group, "cgroup.kill", "1")
        # processes in a v1 tree only, or on kernels before 5.14
        for path in inside:
            with suppress(Vanished):
                for pid in self.pids(path):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)

    def remove(self, group: str, timeout_s: float = 2.0) -> None:
        """Remove the group and those below it from every hierarchy. Kills nothing; waits up to `timeout_s` for exiting
        processes.

        Raises `Transient` where something still runs in it. A group that does not exist counts as removed.
        """
        _refuse_root(group)
        until = time.monotonic() + timeout_s
        for _, tree in self._trees.values():
            while True:
                try:
                    _remove_below(tree, group)
                    break
                except OSError as error:
                    if error.errno in (errno.ENOENT, errno.ENOTDIR):
                        break
                    if error.errno != errno.EBUSY:
                        raise _error(group, error) from error
                    if time.monotonic() >= until:
                        raise Transient(f"/{group} in {tree.path} is still in use") from error
                    time.sleep(_PAUSE_S)


def _refuse_root(group: str) -> None:
    if not group:
        raise InvalidInput("group", group, "a group below the root", "the root is shared by all")


def _remove_below(tree: CgroupTree, group: str) -> None:
    for name in tree.children(group):
        _remove_below(tree, f"{group}/{name}")
    tree.remove(group)


def _delegate(tree: CgroupTree, above: str, controllers: frozenset[str]) -> None:
    """Enable these controllers for the children of `above`. One that cannot be enabled is reported later by the
    knob that needs it.
    """
    try:
        passed = tree.read(above, "cgroup.subtree_control").split()
        offered = tree.read(above, "cgroup.controllers").split()
    except OSError:
        return
    for controller in _DELEGATED:
        if controller in controllers and controller in offered and controller not in passed:
            with suppress(OSError):
                tree.write(above, "cgroup.subtree_control", f"+{controller}")


def _fill_cpuset(tree: CgroupTree, group: str, above: str) -> None:
    for name in ("cpuset.cpus", "cpuset.mems"):
        if not tree.read(group, name):
            tree.write(group, name, tree.read(above, name))


def _error(group: str, error: OSError) -> Permanent | Transient:
    if error.errno in (errno.ENOENT, errno.ENODEV, errno.ENOTDIR):
        return Vanished(f"/{group}: no such group")
    if error.errno in (errno.EBUSY, errno.EINTR, errno.ENOMEM, errno.EAGAIN):
        return Transient(f"/{group}: {error.strerror}")
    return Permanent(f"/{group}: {error.strerror}")
