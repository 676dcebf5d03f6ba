"""A load on one resource at a level, until it is killed.

    python -m cotenant.services.profiling.load AXIS LEVEL --seconds S --folder DIR --memory-mib M

Sensitivity by resource needs loads that press one resource each, at levels that mean the same on every machine. Own
loads, one process per CPU that this process may use: work for LEVEL of each 20 ms, then sleep. CPU and run queue
compete at normal priority; the others run in the kernel's idle class, so that they take next to no CPU time from the
replica and what remains is their resource. The end is bounded by `--seconds` even if nobody kills it.
Limits: a core shared with a replica that never sleeps gives the idle class nothing; on a machine with hardware threads
the core's own units are pressed too; disk and network are loopback and one file.
"""

from __future__ import annotations

import argparse
import mmap
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from time import monotonic, sleep

import numpy as np

PERIOD_S = 0.02
_CHUNK_BYTES = 1 << 20
_DISK_BYTES = 16 << 20
_CACHE_BYTES = 8 << 20  # gathered from at random: beyond private caches, within most shared ones
_STREAM_BYTES = 64 << 20  # beyond shared caches
_WAKERS = 8  # a CPU
_PAGE = 4096


def spin(until_s: float) -> None:
    """Use the CPU."""
    while monotonic() < until_s:
        for _ in range(200):
            pass


class _Cache:
    def __init__(self) -> None:
        self._data = np.ones(_CACHE_BYTES // 8)
        self._order = np.random.default_rng(0).integers(0, len(self._data), 1 << 14)

    def __call__(self, until_s: float) -> None:
        while monotonic() < until_s:
            self._data[self._order].sum()


class _Stream:
    def __init__(self) -> None:
        self._from = np.ones(_STREAM_BYTES // 8)
        self._to = np.empty_like(self._from)
        self._at = 0

    def __call__(self, until_s: float) -> None:
        step = _CHUNK_BYTES // 8
        while monotonic() < until_s:
            np.copyto(self._to[self._at : self._at + step], self._from[self._at : self._at + step])
            self._at = (self._at + step) % len(self._from)


class _Memory:
    """Maps, touches and unmaps pages: faults, zeroing, and as much of the memory at a time as is allowed."""

    def __init__(self, max_bytes: int) -> None:
        self._max = max(_CHUNK_BYTES, max_bytes)
        self._held: list[mmap.mmap] = []

    def __call__(self, until_s: float) -> None:
        while monotonic() < until_s:
            if len(self._held) * _CHUNK_BYTES >= self._max:
                self._held.pop(0).close()
            chunk = mmap.mmap(-1, _CHUNK_BYTES)
            for at in range(0, _CHUNK_BYTES, _PAGE):
                chunk[at] = 1
            self._held.append(chunk)


class _Disk:
    def __init__(self, folder: Path, number: int) -> None:
        self._file = os.open(folder / f"load-{number}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._block = os.urandom(1 << 16)
        self._at = 0

    def __call__(self, until_s: float) -> None:
        while monotonic() < until_s:
            os.pwrite(self._file, self._block, self._at)
            os.fdatasync(self._file)
            self._at = (self._at + len(self._block)) % _DISK_BYTES


class _Network:
    def __init__(self) -> None:
        self._to = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._to.bind(("127.0.0.1", 0))
        self._to.setblocking(False)
        self._from = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._from.connect(self._to.getsockname())
        self._block = bytes(1400)

    def __call__(self, until_s: float) -> None:
        while monotonic() < until_s:
            for _ in range(20):
                self._from.send(self._block)
            with suppress(BlockingIOError):
                while True:
                    self._to.recv(2048)


def _wake(level: float, end_s: float) -> None:
    """A thread of many that wake every millisecond for a moment."""
    while monotonic() < end_s:
        spin(monotonic() + 0.001 * level / _WAKERS)
        sleep(0.001)


def _work(axis: str, level: float, end_s: float, folder: Path, memory_bytes: int, number: int) -> None:
    if axis == "runQueue":
        _wake(level, end_s)
        return
    if axis != "cpu":
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    kinds: dict[str, Callable[[], Callable[[float], None]]] = {
        "cpu": lambda: spin,
        "cache": _Cache,
        "memoryBandwidth": _Stream,
        "memory": lambda: _Memory(round(level * memory_bytes)),
        "disk": lambda: _Disk(folder, number),
        "network": _Network,
    }
    work = kinds[axis]()
    while (begin_s := monotonic()) < end_s:
        work(begin_s + level * PERIOD_S)
        sleep(max(0.0, begin_s + PERIOD_S - monotonic()))


AXES = ("cpu", "cache", "memoryBandwidth", "memory", "disk", "network", "runQueue")


def main() -> None:
    """The process's entry point."""
    parser = argparse.ArgumentParser()
    parser.add_argument("axis", choices=AXES)
    parser.add_argument("level", type=float)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--memory-mib", type=int, default=256)
    given = parser.parse_args()
    end_s = monotonic() + given.seconds
    cpus = len(os.sched_getaffinity(0))
    count = cpus * _WAKERS if given.axis == "runQueue" else cpus
    share = given.memory_mib * (1 << 20) // count
    context = get_context("fork")
    children = [
        context.Process(target=_work, args=(given.axis, given.level, end_s, given.folder, share, number), daemon=True)
        for number in range(count)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join()


if __name__ == "__main__":
    main()
