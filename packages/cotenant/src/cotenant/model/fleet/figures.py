"""What was measured of a host and its containers, with counters as they are and rates over the last seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HostFigures:
    """A host now; rates per second."""

    cpus: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0
    memory_total_bytes: int = 0
    load_1: float = 0.0
    load_5: float = 0.0
    load_15: float = 0.0
    received_bytes: int = 0  # of the network
    sent_bytes: int = 0
    read_bytes: int = 0  # of its disks
    written_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ContainerFigures:
    """A container now; rates per second, None where this host does not have the figure.

    Loads are averages over 1, 5 and 15 minutes of its tasks that run, want to, or wait for a disk.
    """

    guid: str
    group: str = ""
    appkey: str = ""
    image: str = ""
    state: str = ""
    cpu_milli: int | None = None
    system_milli: int | None = None  # of it in the kernel
    throttled_permille: int | None = None  # of the time, by its CPU limit
    memory_bytes: int | None = None
    received_bytes: int | None = None  # None in the host's own network
    sent_bytes: int | None = None
    read_bytes: int | None = None
    written_bytes: int | None = None
    tasks: int | None = None
    load_1: float | None = None
    load_5: float | None = None
    load_15: float | None = None
    oom_kills: int | None = None  # since it was created, as what follows
    restarts: int | None = None
    cpu_total_us: int | None = None
    system_total_us: int | None = None
    received_total_bytes: int | None = None
    sent_total_bytes: int | None = None
    read_total_bytes: int | None = None
    written_total_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """One host with its containers, at this Unix time. Answer of an agent to `Measure`."""

    guid: str
    hostname: str
    at_s: float
    host: HostFigures
    containers: tuple[ContainerFigures, ...] = ()


@dataclass(frozen=True, slots=True)
class Measure:
    """What does your host measure? Answered by `Measured`."""


@dataclass(frozen=True, slots=True)
class Top:
    """Figures of hosts with all of these tags, of a host, of a group; empty selects all. Answered by `TopPage`."""

    tags: tuple[str, ...] = ()
    host: str = ""
    group: str = ""
    start: int = 0  # the first host of the page


@dataclass(frozen=True, slots=True)
class TopPage:
    """`unmeasured`: hosts without an answer, with the reason. `next_start`: None where this was the last page."""

    hosts: tuple[Measured, ...] = ()
    unmeasured: tuple[str, ...] = ()
    next_start: int | None = None
