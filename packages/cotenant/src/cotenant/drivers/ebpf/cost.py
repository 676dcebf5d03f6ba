"""The cost of our eBPF programs: the kernel's own count of their runs and of the time spent in them.

A probe that is meant to be cheap must prove it. The kernel times every run while statistics are on (BPF_ENABLE_STATS),
and reports the sums in the descriptor's fdinfo.
Limits: timing itself adds some 20 ns per run while it is on; statistics are switched on for the whole machine.

Source: bpf(2), BPF_ENABLE_STATS; Linux kernel/bpf/syscall.c, bpf_prog_show_fdinfo.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from cotenant.drivers.ebpf.libbpf import PROBE, library
from cotenant.model.errors import Unsupported

_RUN_TIME = 0  # BPF_STATS_RUN_TIME


@dataclass(frozen=True, slots=True)
class ProgramCost:
    """One program since statistics were first switched on."""

    name: str
    runs: int
    run_ns: int


@contextmanager
def timed() -> Iterator[None]:
    """Statistics are on inside the block. Raises `Unsupported`."""
    fd = library().handle.bpf_enable_stats(_RUN_TIME)
    if fd < 0:
        raise Unsupported(f"{PROBE} statistics", f"CAP_SYS_ADMIN and Linux 5.8 ({os.strerror(ctypes.get_errno())})")
    try:
        yield
    finally:
        os.close(fd)


class KernelProbe(Protocol):
    """Something with programs of ours in the kernel."""

    def programs(self) -> tuple[tuple[str, int], ...]:
        """Name and descriptor of each."""
        ...


def costs(probe: KernelProbe) -> tuple[ProgramCost, ...]:
    """The sums so far; take two and subtract."""
    return tuple(_cost(name, fd) for name, fd in probe.programs())


def _cost(name: str, fd: int) -> ProgramCost:
    with open(f"/proc/self/fdinfo/{fd}") as file:
        fields = dict(line.split(":", 1) for line in file if ":" in line)
    return ProgramCost(name, int(fields.get("run_cnt", "0")), int(fields.get("run_time_ns", "0")))
