"""The load of `bench.stalls`: run inside a guest whose clock counts instructions, one JSON object on standard output.

Two tasks of two groups wake each other by pipes, as many times as is asked, without the probe, with it, and with it and
long waits kept: the difference of the guest's time is all that the probe costs, with what the kernel does to call it.
The kernel's own sums of the programs' run time are beside it. A long wait is one of two tasks that never sleep. The
reader is timed with groups that all have waits, none of them new, and as many sleeping tasks.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from statistics import median

from cotenant.drivers.ebpf.cost import costs, timed
from cotenant.drivers.ebpf.stalls import StallTracer
from cotenant.services.nodeview.stalls import StallWatch

TREE = Path("/sys/fs/cgroup")
TRIPS = 5_000  # there and back
GROUPS, TASKS = 300, 300
LONG_US = 100_000
SHORT_US = 1_000  # so that each turn of two busy tasks is a long wait
BUSY_S = 2.0
ROUNDS = 3


def main() -> None:
    """Every figure."""
    here, there = _group("here"), _group("there")
    arms = {"without": None, "probe": 0, "with long waits": LONG_US}
    switching: dict[str, list[float]] = {arm: [] for arm in arms}
    for _ in range(ROUNDS):
        for arm, long_us in arms.items():
            with _probe(long_us):
                switching[arm].append(_switching_ns(here, there, TRIPS))
    print(
        json.dumps(
            {
                "switch_ns": {arm: median(found) for arm, found in switching.items()},
                "programs": _programs(here, there),
                "long_waits": _long_waits(here, there),
                "reader": _reader(),
            }
        )
    )


def _group(name: str) -> Path:
    folder = TREE / f"bench-{name}"
    folder.mkdir(exist_ok=True)
    return folder


def _probe(long_us: int | None) -> StallTracer | nullcontext[None]:
    return nullcontext() if long_us is None else StallTracer(str(TREE), 2, long_us=long_us)


@contextmanager
def _running(group: Path, body: Callable[[], None]) -> Iterator[None]:
    pid = os.fork()
    if pid == 0:
        try:
            (group / "cgroup.procs").write_text("0")
            body()
        finally:
            os._exit(0)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _switching_ns(here: Path, there: Path, trips: int) -> float:
    """Time of one context switch, with the wake-up before it, between a task of each group."""
    asked, answered, done = os.pipe(), os.pipe(), os.pipe()

    def answers() -> None:
        while True:
            os.read(asked[0], 1)
            os.write(answered[1], b"x")

    def asks() -> None:
        for _ in range(100):
            os.write(asked[1], b"x")
            os.read(answered[0], 1)
        begun_ns = time.monotonic_ns()
        for _ in range(trips):
            os.write(asked[1], b"x")
            os.read(answered[0], 1)
        os.write(done[1], str(time.monotonic_ns() - begun_ns).encode())

    with _running(there, answers), _running(here, asks):
        taken_ns = int(os.read(done[0], 32))
    for pipe in (asked, answered, done):
        os.close(pipe[0])
        os.close(pipe[1])
    return taken_ns / (2 * trips)


def _spawn() -> None:
    os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)


def _programs(here: Path, there: Path) -> dict[str, dict[str, float]]:
    """By program: runs a switch and nanoseconds a run, as the kernel counts them."""
    with StallTracer(str(TREE), 2, long_us=LONG_US) as probe, timed():
        before = costs(probe)
        _switching_ns(here, there, TRIPS)
        after = costs(probe)
    return {
        new.name: {
            "runs_a_switch": (new.runs - old.runs) / (2 * TRIPS),
            "ns_a_run": (new.run_ns - old.run_ns) / max(1, new.runs - old.runs),
        }
        for old, new in zip(before, after, strict=True)
        if new.runs > old.runs
    }


def _burn() -> None:
    while True:
        pass


def _long_waits(here: Path, there: Path) -> dict[str, float]:
    """What a switch costs while nearly each ends one, most of which find no room, and the reading of one."""
    with StallTracer(str(TREE), 2, long_us=SHORT_US) as probe, timed(), _running(here, _burn), _running(there, _burn):
        time.sleep(BUSY_S / 4)
        probe.long_waits()  # the names of the kernel's functions are read once
        before = {cost.name: cost for cost in costs(probe)}["on_switch"]
        time.sleep(BUSY_S)
        after = {cost.name: cost for cost in costs(probe)}["on_switch"]
        begun_s = time.process_time()
        waits = probe.long_waits()
        read_s = time.process_time() - begun_s
    return {
        "number": len(waits),
        "ns_a_run_with_one": (after.run_ns - before.run_ns) / max(1, after.runs - before.runs),
        "runs": after.runs - before.runs,
        "read_us": 1e6 * read_s / max(1, len(waits)),
    }


def _reader() -> dict[str, float]:
    folders = [_group(f"of-{number}") for number in range(GROUPS)]
    with StallTracer(str(TREE), 2, long_us=LONG_US) as probe, ExitStack() as tasks:
        for folder in folders:
            (folder / "cgroup.procs").write_text("0")
            _spawn()
        (TREE / "cgroup.procs").write_text("0")
        for number in range(TASKS):
            tasks.enter_context(_running(folders[number % GROUPS], signal.pause))
        watch = StallWatch(probe, cpus=2)
        watch.view()
        taken_s = []
        for _ in range(5):
            begun_s = time.process_time()
            seen = len(watch.view().groups)
            taken_s.append(time.process_time() - begun_s)
        with timed():
            before = {cost.name: cost for cost in costs(probe)}["count_tasks"]
            watch.view()
            after = {cost.name: cost for cost in costs(probe)}["count_tasks"]
    return {
        "groups": seen,
        "tasks": after.runs - before.runs,
        "look_ms": 1e3 * median(taken_s),
        "of_it_counting_ms": (after.run_ns - before.run_ns) / 1e6,
    }


if __name__ == "__main__":
    main()
