"""OTLP/HTTP from this host's programs, or from the hosts of its LAN, sent on to the collector as it came.

A request is answered when it is taken. What the collector does not take now waits within bounds, then the oldest is
dropped, and counted. At the end of the agent what waits is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from cotenant.drivers.http.address import Address
from cotenant.drivers.http.messages import (
    JSON,
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
from cotenant.drivers.http.server import HttpServer
from cotenant.engine.fleet.backlog import Export
from cotenant.model.errors import CotenantError
from cotenant.model.fleet.configuration import AgentConfiguration
from cotenant.services.export_sending import ExportSender
from cotenant.services.fleet.functions.contract import Beat
from cotenant.services.fleet.rpc import RpcVerb
from cotenant.services.running import cancelled

PATHS = ("/v1/traces", "/v1/metrics", "/v1/logs")
_PROTOBUF = "application/x-protobuf"


class ForwardFunction:
    """Implements `Function`."""

    name = "forwarding"

    def __init__(self) -> None:
        self._settings = AgentConfiguration()
        self._sender = ExportSender()
        self._server: HttpServer | None = None
        self._sending: asyncio.Task[None] | None = None
        self.fault = ""
        self.verbs: Mapping[str, RpcVerb] = {}

    @property
    def url(self) -> str:
        """Where programs send to; empty while it is off."""
        return self._server.url.rstrip("/") if self._server is not None else ""

    def configure(self, configuration: AgentConfiguration) -> None:
        """As the Protocol."""
        self._settings = configuration
        self._sender.send_to(configuration.collector)

    async def start(self) -> None:
        """As the Protocol."""
        try:
            self._server = HttpServer(self.serve, Address.parse("otlp", self._settings.otlp))
        except CotenantError as error:
            self.fault = str(error)
            raise
        await self._server.start()
        self._sending = asyncio.create_task(self._sender.run(), name="forwarding")

    async def stop(self) -> None:
        """As the Protocol."""
        if self._sending is not None:
            await cancelled([self._sending])
        if self._server is not None:
            await self._server.stop()
        self._server, self._sending = None, None

    async def add_to(self, beat: Beat) -> None:
        """As the Protocol."""
        dropped = f"{self._sender.dropped} requests were dropped" if self._sender.dropped else ""
        self.fault = "; ".join(text for text in (self._sender.fault, dropped) if text)

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The application on `otlp`."""
        try:
            await send_answer(send, await self._answer(scope, receive))
        except BodyRefused as refused:
            await send_answer(send, refused.answer)
        except Disconnected:
            return

    async def _answer(self, scope: Scope, receive: Receive) -> HttpAnswer:
        if scope["path"] == "/healthz":
            return HttpAnswer(200, b"ok\n", TEXT)
        if scope["path"] not in PATHS:
            return HttpAnswer(404, ", ".join(PATHS).encode() + b"\n", TEXT)
        if scope["method"] != "POST":
            return HttpAnswer(405, b"only POST\n", TEXT, ((b"allow", b"POST"),))
        if not self._settings.collector:
            return HttpAnswer(503, b"this agent has no collector\n", TEXT)
        body = await read_body(scope, receive)
        kind = header(scope, b"content-type").decode("latin-1") or _PROTOBUF
        self._sender.put(Export(scope["path"], body, kind, header(scope, b"content-encoding").decode("latin-1")))
        is_json = kind.startswith("application/json")
        return HttpAnswer(200, b"{}" if is_json else b"", JSON if is_json else _PROTOBUF.encode())
