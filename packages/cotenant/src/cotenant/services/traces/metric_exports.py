"""POST /v1/metrics, and the same over gRPC: histograms of model servers, pushed by SDKs and collectors.

They come by the same door as spans: the same tokens, the same proof of a namespace, the same room and turns of senders.
What an objective cannot be counted from is said on it (`Receiving`), what a data point lacks in the answer. A service
that `--model-servers` reads is refused here, since its requests would count twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from cotenant.drivers.http.messages import TEXT, HttpAnswer, Receive, Scope, header, read_body
from cotenant.drivers.otlp.answers import JSON, PROTOBUF, Code, failure, success_of_metrics
from cotenant.drivers.otlp.metric_decoding import MAX_BYTES, decode_metrics
from cotenant.drivers.otlp.wire_fields import TooLarge
from cotenant.engine.traces.objectives import TrackedObjectives
from cotenant.engine.traces.pushed_counts import PushedCounts
from cotenant.engine.traces.server_objectives import ServerObjectives
from cotenant.model.errors import InvalidInput, Transient
from cotenant.model.traces.pushed_histogram import PushedMetrics
from cotenant.services.traces.intake import Intake
from cotenant.services.traces.senders import Senders

METRICS = "/v1/metrics"
METHOD = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
_GZIP_WEIGHT, _JSON_WEIGHT = 16, 32


class MetricExports(Collector):
    """Counts them for objectives. `clock` gives Unix seconds."""

    def __init__(self, objectives: TrackedObjectives, intake: Intake, clock: Callable[[], float]) -> None:
        self._objectives, self._clock = objectives, clock
        self._of_servers = ServerObjectives(objectives)
        self._counts = PushedCounts()
        self._intake = intake
        self.read_elsewhere: frozenset[str] = frozenset()  # services whose /metrics this process reads
        self._requests = self._refused = 0

    async def http(self, scope: Scope, receive: Receive, holder: str, namespace: str) -> HttpAnswer:
        """The answer to one request. `holder`: whose room and turn it is; `namespace`: proven."""
        if scope["method"] != "POST":
            return HttpAnswer(405, b"only POST\n", TEXT, ((b"allow", b"POST"),))
        kind = header(scope, b"content-type").partition(b";")[0].strip().lower().decode("latin-1")
        if kind not in (PROTOBUF, JSON):
            return HttpAnswer(415, f"Content-Type: {kind[:80]}: expected {PROTOBUF} or {JSON}\n".encode(), TEXT)
        encoding = header(scope, b"content-encoding").strip().lower()
        if encoding not in (b"", b"identity", b"gzip"):
            return HttpAnswer(415, b"Content-Encoding: expected gzip or none\n", TEXT)
        length = header(scope, b"content-length")
        size = min(int(length), MAX_BYTES) if length.isdigit() else MAX_BYTES
        try:
            with self._intake.room(holder, size, is_proven=self._is_believed(namespace)):
                body = await read_body(scope, receive, MAX_BYTES)
                rejected, problem = await self._take(body, encoding == b"gzip", kind == JSON, holder, namespace)
        except TooLarge as error:
            return HttpAnswer(413, failure(Code.RESOURCE_EXHAUSTED, str(error), kind), kind.encode())
        except InvalidInput as error:
            return HttpAnswer(400, failure(Code.INVALID_ARGUMENT, str(error), kind), kind.encode())
        except Transient as error:
            after = ((b"retry-after", b"%d" % max(1, round(error.retry_after_s))),)
            return HttpAnswer(429, failure(Code.UNAVAILABLE, str(error), kind), kind.encode(), after)
        return HttpAnswer(200, success_of_metrics(rejected, problem, kind), kind.encode())

    async def grpc(self, senders: Senders, body: bytes, authorization: bytes) -> bytes | None:
        """The answer to one call; None = it may not send. Raises `InvalidInput`, `Transient`."""
        namespace = await senders.of(authorization)
        if namespace is None:
            return None
        holder = namespace or "gRPC"
        with self._intake.room(holder, len(body), is_proven=self._is_believed(namespace)):
            return success_of_metrics(*await self._take(body, False, False, holder, namespace))

    def _is_believed(self, namespace: str) -> bool:
        return self._objectives.trusts_all or bool(namespace)

    async def _take(self, body: bytes, is_packed: bool, is_json: bool, holder: str, namespace: str) -> tuple[int, str]:
        weight = len(body) * (_GZIP_WEIGHT if is_packed else 1) * (_JSON_WEIGHT if is_json else 8)
        async with self._intake.turn(holder):
            pushed = await self._intake.work(weight, partial(decode_metrics, body, is_packed, is_json))
            rejected, problems = pushed.rejected, [pushed.problem] if pushed.problem else []
            for refused, why in self._count(pushed, namespace):
                rejected += refused
                problems.append(why)
        self._requests += 1
        self._refused += rejected
        return rejected, "; ".join(dict.fromkeys(problems))[:1000]

    def _count(self, pushed: PushedMetrics, namespace: str) -> Iterator[tuple[int, str]]:
        now_s = self._clock()
        for source, points in pushed.sources:
            sent = replace(source, sender=namespace) if namespace else source
            service = sent.qualified_service
            if service in self.read_elsewhere:
                yield len(points), f"{service} is read by --model-servers: its requests would count twice"
                continue
            asked = self._of_servers.asked(service)
            if asked is None:
                continue
            try:
                news = self._counts.take(sent, points, asked.limits_us, asked.since_s, now_s)
            except InvalidInput as error:
                self._of_servers.failed(sent, str(error), now_s)
                yield len(points), str(error)
                continue
            self._of_servers.take(sent, news.reading, news.new, now_s)

    def collect(self) -> Iterator[Metric]:
        """Requests, and data points that were refused."""
        yield CounterMetricFamily(
            "cotenant_traces_metric_requests", "Requests with metrics that were read.", value=self._requests
        )
        yield CounterMetricFamily(
            "cotenant_traces_metric_points_refused", "Data points of model servers that were refused.",
            value=self._refused,
        )  # fmt: skip
        yield CounterMetricFamily(
            "cotenant_traces_metric_points_repeated", "Data points that were sent again.", value=self._counts.repeated
        )
