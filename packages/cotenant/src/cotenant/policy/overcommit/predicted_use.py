"""How much CPU and memory a pod on a node is expected to use at most, at a stated risk.

A node's lent amounts say how much batch pods may request, not how much they and the services beside them will use:
batch pods may use more than they request, and an amount is as old as the last measurement. Each pod counts with mean +
z x standard deviation of its measured use, weights halving every `half_life_s`, never with less than its last
measurement; z is the standard normal quantile of the stated risk. Once there are 1 / risk measurements, a pod counts
with no more than the highest of them, which fades towards the mean with the same half-life: a day's sine curve has a
large deviation and a known peak. The request counts like `prior_samples` measurements as long as it is the larger, so a
pod without history counts with its request, and one with a short history between both. Where the node's measurement is
stale, each pod counts with the larger of its request and its last prediction.

Limits: for normally distributed use the sum over pods is exceeded with at most the stated risk, however the pods are
correlated, because standard deviations are subadditive; for heavy tails it is exceeded more often. The risk is of means
over a report interval. CPU and memory only.
Source: N-sigma predictor of Bashir et al., "Take it to the limit", EuroSys 2021.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil, inf, isfinite, sqrt
from statistics import NormalDist
from typing import NamedTuple

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_metric import ReportedHistory, Use, UseSpread
from cotenant.model.resources import CPU_NAME, LENT_CPU, LENT_MEMORY, MEMORY_NAME, Amounts

LENT = (*LENT_CPU, *LENT_MEMORY)
_CPU = (CPU_NAME, *LENT_CPU)
_MEMORY = (MEMORY_NAME, *LENT_MEMORY)
_STALE_INTERVALS = 3


@dataclass(frozen=True)
class PredictedUseSettings:
    """Settings of one cluster. Raises `InvalidInput`."""

    risk: float = 0.01  # share of time in which a pod may use more than it counts with
    half_life_s: float = 6 * 3600.0
    prior_samples: float = 3.0  # measurements that the request counts like
    cpu_limit_pct: int = 100  # of a node's CPU that may be predicted in use
    memory_limit_pct: int = 100
    stale_s: float = 180.0  # an older measurement does not count; at least three of its report intervals

    def __post_init__(self) -> None:
        if not 0 < self.risk < 0.5:
            raise InvalidInput("predicted use: risk", self.risk, "a share above 0 and below 0.5")
        for name in ("half_life_s", "stale_s"):
            value = getattr(self, name)
            if not (isfinite(value) and value > 0):
                raise InvalidInput(f"predicted use: {name}", value, "seconds above 0")
        if not (isfinite(self.prior_samples) and self.prior_samples >= 0):
            raise InvalidInput("predicted use: prior_samples", self.prior_samples, "0 or more")
        for name in ("cpu_limit_pct", "memory_limit_pct"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1000:
                raise InvalidInput(f"predicted use: {name}", value, "whole percent, 1 to 1000")

    @cached_property
    def sigmas(self) -> float:
        """z: standard deviations above the mean that the risk stands for."""
        return NormalDist().inv_cdf(1.0 - self.risk)

    def expires_s(self, interval_s: int) -> float:
        """The age at which a measurement with this report interval is stale."""
        return max(self.stale_s, float(_STALE_INTERVALS * interval_s))


class UseMoments(NamedTuple):
    """Decayed mean and sum of squared deviations of one resource, the last value, and the highest one, which fades
    towards the mean.
    """

    mean: float
    squares: float
    last: int
    highest: float


class PodUseHistory(NamedTuple):
    """What was measured of one pod. `weight` is the decayed number of measurements, `samples` their number."""

    at_s: float = -inf
    samples: int = 0
    weight: float = 0.0
    cpu: UseMoments = UseMoments(0.0, 0.0, 0, 0.0)
    memory: UseMoments = UseMoments(0.0, 0.0, 0, 0.0)

    def measured(self, use: Use, at_s: float, settings: PredictedUseSettings) -> PodUseHistory:
        """With one more measurement. Time that goes back does not decay. Raises `InvalidInput` for a negative
        amount.
        """
        if min(use) < 0:
            raise InvalidInput("measured use", str(tuple(use)), "amounts that are not negative")
        fade = 0.5 ** (max(0.0, at_s - self.at_s) / settings.half_life_s) if self.samples else 0.0
        weight = self.weight * fade + 1.0
        return PodUseHistory(
            max(at_s, self.at_s),
            self.samples + 1,
            weight,
            _moved(self.cpu, use.cpu_m, fade, weight),
            _moved(self.memory, use.memory_bytes, fade, weight),
        )


UNMEASURED = PodUseHistory()


def reported(history: PodUseHistory) -> ReportedHistory:
    """The history as an agent reports it."""

    def spread(moments: UseMoments) -> UseSpread:
        deviation = sqrt(max(0.0, moments.squares / history.weight))
        return UseSpread(max(0.0, moments.mean), deviation, max(0.0, moments.highest))

    return ReportedHistory(history.samples, history.weight, spread(history.cpu), spread(history.memory))


def continued(known: ReportedHistory, last: Use, at_s: float) -> PodUseHistory:
    """The history that an agent reported with its last measurement. Raises `InvalidInput` for a negative amount."""
    if min(last) < 0:
        raise InvalidInput("measured use", str(tuple(last)), "amounts that are not negative")

    def moments(spread: UseSpread, value: int) -> UseMoments:
        return UseMoments(spread.mean, spread.deviation**2 * known.weight, value, max(spread.highest, float(value)))

    cpu, memory = moments(known.cpu, last.cpu_m), moments(known.memory, last.memory_bytes)
    return PodUseHistory(at_s, known.samples, known.weight, cpu, memory)


class PodHistories:
    """The histories of one node's pods, by UID, as its agent keeps them. Mutable."""

    def __init__(self, settings: PredictedUseSettings | None = None) -> None:
        self._settings = settings or PredictedUseSettings()
        self._pods: dict[str, PodUseHistory] = {}

    def measured(self, use: Mapping[str, Use], at_s: float) -> dict[str, ReportedHistory]:
        """Add one measurement of every pod; pods that are not measured are forgotten."""
        settings, before = self._settings, self._pods
        self._pods = {uid: before.get(uid, UNMEASURED).measured(entry, at_s, settings) for uid, entry in use.items()}
        return {uid: reported(history) for uid, history in self._pods.items()}


def _moved(before: UseMoments, value: int, fade: float, weight: float) -> UseMoments:
    """West's update of a weighted mean and variance."""
    delta = value - before.mean
    mean = before.mean + delta / weight
    highest = max(float(value), mean + (before.highest - mean) * fade)
    return UseMoments(mean, before.squares * fade + delta * (value - mean), value, highest)


def requested_use(requests: Amounts) -> Use:
    """What a pod requests of CPU and memory, of any class: lent resources are of the same machine."""
    return Use(sum(map(requests.get, _CPU)), sum(map(requests.get, _MEMORY)))


def is_lent_to(requests: Amounts) -> bool:
    """Whether a pod requests lent resources."""
    return any(name in requests and requests.get(name) > 0 for name in LENT)


def predicted_use(request: Use, history: PodUseHistory, is_fresh: bool, settings: PredictedUseSettings) -> Use:
    """What a pod counts with. `is_fresh`: whether its node's measurement is not stale."""
    if not history.samples:
        return request
    return Use(
        _one(request.cpu_m, history.cpu, history.weight, is_fresh, settings),
        _one(request.memory_bytes, history.memory, history.weight, is_fresh, settings),
    )


def _one(request: int, moments: UseMoments, weight: float, is_fresh: bool, settings: PredictedUseSettings) -> int:
    deviation = sqrt(max(0.0, moments.squares / weight))
    most = moments.mean + settings.sigmas * deviation
    if weight * settings.risk >= 1.0:
        most = min(most, moments.highest)
    most = max(most, float(moments.last))
    if request > most:
        prior = settings.prior_samples
        most = most + (request - most) * prior / (prior + weight) if is_fresh else float(request)
    return ceil(most)
