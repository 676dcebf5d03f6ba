"""This machine as the bench of a run: a replica's group, loads in a group beside it, and everything removed afterwards.

Loads beside a service of production must leave nothing, also after SIGKILL of the run. The groups of node experiments
(one run at a time on a machine, leftovers of earlier ones removed first), the weight of an ordinary pod, a reaper
process that removes the group when this process is gone, and a time limit in each load. Loads may run on the CPUs that
the replica may use.
Limits: needs root and the cpu and cpuset controllers; with cgroup v2 the loads are a top level group, so they compete
with all pods together rather than as one of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import sleep

from cotenant.drivers.cgroup.counters import CgroupReader
from cotenant.drivers.cgroup.experiments import ExperimentCgroups
from cotenant.drivers.cgroup.layout import detect
from cotenant.drivers.cgroup.schedstat import RunDelayReader
from cotenant.drivers.cgroup.tree import Groups
from cotenant.model.cluster.workload_profile import ProfileAxis
from cotenant.model.cpus.cpulist import format_cpus
from cotenant.model.errors import InvalidInput, Permanent, Unsupported
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.services.profiling.signals import ProfiledSignal, RunDelay, StallSignal

LOAD = "load"
WEIGHT = "100"  # of one CPU of requests or less; an ordinary pod's
_STOP_S = 10.0
_LOAD_MODULE, _REAPER_MODULE = "cotenant.services.profiling.load", "cotenant.services.profiling.reaper"


class MachineBench:
    """See `ladder.Bench`."""

    def __init__(
        self, cgroups: ExperimentCgroups, folder: Path, signal: ProfiledSignal, longest_s: float, memory_mib: int
    ) -> None:
        self._cgroups, self._folder, self._reads = cgroups, folder, signal
        self._longest_s, self._memory_mib = longest_s, memory_mib
        self._load: subprocess.Popen[bytes] | None = None

    @property
    def signal(self) -> str:
        """Its name."""
        return self._reads.name

    @property
    def objective(self) -> float | None:
        """The signal's."""
        return self._reads.objective

    def start(self, axis: ProfileAxis, level: float) -> None:
        """Begin a load in its group."""
        words = [
            sys.executable, "-m", _LOAD_MODULE, axis.value, f"{level:g}", "--seconds", f"{self._longest_s:g}",
            "--folder", str(self._folder), "--memory-mib", str(self._memory_mib),
        ]  # fmt: skip
        with (self._folder / "load.log").open("wb") as log:
            self._load = subprocess.Popen(
                self._cgroups.enter(LOAD, words),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def stop(self) -> None:
        """Kill all that runs in the load's group."""
        if self._load is None:
            return
        with Groups(self._cgroups.layout) as groups:
            groups.kill(self._cgroups.path(LOAD))
        self._load.kill()  # also where it has not entered the group yet
        self._load.wait(_STOP_S)
        self._load = None

    def wait_until_steady(self) -> None:
        """Wait, and forget what was measured meanwhile."""
        sleep(self._reads.settle_s)
        self._check()
        self._reads.read()

    def window(self) -> float:
        """One window. Raises `Permanent` where the load ended by itself."""
        sleep(self._reads.window_s)
        self._check()
        return self._reads.read()

    def _check(self) -> None:
        if self._load is not None and self._load.poll() is not None:
            text = (self._folder / "load.log").read_text(errors="replace").strip().splitlines()
            raise Permanent(f"the load ended by itself (status {self._load.returncode}): {text[-1] if text else ''}")


@contextmanager
def open_machine(
    group: str, signal: ProfiledSignal | None, longest_s: float, memory_mib: int
) -> Iterator[MachineBench]:
    """The bench for a replica's group; `signal` None = its run delay, else its stalls. Raises `Unsupported` without
    root or cgroups, `InvalidInput` for an unknown group.
    """
    group = group.strip("/")
    with ExitStack() as stack:
        if os.geteuid() != 0:
            raise Unsupported("a profile run", "root: sudo cotenant profile run ...")
        layout = detect()
        cpus = _cpus_of(group)
        cgroups = stack.enter_context(ExperimentCgroups(layout))
        folder = Path(tempfile.mkdtemp(prefix="cotenant-profile-"))
        reaper = subprocess.Popen(
            [sys.executable, "-m", _REAPER_MODULE, cgroups.top, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        stack.callback(_end_reaper, reaper)
        cgroups.knobs.write(KnobTarget(cgroups.top, Knob.CPU_WEIGHT), WEIGHT)
        cgroups.make(LOAD, format_cpus(cpus))
        machine = MachineBench(cgroups, folder, signal or _own_signal(stack, group), longest_s, memory_mib)
        stack.callback(machine.stop)
        yield machine


def _cpus_of(group: str) -> list[int]:
    """The CPUs that the replica may use."""
    with Groups(detect()) as groups:
        if not group or not groups.exists(group):
            raise InvalidInput("--group", group, "the cgroup of a replica on this machine")
        for path in (group, *groups.walk(group).groups):
            for pid in groups.pids(path):
                try:
                    return sorted(os.sched_getaffinity(pid))
                except OSError:
                    continue
    raise InvalidInput("--group", group, "a group with processes in it")


def _own_signal(stack: ExitStack, group: str) -> ProfiledSignal:
    layout = detect()
    reader = CgroupReader(layout)
    stack.callback(reader.close)
    try:
        delays = RunDelayReader(layout)
    except Unsupported:
        return StallSignal(reader, group)
    stack.callback(delays.close)
    return StallSignal(reader, group) if delays.gaps() else RunDelay(reader, delays, group)


def _end_reaper(reaper: subprocess.Popen[bytes]) -> None:
    if reaper.stdin is not None:
        reaper.stdin.close()
    reaper.wait(_STOP_S)
