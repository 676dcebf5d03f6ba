"""The extender's HTTP side.

    POST /filter /prioritize /preempt /bind     the scheduler extender protocol (bind only where it was asked for)
    POST /metrics/report                        a node's report (services/reporting)
    GET  /healthz /readyz /metrics              200 while it runs; 200 once it can judge; Prometheus text

kube-scheduler blocks while it waits, treats any status but 200 as a failure of the pod's cycle, and then drops its
connection. A plain ASGI application; an error in filter or bind is answered with 200 and the protocol's own `Error`,
defects of ours included, which are counted and logged. prioritize and preempt have no such field: 400 with one line of
text, which kube-scheduler logs.
Limits: one call at a time is judged, as kube-scheduler makes them; binds overlap.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from time import perf_counter
from typing import Protocol

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
from cotenant.drivers.http.pages import HEALTH_PATHS, HealthPages
from cotenant.model.errors import CotenantError, InvalidInput
from cotenant.services.extender.metrics import ExtenderMetrics
from cotenant.services.extender.protocol import ExtenderProtocol
from cotenant.services.extender.wire import BindingAnswer, BindingArgs
from cotenant.services.reporting.endpoint import PATH as REPORT_PATH
from cotenant.services.reporting.endpoint import ReportEndpoint

LIMITS = replace(DEFAULTS, body_bytes=64 << 20, body_within_s=30.0)  # 5,000 full nodes of 12 KiB

_log = logging.getLogger(__name__)
_binding = msgspec.json.Decoder(BindingArgs)
_encode = msgspec.json.Encoder().encode


class PodBinder(Protocol):
    """Binds a pod at the API server."""

    def __call__(self, namespace: str, pod: str, uid: str, node: str) -> Awaitable[None]:
        """Raises `CotenantError` where the pod cannot be bound."""
        ...


class ExtenderApp:
    """The ASGI application."""

    def __init__(
        self,
        extender: ExtenderProtocol,
        reports: ReportEndpoint,
        metrics: ExtenderMetrics,
        clock: Callable[[], float],
        *,
        bind: PodBinder | None = None,
        unready: Callable[[], str] = lambda: "",
    ) -> None:
        """`clock` gives Unix seconds; `unready` returns what is missing, empty if nothing is."""
        self._extender = extender
        self._reports = reports
        self._metrics = metrics
        self._clock = clock
        self._bind = bind
        self._health = HealthPages(metrics.page, unready=unready)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path = scope["path"]
        if path == REPORT_PATH:
            await self._reports(scope, receive, send)
            return
        verb = path[1:]
        if verb in ("filter", "prioritize", "preempt") or (verb == "bind" and self._bind is not None):
            try:
                answer = await self._verb(verb, scope, receive)
            except BodyRefused as refused:
                answer = refused.answer
            except Disconnected:
                return
            self._metrics.answered(verb, answer.status)
        else:
            answer = self._health.answer(scope["method"], path, scope["query_string"]) or HttpAnswer(
                404, b"not found\n", TEXT
            )
        await send_answer(send, answer)

    async def _verb(self, verb: str, scope: Scope, receive: Receive) -> HttpAnswer:
        if scope["method"] != "POST":
            return HttpAnswer(405, b"only POST\n", TEXT, ((b"allow", b"POST"),))
        try:
            body = await read_body(scope, receive)
        except BodyRefused as refused:
            if verb != "filter":
                raise
            # Said in the pod's condition. The connection may have unread bytes in it, so it does not live on.
            return HttpAnswer(
                200, self._extender.failure(refused.answer.body.decode().strip()), more=refused.answer.more
            )
        kind = header(scope, b"content-type").partition(b";")[0].strip().lower()
        begun = perf_counter()
        try:
            if kind not in (b"", b"application/json"):
                raise InvalidInput("Content-Type", kind.decode("latin-1"), "application/json")
            if verb == "filter":
                return HttpAnswer(200, self._extender.filter(body, self._clock()))
            if verb == "prioritize":
                return HttpAnswer(200, self._extender.prioritize(body, self._clock()))
            if verb == "preempt":
                return HttpAnswer(200, self._extender.preempt(body, self._clock()))
            return await self._bound(body)
        except InvalidInput as error:
            return self._failed(verb, str(error))
        except Exception as error:  # outermost handler: the next request must be answered
            self._metrics.faults += 1
            _log.exception("%s failed", verb)
            return self._failed(verb, f"cotenant extender failed: {type(error).__name__}: {error}")
        finally:
            self._metrics.took[verb](perf_counter() - begun)

    def _failed(self, verb: str, why: str) -> HttpAnswer:
        line = " ".join(why.split())
        if verb == "filter":
            return HttpAnswer(200, self._extender.failure(line))
        if verb == "bind":
            return HttpAnswer(200, _encode(BindingAnswer(line)))
        return HttpAnswer(400, f"{line}\n".encode(), TEXT)

    async def _bound(self, body: bytes) -> HttpAnswer:
        assert self._bind is not None
        try:
            args = _binding.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidInput("request", "(not shown)", "ExtenderBindingArgs as JSON", str(error)) from None
        try:
            await self._bind(args.pod_namespace, args.pod_name, args.pod_uid, args.node)
        except CotenantError as error:
            return self._failed("bind", str(error))
        return HttpAnswer(200, _encode(BindingAnswer()))


class ProbePages:
    """Only the pages of an application, for a second listener that probes and scrapers reach without a certificate.

    `reports`: node reports too, for agents, which have tokens and no certificates; only where a token is required.
    """

    def __init__(self, application: ExtenderApp, reports: bool = False) -> None:
        self._application = application
        self._paths = HEALTH_PATHS | {REPORT_PATH} if reports else HEALTH_PATHS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["path"] in self._paths:
            await self._application(scope, receive, send)
        else:
            await send_answer(send, HttpAnswer(404, b"not found\n", TEXT))
