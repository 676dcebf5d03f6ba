"""Runs one command and counts what it and all that it starts use.

The command is held before its exec, by a shell that stops itself, until its counters are open. When it has ended,
its I/O is read from /proc before it is waited for: the kernel adds that of children which their parents waited for.
Children that outlive the command are not counted to their end. CPU time has about a millisecond of the shell. The
kernel's figure of most memory starts at that of the process which forks, so a smaller command's is not known.

Source: proc(5), /proc/PID/io; getrusage(2); perf_event_open(2), inherit and enable_on_exec.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from cotenant.drivers.perf.group_events import scaled
from cotenant.drivers.perf.opening import CounterReading, PerfEvent, close_counters, open_for_command, read_counter
from cotenant.drivers.proc.pressure import parse_pressure
from cotenant.model.errors import CotenantError, InvalidInput, Unsupported
from cotenant.model.machine.command_figures import CommandFigures, rank_of
from cotenant.model.machine.counters import Gap

_HELD = 'kill -STOP $$; exec "$@"'
_RESOURCES = ("cpu", "memory", "io")
_PROC, _CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")
_NOTHING = CounterReading(0, 0, (0,))


def run_command(command: tuple[str, ...], environment: Mapping[str, str], stdout: int | None = None) -> CommandFigures:
    """Run to the end. `stdout`: a descriptor for its output; None: ours. Raises `InvalidInput` where there is none."""
    if shutil.which(command[0], path=environment.get("PATH")) is None:
        raise InvalidInput("COMMAND", command[0], "a program that can be run")
    gaps: list[Gap] = []
    process = subprocess.Popen(["/bin/sh", "-c", _HELD, "sh", *command], env=dict(environment), stdout=stdout)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    counters = _opened(process.pid, gaps)
    try:
        folder = _pressure_folder(process.pid)
        before, began_ns = _pressure(folder), time.monotonic_ns()
        os.kill(process.pid, signal.SIGCONT)
        while True:
            with suppress(KeyboardInterrupt):  # the command gets it too, and ends as it likes
                os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
                break
        wall_us, after = (time.monotonic_ns() - began_ns) // 1000, _pressure(folder)
        moved = _io(process.pid, gaps)
        ours = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        counted = _counted(counters, gaps)
    finally:
        close_counters(list(counters.values()))
    resident = used.ru_maxrss * 1024 if used.ru_maxrss > ours else None
    if resident is None:
        gaps.append(Gap("memory at most", f"a command that needs more than this process, {ours // 1024} MiB"))
    if not before:
        gaps.append(Gap("pressure", "a kernel with CONFIG_PSI"))
    return CommandFigures(
        command,
        process.returncode if process.returncode >= 0 else 128 - process.returncode,
        wall_us,
        round(used.ru_utime * 1e6),
        round(used.ru_stime * 1e6),
        used.ru_nvcsw,
        used.ru_nivcsw,
        used.ru_minflt,
        used.ru_majflt,
        resident,
        moved.get("read_bytes"),
        moved.get("write_bytes"),
        moved.get("rchar"),
        moved.get("wchar"),
        {name: after[name] - before[name] for name in before.keys() & after.keys()},
        "the machine" if folder == _PROC / "pressure" else "its cgroup",
        counted,
        tuple(gaps),
        rank_of(environment),
        environment.get("COTENANT_GUID", ""),
    )


def _opened(pid: int, gaps: list[Gap]) -> dict[PerfEvent, int]:
    found = {}
    for event in PerfEvent:
        try:
            found[event] = open_for_command(pid, event)
        except CotenantError as error:
            gaps.append(Gap(event.name.lower(), error.needs if isinstance(error, Unsupported) else str(error)))
    return found


def _counted(counters: Mapping[PerfEvent, int], gaps: list[Gap]) -> dict[str, int]:
    found = {}
    for event, descriptor in counters.items():
        counted = scaled(_NOTHING, read_counter(descriptor))
        if counted is None:
            gaps.append(Gap(event.name.lower(), "its counter never ran"))
        else:
            found[event.name.lower()] = counted[0]
    return found


def _pressure_folder(pid: int) -> Path:
    """Of the command's cgroup (v2) where it has one of its own, else of the machine."""
    with suppress(OSError):
        for line in (_PROC / str(pid) / "cgroup").read_text().splitlines():
            if line.startswith("0::/") and len(line) > len("0::/"):
                folder = _CGROUPS / line.removeprefix("0::/")
                if (folder / "cpu.pressure").exists():
                    return folder
    return _PROC / "pressure"


def _pressure(folder: Path) -> dict[str, int]:
    found = {}
    for name in _RESOURCES:
        with suppress(OSError):
            path = folder / (name if folder == _PROC / "pressure" else f"{name}.pressure")
            stall = parse_pressure(path.read_bytes())
            if stall is not None:
                found[name] = stall.some_us
    return found


def _io(pid: int, gaps: list[Gap]) -> dict[str, int]:
    try:
        lines = (_PROC / str(pid) / "io").read_text().splitlines()
    except OSError as error:
        gaps.append(Gap("bytes read and written", f"a readable /proc/PID/io: {error.strerror}"))
        return {}
    return {name: int(value) for name, _, value in (line.partition(": ") for line in lines)}
