"""A virtual machine as its host sees it: a process, its threads, and what they have used so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ThreadTime:
    """Counters of a thread since it began. `wait_us`: ready and without a CPU."""

    run_us: int
    wait_us: int
    slices: int


@dataclass(frozen=True, slots=True)
class HostMachine:
    """A machine at one moment. `name`: as its command line says, so whoever started it chose it. `vcpus`: by number;
    empty where they are not told apart, and `other_us` has them then. `accelerator`: `KVM` or `TCG`, empty likewise.
    `group`: of the process, on the hierarchy that counts CPU time.
    """

    pid: int
    name: str
    pod_uid: str
    group: str
    accelerator: str
    threads: tuple[int, ...]
    vcpus: Mapping[int, ThreadTime]
    other_us: int  # run by its other threads
    vhost_us: int  # run by the kernel's threads for its devices
