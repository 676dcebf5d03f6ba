"""Measuring a host and its containers once a second: counters of cgroups, of networks, states of tasks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from cotenant.drivers.cgroup.counters import CgroupReader
from cotenant.drivers.cgroup.layout import CgroupLayout, detect
from cotenant.drivers.cgroup.processes import first_process
from cotenant.drivers.cgroup.task_states import TaskStates
from cotenant.drivers.proc.host import HostReader, network_bytes
from cotenant.engine.fleet.load_average import LoadAverage
from cotenant.model.fleet.figures import ContainerFigures, HostFigures
from cotenant.model.machine.counters import GroupCounters, HostCounters
from cotenant.services.fleet.functions.group_paths import group_paths

_MAX_TASKS = 2000  # of one container whose states are looked at
_HOST = ""  # as a guid of `_rates`


class CounterRates:
    """Of counters by name, over the time between two readings."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, str], tuple[float, int]] = {}
        self._last: dict[tuple[str, str], float] = {}

    def per_s(self, guid: str, name: str, value: int | None, now_s: float) -> float | None:
        """None without a value; 0 at first, and after the counter began anew."""
        if value is None:
            return None
        key = (guid, name)
        before = self._before.get(key)
        self._before[key] = (now_s, value)
        if before is None or value < before[1] or now_s <= before[0]:
            self._last[key] = 0.0
        else:
            self._last[key] = (value - before[1]) / (now_s - before[0])
        return self._last[key]

    def last(self, guid: str, name: str) -> float | None:
        """As it was at the last reading."""
        return self._last.get((guid, name))

    def keep(self, guids: set[str]) -> None:
        """Forget the others."""
        for key in [key for key in self._before if key[0] not in guids]:
            del self._before[key], self._last[key]


class HostMeter:
    """Raises `CotenantError` where there are no cgroups at all. Close it."""

    def __init__(self) -> None:
        self._layout: CgroupLayout = detect()
        self._host = HostReader()
        self._groups = CgroupReader(self._layout)
        self._states = TaskStates(self._layout)
        self._rates = CounterRates()
        self._loads: dict[str, LoadAverage] = {}
        self._paths: dict[str, str] = {}

    def close(self) -> None:
        """Close all files."""
        self._host.close()
        self._groups.close()
        self._states.close()

    def sample(self, ids: Mapping[str, str], now_s: float) -> tuple[HostFigures, dict[str, ContainerFigures]]:
        """Read once. `ids`: Docker's ids of running containers by guid."""
        self._find(ids)
        host = self._host_figures(self._host.read(), now_s)
        found = {counters.group: counters for counters in self._groups.read([*self._paths.values()])}
        containers = {}
        for guid, group in self._paths.items():
            counters = found.get(group)
            if counters is not None:
                containers[guid] = self._container(guid, group, counters, now_s)
        return host, containers

    def _find(self, ids: Mapping[str, str]) -> None:
        self._paths = {guid: path for guid, path in self._paths.items() if guid in ids}
        missing = {guid: container for guid, container in ids.items() if guid not in self._paths}
        if missing:
            self._paths.update(group_paths(self._layout, missing))
        self._loads = {guid: self._loads.get(guid) or LoadAverage() for guid in self._paths}
        self._rates.keep({*self._paths, _HOST})

    def _host_figures(self, counters: HostCounters, now_s: float) -> HostFigures:
        rate = self._rates.per_s
        return HostFigures(
            counters.cpus,
            round((rate(_HOST, "cpu", counters.cpu_busy_us, now_s) or 0) / 1000),
            counters.memory_total_bytes - counters.memory_available_bytes,
            counters.memory_total_bytes,
            *os.getloadavg(),
            round(rate(_HOST, "received", counters.network_received_bytes, now_s) or 0),
            round(rate(_HOST, "sent", counters.network_sent_bytes, now_s) or 0),
            round(rate(_HOST, "read", counters.disk_read_bytes, now_s) or 0),
            round(rate(_HOST, "written", counters.disk_written_bytes, now_s) or 0),
        )

    def _container(self, guid: str, group: str, counters: GroupCounters, now_s: float) -> ContainerFigures:
        def rate(name: str, value: int | None, divisor: int = 1) -> int | None:
            found = self._rates.per_s(guid, name, value, now_s)
            return None if found is None else round(found / divisor)

        def io(name: str, value: int | None) -> int | None:
            if counters.io_span:  # else it was not read this time, and the rate is that of before
                return rate(name, value)
            found = self._rates.last(guid, name)
            return None if found is None else round(found)

        system_us = self._states.system_us(group)
        received, sent = self._network(group)
        load = self._loads[guid]
        loaded = self._states.loaded(group, _MAX_TASKS)
        if loaded is not None:
            load.count(loaded, now_s)
        load_1, load_5, load_15 = load.averages or (None, None, None)
        return ContainerFigures(
            guid,
            cpu_milli=rate("cpu", counters.cpu_us, 1000),
            system_milli=rate("system", system_us, 1000),
            throttled_permille=rate("throttled", counters.throttled_us, 1000),
            memory_bytes=counters.working_set_bytes,
            received_bytes=rate("received", received),
            sent_bytes=rate("sent", sent),
            read_bytes=io("read", counters.io_read_bytes),
            written_bytes=io("written", counters.io_written_bytes),
            tasks=counters.tasks,
            load_1=load_1,
            load_5=load_5,
            load_15=load_15,
            oom_kills=counters.oom_kills,
            cpu_total_us=counters.cpu_us,
            system_total_us=system_us,
            received_total_bytes=received,
            sent_total_bytes=sent,
            read_total_bytes=counters.io_read_bytes,
            written_total_bytes=counters.io_written_bytes,
        )

    def _network(self, group: str) -> tuple[int | None, int | None]:
        """Bytes that came into and left the container's own network; None in the host's."""
        pid = first_process(self._layout, group)
        if pid is None:
            return None, None
        try:
            if os.stat(f"/proc/{pid}/ns/net").st_ino == os.stat("/proc/self/ns/net").st_ino:
                return None, None
            found = network_bytes(Path(f"/proc/{pid}/net/dev").read_text(), every=True)
        except OSError:
            return None, None
        return found if found is not None else (None, None)
