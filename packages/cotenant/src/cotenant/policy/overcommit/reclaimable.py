"""What prod pods request and are predicted not to use, from decayed histograms of their use: a NodeMetric's
`prodReclaimableMetric`.

Mid pods may request what prod pods will not use for hours; a mean of minutes does not know the daily peak. Upstream's
two predictions, of which the smaller counts. By pods: the sum over prod pods of what is left of each request above its
peak (p95 of CPU, p98 of memory, and a margin). By class: all requests less the peak of what prod pods, programs of
their class and the system use together, with the margin. A pod that has been observed for less than the cold start
counts with its full request in the first. Time is the time observed, so a clock that jumps and a process that is down
age nothing.
Limits: CPU of pods on CPUs of their own is left out of both, since no other pod may run there (upstream counts it); a
pod's history begins anew with its UID.

Source: Koordinator, pkg/koordlet/prediction (histograms of 5 % growth, half-lives, percentiles, margin, cold start and
expiry).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

import numpy as np

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_metric import NO_USE, Use
from cotenant.policy.overcommit.histogram import DecayedHistogram

GROWTH = 1.05
MIN_CPU_M, CPU_BUCKETS, CPU_HALF_LIFE_S = 25.0, 220, 12 * 3600.0  # to 1024 CPUs
MIN_MEMORY, MEMORY_BUCKETS, MEMORY_HALF_LIFE_S = float(5 << 20), 268, 24 * 3600.0  # to 2 TiB
CPU_PERCENTILE, MEMORY_PERCENTILE = 0.95, 0.98


@dataclass(frozen=True, slots=True)
class ReclaimableConfig:
    """Upstream's defaults."""

    cold_start_s: float = 24 * 3600.0  # a pod observed for less keeps its request
    margin_pct: int = 10  # on top of a peak
    expiry_s: float = 1800.0  # a pod that is gone for longer is forgotten

    def __post_init__(self) -> None:
        if not 0 <= self.margin_pct <= 1000:
            raise InvalidInput("margin", self.margin_pct, "0 to 1000 percent")
        if self.cold_start_s < 0 or self.expiry_s < 0:
            raise InvalidInput("cold start", self.cold_start_s, "a time of 0 or more")


@dataclass(frozen=True, slots=True)
class ProdPod:
    """A pod whose unused requests may be lent, as of now."""

    uid: str
    request: Use
    use: Use | None  # None: not measured
    own_cpus: bool = False  # it has CPUs that no other pod may use


def _cpu() -> DecayedHistogram:
    return DecayedHistogram(MIN_CPU_M, CPU_HALF_LIFE_S, counts=np.zeros(CPU_BUCKETS), growth=GROWTH)


def _memory() -> DecayedHistogram:
    return DecayedHistogram(MIN_MEMORY, MEMORY_HALF_LIFE_S, counts=np.zeros(MEMORY_BUCKETS), growth=GROWTH)


@dataclass(frozen=True, slots=True)
class ReclaimableHistory:
    """Use of a pod or of a class. `first_s`, `last_s`: of its observations, on the clock of `Histories`."""

    first_s: float
    last_s: float
    cpu: DecayedHistogram = field(default_factory=_cpu)
    memory: DecayedHistogram = field(default_factory=_memory)

    def added(self, use: Use, now_s: float) -> ReclaimableHistory:
        """With one more observation."""
        return ReclaimableHistory(
            self.first_s, now_s, self.cpu.added(use.cpu_m, now_s), self.memory.added(use.memory_bytes, now_s)
        )

    def peak(self, margin_pct: int) -> Use:
        """The predicted peak; the upper edges of the buckets, so never understated."""
        cpu = max(self.cpu.quantile(CPU_PERCENTILE), self.cpu.least)
        memory = max(self.memory.quantile(MEMORY_PERCENTILE), self.memory.least)
        return Use(ceil(cpu * (100 + margin_pct) / 100), ceil(memory * (100 + margin_pct) / 100))


@dataclass(frozen=True, slots=True)
class Histories:
    """All histories of a node. `now_s` counts the time observed."""

    now_s: float = 0.0
    pods: Mapping[str, ReclaimableHistory] = field(default_factory=dict)
    together: ReclaimableHistory | None = (
        None  # prod pods without CPUs of their own, programs of their class, and the system
    )


@dataclass(frozen=True, slots=True)
class Reclaimable:
    """The prediction with its two sides."""

    value: Use
    by_pods: Use
    by_class: Use
    warm: int  # pods observed for the cold start
    cold: int


def trained(
    histories: Histories, pods: Sequence[ProdPod], beside: Use, elapsed_s: float, config: ReclaimableConfig
) -> Histories:
    """After one more observation of all pods. `beside`: use of the system and of programs of the class;
    `elapsed_s`: since the last one.
    """
    now_s = histories.now_s + max(0.0, elapsed_s)
    kept = {
        uid: use_history for uid, use_history in histories.pods.items() if now_s - use_history.last_s <= config.expiry_s
    }
    total = beside
    for pod in pods:
        before = histories.pods.get(pod.uid) or ReclaimableHistory(now_s, now_s)
        if pod.use is not None:
            kept[pod.uid] = before.added(pod.use, now_s)
            total = total.plus(Use(0 if pod.own_cpus else pod.use.cpu_m, pod.use.memory_bytes))
        elif pod.uid in histories.pods:
            kept[pod.uid] = before  # present, and not measured now
    together = (histories.together or ReclaimableHistory(now_s, now_s)).added(total, now_s)
    return Histories(now_s, kept, together)


def reclaimable(
    histories: Histories, pods: Sequence[ProdPod], allocatable: Use, config: ReclaimableConfig
) -> Reclaimable | None:
    """The prediction for the pods that are here; None before the first observation. Nothing below 0, nothing above
    `allocatable`.
    """
    if histories.together is None:
        return None
    by_pods, requested, warm = NO_USE, NO_USE, 0
    for pod in pods:
        request = Use(0 if pod.own_cpus else pod.request.cpu_m, pod.request.memory_bytes)
        requested = requested.plus(request)
        known = histories.pods.get(pod.uid)
        if known is None or histories.now_s - known.first_s < config.cold_start_s:
            continue
        warm += 1
        by_pods = by_pods.plus(request.beyond(known.peak(config.margin_pct)))
    by_class = requested.beyond(histories.together.peak(config.margin_pct))
    value = Use(*(max(0, min(amounts)) for amounts in zip(by_pods, by_class, allocatable, strict=True)))
    return Reclaimable(value, by_pods, by_class, warm, len(pods) - warm)
