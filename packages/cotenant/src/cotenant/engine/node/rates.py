"""From counters to rates: what each group and the machine did since the previous sample.

Counters restart when a group is recreated, vanish for a tick or are garbage, and the clock between two samples may
stand unchanged, jump or go back; a rate made from any of that is a huge number that throttles a group. A rate exists
only between two readings of the same counter, the later one not smaller, over an elapsed time above 0; else it is None,
never 0 and never large. I/O that was not read this time keeps its last rate, and the next rate covers all the time
since it was read.
Limits: a group that was deleted and recreated with larger counters than before, within one interval, cannot be
distinguished from one that worked.

Integers throughout, rounded down. Levels (memory, tasks) are passed on unchanged.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from cotenant.model.machine.counters import GroupCounters, HostCounters, NodeSample, Stall
from cotenant.model.machine.node_state import PPM, GroupUse, HostUse
from cotenant.model.machine.run_queue import Blame, NoCulprit, RunQueueReading

SECOND_US = 1_000_000
_MISSED = 5  # samples that a group may be absent from before its counters are forgotten
_LONGEST_SPAN = 32  # samples between two readings of a group's I/O
_TOLERANCE_US = 100_000  # CPU time per CPU that a counter may be ahead of the clock: the kernel accounts by ticks


@dataclass(frozen=True, slots=True)
class NodeRates:
    """The machine and its groups over one interval; `interval_us` 0 = nothing to compare with, rates are None."""

    interval_us: int
    host: HostUse
    groups: dict[str, GroupUse]
    blame: tuple[Blame, ...] | None  # over the interval; None without the probe, or nothing to compare with
    resets: int  # counters that were smaller than before
    best_effort_sent_bps: int | None = None  # bytes/s; None where best-effort traffic has no class of its own
    recreated: frozenset[str] = frozenset()  # groups that may have been recreated: no CPU rate while counters restarted


class _Last(NamedTuple):
    """The last sample of a group."""

    at_us: int
    number: int  # of the sample
    counters: GroupCounters
    unchanged: GroupUse | None  # its use, where the counters did not move
    io_bps: tuple[int | None, int | None]  # read and written


class Rates:
    """Remembers the last counters of each group."""

    def __init__(self, min_interval_us: int = 1) -> None:
        """Samples closer together than `min_interval_us` are not compared."""
        self._min_us = max(1, min_interval_us)
        self._at_us: int | None = None
        self._host: HostCounters | None = None
        self._groups: dict[str, _Last] = {}
        self._run_queue: RunQueueReading | None = None
        self._sent: int | None = None
        self._times_us: deque[int] = deque(maxlen=_LONGEST_SPAN)  # of previous samples
        self._number = 0
        self._resets = 0

    def __len__(self) -> int:
        return len(self._groups)

    def advance(self, sample: NodeSample) -> NodeRates | None:
        """Process a sample. None where too little time has passed since the last one: it is neither compared nor kept.

        Where the clock went back, everything restarts from this sample.
        """
        interval = 0 if self._at_us is None else sample.at_us - self._at_us
        if self._at_us is not None and 0 <= interval < self._min_us:
            return None
        if interval < 0:
            self._groups.clear()
            self._times_us.clear()
            self._host, self._run_queue, self._sent, interval = None, None, None, 0
        self._resets = 0
        self._number += 1
        host = self._host_use(sample.host, interval)
        groups: dict[str, GroupUse] = {}
        for counters in sample.groups:
            before = self._groups.get(counters.group)
            unchanged = None
            if before is None:
                use = _levels(counters)
            elif before.counters is counters and before.unchanged is not None and sample.at_us > before.at_us:
                use = unchanged = before.unchanged  # nothing moved, as at the previous sample
            else:
                use = self._use(before, counters, sample.at_us, sample.host.cpus)
                unchanged = use if before.counters is counters and sample.at_us > before.at_us else None
            groups[counters.group] = use
            io_bps = (use.io_read_bps, use.io_written_bps)
            self._groups[counters.group] = _Last(sample.at_us, self._number, counters, unchanged, io_bps)
        if len(self._groups) > len(sample.groups):
            oldest = self._number - _MISSED
            self._groups = {group: last for group, last in self._groups.items() if last.number > oldest}
        self._at_us, self._host = sample.at_us, sample.host
        self._times_us.append(sample.at_us)
        blame = self._blame(sample.run_queue)
        sent = self._grown(self._sent, sample.best_effort_sent_bytes) if interval > 0 else None
        self._sent = sample.best_effort_sent_bytes
        recreated: frozenset[str] = frozenset()
        if self._resets:
            readable = (group_counters.group for group_counters in sample.groups if group_counters.cpu_us is not None)
            recreated = frozenset(group for group in readable if groups[group].cpu_m is None)
        return NodeRates(interval, host, groups, blame, self._resets, _per_second(sent, interval), recreated)

    def _host_use(self, now: HostCounters, interval_us: int) -> HostUse:
        before = self._host
        used = max(0, now.memory_total_bytes - now.memory_available_bytes)
        if before is None:
            return HostUse(now.cpus, None, now.memory_total_bytes, used)
        busy = self._grown(before.cpu_busy_us, now.cpu_busy_us)
        steal = self._grown(before.cpu_steal_us, now.cpu_steal_us)
        last, pressure = before.pressure, now.pressure
        return HostUse(
            now.cpus,
            _cpu_m(busy, interval_us, now.cpus),
            now.memory_total_bytes,
            used,
            cpu_stall_ppm=self._some(last.cpu, pressure.cpu, interval_us),
            memory_stall_ppm=self._some(last.memory, pressure.memory, interval_us),
            memory_full_stall_ppm=self._full(last.memory, pressure.memory, interval_us),
            io_stall_ppm=self._some(last.io, pressure.io, interval_us),
            disks=now.disks,
            steal_ppm=None if steal is None else min(PPM, steal * PPM // (interval_us * max(1, now.cpus))),
            network_received_bps=_per_second(
                self._grown(before.network_received_bytes, now.network_received_bytes), interval_us
            ),
            network_sent_bps=_per_second(self._grown(before.network_sent_bytes, now.network_sent_bytes), interval_us),
            disk_bps=_per_second(
                self._grown(
                    before.disk_read_bytes + before.disk_written_bytes, now.disk_read_bytes + now.disk_written_bytes
                ),
                interval_us,
            ),
            disk_busy_ppm=_busy(self._grown(before.disk_busy_us, now.disk_busy_us), interval_us, len(now.disks)),
        )

    def _blame(self, now: RunQueueReading | None) -> tuple[Blame, ...] | None:
        before, self._run_queue = self._run_queue, now
        if before is None or now is None:
            return None
        earlier: dict[tuple[str, str | NoCulprit], int] = {(b.victim, b.culprit): b.ran_us for b in before.blame}
        grown = (
            Blame(b.victim, b.culprit, b.ran_us - earlier.get((b.victim, b.culprit), 0))
            for b in now.blame
            if b.ran_us >= earlier.get((b.victim, b.culprit), 0)
        )
        positive = [blame for blame in grown if blame.ran_us > 0]
        return tuple(sorted(positive, key=lambda blame: (blame.victim, str(blame.culprit))))

    def _use(self, earlier: _Last, now: GroupCounters, at_us: int, cpus: int) -> GroupUse:
        before, interval_us = earlier.counters, at_us - earlier.at_us
        if interval_us <= 0:  # the same group twice in one sample
            return _levels(now)
        grown = self._grown
        io_read_bps, io_written_bps = earlier.io_bps
        if now.io_span > 0:
            io_us = interval_us
            if now.io_span > 1:  # 0 where the time of that sample is no longer known
                io_us = at_us - self._times_us[-now.io_span] if now.io_span <= len(self._times_us) else 0
            io_read_bps = _per_second(grown(before.io_read_bytes, now.io_read_bytes), io_us)
            io_written_bps = _per_second(grown(before.io_written_bytes, now.io_written_bytes), io_us)
        run_delay = grown(before.run_delay_us, now.run_delay_us)
        instructions = grown(before.instructions, now.instructions)
        cycles = grown(before.cycles, now.cycles)
        last, pressure = before.pressure, now.pressure
        return GroupUse(
            now.group,
            cpu_m=_cpu_m(grown(before.cpu_us, now.cpu_us), interval_us, cpus),
            throttled_ppm=_share(
                grown(before.throttled_periods, now.throttled_periods), grown(before.periods, now.periods)
            ),
            run_delay_ppm=None if run_delay is None else run_delay * PPM // interval_us,
            cpu_stall_ppm=self._some(last.cpu, pressure.cpu, interval_us),
            memory_stall_ppm=self._some(last.memory, pressure.memory, interval_us),
            memory_full_stall_ppm=self._full(last.memory, pressure.memory, interval_us),
            io_stall_ppm=self._some(last.io, pressure.io, interval_us),
            memory_bytes=now.memory_bytes,
            working_set_bytes=now.working_set_bytes,
            refaults_per_s=_per_second(grown(before.refaults, now.refaults), interval_us),
            io_read_bps=io_read_bps,
            io_written_bps=io_written_bps,
            tasks=now.tasks,
            cpi_milli=cycles * 1000 // instructions if cycles is not None and instructions else None,
        )

    def _grown(self, before: int | None, now: int | None) -> int | None:
        if before is None or now is None:
            return None
        if now < before:
            self._resets += 1
            return None
        return now - before

    def _some(self, before: Stall | None, now: Stall | None, interval_us: int) -> int | None:
        if before is None or now is None:
            return None
        grown = self._grown(before.some_us, now.some_us)
        return None if grown is None else min(PPM, grown * PPM // interval_us)

    def _full(self, before: Stall | None, now: Stall | None, interval_us: int) -> int | None:
        if before is None or now is None:
            return None
        grown = self._grown(before.full_us, now.full_us)
        return None if grown is None else min(PPM, grown * PPM // interval_us)


def _levels(now: GroupCounters) -> GroupUse:
    return GroupUse(now.group, memory_bytes=now.memory_bytes, working_set_bytes=now.working_set_bytes, tasks=now.tasks)


def _cpu_m(grown_us: int | None, interval_us: int, cpus: int) -> int | None:
    """Milli-CPU; None also where it is more than the machine can have used."""
    if grown_us is None or grown_us > max(1, cpus) * (interval_us + _TOLERANCE_US):
        return None
    return min(grown_us * 1000 // interval_us, max(1, cpus) * 1000)


def _busy(grown_us: int | None, interval_us: int, disks: int) -> int | None:
    """Millionths of the disks' time."""
    return None if grown_us is None or interval_us <= 0 else min(PPM, grown_us * PPM // (interval_us * max(1, disks)))


def _share(part: int | None, whole: int | None) -> int | None:
    """Millionths; 0 where the whole did not grow, since then the part did not either."""
    if part is None or whole is None:
        return None
    return min(PPM, part * PPM // whole) if whole else 0


def _per_second(grown: int | None, interval_us: int) -> int | None:
    return None if grown is None or interval_us <= 0 else grown * SECOND_US // interval_us
