"""The HTTP side of the trace process.

    POST /v1/traces                      OTLP/HTTP: protobuf or JSON, gzip allowed
    GET  /api/v1/...                     questions (pages.py)
    GET  /healthz /readyz /metrics

Problem: an exporter must learn whether to send again. Choice: 400 for what cannot be read, 413 beyond the limit, 429 with Retry-After where there is no room;
partial success where single spans were bad. Limits: with a token every path but the health pages needs it.

Source: opentelemetry-proto, docs/specification.md, "OTLP/HTTP".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cotenant.drivers.http.limits import DEFAULTS
from cotenant.drivers.http.messages import (
    TEXT,
    Answer,
    Gone,
    Receive,
    Refused,
    Scope,
    Send,
    header,
    read_body,
    send_answer,
)
from cotenant.drivers.http.pages import HealthPages
from cotenant.drivers.http.tokens import BearerToken
from cotenant.drivers.otlp.answers import JSON, PROTOBUF, Code, failure, success
from cotenant.drivers.otlp.decoding import MOST_BYTES, TooLarge, decode_json, decode_protobuf, gunzip
from cotenant.engine.traces.trace_engine import TraceEngine
from cotenant.model.errors import InvalidInput, Transient
from cotenant.services.traces.metrics import TraceMetrics
from cotenant.services.traces.pages import PREFIX, TracePages, not_get

EXPORT = "/v1/traces"
LIMITS = replace(DEFAULTS, body_bytes=MOST_BYTES, body_within_s=30.0)


class Application:
    """The ASGI application. `clock` gives Unix seconds."""

    def __init__(
        self,
        engine: TraceEngine,
        metrics: TraceMetrics,
        clock: Callable[[], float],
        token: BearerToken | None = None,
    ) -> None:
        self._engine, self._metrics, self._clock, self._token = engine, metrics, clock, token
        self._pages = TracePages(engine, clock)
        self._health = HealthPages(metrics.page)

    def export(self, body: bytes) -> tuple[int, str]:
        """Take a request in protobuf; how many spans were rejected, and why. Raises `InvalidInput`, `Transient`."""
        receipt = self._engine.add(decode_protobuf(body), self._clock())
        return receipt.rejected, receipt.problem

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path, method = scope["path"], scope["method"]
        answer = self._health.answer(method, path)
        if answer is None and not self._is_allowed(scope):
            words = "expected the header Authorization: Bearer TOKEN\n"
            answer = Answer(401, words.encode(), TEXT, ((b"www-authenticate", b"Bearer"),))
        if answer is None and path == EXPORT:
            try:
                answer = await self._export(scope, receive)
            except Refused as refused:
                answer = refused.answer
            except Gone:
                return
            self._metrics.answered("http", str(answer.status))
        elif answer is None and path.startswith(PREFIX):
            answer = self._pages.answer(path, scope["query_string"].decode("latin-1")) if method == "GET" else not_get()
        await send_answer(send, answer or Answer(404, b"not found; spans go to POST /v1/traces\n", TEXT))

    def _is_allowed(self, scope: Scope) -> bool:
        return self._token is None or self._token.accepts(header(scope, b"authorization"), self._clock())

    async def _export(self, scope: Scope, receive: Receive) -> Answer:
        if scope["method"] != "POST":
            return Answer(405, b"only POST\n", TEXT, ((b"allow", b"POST"),))
        body = await read_body(scope, receive)
        kind = header(scope, b"content-type").partition(b";")[0].strip().lower().decode("latin-1")
        if kind not in (PROTOBUF, JSON):
            return Answer(415, f"Content-Type: {kind}: expected {PROTOBUF} or {JSON}\n".encode(), TEXT)
        encoding = header(scope, b"content-encoding").strip().lower()
        if encoding not in (b"", b"identity", b"gzip"):
            return Answer(415, b"Content-Encoding: expected gzip or none\n", TEXT)
        try:
            if encoding == b"gzip":
                body = gunzip(body)
            batch = decode_json(body) if kind == JSON else decode_protobuf(body)
            receipt = self._engine.add(batch, self._clock())
        except TooLarge as error:
            return Answer(413, failure(Code.RESOURCE_EXHAUSTED, str(error), kind), kind.encode())
        except InvalidInput as error:
            return Answer(400, failure(Code.INVALID_ARGUMENT, str(error), kind), kind.encode())
        except Transient as error:
            after = ((b"retry-after", b"%d" % max(1, round(error.retry_after_s))),)
            return Answer(429, failure(Code.UNAVAILABLE, str(error), kind), kind.encode(), after)
        return Answer(200, success(receipt.rejected, receipt.problem, kind), kind.encode())
