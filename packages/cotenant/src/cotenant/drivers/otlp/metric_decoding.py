"""ExportMetricsServiceRequest into the histograms of model servers.

A collector sends every metric of every program, and three of them count here, by the names of OpenTelemetry's GenAI
conventions. Each data point is taken or refused by itself; refused ones are counted with the first reasons, as the
protocol's partial success has it.
Limits: the server's metrics only: what a client measures includes the network, and other servers of the same name. Of
exemplars, sums, smallest and largest nothing is read. A point without observations begins a series and counts nothing.

Source: opentelemetry-proto, metrics.proto; OpenTelemetry semantic conventions, "Generative AI metrics" (model server).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import isfinite

import msgspec
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE,
    AGGREGATION_TEMPORALITY_DELTA,
    ExponentialHistogramDataPoint,
    HistogramDataPoint,
    Metric,
)

from cotenant.drivers.otlp.decoding import gunzip
from cotenant.drivers.otlp.resources import source_of, tags_of
from cotenant.drivers.otlp.wire_fields import TooLarge
from cotenant.model.errors import InvalidInput
from cotenant.model.traces.model_server import LONGEST_EDGE_US, ModelMeasure
from cotenant.model.traces.pushed_histogram import (
    Buckets,
    ExplicitBuckets,
    ExponentialBuckets,
    PushedHistogram,
    PushedMetrics,
)

MEASURES = {
    "gen_ai.server.time_to_first_token": ModelMeasure.TIME_TO_FIRST_TOKEN,
    "gen_ai.server.time_per_output_token": ModelMeasure.TIME_PER_OUTPUT_TOKEN,
    "gen_ai.server.request.duration": ModelMeasure.DURATION,
}
MODEL = ("gen_ai.response.model", "gen_ai.request.model")
MAX_BYTES = 4 << 20  # of a body: the library makes an object of every two bytes at worst
JSON_MAX_BYTES = 1 << 20
MAX_EDGES = 256
MAX_COUNT = 2**53
_MIN_SCALE, _MAX_SCALE = -10, 20
_UNITS_US = {"s": 1e6, "": 1e6, "ms": 1e3, "us": 1.0}
_MAX_REASONS, _MAX_SERIES = 4, 1000  # reasons that are told; characters of a series' name
_TEMPORALITIES = (AGGREGATION_TEMPORALITY_CUMULATIVE, AGGREGATION_TEMPORALITY_DELTA)


def decode_metrics(body: bytes, is_packed: bool = False, is_json: bool = False) -> PushedMetrics:
    """Raises `InvalidInput`, `TooLarge`."""
    if is_packed:
        body = gunzip(body)
    most = JSON_MAX_BYTES if is_json else MAX_BYTES
    if len(body) > most:
        raise TooLarge("bytes", len(body), most)
    kind = "JSON" if is_json else "protobuf"
    try:
        if is_json:
            document = msgspec.json.decode(body)
            request = ParseDict(document, ExportMetricsServiceRequest(), ignore_unknown_fields=True)
        else:
            request = ExportMetricsServiceRequest.FromString(body)
        return _read(request)
    except (msgspec.DecodeError, ParseError, DecodeError, ValueError, RecursionError) as error:
        expected = f"an ExportMetricsServiceRequest in {kind}"
        raise InvalidInput("body", body[:40], expected, str(error)[:200]) from None


def _read(request: ExportMetricsServiceRequest) -> PushedMetrics:
    problems: Counter[str] = Counter()
    sources = []
    for of_resource in request.resource_metrics:
        found: list[PushedHistogram] = []
        for scope in of_resource.scope_metrics:
            for metric in scope.metrics:
                if metric.name in MEASURES:
                    found += _points(metric, problems)
        if found:
            sources.append((source_of(of_resource.resource.SerializeToString()), tuple(found)))
    words = "; ".join(f"{count} data points: {why}" for why, count in problems.most_common(_MAX_REASONS))
    return PushedMetrics(tuple(sources), problems.total(), words)


def _points(metric: Metric, problems: Counter[str]) -> Iterator[PushedHistogram]:
    kind = metric.WhichOneof("data")
    if kind not in ("histogram", "exponential_histogram"):
        problems[f"{metric.name}: expected a histogram, not {kind or 'nothing'}"] += 1
        return
    data = metric.histogram if kind == "histogram" else metric.exponential_histogram
    unit_us = _UNITS_US.get(metric.unit)
    for point in data.data_points:
        try:
            if unit_us is None:
                raise InvalidInput("unit", metric.unit[:20], "s, ms or us")
            if data.aggregation_temporality not in _TEMPORALITIES:
                raise InvalidInput("aggregation_temporality", data.aggregation_temporality, "delta or cumulative")
            if not 0 < point.start_time_unix_nano <= point.time_unix_nano < 1 << 63:
                raise InvalidInput("start_time_unix_nano", point.start_time_unix_nano, "the time since which it counts")
            buckets = _explicit(point, unit_us) if kind == "histogram" else _exponential(point, unit_us)
        except InvalidInput as error:
            problems[f"{metric.name}: {error}"] += 1
            continue
        tags = tags_of(point.attributes)
        yield PushedHistogram(
            MEASURES[metric.name],
            next((tags[name] for name in MODEL if tags.get(name)), "")[:200],
            ",".join(f"{name}={text}" for name, text in sorted(tags.items()))[:_MAX_SERIES],
            data.aggregation_temporality == AGGREGATION_TEMPORALITY_DELTA,
            point.start_time_unix_nano,
            point.time_unix_nano,
            buckets,
        )


def _explicit(point: HistogramDataPoint, unit_us: float) -> Buckets:
    edges, counts = list(point.explicit_bounds), list(point.bucket_counts)
    if len(edges) > MAX_EDGES or len(counts) != len(edges) + 1:
        raise InvalidInput("explicit_bounds", f"{len(edges)} edges, {len(counts)} buckets", f"up to {MAX_EDGES} edges")
    if not all(map(isfinite, edges)) or any(later <= earlier for earlier, later in pairwise(edges)):
        raise InvalidInput("explicit_bounds", edges[:4], "finite edges that ascend")
    _check_counts(counts, point.count)
    by_edge: dict[int, int] = {}
    beyond = counts[-1]
    for edge, count in zip(edges, counts, strict=False):
        edge_us = round(edge * unit_us)
        if edge_us > LONGEST_EDGE_US:
            beyond += count
        elif edge_us > 0 or count:  # nothing lies at or below 0: an edge there is not looked at
            by_edge[max(1, edge_us)] = by_edge.get(max(1, edge_us), 0) + count
    return ExplicitBuckets(tuple(by_edge), (*by_edge.values(), beyond))


def _exponential(point: ExponentialHistogramDataPoint, unit_us: float) -> Buckets:
    if unit_us != _UNITS_US["s"]:
        raise InvalidInput("unit", "", "s: an exponential histogram of other units has no edge in round figures")
    if not _MIN_SCALE <= point.scale <= _MAX_SCALE:
        raise InvalidInput("scale", point.scale, f"{_MIN_SCALE} to {_MAX_SCALE}")
    counts = list(point.positive.bucket_counts)
    if any(point.negative.bucket_counts):
        raise InvalidInput("negative", "observations below 0", "durations")
    if len(counts) > 4 * MAX_EDGES or abs(point.positive.offset) > 1 << 30:
        raise InvalidInput("positive", f"{len(counts)} buckets", f"up to {4 * MAX_EDGES}")
    _check_counts([*counts, point.zero_count], point.count)
    zero = point.zero_threshold * unit_us
    zero_us = round(zero) if 0 <= zero <= LONGEST_EDGE_US else 0
    found = tuple((index, count) for index, count in enumerate(counts, point.positive.offset) if count)
    return ExponentialBuckets(point.scale, found, point.zero_count, zero_us)


def _check_counts(counts: Sequence[int], total: int) -> None:
    if sum(counts) != total or total > MAX_COUNT:
        raise InvalidInput("bucket_counts", sum(counts), f"their sum to be the count, {total}")
