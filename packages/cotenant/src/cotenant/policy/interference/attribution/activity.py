"""What each candidate did at each sample: the columns of a fit.

A candidate is another pod, the service's own load, or work outside the pods. Latency describes the window in which it
was measured, so activity is averaged over that window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

from cotenant.model.devices.card_sample import CardPath
from cotenant.policy.interference.attribution.cards import NO_POD
from cotenant.policy.interference.attribution.samples import AttributionSample, ServiceSample
from cotenant.policy.interference.attribution.settings import EvidenceSignal

Pairs = Sequence[tuple[AttributionSample, ServiceSample]]


class ActivityMeasure(StrEnum):
    """What a pod takes from a service, by which its activity is measured."""

    CPU = "CPU"  # milli-CPU
    WORK = "work"  # milli-CPU as if its cycles per instruction never changed, where they are known
    DISK = "disk"  # bytes per second, read and written
    SM = CardPath.SM.value  # of the service's cards, thousandths
    BANDWIDTH = CardPath.MEMORY_BANDWIDTH.value  # of their memory, thousandths
    PCIE = CardPath.PCIE.value  # bytes per second under the same root

    @property
    def path(self) -> CardPath | None:
        """The path on a card; None of what the host has."""
        return CardPath(self.value) if self.value in CARD_PATHS else None


CARD_PATHS = frozenset({CardPath.SM.value, CardPath.MEMORY_BANDWIDTH.value, CardPath.PCIE.value})


class Own(StrEnum):
    """Candidates that are no pod; a pod's is its uid."""

    LOAD = "own load"
    OUTSIDE = "outside"  # work in no pod, and time stolen by the hypervisor


def demand_of(pairs: Pairs) -> Callable[[ServiceSample], float]:
    """What a service is asked for, by what is known of all its samples.

    The same work takes more CPU time where it waits for memory or a cache.
    """
    if all(sample.rate_milli is not None for _, sample in pairs):
        return lambda sample: float(sample.rate_milli or 0)
    if all(sample.levels.get(EvidenceSignal.CPI) for _, sample in pairs):
        return lambda sample: sample.cpu_m / sample.levels[EvidenceSignal.CPI]
    return lambda sample: float(sample.cpu_m)


def column(
    name: str, known: Pairs, pairs: Pairs, averaged: bool, means: ActivityMeasure = ActivityMeasure.CPU
) -> list[float]:
    """One candidate's activity at each sample, over the window that the latency of the sample describes."""
    if name == Own.LOAD and means.path is None:
        demand = demand_of(known)
        return [demand(service) for _, service in known]
    amount: Callable[[AttributionSample], float]
    if name == Own.LOAD:
        amount = of_pod(known[0][1].uid, means)
    elif name == Own.OUTSIDE:
        amount = _outside if means.path is None else of_pod(NO_POD, means)
    elif name == "stolen":
        amount = _stolen
    else:
        amount = of_pod(name, means) if means is not ActivityMeasure.WORK else work_of(name, pairs)
    if not averaged:
        return [amount(sample) for sample, _ in known]
    return [_over_window(sample, service, pairs, amount) for sample, service in known]


def _outside(sample: AttributionSample) -> float:
    return float(sample.outside_m)


def _stolen(sample: AttributionSample) -> float:
    """In milli-CPU."""
    return sample.steal_ppm * sample.cpus / 1000


def of_pod(uid: str, means: ActivityMeasure) -> Callable[[AttributionSample], float]:
    """How much a pod takes, of its CPU, its disk, or the service's cards."""
    path = means.path
    if path is not None:
        return lambda sample: float(sample.beside.taken.get(path, {}).get(uid, 0))
    if means is ActivityMeasure.DISK:
        return lambda sample: float(sample.disk.get(uid, 0))
    return lambda sample: float(sample.activity.get(uid, 0))


def work_of(uid: str, pairs: Pairs) -> Callable[[AttributionSample], float]:
    """The same work takes a pod more CPU time while a neighbour slows it down: what it uses more is no cause."""
    usual = mean([float(sample.cpi_milli[uid]) for sample, _ in pairs if uid in sample.cpi_milli])
    return lambda sample: (
        sample.activity.get(uid, 0) * (usual / sample.cpi_milli[uid] if uid in sample.cpi_milli else 1.0)
    )


def _over_window(
    sample: AttributionSample, service: ServiceSample, pairs: Pairs, amount: Callable[[AttributionSample], float]
) -> float:
    """Mean activity over the latency window, by the overlap of each interval with it; of the sample itself where
    none overlaps.
    """
    begin_us, end_us = window(sample, service)
    total = weight = 0.0
    for other, _ in pairs:
        overlap = min(end_us, other.at_us) - max(begin_us, other.at_us - other.length_us)
        if overlap > 0:
            total += overlap * amount(other)
            weight += overlap
    return total / weight if weight else amount(sample)


def window(sample: AttributionSample, service: ServiceSample) -> tuple[int, int]:
    """From when to when the latency of a sample was measured."""
    end_us = sample.at_us - service.age_us
    return end_us - max(service.window_us, sample.length_us), end_us


def mean_over_time(pairs: Pairs, amount: Callable[[AttributionSample], float]) -> float:
    """The mean of a sample's amount by the time that each sample is of; 0 without samples."""
    total_us = sum(sample.length_us for sample, _ in pairs)
    return sum(amount(sample) * sample.length_us for sample, _ in pairs) / total_us if total_us else 0.0


def mean(values: Sequence[float]) -> float:
    """The mean; 0 without values."""
    return sum(values) / len(values) if values else 0.0
