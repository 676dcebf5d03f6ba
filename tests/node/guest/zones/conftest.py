"""Groups and processes for schedulers under test. Processes are forks of this one: starting Python takes seconds of
the guest's time.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path("/sys/fs/cgroup")


class Group:
    """A cgroup of the test."""

    def __init__(self, name: str) -> None:
        self.path = ROOT / name
        self.path.mkdir(exist_ok=True)

    @property
    def id(self) -> int:
        return self.path.stat().st_ino

    def used_s(self) -> float:
        """CPU seconds since the group was made."""
        return int((self.path / "cpu.stat").read_text().split()[1]) / 1e6

    def set(self, file: str, value: str) -> None:
        (self.path / file).write_text(value)

    @contextmanager
    def run(self, body: Callable[[], None]) -> Iterator[int]:
        """A process in the group that runs `body`, until the block ends."""
        pid = os.fork()
        if pid == 0:
            try:
                self.set("cgroup.procs", str(os.getpid()))
                body()
            finally:
                os._exit(0)
        try:
            yield pid
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    @contextmanager
    def burning(self, count: int = 1) -> Iterator[None]:
        """So many processes that want a CPU all the time."""
        if count == 0:
            yield
            return
        with self.run(burn), self.burning(count - 1):
            yield

    def wake_ups_ms(self, number: int, period_s: float = 0.01) -> list[float]:
        """How much later than asked for a sleeper in the group woke up, sorted."""
        reading, writing = os.pipe()

        def body() -> None:
            late = []
            for _ in range(number):
                start = time.perf_counter()
                time.sleep(period_s)
                late.append((time.perf_counter() - start - period_s) * 1e3)
            os.write(writing, " ".join(f"{value:.4f}" for value in sorted(late)).encode())

        with self.run(body) as _:
            os.close(writing)
            with open(reading) as lines:
                return [float(name) for name in lines.read().split()]


def burn() -> None:
    while True:
        pass


@pytest.fixture(scope="session")
def groups() -> tuple[Group, Group]:
    """A service's and a batch job's."""
    (ROOT / "cgroup.subtree_control").write_text("+cpu")
    return Group("service"), Group("batch")


@pytest.fixture(scope="module")
def second_cpu() -> Iterator[None]:
    """The guest's second CPU, online for the cases of one module."""
    online = Path("/sys/devices/system/cpu/cpu1/online")
    online.write_text("1")
    yield
    online.write_text("0")
