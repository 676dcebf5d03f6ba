"""What model servers have counted since their last export by OTLP.

SDKs send the same histogram again and again, cumulative since their process began or as deltas, and send a request
again whose answer they missed. A series is known by its source and its attributes. A delta counts once, by its time. Of
a cumulative series the difference counts; its first point counts whole only where it began after the objective was
known, else it is where counting begins. A later start is a restart, and what the new process has counted is new. An
earlier one than before is another process under the same name: it is refused, since two that take turns would each look
like a restart. A point that is dated too late is refused, since all that came after it would look like a repeat.
Limits: where a clock is set back, exports look repeated until it has caught up; what lies more than `MAX_GAP_S` back,
or came in a longer gap, has no time and is not counted; of a source at most `MAX_SERIES` series are known, and of
`MAX_SOURCES` sources the one heard longest ago is forgotten.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cotenant.model.errors import InvalidInput
from cotenant.model.traces.model_server import ModelMeasure, ModelServerReading, NewObservations, ServerHistogram
from cotenant.model.traces.pushed_histogram import Buckets, ExplicitBuckets, ExponentialBuckets, PushedHistogram
from cotenant.model.traces.spans import SpanSource
from cotenant.policy.objective.exponential_buckets import at_edges, since

SERVER = "OpenTelemetry"
MAX_GAP_S = 300.0
MAX_AHEAD_S = 600.0  # of a sender's clock
MAX_SERIES, MAX_SOURCES = 256, 2_000
MAX_NEW = 50_000_000  # observations between two exports: no server makes more
_NS = 1_000_000_000
_TWO = "two processes report under one name: give each a service.instance.id or k8s.pod.name"
_CLOCK = "look at its clock, and that time_unix_nano is in nanoseconds"
_Series = tuple[ModelMeasure, str]


@dataclass(frozen=True, slots=True)
class PushedNews:
    """What one export of a source brought, and what its series look like now."""

    reading: ModelServerReading
    new: tuple[NewObservations, ...] = ()


class PushedCounts:
    """By source. Times are Unix seconds."""

    def __init__(self) -> None:
        self._sources: OrderedDict[SpanSource, dict[_Series, PushedHistogram]] = OrderedDict()
        self.restarts = self.repeated = 0

    def take(
        self,
        source: SpanSource,
        points: Sequence[PushedHistogram],
        limits_us: Iterable[int],
        known_since_s: float,
        now_s: float,
    ) -> PushedNews:
        """The observations since the last export. `limits_us`: what objectives ask for; `known_since_s`: since when
        all of them are known. Raises `InvalidInput` where a source claims what no server does.
        """
        limits_us = tuple(limits_us)
        for point in points:
            ahead_s = point.at_ns / _NS - now_s
            if ahead_s > MAX_AHEAD_S:
                what, expected = f"{SERVER} {point.measure}", f"at most {MAX_AHEAD_S:.0f} s ahead"
                raise InvalidInput(what, f"dated {ahead_s:.0f} s from now", expected, _CLOCK)
        series = self._sources.setdefault(source, {})
        self._sources.move_to_end(source)
        if len(self._sources) > MAX_SOURCES:
            self._sources.popitem(last=False)
        new = []
        for point in sorted(points, key=lambda point: point.at_ns):
            found = self._news(series, point, known_since_s, now_s)
            if found is None:
                continue
            explicit = _explicit(found, limits_us)
            if sum(explicit.counts) > MAX_NEW:
                what = f"{SERVER} {point.measure}"
                raise InvalidInput(what, f"{sum(explicit.counts)} since the last export", f"at most {MAX_NEW}")
            if any(explicit.counts):
                new.append(NewObservations(point.measure, point.model, explicit.edges_us, explicit.counts))
        return PushedNews(_reading(series.values(), limits_us), tuple(new))

    def _news(
        self, series: dict[_Series, PushedHistogram], point: PushedHistogram, known_since_s: float, now_s: float
    ) -> Buckets | None:
        key = point.measure, point.series
        last = series.get(key)
        if last is None and len(series) >= MAX_SERIES:
            raise InvalidInput(f"{SERVER} {point.measure}", f"more than {MAX_SERIES} series", "fewer attributes")
        if last is not None and point.at_ns <= last.at_ns:
            self.repeated += 1
            return None
        if last is not None and not point.is_delta and point.start_ns < last.start_ns:
            raise InvalidInput(f"{SERVER} {point.measure}", "a start before the last one", "one process", _TWO)
        series[key] = point
        if now_s - point.at_ns / _NS > MAX_GAP_S:
            return None
        if point.is_delta:
            return point.buckets if point.at_ns - point.start_ns <= MAX_GAP_S * _NS else None
        is_new = last is None or last.is_delta or point.start_ns > last.start_ns
        difference = None if is_new or last is None else _difference(point.buckets, last.buckets)
        if difference is None:
            self.restarts += last is not None
            is_ours = last is not None or point.start_ns / _NS >= known_since_s
            return point.buckets if is_ours and point.at_ns - point.start_ns <= MAX_GAP_S * _NS else None
        return difference if last is not None and point.at_ns - last.at_ns <= MAX_GAP_S * _NS else None


def _difference(now: Buckets, before: Buckets) -> Buckets | None:
    """What is new; None where the series began anew without saying so."""
    if isinstance(now, ExponentialBuckets) and isinstance(before, ExponentialBuckets):
        exponential = since(now, before)
        least = min((count for _, count in exponential.counts), default=0)
        return exponential if min(least, exponential.zero) >= 0 else None
    if isinstance(now, ExplicitBuckets) and isinstance(before, ExplicitBuckets) and now.edges_us == before.edges_us:
        counts = tuple(later - earlier for later, earlier in zip(now.counts, before.counts, strict=True))
        return ExplicitBuckets(now.edges_us, counts) if min(counts) >= 0 else None
    return None


def _explicit(buckets: Buckets, limits_us: Iterable[int]) -> ExplicitBuckets:
    return at_edges(buckets, limits_us) if isinstance(buckets, ExponentialBuckets) else buckets


def _reading(points: Iterable[PushedHistogram], limits_us: Sequence[int]) -> ModelServerReading:
    return ModelServerReading(
        SERVER,
        tuple(
            ServerHistogram(point.measure, point.model, point.series, explicit.edges_us, (), sum(explicit.counts))
            for point in points
            for explicit in (_explicit(point.buckets, limits_us),)
        ),
    )
