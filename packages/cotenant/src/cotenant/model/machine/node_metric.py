"""Use of a node and its pods as reported by its agent, as a value.

A scheduler must decide by current use, while the object that reports it (NodeMetric) is stale when it is read, may lack
any part, and is stamped by another machine's clock. Amounts as integers, the age when read instead of a time,
percentiles by statistic and window.
Limits: CPU and memory only, and of pods the parts of disk, network and GPUs that this project's agent adds; use of a
container is only in its pod's.
Source: Koordinator, apis/slo/v1alpha1 (NodeMetric).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf, isnan
from typing import NamedTuple

from cotenant.model.cluster.qos import PriorityClass
from cotenant.model.errors import InvalidInput

REPORT_INTERVAL_S = 60  # where the object does not say


class Use(NamedTuple):
    """An amount of CPU and memory."""

    cpu_m: int = 0
    memory_bytes: int = 0

    def plus(self, other: Use) -> Use:
        """The sum of both."""
        return Use(self.cpu_m + other.cpu_m, self.memory_bytes + other.memory_bytes)

    def beyond(self, other: Use) -> Use:
        """How much this exceeds `other`, 0 where it does not."""
        return Use(max(0, self.cpu_m - other.cpu_m), max(0, self.memory_bytes - other.memory_bytes))


NO_USE = Use()


class Statistic(StrEnum):
    """Statistics over a window; the values are the object's keys."""

    AVERAGE = "avg"
    P50 = "p50"
    P90 = "p90"
    P95 = "p95"
    P99 = "p99"


@dataclass(frozen=True, slots=True)
class UseWindow:
    """Use of the node over a window. A statistic that is unknown or empty is absent."""

    seconds: int
    use: Mapping[Statistic, Use]


@dataclass(frozen=True, slots=True)
class PodSignals:
    """What a pod suffers from its neighbours and what it waits for, as far as its agent can measure it; None where it
    cannot. Only this project's agent reports it. Shares are of time, of the disks' time and of the uplink's rate.
    """

    latency_p99_ms: float | None = None  # of its requests, as the service reports it
    cycles_per_instruction: float | None = None  # where there is a PMU
    wait_per_cpu: float | None = None  # time waited for a CPU per CPU time used
    memory_stall: float | None = None  # share of time in which some task waited for memory (PSI)
    disk_stall: float | None = None  # the same, for block I/O
    disk_use: float | None = None  # its share of the time in which the node's disks are busy
    network_use: float | None = None  # its share of the uplink, the busier direction; None where the speed is not known
    disk_bps: int | None = None  # bytes per second, read and written
    network_bps: int | None = None  # received and sent
    gpu_sm: float | None = None  # of each card that it uses, the share of time in which its kernels ran
    gpu_bandwidth: float | None = None  # and in which the card's memory was accessed for it


NO_SIGNALS = PodSignals()


class UseSpread(NamedTuple):
    """Decayed mean and standard deviation of one resource, and its highest value, which fades towards the mean;
    milli-CPU or bytes.
    """

    mean: float
    deviation: float
    highest: float


@dataclass(frozen=True, slots=True)
class ReportedHistory:
    """What the node's agent has measured of a pod since it arrived. Only this project's agent reports it. Raises
    `InvalidInput` for values that no measurements have.
    """

    samples: int
    weight: float  # decayed number of samples
    cpu: UseSpread
    memory: UseSpread

    def __post_init__(self) -> None:
        values = (*self.cpu, *self.memory)
        if not (self.samples >= 1 and 0 < self.weight <= self.samples and all(0 <= value < inf for value in values)):
            raise InvalidInput("use history", str((self.samples, self.weight, *values)), "what measurements can give")


@dataclass(frozen=True, slots=True)
class MeasuredPod:
    """Use of one pod. The class is the one that the agent reports; NONE = not reported."""

    use: Use
    priority_class: PriorityClass = PriorityClass.NONE
    signals: PodSignals = NO_SIGNALS
    history: ReportedHistory | None = None


@dataclass(frozen=True, slots=True)
class HostApplication:
    """Use of a program outside Kubernetes."""

    use: Use
    priority_class: PriorityClass = PriorityClass.NONE
    name: str = ""


@dataclass(frozen=True, slots=True)
class NodeMetric:
    """One node's last metric. Raises `InvalidInput` where its age or interval is invalid."""

    node: str
    age_s: float = float("nan")  # when it was read; NaN = never updated
    interval_s: int = REPORT_INTERVAL_S  # between two updates
    use: Use | None = None  # None = not known
    windows: tuple[UseWindow, ...] = ()
    pods: Mapping[str, MeasuredPod] | None = field(
        default_factory=dict
    )  # by namespace/name; None = pods are not measured individually
    system: Use | None = None  # beside pods and host applications
    applications: tuple[HostApplication, ...] = ()
    prod_reclaimable: Use | None = None  # predicted: requested by prod pods and not used
    updated_s: float = field(default=float("nan"), compare=False)  # Unix time by the agent's clock

    def __post_init__(self) -> None:
        where = f"NodeMetric {self.node}"
        if not self.node:
            raise InvalidInput("NodeMetric", "", "a node's name")
        if not isnan(self.age_s) and self.age_s < 0:
            raise InvalidInput(f"{where}: age", self.age_s, "seconds, 0 or more")
        if self.interval_s <= 0:
            raise InvalidInput(f"{where}: report interval", self.interval_s, "seconds above 0")

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever reported."""
        return isnan(self.age_s)
