"""What runs the tasks of a zone: a back end and its scheduler.

"which scheduler" depends on what a host offers, from cgroup weights on any kernel to a kernel scheduler of the zone's
own. A setting is a back end with a mode; back ends have an order of preference, and a zone that loses one continues on
the next.
Limits: VM back ends are not settings: a zone in a VM has these settings inside.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.errors import InvalidInput


class ZoneMode(StrEnum):
    """A scheduler of bpf/. The value ends the file's name and the name that the kernel shows."""

    LATENCY = "latency"
    THROUGHPUT = "throughput"
    WEIGHTED = "weighted"
    EXCLUSIVE = "exclusive"
    SIBLINGS = "siblings"
    APART = "apart"

    @property
    def shown(self) -> str:
        """The name in /sys/kernel/sched_ext/root/ops."""
        return f"cotenant_{self.value}"


# Exclusive takes CPUs away from batch even where services are idle, siblings while a service runs on the other thread
# of their core, and apart needs rules, so a zone has them only where its author asks for them.
USUAL_MODES = (ZoneMode.LATENCY, ZoneMode.THROUGHPUT, ZoneMode.WEIGHTED)
MAX_CPUS = 1024  # of bpf/zone_exclusive.bpf.c, bpf/zone_siblings.bpf.c and bpf/zone_apart.h


@dataclass(frozen=True, slots=True)
class ExclusiveCpus:
    """CPUs that only services use under `ZoneMode.EXCLUSIVE`: `cpus` of them, in whole cores; 0: this share of the
    machine's cores.
    """

    cpus: int = 0
    share: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.cpus < MAX_CPUS:
            raise InvalidInput("exclusive.cpus", self.cpus, f"0 to {MAX_CPUS - 1}; 0: by share")
        if not 0 < self.share < 1:  # refuses NaN, too
            raise InvalidInput("exclusive.share", self.share, "more than 0 and less than 1")


class Backend(StrEnum):
    """How a setting reaches the kernel, best first: the ladder that a zone descends."""

    SUB = "sub"  # a sub-scheduler of the zone's cgroup: Linux 7.3
    ROOT = "root"  # one scheduler for the machine: Linux 6.12
    WEIGHTS = "weights"  # cpu.weight and cpu.idle: any kernel
    FAIR = "fair"  # nothing: the kernel's fair class with the weights it had


LADDER = tuple(Backend)


@dataclass(frozen=True, slots=True)
class ZoneSetting:
    """A back end; `mode` for those that load a scheduler."""

    backend: Backend
    mode: ZoneMode | None = None

    def __post_init__(self) -> None:
        loads = self.backend in (Backend.SUB, Backend.ROOT)
        if loads != (self.mode is not None):
            raise InvalidInput("zone setting", str(self), "a mode with sub and root, none with weights and fair")

    def __str__(self) -> str:
        return self.backend.value if self.mode is None else f"{self.backend.value}/{self.mode.value}"


FAIR = ZoneSetting(Backend.FAIR)
