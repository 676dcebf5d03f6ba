"""A model server's histogram as an SDK sends it by OTLP: one data point of one series.

What it counts since (`start_ns`) is its own: the life of a process where it is cumulative, the time since the last
export where it is a delta. Explicit buckets have edges of their own; exponential ones have `base ** index` with a base
that the SDK makes coarser while the range of what it saw grows.

Source: opentelemetry-proto, metrics.proto; OpenTelemetry's data model of metrics, "ExponentialHistogram".
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.traces.model_server import ModelMeasure
from cotenant.model.traces.spans import SpanSource


@dataclass(frozen=True, slots=True)
class ExplicitBuckets:
    """Observations at or below each edge and above the one before, the last ones beyond all."""

    edges_us: tuple[int, ...]  # ascending
    counts: tuple[int, ...]  # one more than the edges


@dataclass(frozen=True, slots=True)
class ExponentialBuckets:
    """Bucket i has what is above `base ** i` seconds and at most `base ** (i + 1)`; base is `2 ** 2 ** -scale`."""

    scale: int
    counts: tuple[tuple[int, int], ...] = ()  # index and observations of each bucket that has any, ascending
    zero: int = 0  # at or below `zero_us`
    zero_us: int = 0


Buckets = ExplicitBuckets | ExponentialBuckets


@dataclass(frozen=True, slots=True)
class PushedHistogram:
    """One data point. `series`: its attributes, by which it is told from the others of its metric."""

    measure: ModelMeasure
    model: str
    series: str
    is_delta: bool
    start_ns: int
    at_ns: int
    buckets: Buckets


@dataclass(frozen=True, slots=True)
class PushedMetrics:
    """One request: the histograms of each source, and what of them could not be used."""

    sources: tuple[tuple[SpanSource, tuple[PushedHistogram, ...]], ...] = ()
    rejected: int = 0
    problem: str = ""
