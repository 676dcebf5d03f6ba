"""A cgroup of an experiment whose tasks are forks of this process: tasks that never sleep, and a service that sleeps
and wakes up.

In a guest, starting Python takes seconds, longer than what is measured. Fork, enter the group, do the one thing.
Limits: cgroup v2; the process must have one thread when it forks; tasks that are to compete are pinned to one CPU.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from pathlib import Path

PERIOD_S = 0.01  # of the service's sleep


class TaskGroup:
    """A group at `path`, made if it does not exist. `cpus`: where its tasks run."""

    def __init__(self, path: Path, cpus: int | Set[int]) -> None:
        self.path = path
        self._cpus = {cpus} if isinstance(cpus, int) else set(cpus)
        path.mkdir(exist_ok=True)

    @property
    def id(self) -> int:
        """What the policy table knows the group by."""
        return self.path.stat().st_ino

    def used_us(self) -> int:
        """CPU time since the group was made."""
        return int((self.path / "cpu.stat").read_text().split()[1])

    def set(self, file: str, value: str) -> None:
        """Write one of the group's files."""
        (self.path / file).write_text(value)

    def start(self, body: Callable[[], None]) -> int:
        """A process in the group that runs `body`; its id. The caller ends it (`end`)."""
        pid = os.fork()
        if pid == 0:
            try:
                os.sched_setaffinity(0, self._cpus)
                self.set("cgroup.procs", str(os.getpid()))
                body()
            finally:
                os._exit(0)
        return pid

    @contextmanager
    def burning(self, count: int) -> Iterator[tuple[int, ...]]:
        """So many processes that want a CPU all the time, until the block ends."""
        pids: list[int] = []
        try:
            pids.extend(self.start(_burn) for _ in range(count))
            yield tuple(pids)
        finally:
            for pid in pids:
                end(pid)

    def start_service(self, settle: int, number: int) -> tuple[int, int]:
        """A process that sleeps `PERIOD_S` again and again: its id, and the descriptor that `read_delays` takes.
        The first `settle` wake-ups do not count.
        """
        reading, writing = os.pipe()

        def body() -> None:
            os.close(reading)
            delays = []
            for _ in range(settle + number):
                start = time.perf_counter()
                time.sleep(PERIOD_S)
                delays.append((time.perf_counter() - start - PERIOD_S) * 1e3)
            os.write(writing, " ".join(f"{delay:.4f}" for delay in delays[settle:]).encode())

        pid = self.start(body)
        os.close(writing)
        return pid, reading

    def delays_ms(self, settle: int, number: int) -> list[float]:
        """How much later than asked for the service woke up, sorted; waits for it."""
        pid, reading = self.start_service(settle, number)
        found = read_delays(reading)
        end(pid)
        return found

    def remove(self) -> None:
        """Remove the group; its processes have ended."""
        if self.path.exists():
            self.path.rmdir()


def read_delays(reading: int) -> list[float]:
    """The sorted delays of a service, once it has ended."""
    with open(reading) as lines:
        return sorted(float(name) for name in lines.read().split())


def end(pid: int) -> None:
    """Kill a child and wait until it is gone."""
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def preempted(pid: int) -> int:
    """How often a process lost its CPU while it wanted to go on."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("nonvoluntary_ctxt_switches:"):
            return int(line.split()[1])
    return 0


def _burn() -> None:
    while True:
        pass
