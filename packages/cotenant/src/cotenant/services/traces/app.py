"""The HTTP side of the trace process.

    POST /v1/traces                      OTLP/HTTP: protobuf or JSON, gzip allowed
    POST /v1/metrics                     histograms of model servers (metric_exports.py)
    GET  /api/v1/...                     questions (pages.py)
    GET  /sampling?service=              rates for remote samplers (sampling_page.py)
    GET  /api/v1/requests                the requests of one process (request_pages.py)
    *    /api/v1/channels                closed channels of spans (channel_pages.py)
    *    /api/v1/profiles                cProfile's, sent by programs (profile_pages.py)
    POST /api/v1/signals                 an agent's stream of its replicas' signals (signal_streams.py)
    POST /api/v1/actions                 what a node did for an objective
    POST /api/v1/stories                 the incidents of a service on a node (story_board.py)
    POST /api/v1/latency                 a service's report on itself, for selfReported objectives
    GET  /healthz /readyz /metrics

An exporter must learn whether to send again. 400 for what cannot be read, 413 beyond the limit, 429 with Retry-After
where there is no room; partial success where single spans were bad. Senders take turns, and large bodies are decoded
beside the event loop (intake.py). With a token every path but the health pages needs it; an agent may come with the
token of its own pod instead, which is good for signals, actions and stories of its own node (`nodes`). Spans, and
reports of services on themselves, are taken by the tokens of senders (senders.py).

Source: opentelemetry-proto, docs/specification.md, "OTLP/HTTP".
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from cotenant.drivers.http.limits import DEFAULTS
from cotenant.drivers.http.messages import (
    TEXT,
    BodyRefused,
    Disconnected,
    HttpAnswer,
    Receive,
    Scope,
    Send,
    header,
    read_body,
    send_answer,
)
from cotenant.drivers.http.pages import EXPOSITION, HealthPages
from cotenant.drivers.http.tokens import BearerToken
from cotenant.drivers.jaeger.batch import request_of
from cotenant.drivers.otlp.answers import JSON, PROTOBUF, Code, failure, success
from cotenant.drivers.otlp.decoding import MAX_BYTES, decode_json, decode_protobuf, gunzip
from cotenant.drivers.otlp.wire_fields import TooLarge
from cotenant.engine.traces.trace_engine import BatchReceipt, TraceEngine
from cotenant.model.errors import InvalidInput, Transient
from cotenant.model.traces.spans import EVERYBODY, SpanBatch
from cotenant.services.reporting import latency, signals, stories
from cotenant.services.reporting.signals import ACTIONS, MOVE_ACTION, SIGNALS, decode_action, decode_subscription
from cotenant.services.reporting.stories import STORIES
from cotenant.services.traces.channel_pages import CHANNELS, ChannelPages
from cotenant.services.traces.intake import Intake, QueueRoom
from cotenant.services.traces.metric_exports import METRICS, MetricExports
from cotenant.services.traces.metrics import TraceMetrics
from cotenant.services.traces.objective_board import ObjectiveBoard
from cotenant.services.traces.pages import PREFIX, TracePages, not_get
from cotenant.services.traces.profile_pages import PROFILES, ProfilePages, not_get_or_post
from cotenant.services.traces.request_pages import REQUESTS
from cotenant.services.traces.request_pages import answer as requests_answer
from cotenant.services.traces.sampling_page import SAMPLING
from cotenant.services.traces.sampling_page import answer as sampling_answer
from cotenant.services.traces.sampling_page import grpc_answer as sampling_grpc_answer
from cotenant.services.traces.senders import Senders
from cotenant.services.traces.signal_streams import MAX_STREAMS, SignalStreams
from cotenant.services.traces.story_board import StoryBoard

if TYPE_CHECKING:  # an HTTP client comes with it: only where there is a cluster
    from cotenant.services.reporting.identity import TokenNodes
    from cotenant.services.traces.incident_events import IncidentEvents
    from cotenant.services.traces.move_requests import MoveRequests

EXPORT = "/v1/traces"
LATENCY = "/api/v1/latency"
_POSTED = (SIGNALS, ACTIONS, STORIES, LATENCY)
_OF_AGENTS = (SIGNALS, ACTIONS, STORIES)
_SENT = (EXPORT, METRICS, LATENCY, *SAMPLING)  # by services: with a sender's token
PART_SPANS = 8_192  # that are counted at once: some 30 ms where all have names of their own
MAX_DATAGRAMS = 1_000  # that wait for their turn
_GZIP_WEIGHT, _JSON_WEIGHT, _THRIFT_WEIGHT = 64, 32, 8  # how much more a byte of these costs than one of protobuf
LIMITS = replace(DEFAULTS, body_bytes=MAX_BYTES, body_within_s=30.0)


class TracesApp:
    """The ASGI application. `clock` gives Unix seconds."""

    def __init__(
        self,
        engine: TraceEngine,
        metrics: TraceMetrics,
        clock: Callable[[], float],
        token: BearerToken | None = None,
        board: ObjectiveBoard | None = None,
    ) -> None:
        self._engine, self._metrics, self._clock, self._token = engine, metrics, clock, token
        self.senders = Senders(clock, token)
        self.board = board or ObjectiveBoard(engine.objectives, clock)
        self.streams = SignalStreams(engine.objectives, clock)
        self.moves: MoveRequests | None = None  # where moves are requested
        self.nodes: TokenNodes | None = None  # where agents come with tokens of their own
        self.stories = StoryBoard(clock)
        self.incident_events: IncidentEvents | None = None  # where there is a cluster to write Events to
        self.channels = ChannelPages(engine.channels, clock)
        self.profiles = ProfilePages(clock)
        self.intake = Intake()
        self.metric_exports = MetricExports(engine.objectives, self.intake, clock)
        self.datagrams = QueueRoom(MAX_DATAGRAMS, "datagrams")
        self._pages = TracePages(engine, clock, self.board, self.stories)
        self._health = HealthPages(metrics.page)

    async def export(self, body: bytes, sender: str, namespace: str = "") -> tuple[int, str]:
        """Take a request in protobuf in its sender's turn; how many spans were rejected, and why. `namespace`: that the
        sender has proven to be of. Raises `InvalidInput`, `Transient`.
        """
        sender = _holder(namespace, sender)
        with self.intake.room(sender, len(body), is_proven=self._is_believed(namespace)):
            receipt = await self._take(sender, namespace, len(body), partial(decode_protobuf, body))
        return receipt.rejected, receipt.problem

    async def exporting(self, authorization: bytes) -> Callable[[bytes, str], Awaitable[tuple[int, str]]] | None:
        """`export` for the sender of this header; None = it may not send. Raises `Transient`."""
        namespace = await self.senders.of(authorization)
        return None if namespace is None else partial(self.export, namespace=namespace)

    async def sampling(self, body: bytes, authorization: bytes) -> bytes | None:
        """Rates for a remote sampler over gRPC; None = it may not ask. Raises as `grpc_answer`, `Transient`."""
        namespace = await self.senders.of(authorization)
        if namespace is None:
            return None
        return sampling_grpc_answer(self._engine, "" if namespace == EVERYBODY else namespace, body, self._clock())

    async def export_datagram(self, datagram: bytes, sender: str) -> None:
        """Take a datagram of Jaeger's in its sender's turn. Raises `InvalidInput`, `Transient`."""
        with self.datagrams.room(sender, 1):
            read = partial(_of_jaeger, datagram)
            await self._take(sender, "", len(datagram) * _THRIFT_WEIGHT, read)

    async def _take(self, sender: str, namespace: str, weight: int, decode: Callable[[], SpanBatch]) -> BatchReceipt:
        async with self.intake.turn(sender):
            batch = _sent_by(namespace, await self.intake.work(weight, decode))
            receipts: list[BatchReceipt] = []
            # what is refused after a first part is sent again; that part is known then
            for part in batch.parts(PART_SPANS):
                if receipts:
                    await asyncio.sleep(0)
                receipts.append(self._engine.add(part, self._clock(), sender, goes_on=bool(receipts)))
            problems = "; ".join(receipt.problem for receipt in receipts if receipt.problem)
            return BatchReceipt(
                sum(receipt.accepted for receipt in receipts), sum(receipt.rejected for receipt in receipts), problems
            )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path, method = scope["path"], scope["method"]
        if path == "/metrics" and method in ("GET", "HEAD"):
            await send_answer(send, HttpAnswer(200, await self._metrics.page_beside(), EXPOSITION))
            return
        answer = self._health.answer(method, path)
        sender = None  # the only node that it may speak for; None = any
        proven = ""  # the namespace that a sender of spans, or of a report on itself, is of
        if answer is None and (path in _SENT or (path == PROFILES and method == "POST")):
            proven, answer = await self._sender_of(scope)
        elif answer is None and not self._is_allowed(scope):
            sender, answer = await self._node_of(path, scope)
        if answer is None and path == EXPORT:
            try:
                answer = await self._export(scope, receive, proven)
            except BodyRefused as refused:
                answer = refused.answer
            except Disconnected:
                return
            self._metrics.answered("http", str(answer.status))
        elif answer is None and path == METRICS:
            try:
                client = scope.get("client")
                holder = _holder(proven, client[0] if client else "")
                answer = await self.metric_exports.http(scope, receive, holder, proven)
            except BodyRefused as refused:
                answer = refused.answer
            except Disconnected:
                return
        elif answer is None and path in _POSTED and not (path == STORIES and method == "GET"):
            try:
                answer = await self._posted(path, scope, receive, send, sender, proven)
            except BodyRefused as refused:
                answer = refused.answer
            except Disconnected:
                return
            if answer is None:
                return
        elif answer is None and path in SAMPLING:
            query = scope["query_string"].decode("latin-1")
            namespace = "" if proven == EVERYBODY else proven
            is_get = method in ("GET", "HEAD")
            answer = sampling_answer(self._engine, namespace, query, self._clock()) if is_get else not_get()
        elif answer is None and path in (CHANNELS, PROFILES):
            try:
                paged = self._profile if path == PROFILES else self._channel
                answer = await paged(scope, receive, proven)
            except BodyRefused as refused:
                answer = refused.answer
            except Disconnected:
                return
        elif answer is None and path.startswith(PREFIX):
            query = scope["query_string"].decode("latin-1")
            if method != "GET":
                answer = not_get()
            else:
                is_requests = path == REQUESTS
                answer = requests_answer(self._engine, query) if is_requests else self._pages.answer(path, query)
        await send_answer(
            send,
            answer or HttpAnswer(404, b"not found; spans go to POST /v1/traces\n", TEXT),
        )

    async def _posted(
        self, path: str, scope: Scope, receive: Receive, send: Send, sender: str | None, proven: str
    ) -> HttpAnswer | None:
        """The answer; None where it was streamed."""
        if scope["method"] != "POST":
            return HttpAnswer(405, b"only POST\n", TEXT, ((b"allow", b"POST"),))
        try:
            if path == SIGNALS:
                asked = decode_subscription(await read_body(scope, receive, signals.MAX_BYTES))
                if sender not in (None, asked.node):
                    return _not_its_own(sender)
                if len(self.streams) >= MAX_STREAMS:
                    return HttpAnswer(503, b"too many streams\n", TEXT)
                await self.streams.serve(asked, receive, send)
                return None
            if path == ACTIONS:
                action = decode_action(await read_body(scope, receive, signals.MAX_BYTES))
                if sender not in (None, action.node):
                    return _not_its_own(sender)
                if not self.board.acted(action):
                    return _error(404, f"no objective {action.objective}")
                if action.action == MOVE_ACTION:
                    if self.moves is None:
                        return _error(409, "this process requests no moves: it runs without --request-moves")
                    self.moves.ask(action)
                return HttpAnswer(204)
            if path == STORIES:
                story = stories.decode(await read_body(scope, receive, stories.MAX_BYTES))
                if sender not in (None, story.node):
                    return _not_its_own(sender)
                self.stories.add(story)
                if self.incident_events is not None:
                    self.incident_events.heard(story)
                return HttpAnswer(204)
            report = latency.read(await read_body(scope, receive, latency.MAX_BYTES))
            health = report.health(None)
        except InvalidInput as error:
            return _error(400, str(error))
        if report.counts is not None:
            return _error(400, "requests, p99_us and over_objective are needed: a histogram has no objective here")
        known = self.board.objectives.reported(
            report.workload, health.requests, health.over_objective, self._clock(), proven
        )
        return HttpAnswer(204) if known else _error(404, f"no selfReported objective of {report.workload}")

    async def _channel(self, scope: Scope, receive: Receive, _: str) -> HttpAnswer:
        return await self.channels.answer(scope, receive)

    async def _profile(self, scope: Scope, receive: Receive, proven: str) -> HttpAnswer:
        match scope["method"]:
            case "GET":
                return self.profiles.answer(scope)
            case "POST":
                client = scope.get("client")
                holder = _holder(proven, client[0] if client else "")
                return await self.profiles.take(scope, receive, "" if proven == EVERYBODY else proven, holder)
            case _:
                return not_get_or_post()

    def _is_believed(self, namespace: str) -> bool:
        return self._engine.objectives.trusts_all or bool(namespace)

    def _is_allowed(self, scope: Scope) -> bool:
        return self._token is None or self._token.accepts(header(scope, b"authorization"), self._clock())

    async def _node_of(self, path: str, scope: Scope) -> tuple[str | None, HttpAnswer | None]:
        """The node whose agent asks, or the refusal."""
        if self.nodes is not None and path in _OF_AGENTS and scope["method"] == "POST":
            try:
                node = await self.nodes.node_of(header(scope, b"authorization"))
            except Transient as error:
                return None, _later(error)
            if node:
                return node, None
        return None, _unauthorized()

    async def _sender_of(self, scope: Scope) -> tuple[str, HttpAnswer | None]:
        """The proven namespace of a sender, or the refusal."""
        try:
            found = await self.senders.of(header(scope, b"authorization"))
        except Transient as error:
            return "", _later(error)
        return ("", _unauthorized()) if found is None else (found, None)

    async def _export(self, scope: Scope, receive: Receive, namespace: str) -> HttpAnswer:
        if scope["method"] != "POST":
            return HttpAnswer(405, b"only POST\n", TEXT, ((b"allow", b"POST"),))
        kind = header(scope, b"content-type").partition(b";")[0].strip().lower().decode("latin-1")
        if kind not in (PROTOBUF, JSON):
            return HttpAnswer(415, f"Content-Type: {kind[:80]}: expected {PROTOBUF} or {JSON}\n".encode(), TEXT)
        encoding = header(scope, b"content-encoding").strip().lower()
        if encoding not in (b"", b"identity", b"gzip"):
            return HttpAnswer(415, b"Content-Encoding: expected gzip or none\n", TEXT)
        client = scope.get("client")
        sender = _holder(namespace, client[0] if client else "")
        length = header(scope, b"content-length")
        try:
            size = min(int(length), MAX_BYTES) if length.isdigit() else MAX_BYTES
            with self.intake.room(sender, size, is_proven=self._is_believed(namespace)):
                body = await read_body(scope, receive)
                is_packed = encoding == b"gzip"
                weight = len(body) * (_GZIP_WEIGHT if is_packed else 1) * (_JSON_WEIGHT if kind == JSON else 1)
                receipt = await self._take(sender, namespace, weight, partial(_decoded, body, is_packed, kind))
        except TooLarge as error:
            return HttpAnswer(413, failure(Code.RESOURCE_EXHAUSTED, str(error), kind), kind.encode())
        except InvalidInput as error:
            return HttpAnswer(400, failure(Code.INVALID_ARGUMENT, str(error), kind), kind.encode())
        except Transient as error:
            after = ((b"retry-after", b"%d" % max(1, round(error.retry_after_s))),)
            return HttpAnswer(429, failure(Code.UNAVAILABLE, str(error), kind), kind.encode(), after)
        return HttpAnswer(200, success(receipt.rejected, receipt.problem, kind), kind.encode())


def _holder(namespace: str, address: str) -> str:
    """Whose turn and room it is: those of the namespace that was proven, else of the address. Each collector has
    its own.
    """
    return address if namespace in ("", EVERYBODY) else namespace


def _decoded(body: bytes, is_packed: bool, kind: str) -> SpanBatch:
    if is_packed:
        body = gunzip(body)
    return decode_json(body) if kind == JSON else decode_protobuf(body)


def _of_jaeger(datagram: bytes) -> SpanBatch:
    return decode_protobuf(request_of(datagram))


def _sent_by(namespace: str, batch: SpanBatch) -> SpanBatch:
    return (
        replace(batch, sources=tuple(replace(source, sender=namespace) for source in batch.sources))
        if namespace
        else batch
    )


def _unauthorized() -> HttpAnswer:
    words = "expected the header Authorization: Bearer TOKEN\n"
    return HttpAnswer(401, words.encode(), TEXT, ((b"www-authenticate", b"Bearer"),))


def _later(error: Transient) -> HttpAnswer:
    return HttpAnswer(503, f"{error}\n".encode(), TEXT, ((b"retry-after", b"%d" % max(1, round(error.retry_after_s))),))


def _not_its_own(sender: str | None) -> HttpAnswer:
    return _error(403, f"the token is that of node {sender!r}")


def _error(status: int, error: str) -> HttpAnswer:
    return HttpAnswer(status, msgspec.json.encode({"error": error}))
