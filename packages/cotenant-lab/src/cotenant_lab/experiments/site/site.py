"""The site of an experiment: its cgroups, two separate cores, child processes, and the disturbance of a stretch of time
by other work.

Every experiment starts loads in groups, waits, reads counters and must end all of it whatever happens. One `Site`; the
plant's core is the last CPU that this process may use and nothing else of the experiment runs there, the first is for
generators, the agent and this process. Foreign use is the busy time of the plant's core beyond the experiment's own
groups: it distinguishes a disturbed stretch from a good one.
Limits: /proc/stat counts in ticks of 10 ms, so foreign use is known to about 1 % over 5 s.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, monotonic_ns, sleep

from cotenant.drivers.cgroup.experiments import ExperimentCgroups
from cotenant.model.errors import Permanent

_TICK_US = 1_000_000 // os.sysconf("SC_CLK_TCK")
_TIMEOUT_S = 10.0
_QUIET_S = 0.5
_GENERATOR_REALTIME_US = 400_000  # of each second; the lateness monitor has the rest
_Reading = tuple[
    int, int, int, int, int | None
]  # now, busy, the experiment's own, stolen, and the host's stall, microseconds
PLANT = "plant"  # the group of all plant groups: its CPU list keeps them on one core, whatever is written below it
OWN, GENERATOR = "own", "generator"  # on the load's core: the agent; the load generator


def in_plant(name: str) -> str:
    """The name of a plant group for `Site` and `ExperimentCgroups`."""
    return f"{PLANT}/{name}"


def now_us() -> int:
    """The monotonic clock, shared with children, microseconds."""
    return monotonic_ns() // 1000


@dataclass(frozen=True, slots=True)
class Conditions:
    """The disturbance of a stretch by work outside the experiment."""

    seconds: float
    foreign_share: float  # of the plant's core, used by others
    steal_share: float  # of the plant's core, taken by the hypervisor
    cpu_stall_share: float | None  # PSI "some" of the host, including the experiment's own waiting
    may_be_used_idle: bool = (
        False  # others' use of idle time is no disturbance: the experiment's own measure tells what it lacked
    )


@dataclass(slots=True)
class SiteProcess:
    """A process of the experiment. `stop` is safe to call twice."""

    process: subprocess.Popen[bytes]
    name: str
    log: Path

    def check(self) -> None:
        """Raise `Permanent` with its last log line where it has exited by itself."""
        status = self.process.poll()
        if status is not None:
            raise Permanent(f"{self.name} exited (status {status}): {self.last_line()}")

    def last_line(self) -> str:
        """The last line that it wrote to its log."""
        lines = self.log.read_text(errors="replace").split("\n") if self.log.exists() else []
        return next((line.strip() for line in reversed(lines) if line.strip()), "no output")

    def stop(self, kill: bool = False) -> None:
        """End it and wait."""
        if self.process.poll() is None:
            self.process.kill() if kill else self.process.terminate()
            try:
                self.process.wait(_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


@dataclass(slots=True)
class Site:
    """The groups, cores, children and scratch folder of one experiment."""

    cgroups: ExperimentCgroups
    scratch: Path
    plant_cpu: int
    load_cpu: int
    children: list[SiteProcess] = field(default_factory=list)
    _stretch: list[_Reading] = field(default_factory=list)
    _may_be_used_idle: bool = False

    def make_plant(self, *names: str) -> tuple[str, ...]:
        """Create plant groups, bound to its core with all below them. Returns their names (`in_plant`)."""
        if not self.cgroups.exists(PLANT):
            self.cgroups.make(PLANT, str(self.plant_cpu))
        for name in names:
            self.cgroups.make(in_plant(name), str(self.plant_cpu))
        return tuple(map(in_plant, names))

    def start(self, group: str, command: Sequence[str], name: str = "", pipe: bool = False) -> SiteProcess:
        """Start a child inside a group. With `pipe`, its standard output is a pipe; else it goes to the log with
        the errors.
        """
        name = Path(name or command[0]).name
        log = self.scratch / f"{name}.log"
        with log.open("wb") as errors:
            process = subprocess.Popen(
                self.cgroups.enter(group, command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if pipe else errors,
                stderr=errors,
                start_new_session=True,  # Ctrl-C is for this process, which ends them in order
            )
        child = SiteProcess(process, name, log)
        self.children.append(child)
        return child

    def start_python(self, group: str, module: str, *arguments: str, pipe: bool = False) -> SiteProcess:
        """Start one of our modules as a child."""
        return self.start(group, [sys.executable, "-m", module, *arguments], module.rpartition(".")[2], pipe)

    def stop(self, *children: SiteProcess, kill: bool = False) -> None:
        """End these children."""
        for child in children:
            child.stop(kill)
            if child in self.children:
                self.children.remove(child)

    def wait_until(self, at_us: int) -> None:
        """Sleep until an instant of the monotonic clock; raises `Permanent` where a child exited meanwhile."""
        while (left_us := at_us - now_us()) > 0:
            sleep(min(left_us / 1e6, 0.25))
            for child in self.children:
                child.check()

    def wait_for(self, what: str, is_there: Callable[[], bool], timeout_s: float = _TIMEOUT_S) -> None:
        """Poll until a condition holds. Raises `Permanent` after `timeout_s`, or where a child exited meanwhile."""
        began = monotonic()
        while not is_there():
            for child in self.children:
                child.check()
            if monotonic() - began > timeout_s:
                raise Permanent(f"{what} did not appear within {timeout_s:g} s")
            sleep(0.02)

    @contextmanager
    def measured_conditions(self) -> Iterator[Callable[[], Conditions]]:
        """Measure the disturbance of a stretch; the yielded function returns it up to the call, or of the part that
        was `measured`.
        """
        start = self._reading()
        self._stretch.clear()
        self._may_be_used_idle = False

        def conditions() -> Conditions:
            before, after = self._stretch if len(self._stretch) == 2 else (start, self._reading())
            passed_us = max(1, after[0] - before[0])
            foreign_us = (after[1] - before[1]) - (after[2] - before[2])
            stall = None if before[4] is None or after[4] is None else (after[4] - before[4]) / passed_us
            return Conditions(
                passed_us / 1e6,
                max(0.0, foreign_us / passed_us),
                (after[3] - before[3]) / passed_us,
                stall,
                self._may_be_used_idle,
            )

        yield conditions

    @contextmanager
    def measured(self, *, may_be_used_idle: bool = False) -> Iterator[None]:
        """The part of a block that its figures are of: while processes start and end, others may have the core."""
        self._stretch[:] = [self._reading()]
        self._may_be_used_idle = may_be_used_idle
        yield
        self._stretch.append(self._reading())

    def wait_for_quiet(self, max_foreign: float, timeout_s: float) -> None:
        """Wait until the plant's core has no foreign use for half a second, at most this long: a block that begins
        disturbed mostly stays so.
        """
        until = monotonic() + timeout_s
        while monotonic() < until:
            with self.measured_conditions() as conditions:
                sleep(_QUIET_S)
                if conditions().foreign_share <= max_foreign:
                    return

    def _reading(self) -> _Reading:
        own_us = self.cgroups.cpu_us(PLANT) if self.cgroups.exists(PLANT) else 0
        busy_us, steal_us = 0, 0
        for line in Path("/proc/stat").read_text().splitlines():
            name, *ticks = line.split()
            if name == f"cpu{self.plant_cpu}":
                user, nice, system, _, _, irq, softirq, steal, *_ = map(int, ticks)
                busy_us = (user + nice + system + irq + softirq) * _TICK_US
                steal_us = steal * _TICK_US
        return now_us(), busy_us, own_us, steal_us, _host_stall_us()


@contextmanager
def open_site() -> Iterator[Site]:
    """Create the groups and the scratch folder, pin this process to the load's core; undo all of it at the end."""
    allowed = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="cotenant-experiment-") as scratch, ExperimentCgroups() as cgroups:
        site = Site(cgroups, Path(scratch), plant_cpu=allowed[-1], load_cpu=allowed[0])
        cgroups.make(OWN, str(site.load_cpu))
        cgroups.make(GENERATOR, str(site.load_cpu))
        cgroups.allow_realtime(GENERATOR, _GENERATOR_REALTIME_US)
        os.sched_setaffinity(0, {site.load_cpu})
        try:
            yield site
        finally:
            os.sched_setaffinity(0, set(allowed))
            for child in reversed(list(site.children)):
                child.stop(kill=True)


def _host_stall_us() -> int | None:
    try:
        first = Path("/proc/pressure/cpu").read_text().split("\n", 1)[0]
    except OSError:
        return None
    return int(first.rpartition("total=")[2])
