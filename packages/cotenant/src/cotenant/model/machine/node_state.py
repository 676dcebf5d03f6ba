"""A node's state as its policies see it: use and waiting over an interval, pods, health of services, current knob
values.

A policy must be a pure function of one value that the real agent, a recording and the lab can all produce. `NodeState`,
rates and levels as integers with the unit in the name; None = unknown, which is not 0.
Limits: one interval (the agent's period); policies that need longer windows get them as separate values (`UseWindow`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cotenant.model.kubelet.facts import KubeletFacts
from cotenant.model.machine.counters import GpuCounters, LogicalCpu
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.node_decision import Reason
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.replica_signal import ReplicaSignal
from cotenant.model.machine.run_queue import Blame

PPM = 1_000_000  # ratios are in millionths
MIN_LATE = 5  # requests: where so many missed the objective, and as many as met it, it was missed


@dataclass(frozen=True, slots=True)
class GroupUse:
    """One cgroup over the last interval."""

    group: str
    cpu_m: int | None = None  # milli-CPU in use
    throttled_ppm: int | None = None  # of its CFS periods
    run_delay_ppm: int | None = None  # time waited for a CPU per elapsed time, summed over tasks: may exceed 1e6
    cpu_stall_ppm: int | None = None  # PSI cpu "some"
    memory_stall_ppm: int | None = None  # PSI memory "some"
    memory_full_stall_ppm: int | None = None
    io_stall_ppm: int | None = None  # PSI io "some"
    memory_bytes: int | None = None
    working_set_bytes: int | None = None
    refaults_per_s: int | None = None
    io_read_bps: int | None = None  # bytes per second
    io_written_bps: int | None = None
    tasks: int | None = None
    cpi_milli: int | None = None  # cycles per thousand instructions
    network_sent_bps: int | None = None  # bytes per second, where it has its own traffic class


@dataclass(frozen=True, slots=True)
class HostUse:
    """The machine over the last interval."""

    cpus: int
    cpu_m: int | None  # in use; None before the second sample
    memory_total_bytes: int
    memory_used_bytes: int  # total less available
    cpu_stall_ppm: int | None = None
    memory_stall_ppm: int | None = None
    memory_full_stall_ppm: int | None = None
    io_stall_ppm: int | None = None
    steal_ppm: int | None = None
    disks: tuple[str, ...] = ()  # whole physical disks in use, as MAJOR:MINOR
    network_received_bps: int | None = None  # bytes per second over the physical devices
    network_sent_bps: int | None = None
    disk_bps: int | None = None  # bytes per second, read and written, over the physical disks
    disk_busy_ppm: int | None = None  # of the time, over the disks that are used: 1e6 = all of them were busy

    @property
    def capacity_cpu_m(self) -> int:
        """All CPUs."""
        return self.cpus * 1000


@dataclass(frozen=True, slots=True)
class ServiceHealth:
    """Request latency of a service over a recent window. Source: its own reports, or spans."""

    window_us: int
    requests: int
    p99_us: int
    over_objective: int  # requests slower than the objective
    age_us: int  # since the window ended
    objective: str = (
        ""  # namespace/name of the ServiceObjective that the spans were judged by; "" = the service's own report
    )
    budget_ppm: int | None = None  # share of requests that may miss the objective; None = the guard's own
    at_target_us: int | None = None  # the quantile of the objective's target; None = p99
    self_p99_us: int | None = None  # of its requests' own time; None without spans of calls

    def tells(self, least: int) -> bool:
        """Whether the window says how late the service is: it has so many requests, or most of the few missed the
        objective. A service that hardly answers any more has small windows just then; one or two late requests say
        nothing.
        """
        late = min(self.over_objective, self.requests)
        return self.requests >= least or (late >= MIN_LATE and 2 * late >= self.requests)


@dataclass(frozen=True, slots=True)
class PodUse:
    """A pod with its own and its containers' use."""

    pod: NodePod
    use: GroupUse
    containers: tuple[GroupUse, ...] = ()  # in the order of pod.containers
    health: ServiceHealth | None = None
    signals: tuple[ReplicaSignal, ...] = ()  # measured from spans, one for each objective; the highest burn rate first
    is_unconfirmed: bool = False  # a service by its label only (`NodePod`), and no ServiceObjective has named it


@dataclass(frozen=True, slots=True)
class Alarm:
    """Pressure noticed between two samples: a PSI trigger fired, or tasks of a group waited too long for a CPU."""

    at_us: int
    group: str  # "" = the machine
    what: str  # "cpu", "memory" or "io"
    stall_ppm: int = PPM  # lower bound of the stalled share of the trigger's window


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocatable:
    """What the node's object in its cluster says: allocatable CPU and memory, what it lends, and how fast its CPUs
    are.
    """

    cpu_m: int = 0
    batch_cpu_m: int = 0
    mid_cpu_m: int = 0
    memory_bytes: int = 0
    batch_memory_bytes: int = 0
    mid_memory_bytes: int = 0
    cpu_ratio_milli: int = 1000  # CPU normalization ratio, thousandths: limits count CPUs of the reference machine


@dataclass(frozen=True, slots=True)
class BindingLimit:
    """Why this agent limits the CPU of a group of best-effort work, and since when."""

    policy: str
    reason: Reason
    since_us: int


@dataclass(frozen=True, slots=True)
class NodeState:
    """The snapshot that node policies decide on."""

    at_us: int
    interval_us: int  # 0 for the first sample: rates are None
    host: HostUse
    pods: tuple[PodUse, ...] = ()
    best_effort: GroupUse | None = None  # the common group of all best-effort pods, where there is one
    best_effort_group: str | None = None  # its path
    cpus: tuple[LogicalCpu, ...] = ()
    reserved_cpu_m: int = 0  # reserved for the system and kubelet
    reserved_cpus: tuple[int, ...] = ()
    knobs: Mapping[KnobTarget, str] = field(
        default_factory=dict
    )  # current canonical values of the knobs that were read
    owners: Mapping[KnobTarget, str] = field(
        default_factory=dict
    )  # CPU lists set by other writers: current, or from before our lease
    supported: frozenset[Knob] = frozenset(Knob)  # knobs that this machine has
    alarms: tuple[Alarm, ...] = ()  # since the sample, which is the last one with a later `at_us`
    blame: tuple[Blame, ...] | None = (
        None  # which groups ran while others waited, over the interval; None without the eBPF probe
    )
    allocatable: Allocatable | None = None  # as its Node object says
    kubelet: KubeletFacts = field(default_factory=KubeletFacts)  # what is known of the other writers of knobs
    held: Mapping[str, str] = field(
        default_factory=dict
    )  # namespaces in which no action of recovery may be begun, and why (a freeze, a ceiling, a window)
    lending_frozen: str = ""  # why nothing more of the GPUs may be lent; "" = it may, or there are none
    gpus: tuple[GpuCounters, ...] = ()
    limits: Mapping[str, BindingLimit] = field(default_factory=dict)  # by group: quotas that the agent holds there
    # The pods, split once: every policy asks for the parts, some once per pod.
    services: tuple[PodUse, ...] = field(init=False, repr=False, compare=False)  # those that are not best effort
    best_effort_pods: tuple[PodUse, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "services", tuple(use for use in self.pods if not use.pod.best_effort))
        object.__setattr__(self, "best_effort_pods", tuple(use for use in self.pods if use.pod.best_effort))

    @property
    def cpu_ratio_milli(self) -> int:
        """How much faster than the reference the CPUs are, thousandths; 1000 where it is not known."""
        return self.allocatable.cpu_ratio_milli if self.allocatable is not None else 1000
