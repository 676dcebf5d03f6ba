"""Readings of a node at one instant: monotonic counters, and levels. No rates; the engine computes those.

Real files, a recording and a simulated node must be interchangeable to the agent. Plain values; None where this machine
does not provide a reading (`Gap` says why, once per field).
Limits: one monotonic clock in microseconds, and the wall clock for display.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.machine.run_queue import RunQueueReading


@dataclass(frozen=True, slots=True)
class Stall:
    """PSI totals of one resource, microseconds since boot during which some, and all, tasks waited."""

    some_us: int
    full_us: int


@dataclass(frozen=True, slots=True)
class Pressure:
    """PSI of the three resources; None where not available."""

    cpu: Stall | None = None
    memory: Stall | None = None
    io: Stall | None = None


NO_PRESSURE = Pressure()


@dataclass(frozen=True, slots=True)
class GroupCounters:
    """One cgroup. Counters start when the group is created, so a smaller value than before means a reset."""

    group: str  # path relative to the tree's root
    cpu_us: int | None = None  # CPU time used
    periods: int | None = None  # CFS bandwidth periods
    throttled_periods: int | None = None
    throttled_us: int | None = None
    run_delay_us: int | None = None  # time its tasks waited for a CPU (schedstat, or eBPF)
    memory_bytes: int | None = None  # charged, page cache included
    working_set_bytes: int | None = None  # charged less inactive file pages, as kubelet counts
    refaults: int | None = None  # pages read again after they were reclaimed
    oom_kills: int | None = None
    io_read_bytes: int | None = None
    io_written_bytes: int | None = None
    tasks: int | None = None  # level: processes and threads now
    cycles: int | None = None
    instructions: int | None = None
    pressure: Pressure = NO_PRESSURE
    cpu_m_limit: int | None = None  # level: cpu.max as milli-CPU; None = no limit or not known
    io_span: int = (
        1  # number of samples over which the I/O counters grew; 0 = not read this time, they may have grown further
    )


@dataclass(frozen=True, slots=True)
class HostCounters:
    """The machine as a whole."""

    cpus: int  # online
    cpu_busy_us: int  # over all CPUs, neither idle nor waiting for I/O nor stolen
    memory_total_bytes: int
    memory_available_bytes: int
    cpu_steal_us: int = 0
    swap_total_bytes: int = 0
    swap_free_bytes: int = 0
    network_received_bytes: int = 0  # over the real devices
    network_sent_bytes: int = 0
    disk_read_bytes: int = 0
    disk_written_bytes: int = 0
    disk_busy_us: int | None = None  # time in which a disk had requests, summed over the disks; None = not known
    disks: tuple[str, ...] = ()  # whole physical disks that were used, as MAJOR:MINOR; the busiest first
    pressure: Pressure = NO_PRESSURE


EXCLUSIVE_PROCESS = "exclusive-process"
COMPUTE_MODES = ("default", "exclusive-thread", "prohibited", EXCLUSIVE_PROCESS)  # by NVML's number


@dataclass(frozen=True, slots=True)
class GpuPodUse:
    """What one pod's processes have of a card. Shares of time in which a kernel ran, and the memory was accessed, as
    the driver tells them by process; None: it does not.
    """

    uid: str  # of the pod; "" = of no pod
    memory_bytes: int
    sm_percent: int | None = None
    bandwidth_percent: int | None = None


@dataclass(frozen=True, slots=True)
class GpuInstance:
    """A MIG instance of a card."""

    number: int  # of the GPU instance
    uuid: str
    memory_total_bytes: int
    memory_used_bytes: int


@dataclass(frozen=True, slots=True)
class GpuCounters:
    """One accelerator; levels."""

    index: int
    uuid: str
    name: str
    healthy: bool
    utilisation_percent: int | None  # time in which any kernel ran; None: the driver does not say
    memory_total_bytes: int
    memory_used_bytes: int
    processes: tuple[tuple[int, int], ...] = ()  # pid, bytes
    bus: str = ""  # PCI address, as the kernel writes it; empty where it is not known
    compute_mode: str = ""  # who may use it, one of `COMPUTE_MODES`; empty where it is not known
    pods: tuple[GpuPodUse, ...] = ()  # of its processes, by UID
    fault: str = ""  # why it is not healthy, where that is known
    divided: bool = False  # into MIG instances, of whose use the driver says nothing
    root: str = ""  # the PCI host bridge that it shares with others; empty where it is not known
    pcie_bps: int | None = None  # bytes per second, sent and received, since the reading before
    power_mw: int | None = None  # what it draws
    least_power_mw: int | None = None  # the smallest limit of its power that it takes
    nvlink_bps: int | None = None  # as `pcie_bps`, over all links
    sm_clock_mhz: int | None = None
    throttled_by: tuple[str, ...] = ()  # what slows it down against its will
    xids: tuple[tuple[int, int], ...] = ()  # errors since the agent's start: Xid and how often, programs' own too
    instances: tuple[GpuInstance, ...] = ()  # of a divided card


@dataclass(frozen=True, slots=True)
class Gap:
    """A reading that this machine does not provide, and what it would need."""

    what: str  # e.g. "cycles"
    needs: str  # e.g. "a hardware performance counter"


@dataclass(frozen=True, slots=True)
class NodeSample:
    """Everything read at one tick. Groups that vanished during the reading are left out."""

    at_us: int  # monotonic
    wall_s: float  # Unix time
    host: HostCounters
    groups: tuple[GroupCounters, ...] = ()
    gpus: tuple[GpuCounters, ...] = ()
    gaps: tuple[Gap, ...] = ()
    run_queue: RunQueueReading | None = None  # by the eBPF probe; None without it
    best_effort_sent_bytes: int | None = (
        None  # counter of best effort's traffic class on the uplink; None where there is none
    )


@dataclass(frozen=True, slots=True)
class LogicalCpu:
    """One hardware thread and its location."""

    cpu: int
    core: int
    socket: int
    numa: int
