"""One sample of the node: machine, groups, and optional further sources.

The engine needs one value per tick, whatever this machine can report. `NodeSensor` joins the readers; run delay and
cycles, which belong to groups, come from sources that may be left out or exchanged (schedstat or eBPF), and each
further figure from a `SampleCollector`.
Limits: the readings of one tick are taken one after another, some milliseconds apart; `at_us` is when the first began.
A source that fails is a `Gap` for this tick and does not affect the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from cotenant.drivers.cgroup.counters import CgroupReader
from cotenant.drivers.proc.host import HostReader
from cotenant.model.errors import CotenantError
from cotenant.model.machine.counters import Gap, HostCounters, NodeSample
from cotenant.model.machine.run_queue import RunQueueReading


class RunDelays(Protocol):
    """Time that groups waited for a CPU; monotonic microseconds. Groups that are gone are left out."""

    def read(self, groups: Sequence[str], now_us: int) -> Mapping[str, int]:
        """The current values."""
        ...

    def gaps(self) -> tuple[Gap, ...]:
        """What could not be read so far."""
        ...


@runtime_checkable
class AttributesDelays(Protocol):
    """A source of run delays that also attributes them to the groups that ran meanwhile."""

    @property
    def reading(self) -> RunQueueReading | None:
        """As of its last `read`."""
        ...


class Cycles(Protocol):
    """Cycles and instructions of groups since each was first asked for. Groups that are gone are left out."""

    def read(self, groups: Sequence[str]) -> Mapping[str, tuple[int, int]]:
        """The current values."""
        ...

    def gaps(self) -> tuple[Gap, ...]:
        """What could not be read so far."""
        ...


@dataclass(frozen=True, slots=True)
class SampleCollector:
    """A further source of figures. `collect` returns the sample with its fields set; a `CotenantError` of it is a `Gap`
    named `what` for this tick.

    `gaps`: what it could not read so far.
    """

    what: str
    collect: Callable[[NodeSample], NodeSample]
    gaps: Callable[[], tuple[Gap, ...]] = tuple


class NodeSensor:
    """Implements engine/node/interfaces.Sensor. `monotonic_us` and `wall_s` are clocks. The readers' owner closes
    them.
    """

    def __init__(
        self,
        groups: CgroupReader,
        host: HostReader,
        monotonic_us: Callable[[], int],
        wall_s: Callable[[], float],
        run_delays: RunDelays | None = None,
        cycles: Cycles | None = None,
        collectors: Sequence[SampleCollector] = (),
    ) -> None:
        self._groups = groups
        self._host = host
        self._monotonic_us = monotonic_us
        self._wall_s = wall_s
        self._run_delays = run_delays
        self._cycles = cycles
        self._collectors = tuple(collectors)
        self._before: HostCounters | None = None  # as of the last reading of groups

    def sample(self, groups: Sequence[str]) -> NodeSample:
        """The machine and these groups now. Raises `Permanent` only where not even the machine's CPU time can be
        read.
        """
        at_us, wall_s = self._monotonic_us(), self._wall_s()
        failed: list[Gap] = []
        host = self._host.read()
        found = self._groups.read(groups, self._calm(host))
        self._before = host
        delays: Mapping[str, int] = {}
        counted: Mapping[str, tuple[int, int]] = {}
        run_queue: RunQueueReading | None = None
        if self._run_delays is not None:
            try:
                delays = self._run_delays.read(groups, at_us)
                if isinstance(self._run_delays, AttributesDelays):
                    run_queue = self._run_delays.reading
            except CotenantError as error:
                failed.append(Gap("run delay", str(error)))
        if self._cycles is not None:
            try:
                counted = self._cycles.read(groups)
            except CotenantError as error:
                failed.append(Gap("cycles", str(error)))
        if delays or counted:
            nothing = (None, None)
            found = tuple(
                replace(
                    entry,
                    run_delay_us=delays.get(entry.group),
                    cycles=counted.get(entry.group, nothing)[0],
                    instructions=counted.get(entry.group, nothing)[1],
                )
                if entry.group in delays or entry.group in counted
                else entry
                for entry in found
            )
        sample = NodeSample(at_us, wall_s, host, found, run_queue=run_queue)
        for collector in self._collectors:
            try:
                sample = collector.collect(sample)
            except CotenantError as error:
                failed.append(Gap(collector.what, str(error)))
        return replace(sample, gaps=(*self._gaps(), *failed))

    def _calm(self, now: HostCounters) -> list[str]:
        """The resources without stalls or I/O on the whole machine since the last sample, hence without any in a
        group.
        """
        before = self._before
        if before is None:
            return []
        last, pressure = before.pressure, now.pressure
        stalls = (
            ("cpu", last.cpu, pressure.cpu),
            ("memory", last.memory, pressure.memory),
            ("io", last.io, pressure.io),
        )
        calm = [name for name, earlier, stall in stalls if stall is not None and stall == earlier]
        moved, earlier_moved = (
            host_counters.disk_read_bytes + host_counters.disk_written_bytes for host_counters in (now, before)
        )
        if moved and moved == earlier_moved:  # 0 = not reported by this machine
            calm.append("disk")
        return calm

    def _gaps(self) -> tuple[Gap, ...]:
        sources = (self._groups, self._host, self._run_delays, self._cycles, *self._collectors)
        return tuple(gap for source in sources if source is not None for gap in source.gaps())
