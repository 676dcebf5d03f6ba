"""Model servers: what an objective asks of a generated answer, and what a server says of itself in its metrics.

A request to a language model has no single latency: it waits, its first token appears, the others follow. Limits are in
whole microseconds. A server's histogram counts observations at its own edges only, so a limit that is no edge cannot be
counted exactly, and is not counted at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

LONGEST_EDGE_US = 10**12  # beyond it an edge is taken for none


class ModelMeasure(StrEnum):
    """What of a generated answer takes time."""

    TIME_TO_FIRST_TOKEN = "timeToFirstToken"  # from the arrival; the first chunk where only that is said
    TIME_PER_OUTPUT_TOKEN = "timePerOutputToken"  # mean of a request, after its first token
    INTER_TOKEN_LATENCY = "interTokenLatency"  # each gap: it counts tokens, not requests
    QUEUE_TIME = "queueTime"
    DURATION = "duration"


class GoalSource(StrEnum):
    """What the requests are counted from."""

    METRICS = "metrics"  # histograms of the server's /metrics
    SPANS = "spans"  # attributes of the SERVER spans of its requests


@dataclass(frozen=True, slots=True)
class ModelGoal:
    """A request is good where all limits hold. Several limits can be counted from spans only: histograms do not say
    which of their observations belong to one request.
    """

    limits_us: Mapping[ModelMeasure, int] = field(default_factory=dict)
    source: GoalSource = GoalSource.METRICS
    model: str = ""  # empty: every model of the service

    @property
    def only(self) -> tuple[ModelMeasure, int] | None:
        """Its only limit; None where it has several."""
        return next(iter(self.limits_us.items())) if len(self.limits_us) == 1 else None

    @property
    def counted(self) -> tuple[object, ...]:
        """What the counts depend on."""
        return (tuple(sorted(self.limits_us.items())), self.source, self.model)


@dataclass(frozen=True, slots=True)
class ServerHistogram:
    """One series of a histogram, as it stands: cumulative over edges and over the life of the process."""

    measure: ModelMeasure
    model: str
    series: str  # which of several with this measure and model: an engine, a rank
    edges_us: tuple[int, ...]  # ascending; without the last, infinite one
    at_most: tuple[int, ...]  # observations at or below each edge
    total: int  # all observations


@dataclass(frozen=True, slots=True)
class ModelServerReading:
    """One answer of a server."""

    server: str  # vllm, sglang, ...
    histograms: tuple[ServerHistogram, ...] = ()
    started_s: float | None = None  # Unix time of the process's start, where it says so
    generated_tokens: int | None = None  # since its start
    running: int | None = None  # requests now
    waiting: int | None = None


@dataclass(frozen=True, slots=True)
class NewObservations:
    """What a series has counted since it was last read: observations in each bucket, the last one beyond all edges."""

    measure: ModelMeasure
    model: str
    edges_us: tuple[int, ...]
    counts: tuple[int, ...]  # one more than the edges
