"""Forecast of a node's use as a quantile of its past use: a histogram with exponential decay.

Use exceeds the last mean half of the time, and a node that is calm at this moment is filled up before its next peak.
Samples go into a histogram with buckets that grow by 5 %, and a sample's weight halves every `half_life_s`; the
forecast is the upper edge of the bucket that contains the quantile, plus a margin, and at least the current use. So a
peak counts for a few half-lives and a rise takes effect at once. Source of the decaying histogram: Autopilot (EuroSys
2020) and Kubernetes' vertical pod autoscaler.
Limits: 5 % resolution; use by pods that have left decays no faster than other use.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from math import ceil, inf, isfinite, log, log1p

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_metric import Use

RATIO = 1.05
_LOG_RATIO = log1p(RATIO - 1.0)
_FIRST_CPU_M = 10.0
_FIRST_BYTES = float(10 << 20)
_LEAST = 1e-4  # a bucket that has decayed to this share of one sample is dropped


@dataclass(frozen=True, slots=True)
class LoadForecast:
    """Quantile, half-life and margin. Raises `InvalidInput`."""

    quantile_pct: int = 95
    half_life_s: float = 600.0
    margin_pct: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.quantile_pct, bool) or not 1 <= self.quantile_pct <= 100:
            raise InvalidInput("forecast: quantile", self.quantile_pct, "1 to 100 per cent")
        if not (isfinite(self.half_life_s) and self.half_life_s > 0):
            raise InvalidInput("forecast: half-life", self.half_life_s, "seconds above 0")
        if isinstance(self.margin_pct, bool) or not 0 <= self.margin_pct <= 100:
            raise InvalidInput("forecast: margin", self.margin_pct, "0 to 100 per cent")


@dataclass(frozen=True, slots=True)
class DecayedHistory:
    """Decayed use up to `at_s`; buckets ascending."""

    at_s: float = -inf
    buckets: tuple[int, ...] = ()
    weights: tuple[float, ...] = ()

    def with_sample(self, value: float, at_s: float, first: float, half_life_s: float) -> DecayedHistory:
        """With one more sample. One older than the last is treated as simultaneous with it."""
        now_s = max(self.at_s, at_s)
        fade = 0.5 ** ((now_s - self.at_s) / half_life_s) if self.buckets else 0.0
        kept = {b: w * fade for b, w in zip(self.buckets, self.weights, strict=True) if w * fade >= _LEAST}
        bucket = 0 if value <= first else max(0, ceil(log(value / first) / _LOG_RATIO - 1e-9))
        kept[bucket] = kept.get(bucket, 0.0) + 1.0
        ordered = sorted(kept)
        return DecayedHistory(now_s, tuple(ordered), tuple(kept[b] for b in ordered))

    def quantile(self, pct: int, first: float) -> float:
        """The upper edge of the bucket that contains the quantile; 0 without samples."""
        if not self.buckets:
            return 0.0
        running, sums = 0.0, []
        for weight in self.weights:
            running += weight
            sums.append(running)
        at = bisect_left(sums, running * pct / 100.0 - 1e-12)
        return first * RATIO ** self.buckets[min(at, len(self.buckets) - 1)]


@dataclass(frozen=True, slots=True)
class ForecastHistory:
    """History of one node."""

    cpu: DecayedHistory = DecayedHistory()
    memory: DecayedHistory = DecayedHistory()

    def with_use(self, use: Use, at_s: float, forecast: LoadForecast) -> ForecastHistory:
        """With its use at a time."""
        return ForecastHistory(
            self.cpu.with_sample(float(use.cpu_m), at_s, _FIRST_CPU_M, forecast.half_life_s),
            self.memory.with_sample(float(use.memory_bytes), at_s, _FIRST_BYTES, forecast.half_life_s),
        )

    def expected(self, use: Use, forecast: LoadForecast) -> Use:
        """The forecast: the quantile plus its margin, at least the current use."""
        factor = 1.0 + forecast.margin_pct / 100.0
        cpu = self.cpu.quantile(forecast.quantile_pct, _FIRST_CPU_M) * factor
        memory = self.memory.quantile(forecast.quantile_pct, _FIRST_BYTES) * factor
        return Use(max(use.cpu_m, round(cpu)), max(use.memory_bytes, round(memory)))


NO_HISTORY = ForecastHistory()
