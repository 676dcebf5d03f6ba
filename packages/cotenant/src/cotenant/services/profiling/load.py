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
from collections.abc import Callable, Sequence
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
WAKERS = 8  # a CPU
WAKE_S = 0.001
_PAGE = 4096


def spin() -> None:
    """Use the CPU for a moment."""
    for _ in range(200):
        pass


class CacheLoad:
    """Gathers from more than a private cache holds."""

    def __init__(self) -> None:
        self._data = np.ones(_CACHE_BYTES // 8)
        self._order = np.random.default_rng(0).integers(0, len(self._data), 1 << 14)

    def __call__(self) -> None:
        """A piece of the work."""
        self._data[self._order].sum()


class StreamLoad:
    """Copies more than a shared cache holds, chunk by chunk, over and over."""

    def __init__(self, size_bytes: int = _STREAM_BYTES) -> None:
        self._from = np.ones(size_bytes // 8)
        self.to = np.zeros_like(self._from)
        self._at = 0

    def __call__(self) -> None:
        """A piece of the work."""
        step = _CHUNK_BYTES // 8
        np.copyto(self.to[self._at : self._at + step], self._from[self._at : self._at + step])
        self._at = (self._at + step) % len(self._from)


class MemoryLoad:
    """Maps, touches and unmaps pages: faults, zeroing, and as much of the memory at a time as is allowed."""

    def __init__(self, max_bytes: int) -> None:
        self._max = max(_CHUNK_BYTES, max_bytes)
        self.held: list[mmap.mmap] = []

    def __call__(self) -> None:
        """A piece of the work."""
        if (len(self.held) + 1) * _CHUNK_BYTES > self._max:
            self.held.pop(0).close()
        chunk = mmap.mmap(-1, _CHUNK_BYTES)
        for at in range(0, _CHUNK_BYTES, _PAGE):
            chunk[at] = 1
        self.held.append(chunk)


class DiskLoad:
    """Writes a file from its begin to its end, each block to the disk, over and over."""

    def __init__(self, folder: Path, number: int, size_bytes: int = _DISK_BYTES) -> None:
        self._size_bytes = size_bytes
        self._file = os.open(folder / f"load-{number}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._block = os.urandom(1 << 16)
        self._at = 0

    def __call__(self) -> None:
        """A piece of the work."""
        os.pwrite(self._file, self._block, self._at)
        os.fdatasync(self._file)
        self._at = (self._at + len(self._block)) % self._size_bytes


class NetworkLoad:
    """Sends datagrams over the loopback to itself, and takes them."""

    def __init__(self) -> None:
        self._to = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._to.bind(("127.0.0.1", 0))
        self._to.setblocking(False)
        self._from = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._from.connect(self._to.getsockname())
        self._block = bytes(1400)
        self.received_bytes = 0

    def __call__(self) -> None:
        """A piece of the work."""
        for _ in range(20):
            self._from.send(self._block)
        with suppress(BlockingIOError):
            while True:
                self.received_bytes += len(self._to.recv(2048))


def piece(axis: str, max_bytes: int, folder: Path, number: int) -> Callable[[], object]:
    """A small piece of the axis's work, to be done over and over."""
    kinds: dict[str, Callable[[], Callable[[], object]]] = {
        "cpu": lambda: spin,
        "runQueue": lambda: spin,
        "cache": CacheLoad,
        "memoryBandwidth": StreamLoad,
        "memory": lambda: MemoryLoad(max_bytes),
        "disk": lambda: DiskLoad(folder, number),
        "network": NetworkLoad,
    }
    return kinds[axis]()


def press(
    work: Callable[[], object],
    level: float,
    end_s: float,
    now: Callable[[], float] = monotonic,
    rest: Callable[[float], None] = sleep,
) -> None:
    """Work for `level` of each period, until the end."""
    while (begin_s := now()) < end_s:
        while now() < begin_s + level * PERIOD_S:
            work()
        rest(max(0.0, begin_s + PERIOD_S - now()))


def wake(
    work: Callable[[], object],
    level: float,
    end_s: float,
    now: Callable[[], float] = monotonic,
    rest: Callable[[float], None] = sleep,
) -> None:
    """One of a CPU's `WAKERS` threads that wake every millisecond for a moment, until the end: all of them together
    want the CPU for `level` of it.
    """
    while (begin_s := now()) < end_s:
        while now() < begin_s + WAKE_S * level / WAKERS:
            work()
        rest(WAKE_S)


def divided(axis: str, cpus: int, memory_mib: int) -> tuple[int, int]:
    """How many processes press, and the bytes that each may hold at level 1."""
    count = cpus * WAKERS if axis == "runQueue" else cpus
    return count, memory_mib * (1 << 20) // count


def _work(axis: str, level: float, end_s: float, folder: Path, memory_bytes: int, number: int) -> None:
    if axis not in ("cpu", "runQueue"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    pressing = wake if axis == "runQueue" else press
    pressing(piece(axis, round(level * memory_bytes), folder, number), level, end_s)


AXES = ("cpu", "cache", "memoryBandwidth", "memory", "disk", "network", "runQueue")


def main(words: Sequence[str] | None = None) -> None:
    """The process's entry point."""
    parser = argparse.ArgumentParser()
    parser.add_argument("axis", choices=AXES)
    parser.add_argument("level", type=float)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--memory-mib", type=int, default=256)
    given = parser.parse_args(words)
    end_s = monotonic() + given.seconds
    count, share = divided(given.axis, len(os.sched_getaffinity(0)), given.memory_mib)
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
