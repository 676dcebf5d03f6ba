"""`zone`: when a Control Zone is worth it. Wake-up delay of a service beside batch tasks under each setting, a broken
zone beside another, a killed holder, and a load that changes.

For many services cgroup weights are as good as a kernel scheduler, and a user must see which holds for which figure.
One CPU, two batch tasks that never sleep, a service that sleeps 10 ms at a time; the settings one after another under
the same load. `auto` is the zone's own loop, started with the wrong scheduler. When the service stops, the load has
changed: batch alone, whose turns should be long.
Limits: one run of each setting, in order; times are the machine's clock, so on a busy machine they show the machine:
run it in a guest that counts instructions for figures that repeat; weights are written directly, without the keeper.
The exclusive scheduler is no choice here: all tasks are on one CPU.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from cotenant.drivers.ebpf import sched_ext
from cotenant.drivers.ebpf.sub_scheduler import SubSchedulers
from cotenant.drivers.ebpf.zone_scheduler import ZoneSchedulers
from cotenant.engine.zones.zone import ZoneLimits
from cotenant.model.errors import Permanent
from cotenant.model.json_object import JsonObject
from cotenant.model.zones.setting import USUAL_MODES, Backend, ZoneMode
from cotenant.model.zones.table import ZoneClass, ZoneRow
from cotenant.policy.zone.deciding import ZoneConfig
from cotenant.services.zones.backends import RootBackend, can_load, can_load_sub
from cotenant.services.zones.definition import BackendChoice, ZoneDefinition
from cotenant.services.zones.groups import GroupClass, ZoneGroup
from cotenant.services.zones.runner import ZoneRunner
from cotenant_lab.experiments.outcome import FigureCheck, Findings
from cotenant_lab.experiments.site.task_group import TaskGroup, end, preempted, read_delays

FOLDER = "cotenant-zone-experiment"
HOGS = 2
DWELL_S, CALM_S, PERIOD_MS = 1.0, 1.0, 250
MAX_KILL_MS = 10.0
STARVES_MS = 60_000  # beyond the kernel's limit of 5 s
LATE_MS = 5.0
AS_GOOD = 1.1


@dataclass(frozen=True, slots=True)
class ZoneTrials:
    """How long to measure. `slow_samples`: under schedulers where a wake-up waits for turns; `settle`: wake-ups
    after a change that do not count.
    """

    samples: int = 300
    slow_samples: int = 60
    settle: int = 50
    batch_s: float = 1.0


@dataclass(frozen=True, slots=True)
class ZoneArm:
    """One setting. Milliseconds; `turn_ms`, `batch_cpus`: of batch without the service, None where it was not
    measured.
    """

    p50: float
    p99: float
    most: float
    turn_ms: float | None = None
    batch_cpus: float | None = None


def measure(tree: Path, trials: ZoneTrials) -> Findings:
    """All parts, on cgroup v2 mounted at `tree`. Raises `Unsupported` or `Permanent` where this host cannot load
    kernel schedulers.
    """
    sched_ext.read_state()
    if not can_load():
        raise Permanent("the zone experiment needs root and built objects (make bpf)")
    with _groups(tree) as home:
        arms = _settings(home, trials)
        arms["auto"], changes = _auto(tree, home, trials)
        killed_ms = _killed_holder()
        beside = _side_by_side(home) if can_load_sub() else None
    return judged(arms, changes, killed_ms, beside)


class _Home:
    """The groups of the experiment, and their CPU."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cpu = max(os.sched_getaffinity(0))
        self.service = TaskGroup(path / "service", self.cpu)
        self.batch = TaskGroup(path / "batch", self.cpu)


@contextmanager
def _groups(tree: Path) -> Iterator[_Home]:
    path = tree / FOLDER
    try:
        (tree / "cgroup.subtree_control").write_text("+cpu")
        path.mkdir(exist_ok=True)
        (path / "cgroup.subtree_control").write_text("+cpu")
    except OSError as error:
        raise Permanent(
            f"{path}: a group with the cpu controller of cgroup v2 cannot be made: {error.strerror}"
        ) from error
    try:
        yield _Home(path)
    finally:
        for folder, _, _ in os.walk(path, topdown=False):
            os.rmdir(folder)


def _settings(home: _Home, trials: ZoneTrials) -> dict[str, ZoneArm]:
    arms = {}
    with home.batch.burning(HOGS) as hogs:
        arms["fair"] = _arm(home, trials.settle, trials.samples)
        home.batch.set("cpu.idle", "1")
        try:
            arms["weights"] = _arm(home, trials.settle, trials.samples)
        finally:
            home.batch.set("cpu.idle", "0")
        with ZoneSchedulers("experiment", USUAL_MODES) as zone:
            zone.maps.put(home.service.id, ZoneRow(ZoneClass.SERVICE))
            zone.maps.put(home.batch.id, ZoneRow(ZoneClass.BATCH))
            for mode in USUAL_MODES:
                zone.switch(mode)
                slow = mode is not ZoneMode.LATENCY
                settle, samples = (trials.settle // 5, trials.slow_samples) if slow else (trials.settle, trials.samples)
                figures = _arm(home, settle, samples)
                if mode is not ZoneMode.WEIGHTED:
                    figures = _with_batch(figures, home, hogs, trials.batch_s)
                arms[mode.value] = figures
                if not zone.verify():
                    raise Permanent(f"{mode.shown} ended during the measurement: {zone.maps.last_exit()}")
            zone.remove()
    return arms


def _arm(home: _Home, settle: int, number: int) -> ZoneArm:
    return _figures(home.service.delays_ms(settle, number))


def _figures(delays: list[float]) -> ZoneArm:
    return ZoneArm(delays[len(delays) // 2], delays[len(delays) * 99 // 100], delays[-1])


def _with_batch(arm: ZoneArm, home: _Home, hogs: tuple[int, ...], seconds: float) -> ZoneArm:
    before, used, start = sum(map(preempted, hogs)), home.batch.used_us(), time.perf_counter()
    time.sleep(seconds)
    took, ran = time.perf_counter() - start, home.batch.used_us() - used
    turns = max(1, sum(map(preempted, hogs)) - before)
    return ZoneArm(arm.p50, arm.p99, arm.most, ran / 1e3 / turns, ran / 1e6 / took)


def _auto(tree: Path, home: _Home, trials: ZoneTrials) -> tuple[ZoneArm, list[str]]:
    """The zone's own loop: the service beside batch, then batch alone; measured after the dwell time of each."""
    names = {task_group: str(task_group.path.relative_to(tree)) for task_group in (home.service, home.batch)}
    definition = ZoneDefinition(
        "experiment",
        (
            ZoneGroup(names[home.service], GroupClass.SERVICE, late_ms=LATE_MS),
            ZoneGroup(names[home.batch], GroupClass.BATCH),
        ),
        backend=BackendChoice.ROOT,
        start=ZoneMode.THROUGHPUT,
        modes=(ZoneMode.LATENCY, ZoneMode.THROUGHPUT),
        period_ms=PERIOD_MS,
        policy=ZoneConfig(calm_s=CALM_S),
        limits=ZoneLimits(canary_s=DWELL_S / 2, dwell_s=DWELL_S),
    )
    backend = RootBackend("experiment", definition.modes, tree)
    used = lambda: {name: group.used_us() for group, name in names.items()}  # noqa: E731
    runner = ZoneRunner(definition.machine(root=True), {Backend.ROOT: backend}, used)
    with home.batch.burning(HOGS) as hogs:
        found = asyncio.run(_phases(runner, home, hogs, trials))
    return found, [f"{zone_change.what}: {zone_change.reason.text}" for zone_change in runner.zone.history]


async def _phases(runner: ZoneRunner, home: _Home, hogs: tuple[int, ...], trials: ZoneTrials) -> ZoneArm:
    stop, attached = asyncio.Event(), asyncio.Event()
    running = asyncio.create_task(runner.run(stop, PERIOD_MS / 1000, None, attached.set))
    service: int | None = None
    try:
        # loading takes seconds in a guest, under the fair class
        while not attached.is_set():
            await _pause(running, PERIOD_MS / 1000)
        # under throughput a wake-up takes up to 50 ms, so that so many fill the time of two dwells at most
        service, reading = home.service.start_service(round(2 * DWELL_S / 0.025), trials.samples)
        while os.waitid(os.P_PID, service, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            await _pause(running, PERIOD_MS / 1000)
        arm = _figures(read_delays(reading))
        end(service)
        service = None
        await _pause(running, 2 * DWELL_S)
        before, used, start = sum(map(preempted, hogs)), home.batch.used_us(), time.perf_counter()
        await _pause(running, trials.batch_s)
        took, ran = time.perf_counter() - start, home.batch.used_us() - used
        turns = max(1, sum(map(preempted, hogs)) - before)
        return ZoneArm(arm.p50, arm.p99, arm.most, ran / 1e3 / turns, ran / 1e6 / took)
    finally:
        if service is not None:
            end(service)
        stop.set()
        await running


async def _pause(running: asyncio.Task[None], seconds: float) -> None:
    """Let the zone's loop run; what ended it is raised at once."""
    await asyncio.wait({running}, timeout=seconds)
    if running.done():
        running.result()
        raise Permanent("the zone's loop ended")


def _killed_holder() -> float:
    """Milliseconds from the end of a killed holder of a scheduler to the fair class."""
    first, start = sched_ext.read_state().sequence, time.perf_counter()
    pid = os.fork()
    if pid == 0:
        try:
            ZoneSchedulers("experiment-held", [ZoneMode.THROUGHPUT]).attach(ZoneMode.THROUGHPUT)
            time.sleep(60)
        finally:
            os._exit(1)
    while sched_ext.read_state().sequence == first and time.perf_counter() - start < 30:
        time.sleep(0.01)
    if sched_ext.read_state().state != "enabled":
        end(pid)
        raise Permanent("the scheduler whose holder is to be killed did not start within 30 s")
    end(pid)
    start = time.perf_counter()
    while sched_ext.read_state().state != "disabled" and time.perf_counter() - start < 5:
        time.sleep(0.0002)
    took_ms = (time.perf_counter() - start) * 1e3
    ZoneSchedulers("experiment-held", [ZoneMode.THROUGHPUT]).remove()
    return took_ms


def _side_by_side(home: _Home) -> dict[str, object]:
    """Two zones with a scheduler each; that of the second starves its batch until the kernel ejects it."""
    zones = []
    for name in ("one", "two"):
        zones.append(TaskGroup(home.path / name, home.cpu))
        zones[-1].set("cgroup.subtree_control", "+cpu")
    first, second = (TaskGroup(zone.path / "service", home.cpu) for zone in zones)
    starved = TaskGroup(zones[1].path / "batch", home.cpu)
    with (
        SubSchedulers("experiment-one", zones[0].id, [ZoneMode.LATENCY]) as good,
        SubSchedulers("experiment-two", zones[1].id, [ZoneMode.LATENCY], starved_ms=STARVES_MS) as broken,
    ):
        good.maps.put(first.id, ZoneRow(ZoneClass.SERVICE))
        broken.maps.put(second.id, ZoneRow(ZoneClass.SERVICE))
        broken.maps.put(starved.id, ZoneRow(ZoneClass.BATCH))
        good.attach(ZoneMode.LATENCY)
        broken.attach(ZoneMode.LATENCY)
        with first.burning(1), second.burning(1), starved.burning(1):
            start, used = time.perf_counter(), first.used_us()
            while broken.verify() and time.perf_counter() - start < 15:
                time.sleep(0.05)
            took = time.perf_counter() - start
            found = broken.maps.last_exit()
            result = {
                "broken_ended_after_s": round(took, 2),
                "broken_ejected": found is not None and found.ejected,
                "kernel_said": found.message if found is not None else "",
                "other_kept_its_scheduler": good.verify(),
                "other_cpus": round((first.used_us() - used) / 1e6 / took, 3),
            }
        broken.remove()
        good.remove()
    return result


def judged(arms: dict[str, ZoneArm], changes: list[str], killed_ms: float, beside: JsonObject | None) -> Findings:
    """The result of these measurements. `changes`: of the zone that changed by itself; `killed_ms`: from the
    holder's death to the fair class; `beside`: of two zones, None where not run.
    """
    auto, weights, latency, throughput = (arms[name] for name in ("auto", "weights", "latency", "throughput"))
    best_p99 = min(latency.p99, throughput.p99)
    best_turn = max(latency.turn_ms or 0.0, throughput.turn_ms or 0.0)
    best_cpus = max(latency.batch_cpus or 0.0, throughput.batch_cpus or 0.0)
    checks = [
        FigureCheck("(a) wake-up delay p99, auto / throughput", auto.p99 / throughput.p99, 0.1),
        FigureCheck("(c) kill -9 of the holder to the fair class", killed_ms, MAX_KILL_MS, unit="ms"),
        FigureCheck("(d) service beside batch: p99 of auto above the best fixed", auto.p99 - best_p99, 1.0, unit="ms"),
        FigureCheck(
            "(d) batch alone: length of its turns, auto / best fixed", (auto.turn_ms or 0) / best_turn, 0.8, True
        ),
        FigureCheck("(d) batch alone: its CPU time, auto / best fixed", (auto.batch_cpus or 0) / best_cpus, 0.95, True),
    ]
    notes = [_comparison("weights", weights, "latency", latency)]
    if beside is None:
        notes.append("(b) was left out: sub-schedulers need Linux 7.3 and libbpf 1.4.")
    else:
        share = beside["other_cpus"] if beside["other_kept_its_scheduler"] and beside["broken_ejected"] else 0.0
        checks.insert(1, FigureCheck("(b) CPUs of the zone beside a broken one", share, 0.4, True))
    shown = lambda value: "–" if value is None else f"{value:.2f}"  # noqa: E731
    return Findings(
        experiment="zone",
        title="Wake-up delay of a service beside two batch tasks on one CPU, by what schedules them",
        rounds=1,
        discarded=(),
        seed=0,
        figures={
            "arms": {name: asdict(arm) for name, arm in arms.items()},
            "auto_changes": changes,
            "killed_holder_ms": round(killed_ms, 3),
            "side_by_side": beside,
        },
        checks=tuple(checks),
        columns=("setting", "p50 ms", "p99 ms", "maximum ms", "batch alone: turn ms", "its CPUs"),
        rows=tuple((name, *map(shown, asdict(arm).values())) for name, arm in arms.items()),
        notes=tuple(notes),
    )


def _comparison(name: str, one: ZoneArm, other_name: str, other: ZoneArm) -> str:
    """Which is better for the service, in words."""
    parts = []
    for what, left, right in (
        ("median", one.p50, other.p50),
        ("p99", one.p99, other.p99),
        ("maximum", one.most, other.most),
    ):
        if left <= right * AS_GOOD and right <= left * AS_GOOD:
            parts.append(f"{what}: as good ({left:.2f} and {right:.2f} ms)")
        else:
            parts.append(f"{what}: {name if left < right else other_name} is better ({left:.2f} and {right:.2f} ms)")
    return f"{name} and {other_name}: {'; '.join(parts)}."
