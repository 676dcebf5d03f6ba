"""`overhead`: the cost of the agent itself, and its effect on a service.

An agent that guards a node must be small beside what it guards, also with hundreds of groups. The agent at a period of
one second over 50 and 200 groups with a process each, of which every second one wakes twice a second, free to run on
any CPU, and Redis under load as the victim, judged in calm windows as in `guard`; alternately with and without it. CPU
time is its group's counter, memory its process's peak; calls and bytes read per tick are the figures that no neighbour
can disturb. The eBPF probe is measured separately, by the kernel's own count of its programs' time while tasks switch
many thousand times a second, scaled to 10,000 switches.
Limits: calls are read and write calls (/proc/PID/io); CPU time includes what a hypervisor took.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cotenant.drivers.ebpf.cost import costs, timed
from cotenant.drivers.ebpf.runqueue import RunQueue
from cotenant.model.errors import Unsupported
from cotenant_lab.experiments.harness import ExperimentJudgement, ExperimentRound, Record
from cotenant_lab.experiments.loads import measured_server
from cotenant_lab.experiments.loads.measured_server import GeneratorSettings
from cotenant_lab.experiments.measures.statistics import IntervalEstimate, middle, ratio
from cotenant_lab.experiments.measures.windows import all_of, disturbed, judged_of, p99_us, stored
from cotenant_lab.experiments.outcome import FigureCheck
from cotenant_lab.experiments.site import agent_process, lateness
from cotenant_lab.experiments.site.site import Site, in_plant, now_us

OFF, PROBE = "no agent", "probe"
SWITCHES = 10_000  # per second, at which the probe's cost is stated
MAX_PROBE_PERCENT = 0.5  # of the machine
_SERVICE = in_plant("service")
_CROWD, _AGENT = "crowd", "agent"
# Wakes twice a second without starting anything: half a second's wait for a line that never comes.
_WAKING = ["bash", "-c", "exec 3<> <(:); while :; do read -t 0.5 -u 3; done"]
_WAKER = "import time\nwhile True: time.sleep(2e-5)"
_PROBE_US = 5_000_000
_SERVICES_OF = 5  # every fifth group is a service
# groups: most CPU in percent of one core, most memory in MiB
LINES: Mapping[int, tuple[float, float]] = {50: (1.0, 80.0), 200: (3.0, 120.0)}


@dataclass(slots=True)
class Overhead:
    """The experiment and its load."""

    load: GeneratorSettings = field(default_factory=lambda: GeneratorSettings(seconds=20.0, settle_s=4))
    sizes: Sequence[int] = tuple(LINES)
    name: str = "overhead"
    title: str = "What the agent costs at a period of one second"

    @property
    def arms(self) -> Sequence[str]:
        """Without the agent, and with each number of groups."""
        return (OFF, *(_arm(size) for size in self.sizes), PROBE)

    @property
    def block_s(self) -> float:
        """About how long an arm takes."""
        return self.load.seconds + self.load.settle_s + 2.0

    def prepare(self, site: Site) -> None:
        """Start the victim, and all groups with a process each."""
        site.make_plant("service")
        measured_server.start(site, _SERVICE, self.load)
        lateness.prepare(site)
        everywhere = f"{site.load_cpu},{site.plant_cpu}"
        site.cgroups.make(_AGENT, everywhere)
        site.cgroups.make(_CROWD, everywhere)
        for number in range(max(self.sizes)):
            site.cgroups.make(_member(number), everywhere)
            site.start(_member(number), _WAKING if number % 2 else ["sleep", "86400"], f"member-{number}")

    def block(self, site: Site, arm: str, seed: int) -> Record:
        """One arm."""
        if arm == PROBE:
            return _probe(site)
        watching = lateness.start(site)
        agent = None
        if arm != OFF:
            size = next(size for size in self.sizes if _arm(size) == arm)
            members = [_member(number) for number in range(size - 1)]  # the victim is one of them
            services: dict[str, float | None] = {_SERVICE: self.load.objective_ms}
            services |= {name: None for number, name in enumerate(members) if number % _SERVICES_OF == 0}
            batch = [name for name in members if name not in services]
            agent = agent_process.start(site, services, batch, group=_AGENT)

        def read() -> dict[str, int]:
            return {} if agent is None else _cost(site, agent.child.process.pid)

        def hear(live: measured_server.Live) -> None:
            if agent:
                agent.report(_SERVICE, live)

        stretch = measured_server.measured(site, self.load, seed, read, hear)
        late = watching.end() if watching else None
        if agent:
            agent.stop()
        before, after = stretch.ends
        cost = {name: after[name] - before[name] for name in before} | {"peak_kib": after.get("peak_kib", 0)}
        return stored(stretch.slots, late.at if late and stretch.is_realtime else None) | {"cost": cost}

    def disturbed(self, record: Record) -> str:
        """Why too few windows were calm to judge the victim."""
        return disturbed(record) if "windows" in record else ""

    def discard(self, rounds: Sequence[ExperimentRound]) -> Mapping[int, str]:
        """Discards none."""
        return {}

    def judge(self, rounds: Sequence[ExperimentRound]) -> ExperimentJudgement:
        """CPU, memory, calls and bytes for each number of groups, and the victim's tail against that without the
        agent.
        """
        figures: dict[str, object] = {}
        rows, checks = [], []
        arms = [arm for arm in self.arms if arm != PROBE]
        tails = {arm: [p99_us(judged_of(round_.record(arm))) for round_ in rounds] for arm in arms}
        all_tails = {arm: [p99_us(all_of(round_.record(arm))) for round_ in rounds] for arm in arms}
        for arm in arms:
            if arm == OFF:
                figures["off"] = {
                    "victim_p99_us": round(middle(tails[arm]).value),
                    "victim_p99_us_all_windows": round(middle(all_tails[arm]).value),
                }
                rows.append((arm, "–", "–", "–", "–", f"{middle(tails[arm]).value / 1000:.2f}", "1"))
                continue
            size = next(size for size in self.sizes if _arm(size) == arm)
            costs = [round_.record(arm)["cost"] for round_ in rounds]
            cpu = middle([100 * cost["cpu_us"] / cost["at_us"] for cost in costs])
            memory = max(cost["peak_kib"] for cost in costs) / 1024
            calls = middle([1e6 * cost["calls"] / cost["at_us"] for cost in costs])
            read = middle([1e6 * cost["read_bytes"] / cost["at_us"] for cost in costs])
            victim = ratio(tails[arm], tails[OFF])
            max_cpu, max_memory = LINES.get(size, LINES[max(LINES)])
            figures[f"groups_{size}"] = {
                "cpu_percent_of_core": round(cpu.value, 3),
                "peak_memory_mib": round(memory, 1),
                "calls_per_tick": round(calls.value),
                "bytes_read_per_tick": round(read.value),
                "victim_p99_us": round(middle(tails[arm]).value),
                "victim_p99_ratio": round(victim.value, 4),
                "victim_p99_us_all_windows": round(middle(all_tails[arm]).value),
                "victim_p99_ratio_all_windows": round(ratio(all_tails[arm], all_tails[OFF]).value, 4),
            }
            rows.append(
                (
                    arm,
                    f"{cpu.value:.2f}",
                    f"{memory:.0f}",
                    f"{calls.value:.0f}",
                    f"{read.value / 1024:.0f}",
                    f"{middle(tails[arm]).value / 1000:.2f}",
                    victim.shown(),
                )
            )
            checks.append(_check(f"CPU at {size} groups", cpu, max_cpu, " %"))
            checks.append(FigureCheck(f"peak memory at {size} groups", round(memory, 1), max_memory, unit=" MiB"))
        first = _arm(self.sizes[0])
        checks.append(
            _check(f"victim's p99, agent over {self.sizes[0]} groups / none", ratio(tails[first], tails[OFF]), 1.02)
        )
        probes = [round_.record(PROBE) for round_ in rounds]
        lacking = next((probe["lacking"] for probe in probes if "lacking" in probe), "")
        what = f"eBPF probe at {SWITCHES:,} switches a second"
        if lacking:
            checks.append(FigureCheck(what, None, MAX_PROBE_PERCENT, unit=" % of the machine"))
            of_probe = f"The eBPF probe could not be measured: it needs {lacking}."
        else:
            cost = middle([probe["percent_of_machine"] for probe in probes])
            checks.append(_check(what, cost, MAX_PROBE_PERCENT, " % of the machine"))
            seen = middle([probe["switches_per_s"] for probe in probes])
            figures["probe"] = {"percent_of_machine_at_10k": round(cost.value, 4), "switches_per_s": round(seen.value)}
            of_probe = (
                f"The probe: measured at {seen.value:,.0f} switches a second, by the kernel's count of its "
                "programs' time."
            )
        columns = ("arm", "% of a core", "peak MiB", "calls/tick", "KiB read/tick", "victim p99 ms", "p99 / none")
        notes = (
            of_probe,
            "Period 1 s, one process that decides and writes; every fifth group is a service, the others best "
            f"effort. {self.load.seconds:g} s a "
            "block count, after the agent has settled. Median over rounds (95 % bootstrap interval); peak memory is "
            "VmHWM since its start. "
            "The victim's latency is of windows that a witness on each core found calm, as in `guard`.",
        )
        return ExperimentJudgement(figures, checks, columns, rows, notes)


def _probe(site: Site) -> Record:
    """The run-queue probe while a process sleeps and wakes as fast as it can."""
    tree = site.cgroups.layout.by_controller["cpu"]
    try:
        with RunQueue(tree.path, tree.version) as probe, timed():
            probe.watch({site.cgroups.path(_SERVICE): 1000})
            waker = site.start(_SERVICE, [sys.executable, "-Sc", _WAKER], "waker")
            site.wait_until(now_us() + 1_000_000)
            began, before = now_us(), costs(probe)
            site.wait_until(began + _PROBE_US)
            passed, after = now_us() - began, costs(probe)
            site.stop(waker, kill=True)
    except Unsupported as error:
        return {"lacking": error.needs}
    spent = {entry.name: (entry.runs, entry.run_ns) for entry in before}
    runs = {entry.name: entry.runs - spent[entry.name][0] for entry in after}
    switches = next(count for name, count in runs.items() if "switch" in name)
    run_ns = sum(entry.run_ns - spent[entry.name][1] for entry in after)
    machine_ns = passed * 1000 * (os.cpu_count() or 1)
    return {
        "runs": runs,
        "switches_per_s": switches * 1e6 / passed,
        "percent_of_machine": 100 * run_ns / machine_ns * SWITCHES / max(1.0, switches * 1e6 / passed),
    }


def _arm(size: int) -> str:
    return f"{size} groups"


def _member(number: int) -> str:
    return f"{_CROWD}/member-{number}"


def _cost(site: Site, pid: int) -> dict[str, int]:
    process = Path("/proc", str(pid))
    io = dict(line.split(": ") for line in (process / "io").read_text().splitlines())
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    return {
        "at_us": now_us(),
        "cpu_us": site.cgroups.cpu_us(_AGENT),
        "calls": int(io["syscr"]) + int(io["syscw"]),
        "read_bytes": int(io["rchar"]),
        "peak_kib": int(status["VmHWM"].split()[0]),
    }


def _check(what: str, estimate: IntervalEstimate, bound: float, unit: str = "") -> FigureCheck:
    low, high = (None if end is None else round(end, 4) for end in (estimate.low, estimate.high))
    return FigureCheck(what, round(estimate.value, 4), bound, low=low, high=high, unit=unit)
