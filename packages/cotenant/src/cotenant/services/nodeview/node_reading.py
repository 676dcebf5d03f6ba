"""The machine and its groups over an interval, read by the command itself.

A query about a node must be answered where no agent runs. The agent's own sensor and its own rates over two samples;
the groups are those that exist, the busiest first.
Limits: what only the agent knows (classes, objectives, reasons) is missing.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from time import monotonic_ns, time

from cotenant.drivers.cgroup.counters import CgroupReader
from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.drivers.cgroup.schedstat import RunDelayReader
from cotenant.drivers.cgroup.sensor import NodeSensor, SampleCollector
from cotenant.drivers.cgroup.tree import Groups
from cotenant.drivers.gpu.live import live_gpus
from cotenant.drivers.proc.host import HostReader
from cotenant.engine.node.rates import Rates
from cotenant.model.errors import CotenantError, Unsupported
from cotenant.model.machine.counters import Gap, GpuCounters
from cotenant.model.machine.node_state import GroupUse, HostUse

MAX_GROUPS = 2000


@dataclass(frozen=True, slots=True)
class ObservedInterval:
    """One interval. `more`: there are groups beyond those read."""

    interval_us: int
    host: HostUse
    groups: tuple[GroupUse, ...]  # the busiest first
    gaps: tuple[Gap, ...]
    more: bool
    gpus: tuple[GpuCounters, ...] = ()


class NodeLooker:
    """Samples the node repeatedly; each `interval` covers the time since the previous one. A context manager."""

    def __init__(self, layout: CgroupLayout, below: str = "") -> None:
        self._layout = layout
        self._below = below
        self._open = ExitStack()
        self._rates = Rates()
        self._gaps: list[Gap] = []

    def __enter__(self) -> NodeLooker:
        self._groups = self._open.enter_context(Groups(self._layout))
        self._reader = self._open.enter_context(CgroupReader(self._layout))
        self._host = HostReader()
        self._open.callback(self._host.close)
        delays = None
        try:
            delays = RunDelayReader(self._layout)
            self._open.callback(delays.close)
        except Unsupported as error:
            self._gaps.append(Gap("run delay", error.needs))
        collectors: tuple[SampleCollector, ...] = ()
        try:
            gpus = live_gpus()
            self._open.callback(gpus.close)
            collectors = (SampleCollector("accelerators", gpus.collect, gpus.gaps),)
        except CotenantError as error:
            self._gaps.append(Gap("accelerators", error.needs if isinstance(error, Unsupported) else str(error)))
        clock = lambda: monotonic_ns() // 1000  # noqa: E731
        self._sensor = NodeSensor(self._reader, self._host, clock, time, delays, collectors=collectors)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def interval(self) -> ObservedInterval | None:
        """Rates since the last sample; None where no time has passed. The first has levels only."""
        walk = self._groups.walk(self._below, MAX_GROUPS)
        sample = self._sensor.sample(walk.groups)
        rates = self._rates.advance(sample)
        if rates is None:
            return None
        groups = sorted(rates.groups.values(), key=lambda use: (-(use.cpu_m or 0), use.group))
        # Each gap is reported once, in its first wording.
        gaps = tuple({gap.what: gap for gap in (*sample.gaps, *self._gaps)}.values())
        return ObservedInterval(rates.interval_us, rates.host, tuple(groups), gaps, walk.cut, sample.gpus)
