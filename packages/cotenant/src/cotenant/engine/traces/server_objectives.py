"""Objectives counted from the histograms of model servers: exact, or not at all.

A histogram counts exactly at its own edges. Where an objective's limit is one, to the microsecond, what lies at or
below it is good; where it is none, nothing is interpolated: the objective counts nothing from that replica and says
which edges are near.
Limits: figures of a replica take each observation at the upper edge of its bucket, and at twice the last edge beyond
it; a good one at 98 % of its edge, since a sketch answers within 1 % and must not put it over the limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cotenant.engine.traces.objectives import Tracked, TrackedObjectives
from cotenant.model.traces.model_server import GoalSource, ModelGoal, ModelMeasure, ModelServerReading, NewObservations
from cotenant.model.traces.objective import ServiceObjective
from cotenant.model.traces.spans import SpanSource

_NEAR = 4  # edges that a person is told


@dataclass(frozen=True, slots=True)
class AskedOfServers:
    """What the objectives of one service ask of histograms, and since when all of them are known."""

    limits_us: frozenset[int]
    since_s: float


class ServerObjectives:
    """What readings of servers count for."""

    def __init__(self, objectives: TrackedObjectives) -> None:
        self._objectives = objectives

    def wanted(self) -> frozenset[str]:
        """The services, NAMESPACE/NAME or NAME, of objectives that are counted from metrics."""
        return frozenset(tracked.objective.qualified_service for tracked in self._of_metrics())

    def asked(self, service: str) -> AskedOfServers | None:
        """What is asked of a service, NAMESPACE/NAME or NAME; None where nothing is."""
        found = [tracked for tracked in self._of_metrics() if tracked.objective.qualified_service == service]
        if not found:
            return None
        limits_us = frozenset(_only(tracked.objective)[2] for tracked in found)
        return AskedOfServers(limits_us, max(tracked.since_s for tracked in found))

    def take(
        self, source: SpanSource, reading: ModelServerReading, new: Sequence[NewObservations], now_s: float
    ) -> int:
        """Count what is new on a replica. How many objectives it counts for."""
        counted = 0
        for tracked in self._of_metrics():
            if tracked.objective.qualified_service != source.qualified_service:
                continue
            if why := _unsuited(tracked.objective, reading):
                self._objectives.cannot_count(tracked, source, why, now_s)
                continue
            tracked.uncounted.pop(source, None)
            counted += self._count(tracked, source, new, now_s)
        return counted

    def failed(self, source: SpanSource, why: str, now_s: float) -> None:
        """A replica could not be read."""
        for tracked in self._of_metrics():
            if tracked.objective.qualified_service == source.qualified_service:
                self._objectives.cannot_count(tracked, source, why, now_s)

    def gone(self, source: SpanSource) -> None:
        """A replica is no more: it is not missed either."""
        for tracked in self._of_metrics():
            tracked.uncounted.pop(source, None)

    def _count(self, tracked: Tracked, source: SpanSource, new: Sequence[NewObservations], now_s: float) -> bool:
        goal, measure, limit_us = _only(tracked.objective)
        for observations in new:
            if observations.measure is measure and goal.model in ("", observations.model):
                edges_us, counts = observations.edges_us, np.array(observations.counts, np.int64)
                beyond_us = edges_us[-1] * 2
                uppers_us = np.array((*edges_us, beyond_us), np.int64)
                is_bad = uppers_us > limit_us
                shown_ns = np.where(is_bad, uppers_us * 1000, uppers_us * 980)
                self._objectives.observed(tracked, source, shown_ns, counts, is_bad, now_s)
        return True

    def _of_metrics(self) -> Iterator[Tracked]:
        for tracked in self._objectives:
            goal = tracked.objective.goal
            if goal is not None and goal.source is GoalSource.METRICS and not tracked.objective.wrong:
                yield tracked


def _only(objective: ServiceObjective) -> tuple[ModelGoal, ModelMeasure, int]:
    """The goal and its limit: of metrics there is one."""
    goal = objective.goal
    if goal is None or goal.only is None:
        raise ValueError(f"{objective.key} is not counted from metrics")
    return goal, *goal.only


def _unsuited(objective: ServiceObjective, reading: ModelServerReading) -> str:
    """Why an objective cannot be counted from this server; empty where it can."""
    goal, measure, limit_us = _only(objective)
    of_measure = [histogram for histogram in reading.histograms if histogram.measure is measure]
    if not of_measure:
        has = ", ".join(sorted({histogram.measure for histogram in reading.histograms})) or "no histogram"
        return f"{reading.server} does not show {measure}; it has {has}"
    of_model = [histogram for histogram in of_measure if goal.model in ("", histogram.model)]
    if not of_model:
        models = ", ".join(sorted({histogram.model for histogram in of_measure})[:_NEAR])
        return f"{reading.server} serves no model {goal.model!r}; it has {models}"
    for histogram in of_model:
        if limit_us not in histogram.edges_us:
            near = sorted(sorted(histogram.edges_us, key=lambda edge_us: abs(edge_us - limit_us))[:_NEAR])
            edges = ", ".join(f"{edge_us / 1000:g}ms" for edge_us in near) or "none"
            return f"{limit_us / 1000:g}ms is no edge of {reading.server}'s {measure}; the nearest are {edges}"
    return ""
