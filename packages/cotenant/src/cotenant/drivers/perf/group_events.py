"""Performance events of cgroups, counted on every CPU: cycles and instructions where there is a PMU, software events
everywhere.

A group's cycles per instruction reveal contention for shared caches and memory that CPU time does not. Per group and
CPU one set of counters that are scheduled together, opened when a group is first requested and closed when it no longer
is; values are scaled by the time for which a set could not run, as perf does.
Limits: events x CPUs descriptors per group; what a group counts before it is first requested is lost; on cgroup v1 the
group has to exist in the perf_event hierarchy.

Source of scaling: perf_event_open(2), time_enabled and time_running.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cotenant.drivers.perf.opening import CounterReading, PerfEvent, close_counters, open_counters, read_counters
from cotenant.model.cpus.cpulist import parse_cpus
from cotenant.model.errors import CotenantError, Unsupported
from cotenant.model.machine.counters import Gap
from cotenant.model.machine.knob import Vanished

_PROBE_GROUP = ""


@dataclass(slots=True)
class _Set:
    """The counters of a group on one CPU."""

    descriptors: tuple[int, ...]
    last: CounterReading


@dataclass(slots=True)
class _Group:
    inode: int
    sets: list[_Set] = field(default_factory=list)
    totals: list[int] = field(default_factory=list)


def online() -> tuple[int, ...]:
    """The online CPUs of this machine."""
    try:
        return parse_cpus(Path("/sys/devices/system/cpu/online").read_text().strip())
    except OSError:
        return tuple(range(os.cpu_count() or 1))


def scaled(before: CounterReading, now: CounterReading) -> tuple[int, ...] | None:
    """The counts in between, scaled to the whole time; None where the counters did not run at all."""
    enabled_ns, running_ns = now.enabled_ns - before.enabled_ns, now.running_ns - before.running_ns
    if running_ns <= 0:
        return None
    grown = (value - earlier for value, earlier in zip(now.values, before.values, strict=True))
    return tuple(value * enabled_ns // running_ns for value in grown)


class GroupEvents:
    """Reads each event of each group since it was first requested. Holds descriptors until `close`.

    `root`: where cgroup v2, or v1's perf_event hierarchy, is mounted. Raises `Unsupported` where one of the events
    cannot be counted here.
    """

    def __init__(self, root: str, events: tuple[PerfEvent, ...], cpus: Sequence[int] | None = None) -> None:
        self._root = root
        self._events = events
        self._cpus = online() if cpus is None else tuple(cpus)
        self._groups: dict[str, _Group] = {}
        self._only: frozenset[str] | None = None
        self._gap: Gap | None = None
        self._open(_PROBE_GROUP)
        self._close(_PROBE_GROUP)

    def watch(self, groups: Sequence[str]) -> None:
        """Count only these of the requested groups, since each costs descriptors on every CPU. Before the first
        call: all.
        """
        self._only = frozenset(groups)

    def read(self, groups: Sequence[str]) -> Mapping[str, tuple[int, ...]]:
        """Values in the order of the events; groups that are gone, or could not be opened now, are left out."""
        wanted = dict.fromkeys(group for group in groups if self._only is None or group in self._only)
        for group in self._groups.keys() - wanted.keys():
            self._close(group)
        found = {}
        for group in wanted:
            try:
                found[group] = self._read(group)
            except Vanished:
                self._close(group)
            except CotenantError as error:
                self._close(group)
                self._gap = Gap("performance events of some groups", str(error))
        return found

    def gaps(self) -> tuple[Gap, ...]:
        """What could not be counted."""
        return () if self._gap is None else (self._gap,)

    def close(self) -> None:
        """Close all counters."""
        for group in list(self._groups):
            self._close(group)

    def _read(self, group: str) -> tuple[int, ...]:
        held = self._groups.get(group)
        if held is not None and held.inode != self._inode(group):
            self._close(group)  # a recreated group of the same name
            held = None
        if held is None:
            held = self._open(group)
        for set_ in held.sets:
            now = read_counters(set_.descriptors[0], len(self._events))
            added = scaled(set_.last, now)
            if added is not None:
                held.totals = [total + more for total, more in zip(held.totals, added, strict=True)]
                set_.last = now
        return tuple(held.totals)

    def _inode(self, group: str) -> int:
        try:
            return os.stat(os.path.join(self._root, group)).st_ino
        except OSError as error:
            raise Vanished(f"/{group}: {error.strerror}") from error

    def _open(self, group: str) -> _Group:
        try:
            folder = os.open(os.path.join(self._root, group), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise Vanished(f"/{group}: {error.strerror}") from error
        held = self._groups[group] = _Group(os.fstat(folder).st_ino, [], [0] * len(self._events))
        try:
            for cpu in self._cpus:
                descriptors = open_counters(folder, cpu, self._events)
                nothing = CounterReading(0, 0, (0,) * len(self._events))
                held.sets.append(_Set(descriptors, nothing))
        except BaseException:
            self._close(group)
            raise
        finally:
            os.close(folder)
        return held

    def _close(self, group: str) -> None:
        held = self._groups.pop(group, None)
        for set_ in held.sets if held is not None else ():
            close_counters(set_.descriptors)


class GroupCycles:
    """Implements `drivers/cgroup/sensor.Cycles`. Raises `Unsupported` on a machine without a PMU."""

    def __init__(self, root: str, cpus: Sequence[int] | None = None) -> None:
        try:
            self._events = GroupEvents(root, (PerfEvent.CYCLES, PerfEvent.INSTRUCTIONS), cpus)
        except Vanished as error:
            raise Unsupported("cycles per instruction", f"a cgroup tree at {root}") from error

    def watch(self, groups: Sequence[str]) -> None:
        """As `GroupEvents.watch`."""
        self._events.watch(groups)

    def read(self, groups: Sequence[str]) -> Mapping[str, tuple[int, int]]:
        """Cycles and instructions by group."""
        return {group: (values[0], values[1]) for group, values in self._events.read(groups).items()}

    def gaps(self) -> tuple[Gap, ...]:
        """What could not be counted."""
        return self._events.gaps()

    def close(self) -> None:
        """Close all counters."""
        self._events.close()
