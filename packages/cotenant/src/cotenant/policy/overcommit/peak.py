"""The peak policy: lend what prod pods will not use, at a stated risk.

Upstream lends a fixed share of the capacity minus present use. On a calm node that leaves a third of the machine idle,
on a restless one it is no protection, and the administrator cannot say which risk the share stands for. Lend down to
the predicted peak of high-priority use until the next measurement,

    batch = capacity - level - reserve - requests of unmeasured pods

where the level is a mix of present use and each pod's recent mean, and the reserve is the quantile of recent rises of
use above that level from one measurement to the next, of the pods that were present at both: use that jitters returns
to its mean, use that climbs does not, and the rises measure both. The quantile's level starts at the stated risk
divided by the measurements an hour and is corrected by feedback from the hours in which prod + lent exceeded the
capacity (adaptive conformal inference), so that the risk is kept whatever the distribution is and whatever hysteresis
adds. Rises of a node with a short history are mixed with those of all nodes. An unmeasured pod counts by its request,
or by the class's quantile of use over request once that is known. N-sigma and percentile predictors are parts that may
be switched on; the largest counts. A process that has just started takes the reserve that its predecessor wrote on the
node until it has seen enough.

Limits: risk is of the sum of measured means over the report interval; shorter bursts are the agent's matter. One risk
for all nodes. Sources: Bashir et al., "Take it to the limit", EuroSys 2021 (predictors; risk of exceeding the peak);
Gibbs and Candes, "Adaptive conformal inference under distribution shift", NeurIPS 2021.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import exp, sqrt

from cotenant.model.cluster.qos import PriorityClass
from cotenant.model.errors import InvalidInput
from cotenant.policy.overcommit.facts import Amount, Policy, summed
from cotenant.policy.overcommit.histogram import DecayedHistogram

_MIN_SHARE = 0.0005  # of capacity: smaller rises count as none


@dataclass(frozen=True, slots=True)
class PeakSettings:
    """Settings of the policy. `risk` is the share of node-hours in which prod + lent may exceed the capacity."""

    risk: float = 0.01
    half_life_s: float = 6 * 3600.0
    present_weight: float = 0.5  # of present use in the level; the rest is the recent mean
    mean_half_life_s: float = 300.0  # of the recent mean
    prior_weight: float = 8.0  # what all nodes' rises weigh in one node's, in samples
    warm_samples: float = 24.0  # of all nodes together, before rises are believed
    sigmas: float = 0.0  # N of the N-sigma part; 0 = off
    percentile: float = 0.0  # share of each pod's use in the percentile part; 0 = off
    cold_percentile: float = 0.95  # of use over request within a class, for unmeasured pods

    def __post_init__(self) -> None:
        if not 0 < self.risk < 1:
            raise InvalidInput("peak risk", self.risk, "between 0 and 1")
        if not (0 <= self.present_weight <= 1 and self.mean_half_life_s > 0 and self.half_life_s > 0):
            raise InvalidInput("peak level", self.present_weight, "a weight from 0 to 1, and half-lives above 0")


@dataclass(frozen=True, slots=True)
class MeasuredPodUse:
    """One high-priority pod at a measurement; `use` is None where it was not measured. Unit: that of the resource."""

    priority_class: PriorityClass
    request: int
    use: int | None


@dataclass(frozen=True, slots=True)
class LearntPool:
    """What is learnt from all nodes together: rises in share of capacity, use over request by class, and the level
    of the quantile.
    """

    rises: DecayedHistogram
    ratios: Mapping[PriorityClass, DecayedHistogram]
    level: float  # allowed share of measurements in which use exceeds the prediction


@dataclass(frozen=True, slots=True)
class PeakHistory:
    """What is learnt of one node."""

    rises: DecayedHistogram
    pods: Mapping[str, DecayedHistogram] = field(default_factory=dict)
    levels: Mapping[str, float] = field(default_factory=dict)  # by pod, after the last measurement
    means: Mapping[str, float] = field(default_factory=dict)  # recent mean, by pod
    at_s: float = 0.0  # of the last measurement
    seeded_reserve: float | None = None  # share of capacity, as a predecessor wrote it


def new_pool(settings: PeakSettings, samples_per_hour: float) -> LearntPool:
    """Nothing learnt yet."""
    return LearntPool(
        DecayedHistogram(_MIN_SHARE, settings.half_life_s), {}, settings.risk / max(1.0, samples_per_hour)
    )


def new_history(settings: PeakSettings, seeded_reserve: float | None = None) -> PeakHistory:
    """Nothing learnt yet, or a predecessor's reserve."""
    return PeakHistory(DecayedHistogram(_MIN_SHARE, settings.half_life_s), seeded_reserve=seeded_reserve)


def observe(
    history: PeakHistory,
    pool: LearntPool,
    pods: Mapping[str, MeasuredPodUse],
    capacity: int,
    settings: PeakSettings,
    now_s: float,
) -> tuple[PeakHistory, LearntPool]:
    """Learn from one measurement of one node."""
    use = {key: pod.use for key, pod in pods.items() if pod.use is not None}
    both = use.keys() & history.levels.keys()
    rises, of_all = history.rises, pool.rises
    if both and capacity > 0:
        rise = max(0.0, sum(use[key] - history.levels[key] for key in both) / capacity)
        rises = rises.added(rise, now_s)
        of_all = of_all.added(rise, now_s)
    kept = history.pods
    if settings.percentile or settings.sigmas:
        empty = DecayedHistogram(max(1.0, capacity / 50_000), settings.half_life_s)
        kept = {key: history.pods.get(key, empty).added(amount, now_s) for key, amount in use.items()}
    ratios = dict(pool.ratios)
    for key, pod in pods.items():
        if pod.use is not None and pod.request > 0 and key not in history.levels:
            known = ratios.get(pod.priority_class) or DecayedHistogram(0.01, settings.half_life_s)
            ratios[pod.priority_class] = known.added(pod.use / pod.request, now_s)
    fade = 0.5 ** (max(0.0, now_s - history.at_s) / settings.mean_half_life_s)
    means = {key: amount + fade * (history.means.get(key, amount) - amount) for key, amount in use.items()}
    weight = settings.present_weight
    levels = {key: weight * amount + (1 - weight) * means[key] for key, amount in use.items()}
    learnt = replace(history, rises=rises, pods=kept, levels=levels, means=means, at_s=max(now_s, history.at_s))
    return learnt, replace(pool, rises=of_all, ratios=ratios)


def calibrated(pool: LearntPool, broken: int, hours: int, settings: PeakSettings) -> LearntPool:
    """The pool after so many node-hours, `broken` of which exceeded the capacity: the level falls when more broke
    than the risk allows, and rises when fewer did.
    """
    if hours <= 0:
        return pool
    step = min(0.2, 0.5 * hours * settings.risk) * (settings.risk - broken / hours) / settings.risk
    return replace(pool, level=min(0.2, max(1e-5, pool.level * exp(max(-1.0, step)))))


def reserve(history: PeakHistory, pool: LearntPool, settings: PeakSettings) -> float | None:
    """Share of the capacity to keep against a rise of use; None while too little is known."""
    if pool.rises.weight < settings.warm_samples:
        return history.seeded_reserve
    found = history.rises.quantile(1.0 - pool.level, pool.rises, settings.prior_weight)
    seeded = history.seeded_reserve
    if seeded is not None and history.rises.weight < settings.warm_samples:
        found = max(found, seeded)
    return found


def peak_amount(
    resource: str,
    history: PeakHistory,
    pool: LearntPool,
    pods: Mapping[str, MeasuredPodUse],
    capacity: int,
    beside: int,
    settings: PeakSettings,
    limit_pct: int | None = None,
) -> Amount:
    """What may be lent of one resource. `beside` is the larger of system use and reservation."""
    measured = {key: pod.use for key, pod in pods.items() if pod.use is not None}
    use = sum(measured.values())
    level = round(sum(history.levels.get(key, amount) for key, amount in measured.items()))
    kept = reserve(history, pool, settings)
    if kept is None:  # cold start: by requests
        most = sum(max(pod.request, pod.use or 0) for pod in pods.values())
        amount = summed(
            resource,
            Policy.PEAK,
            ("capacity", capacity),
            ("system", -beside),
            ("use or request of prod and mid pods, the larger of each (cold start)", -most),
        )
    else:
        amount = summed(
            resource,
            Policy.PEAK,
            ("capacity", capacity),
            ("system", -beside),
            ("use of prod and mid pods", -use),
            ("towards its recent mean", use - level),
            (f"reserve against rises at {settings.risk * 100:g} % risk", -round(kept * capacity)),
            ("unmeasured pods", -_unmeasured(pods, pool, settings)),
        )
        for name, peak in _parts(history, pods, settings):
            amount = amount.then(f"{name} predictor", max(0, min(amount.value, capacity - beside - peak)))
    if limit_pct is not None:
        amount = amount.then(f"limit of {limit_pct} %", min(amount.value, capacity * limit_pct // 100))
    return amount


def n_sigma(history: PeakHistory, sigmas: float) -> float:
    """Sum of the pods' means plus so many standard deviations, of pods that move independently."""
    found = list(history.pods.values())
    return sum(histogram.mean for histogram in found) + sigmas * sqrt(sum(histogram.variance for histogram in found))


def percentile(history: PeakHistory, share: float) -> float:
    """Sum of each pod's percentile of use."""
    return sum(pod.quantile(share) for pod in history.pods.values())


def _parts(history: PeakHistory, pods: Mapping[str, MeasuredPodUse], settings: PeakSettings) -> list[tuple[str, int]]:
    unmeasured = sum(pod.request for pod in pods.values() if pod.use is None)
    parts = []
    if settings.sigmas:
        parts.append((f"{settings.sigmas:g}-sigma", round(n_sigma(history, settings.sigmas)) + unmeasured))
    if settings.percentile:
        parts.append((f"p{settings.percentile * 100:g}", round(percentile(history, settings.percentile)) + unmeasured))
    return parts


def _unmeasured(pods: Mapping[str, MeasuredPodUse], pool: LearntPool, settings: PeakSettings) -> int:
    total = 0.0
    for pod in pods.values():
        if pod.use is None:
            known = pool.ratios.get(pod.priority_class)
            share = 1.0
            if known is not None and known.weight >= settings.warm_samples:
                share = min(1.0, known.quantile(settings.cold_percentile))
            total += pod.request * share
    return round(total)
