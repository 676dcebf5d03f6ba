"""A workload profile by axis from windows of measurements: means of use, and slopes against the use of others.

A report of a node says little of each resource, and a slope through three equal points is no sensitivity. For each
workload and axis decayed sums of products are kept (`ShareMoments`), from which tendency is a mean and sensitivity
the slope of the logarithm of what the pod suffers against the share of the node's CPUs that others use, with the
pod's own use as second variable. A figure needs `MIN_WINDOWS` windows and, for a slope, neighbours whose use varies
by `MIN_SPREAD`; otherwise the reason is said. `differs` says whether a new profile is worth a write.
Limits: others' CPU use stands for their use of all resources, so a learned slope of cache misses is "what neighbours do
to it", not the cache alone (a run separates them); windows count as independent, so intervals are too narrow under slow
changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, expm1, inf, log1p, sqrt

import numpy as np

from cotenant.model.arrays import Float
from cotenant.model.cluster.workload_profile import (
    AxisReading,
    FigureSource,
    Overall,
    ProfileAxis,
    ProfileFigure,
    Reading,
    Unknown,
    WorkloadBound,
    figure,
)
from cotenant.model.machine.node_metric import PodSignals
from cotenant.policy.interference.bound import LONGEST_WAIT, disk_alone, shares

Learned = tuple[Mapping[ProfileAxis, AxisReading], Overall, Mapping[WorkloadBound, Reading]]

MIN_WINDOWS = 20
MIN_SPREAD = 0.05  # standard deviation of the others' share of a node
MIN_CHANGE = 30  # thousandths ...
MIN_CHANGE_SHARE = 0.1  # ... and this share of the written value
MEMORY_S = 3 * 86_400.0
_Z = 1.96
_RIDGE = 1e-9
_MAX_COLLINEAR = 0.98  # squared correlation of the two variables

NO_CACHE_USE = Unknown("no node reports the cache or memory bandwidth that a pod uses (resctrl)")
NO_BANDWIDTH = Unknown("no node reports memory bandwidth; `cotenant profile run` measures it")
NO_PMU = Unknown(
    "no node of its pods reports cycles per instruction (no PMU, or the agent may not read it); `cotenant profile "
    "run` measures it"
)
NO_LATENCY = Unknown("its pods report no latency against an objective; `cotenant profile run` measures it")
NO_WAIT = Unknown("no node of its pods reports their wait for a CPU (schedstat)")
NO_QUEUE_USE = Unknown("NodeMetrics report no number of runnable tasks")
NO_DISK_USE = Unknown("no node of its pods reports use of its disks (/proc/diskstats and the io controller)")
NO_DISK_WAIT = Unknown("no node of its pods reports waits for disks (PSI); `cotenant profile run` measures it")
NO_NETWORK_USE = Unknown("no node of its pods knows the speed of its uplink, or the pods are in the node's own network")
NETWORK_RUN = Unknown("nothing that it waits for tells of the network; `cotenant profile run` measures it")
IDLE = Unknown("in no window did it run or wait for 5 % of the time")
NO_BOUND = {
    WorkloadBound.CPU: IDLE,
    WorkloadBound.MEMORY: Unknown("no node of its pods reports waits for memory (PSI)"),
    WorkloadBound.MEMORY_BANDWIDTH: Unknown(
        "no node of its pods reports cycles per instruction: it is in the share of the CPU"
    ),
    WorkloadBound.DISK: Unknown("no node of its pods reports waits for disks (PSI)"),
    WorkloadBound.NETWORK: NO_NETWORK_USE,
}
ONLY_RUN = Unknown("it cannot be learned from the CPU use of neighbours; `cotenant profile run` measures it")
ONLY_RESTART = Unknown("it would need pods that are started beside known neighbours again and again")
NO_USE = Unknown("none of its pods has been measured")
NO_LATER_USE = Unknown("none of its pods was measured later than two minutes after its start")
NO_START = Unknown("no pod of it was measured within two minutes of its start")


class ShareMoments:
    """Decayed sums of products of (1, own share, others' share, value), and the number of windows."""

    __slots__ = ("samples", "sums")

    def __init__(self) -> None:
        self.samples = 0
        self.sums: Float = np.zeros((4, 4))

    def add(self, own: float, others: float, value: float, age_s: float) -> None:
        """One window; `age_s` since the one before, by which older ones count less."""
        row = np.array([1.0, own, others, value])
        self.sums *= exp(-max(0.0, age_s) / MEMORY_S)
        self.sums += np.outer(row, row)
        self.samples += 1

    def mean(self, absent: Unknown) -> Reading:
        """The mean of the value with its interval; `absent` without windows."""
        weight = float(self.sums[0, 0])
        if self.samples == 0 or weight <= 0.0:
            return absent
        mean = float(self.sums[0, 3]) / weight
        variance = max(0.0, float(self.sums[3, 3]) / weight - mean * mean)
        return figure(mean, _Z * sqrt(variance / weight), self.samples, FigureSource.LEARNED)

    def slope(self, absent: Unknown) -> Reading:
        """Additional time when others use the whole node, from the slope of the logarithm of the value."""
        if self.samples == 0:
            return absent
        weight = float(self.sums[0, 0])
        if self.samples < MIN_WINDOWS or weight <= 4.0:
            return Unknown(f"{self.samples} windows of {MIN_WINDOWS} so far")
        centred = self.sums[1:, 1:] - np.outer(self.sums[1:, 0], self.sums[0, 1:]) / weight
        spread = sqrt(max(0.0, float(centred[1, 1])) / weight)
        if spread < MIN_SPREAD:
            return Unknown(f"the CPU use of its neighbours varied by {100 * spread:.1f} % of a node only")
        normal = centred[:2, :2] + _RIDGE * np.eye(2)
        if float(normal[0, 1]) ** 2 > _MAX_COLLINEAR * float(normal[0, 0] * normal[1, 1]):
            return Unknown("its own use and that of its neighbours rise and fall together")
        inverse = np.linalg.inv(normal)
        slopes = inverse @ centred[:2, 2]
        rest = max(0.0, float(centred[2, 2] - slopes @ centred[:2, 2])) / max(1.0, weight - 3.0)
        half = _Z * sqrt(max(0.0, rest * float(inverse[1, 1])))
        value, high, low = (expm1(min(3.0, entry)) for entry in (slopes[1], slopes[1] + half, slopes[1] - half))
        return figure(value, max(high - value, value - low), self.samples, FigureSource.LEARNED)


class AxisMoments:
    """The sums of one workload."""

    __slots__ = (
        "bound",
        "cache",
        "cpu",
        "cpu_use",
        "disk",
        "disk_use",
        "memory_use",
        "network_use",
        "run_queue",
        "seen_s",
        "start_use",
    )

    def __init__(self) -> None:
        self.disk_use, self.disk, self.network_use = ShareMoments(), ShareMoments(), ShareMoments()
        self.bound = {resource: ShareMoments() for resource in WorkloadBound}
        self.cpu_use, self.memory_use, self.start_use = ShareMoments(), ShareMoments(), ShareMoments()
        self.cpu, self.cache, self.run_queue = ShareMoments(), ShareMoments(), ShareMoments()
        self.seen_s = -inf

    def add(
        self,
        shares: tuple[float, float, float],
        signals: tuple[float | None, float | None, float | None],
        *,
        starting: bool,
        age_s: float,
    ) -> None:
        """One window of a pod. Shares of its node's capacity: own CPU, own memory, the others' CPU. Signals:
        latency over objective, cycles per instruction, wait per CPU time; None = not measured.
        """
        own, memory, others = shares
        (self.start_use if starting else self.cpu_use).add(own, others, own, age_s)
        self.memory_use.add(own, others, memory, age_s)
        latency, cpi, wait = signals
        if latency is not None and latency > 0.0 and not starting:
            self.cpu.add(own, others, float(np.log(latency)), age_s)
        if cpi is not None and cpi > 0.0 and not starting:
            self.cache.add(own, others, float(np.log(cpi)), age_s)
        if wait is not None and wait >= 0.0 and not starting:
            self.run_queue.add(own, others, log1p(wait), age_s)

    def add_waits(self, cpu_m: int, signals: PodSignals, others_disk: float, age_s: float) -> None:
        """The same window's disks, network and waits; `others_disk`: the share of the disks' time that others use.

        A pod that is held by a disk for a share w of its time needs 1 / (1 - w) of the time that it computes: the
        logarithm of that is compared with others' use.
        """
        alone, wait = disk_alone(signals), signals.disk_stall
        if alone is not None:
            self.disk_use.add(alone, others_disk, alone, age_s)
            if wait is not None:
                self.disk.add(alone, others_disk, -log1p(-min(wait, LONGEST_WAIT)), age_s)
        if signals.network_use is not None:
            self.network_use.add(signals.network_use, 0.0, signals.network_use, age_s)
        for resource, share in shares(cpu_m, signals).items():
            self.bound[resource].add(0.0, 0.0, share, age_s)

    def bounds(self) -> dict[WorkloadBound, Reading]:
        """The mean share of each resource in what held the workload."""
        return {resource: moments.mean(NO_BOUND[resource]) for resource, moments in self.bound.items()}

    def readings(self) -> dict[ProfileAxis, AxisReading]:
        """Every axis."""
        return {
            ProfileAxis.CPU: AxisReading(self.cpu_use.mean(NO_LATER_USE), self.cpu.slope(NO_LATENCY)),
            ProfileAxis.CACHE: AxisReading(NO_CACHE_USE, self.cache.slope(NO_PMU)),
            ProfileAxis.MEMORY_BANDWIDTH: AxisReading(NO_CACHE_USE, NO_BANDWIDTH),
            ProfileAxis.MEMORY: AxisReading(self.memory_use.mean(NO_USE), ONLY_RUN),
            ProfileAxis.DISK: AxisReading(self.disk_use.mean(NO_DISK_USE), self.disk.slope(NO_DISK_WAIT)),
            ProfileAxis.NETWORK: AxisReading(self.network_use.mean(NO_NETWORK_USE), NETWORK_RUN),
            ProfileAxis.RUN_QUEUE: AxisReading(NO_QUEUE_USE, self.run_queue.slope(NO_WAIT)),
            ProfileAxis.START_UP: AxisReading(self.start_use.mean(NO_START), ONLY_RESTART),
        }


def differs(written: Learned, now: Learned) -> bool:
    """Whether any figure has changed enough to be written again."""
    before, after = _flat(*written), _flat(*now)
    return len(before) != len(after) or any(_changed(a, b) for a, b in zip(before, after, strict=True))


def _flat(
    axes: Mapping[ProfileAxis, AxisReading], overall: Overall, bound: Mapping[WorkloadBound, Reading]
) -> list[Reading]:
    shares = [bound[resource] for resource in WorkloadBound if resource in bound]
    parts = [part for axis in ProfileAxis if axis in axes for part in (axes[axis].tendency, axes[axis].sensitivity)]
    return [*parts, *shares, overall.sensitivity, overall.pressure, overall.tolerates]


def _changed(before: Reading, after: Reading) -> bool:
    if isinstance(before, Unknown) or isinstance(after, Unknown):
        # a reason with a growing number in it is no news
        return isinstance(before, ProfileFigure) or isinstance(after, ProfileFigure)
    moved = abs(after.value - before.value)
    return moved >= max(MIN_CHANGE, MIN_CHANGE_SHARE * before.value) or after.samples >= 2 * max(
        before.samples, MIN_WINDOWS
    )
