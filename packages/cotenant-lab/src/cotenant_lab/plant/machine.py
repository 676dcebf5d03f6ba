"""The plant: a machine's CPUs, groups and loads, advanced in small steps of virtual time; its counters are a `Sensor`.

A controller that is tested only on a live machine is tested rarely, and never twice under equal conditions. Steps of a
few milliseconds; in each, threads are spread over the CPUs they may use, each CPU is shared out (`sharing.py`), loads
do their work, and counters grow as the kernel's do: CPU time, periods, throttling, time waited, pressure. Equal loads
and seeds give equal counters.
Limits: CPU only; throttling is detected at the end of a step; a child's pressure counts for its parents at most once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cotenant.model.cpus.cpulist import parse_cpus
from cotenant.model.machine.counters import GroupCounters, HostCounters, LogicalCpu, NodeSample, Pressure, Stall
from cotenant.model.machine.knob import Knob
from cotenant.model.machine.knob_values import parse_cpu_max
from cotenant_lab.plant.knobs import PlantKnobs
from cotenant_lab.plant.loads import PPM, PlantLoad
from cotenant_lab.plant.sharing import KERNEL_USUAL_WEIGHT, USUAL_WEIGHT, GroupNode, share, want_here

MEMORY_BYTES = 16 << 30
WALL_S = 1_700_000_000.0  # what the wall clock shows at virtual time 0


@dataclass(slots=True)
class PlantCounters:
    """A group's counters."""

    cpu_us: int = 0
    periods: int = 0
    throttled_periods: int = 0
    throttled_us: int = 0
    run_delay_us: int = 0
    some_us: int = 0
    full_us: int = 0


class Plant:
    """A machine of `cpus` CPUs. Implements `Sensor` and, by `knobs`, `KnobPort`."""

    def __init__(self, cpus: int, loads: Sequence[PlantLoad], groups: Sequence[str] = (), step_us: int = 5000) -> None:
        """`groups`: groups without a load; those of loads are added automatically."""
        self.cpus = cpus
        self.loads = list(loads)
        self.step_us = step_us
        self.now_us = 0
        self.knobs = PlantKnobs(cpus, (*groups, *(load.group for load in loads)))
        self.counted: dict[str, PlantCounters] = {}
        self.host = PlantCounters()
        self._nodes: dict[str, GroupNode] = {}
        self._root = GroupNode("")
        self._allowed: dict[str, tuple[int, ...]] = {}
        self._version = -1
        self._taken_ppm = [0] * cpus  # of each CPU in the last step, by groups outside the idle class
        self._taken_by: list[dict[str, int]] = [{} for _ in range(cpus)]

    def advance(self, until_us: int) -> None:
        """Advance time, in whole steps."""
        while self.now_us < until_us:
            self._step()

    def topology(self) -> tuple[LogicalCpu, ...]:
        """One thread per core, one socket."""
        return tuple(LogicalCpu(cpu, cpu, 0, 0) for cpu in range(self.cpus))

    def sample(self, groups: Sequence[str]) -> NodeSample:
        """Implements `engine.node.interfaces.Sensor`."""
        present = set(self.knobs.groups())
        counters = tuple(self._counters(group) for group in groups if group in present)
        host = HostCounters(
            cpus=self.cpus,
            cpu_busy_us=self.host.cpu_us,
            memory_total_bytes=MEMORY_BYTES,
            memory_available_bytes=MEMORY_BYTES // 2,
            pressure=Pressure(cpu=Stall(self.host.some_us, 0)),
        )
        return NodeSample(self.now_us, WALL_S + self.now_us / PPM, host, counters)

    def stalled_us(self, group: str) -> int:
        """Time since the start in which some thread of a group waited, as a PSI trigger measures it. "" = the
        machine.
        """
        return self.host.some_us if not group else self.counted.setdefault(group, PlantCounters()).some_us

    def _counters(self, group: str) -> GroupCounters:
        seen = self.counted.setdefault(group, PlantCounters())
        limit = parse_cpu_max(self.knobs.value(group, Knob.CPU_MAX)).cpu_m
        return GroupCounters(
            group,
            cpu_us=seen.cpu_us,
            periods=seen.periods,
            throttled_periods=seen.throttled_periods,
            throttled_us=seen.throttled_us,
            run_delay_us=seen.run_delay_us,
            tasks=sum(load.threads for load in self.loads if _within(load.group, group)),
            pressure=Pressure(cpu=Stall(seen.some_us, seen.full_us)),
            cpu_m_limit=limit,
        )

    def _step(self) -> None:
        if self._version != self.knobs.version:
            self._rebuild()
        self._refill()
        running = [(load, load.wants(self.now_us, self.step_us)) for load in self.loads if load.group in self._nodes]
        running = [(load, wanted) for load, wanted in running if wanted > 0]
        got, collisions = self._share_out(running)
        self._account(running, got, collisions)
        self.now_us += self.step_us

    def _rebuild(self) -> None:
        """Apply the knobs; the remaining quota of a period is kept."""
        self._version = self.knobs.version
        names = self.knobs.groups()
        for gone in set(self._nodes) - set(names):
            del self._nodes[gone]
        self._root.children = []
        for name in names:
            node = self._nodes.setdefault(name, GroupNode(name))
            limit = parse_cpu_max(self.knobs.value(name, Knob.CPU_MAX))
            if limit.quota_us is not None and (limit.quota_us, limit.period_us) != (node.quota_us, node.period_us):
                node.left_us = limit.quota_us  # a new limit begins with a full period
                node.period = self.now_us // limit.period_us
            node.quota_us, node.period_us = limit.quota_us, limit.period_us
            node.burst_us = int(self.knobs.value(name, Knob.CPU_BURST))
            node.weight = int(self.knobs.value(name, Knob.CPU_WEIGHT)) * KERNEL_USUAL_WEIGHT // USUAL_WEIGHT
            node.idle = self.knobs.value(name, Knob.CPU_IDLE) == "1"
            node.children = []
            parent = self._nodes.get(name.rpartition("/")[0], self._root)
            parent.children.append(node)
            above = self._allowed.get(parent.group, tuple(range(self.cpus)))
            own = set(parse_cpus(self.knobs.value(name, Knob.CPUSET_CPUS))) or set(above)
            self._allowed[name] = tuple(cpu for cpu in above if cpu in own) or above

    def _refill(self) -> None:
        for node in self._nodes.values():
            ended, throttled = node.refill(self.now_us)
            if ended and node.quota_us is not None:
                seen = self.counted.setdefault(node.group, PlantCounters())
                seen.periods += 1
                seen.throttled_periods += throttled

    def _share_out(self, running: list[tuple[PlantLoad, int]]) -> tuple[dict[str, int], dict[str, int]]:
        """The CPU time of each group with a load in this step, and the collision probability of its wake-ups."""
        places = self._place(running)
        for node in (*self._nodes.values(), self._root):
            node.got_us = node.threads = node.wanted_us = 0
        for load, wanted in running:
            for node in self._up(load.group):
                node.threads += load.threads
                node.wanted_us += wanted
        collisions = {load.group: self._collision(load.group) for load, _ in running}
        first = self.now_us // self.step_us % self.cpus
        for cpu in (*range(first, self.cpus), *range(first)):
            for node in self._nodes.values():
                node.wanted_here_us = node.threads_here = node.got_here_us = 0
            for group, wanted in places[cpu]:
                self._nodes[group].wanted_here_us += wanted
                self._nodes[group].threads_here += 1
            share(self._root, min(self.step_us, want_here(self._root)))
            self._taken_by[cpu] = {
                group: self._nodes[group].got_here_us * PPM // self.step_us
                for group in dict(places[cpu])
                if not any(node.idle for node in self._up(group))
            }
            self._taken_ppm[cpu] = sum(self._taken_by[cpu].values())
        return {load.group: self._nodes[load.group].got_us for load, _ in running}, collisions

    def _place(self, running: list[tuple[PlantLoad, int]]) -> list[list[tuple[str, int]]]:
        """Assign threads to CPUs: each to the CPU with the least demand so far; threads of the idle class last."""
        places: list[list[tuple[str, int]]] = [[] for _ in range(self.cpus)]
        filled = [0] * self.cpus
        idle = [any(node.idle for node in self._up(load.group)) for load, _ in running]
        for i in sorted(range(len(running)), key=lambda number: (idle[number], -running[number][1])):
            load, wanted = running[i]
            entry = -(-wanted // load.threads)
            for _ in range(load.threads):
                cpu = min(self._allowed[load.group], key=filled.__getitem__)
                places[cpu].append((load.group, min(entry, self.step_us)))
                filled[cpu] += entry
        return places

    def _collision(self, group: str) -> int:
        """Probability that the least occupied CPU the group may use is taken by others outside the idle class."""
        return min(min(PPM, self._taken_ppm[cpu] - self._taken_by[cpu].get(group, 0)) for cpu in self._allowed[group])

    def _account(self, running: list[tuple[PlantLoad, int]], got: dict[str, int], collisions: dict[str, int]) -> None:
        waits: dict[str, tuple[int, int]] = {}  # total waiting time, and time in which all threads waited
        wanted_by: dict[str, int] = {}
        for load, wanted in running:
            wanted_by[load.group] = wanted_by.get(load.group, 0) + wanted
        for load, wanted in running:
            part = got[load.group] * wanted // wanted_by[load.group]
            used, waited = load.granted(self.now_us, self.step_us, part, collisions[load.group])
            full = max(0, min(self.step_us, waited - (load.threads - 1) * self.step_us))
            for node in self._up(load.group):
                seen = self.counted.setdefault(node.group, PlantCounters())
                seen.cpu_us += used
                seen.run_delay_us += waited
                before = waits.get(node.group)
                waits[node.group] = (waited, full) if before is None else (before[0] + waited, min(before[1], full))
            self.host.cpu_us += used
            self.host.run_delay_us += waited
        for group, (waited, full) in waits.items():
            seen = self.counted[group]
            seen.some_us += min(self.step_us, waited)
            seen.full_us += full
        self.host.some_us += min(self.step_us, sum(waits[load.group][0] for load, _ in running))
        for node in self._nodes.values():
            if node.quota_us is not None and node.left_us <= 0 and node.got_us < node.wanted_us:
                seen = self.counted.setdefault(node.group, PlantCounters())
                seen.throttled_us += self.step_us
                node.throttled = True

    def _up(self, group: str) -> list[GroupNode]:
        """The group and its ancestors, without the root."""
        found = []
        while group:
            found.append(self._nodes[group])
            group = group.rpartition("/")[0]
        return found


def _within(group: str, root: str) -> bool:
    return group == root or group.startswith(root + "/")
