"""Figures of the host and its containers in each heartbeat: load, CPU and memory used now."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from cotenant.drivers.cgroup.counters import CgroupReader
from cotenant.drivers.cgroup.layout import Layout, detect
from cotenant.drivers.proc.host import HostReader
from cotenant.model.errors import CotenantError
from cotenant.model.fleet.configuration import AgentConfiguration
from cotenant.services.fleet.functions.containers import ContainerFunction
from cotenant.services.fleet.functions.contract import Beat
from cotenant.services.fleet.functions.group_paths import group_paths
from cotenant.services.fleet.rpc import Verb


class FigureFunction:
    """Implements `Function`."""

    name = "figures"
    verbs: Mapping[str, Verb] = {}

    def __init__(self, containers: ContainerFunction, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._containers = containers
        self._now = monotonic
        self._host: HostReader | None = None
        self._groups: CgroupReader | None = None
        self._layout: Layout | None = None
        self._busy: tuple[float, int] | None = None  # when, and the host's CPU time
        self._used: dict[str, tuple[float, int]] = {}  # the same of containers
        self._paths: dict[str, str] = {}
        self.fault = ""

    def configure(self, configuration: AgentConfiguration) -> None:
        """As the Protocol."""

    async def start(self) -> None:
        """As the Protocol."""
        self._host = HostReader()
        try:
            self._layout = detect()
            self._groups = CgroupReader(self._layout)
            self.fault = ""
        except CotenantError as error:
            self.fault = f"no figures of containers: {error}"

    async def stop(self) -> None:
        """As the Protocol."""
        if self._host is not None:
            self._host.close()
        if self._groups is not None:
            self._groups.close()
        self._host, self._groups, self._busy = None, None, None
        self._used.clear()

    async def add_to(self, beat: Beat) -> None:
        """As the Protocol."""
        if self._host is None:
            return
        now_s = self._now()
        counters = self._host.read()
        beat.load = os.getloadavg()[0]
        beat.cpu_milli = _rate(self._busy, now_s, counters.cpu_busy_us)
        self._busy = (now_s, counters.cpu_busy_us)
        beat.memory_bytes = counters.memory_total_bytes - counters.memory_available_bytes
        if self._groups is not None and self._layout is not None:
            self._add_containers(self._groups, self._layout, beat, now_s)

    def _add_containers(self, reader: CgroupReader, layout: Layout, beat: Beat, now_s: float) -> None:
        running = self._containers.ids()
        self._paths = {guid: path for guid, path in self._paths.items() if guid in running}
        missing = {guid: container for guid, container in running.items() if guid not in self._paths}
        if missing:
            self._paths.update(group_paths(layout, missing))
        guids = [guid for guid in self._paths if guid in beat.containers]
        used: dict[str, tuple[float, int]] = {}
        found = {
            group_counters.group: group_counters
            for group_counters in reader.read([self._paths[guid] for guid in guids])
        }
        for guid in guids:
            counters = found.get(self._paths[guid])
            if counters is None:
                continue
            cpu_us = counters.cpu_us
            cpu_milli = None
            if cpu_us is not None:
                cpu_milli = _rate(self._used.get(guid), now_s, cpu_us)
                used[guid] = (now_s, cpu_us)
            beat.containers[guid] = replace(
                beat.containers[guid], cpu_milli=cpu_milli, memory_bytes=counters.working_set_bytes
            )
        self._used = used


def _rate(before: tuple[float, int] | None, now_s: float, busy_us: int) -> int:
    """Milli-CPU used since; 0 at first, and after a counter began anew."""
    if before is None or now_s <= before[0] or busy_us < before[1]:
        return 0
    return round((busy_us - before[1]) / (now_s - before[0]) / 1000)
