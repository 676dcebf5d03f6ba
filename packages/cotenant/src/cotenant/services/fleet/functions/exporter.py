"""The host's figures for Prometheus, at an address that heartbeats tell: a gateway lists it, no file is edited."""

from __future__ import annotations

import socket
from collections.abc import Mapping

from cotenant.drivers.http.address import Address
from cotenant.drivers.http.messages import TEXT, HttpAnswer, Receive, Scope, Send, send_answer
from cotenant.drivers.http.pages import HEALTH_PATHS, HealthPages
from cotenant.drivers.http.server import HttpServer
from cotenant.drivers.metrics.registry import MetricsRegistry
from cotenant.model.errors import CotenantError, Transient
from cotenant.model.fleet.configuration import AgentConfiguration
from cotenant.services.fleet.functions.contract import Beat
from cotenant.services.fleet.functions.figure_table import families
from cotenant.services.fleet.functions.figures import FigureFunction
from cotenant.services.fleet.rpc import RpcVerb

_ANYWHERE = ("192.0.2.1", 9)  # of documentation; nothing is sent there, it only chooses the host's usual address


class ExporterFunction:
    """Implements `Function`. A change of the address takes effect when the function is switched on next."""

    name = "exporter"

    def __init__(self, figures: FigureFunction) -> None:
        self._figures = figures
        self._settings = AgentConfiguration()
        self._registry = MetricsRegistry()
        self._server: HttpServer | None = None
        self._told = ""
        self.fault = ""
        self.verbs: Mapping[str, RpcVerb] = {}

    def configure(self, configuration: AgentConfiguration) -> None:
        """As the Protocol."""
        self._settings = configuration

    async def start(self) -> None:
        """As the Protocol."""
        address = Address.parse("exporter", self._settings.exporter)
        try:
            self._server = HttpServer(self._serve, address)
        except CotenantError as error:
            self.fault = str(error)
            raise
        await self._server.start()
        port = self._server.url.rsplit(":", 1)[-1].rstrip("/")
        host = self._settings.exporter_host or (_usual_address() if address.host in ("0.0.0.0", "::") else address.host)
        self._told = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.fault = ""

    async def stop(self) -> None:
        """As the Protocol."""
        if self._server is not None:
            await self._server.stop()
        self._server, self._told = None, ""

    async def add_to(self, beat: Beat) -> None:
        """As the Protocol."""
        if self._told:
            beat.exporters.append(self._told)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] not in HEALTH_PATHS:
            await send_answer(send, HttpAnswer(404, b"/metrics\n", TEXT))
            return
        try:
            page = self._registry.page(families(await self._figures.measured()))
        except Transient as error:
            await send_answer(send, HttpAnswer(503, f"{error}\n".encode(), TEXT))
            return
        answer = HealthPages(lambda: page).answer(scope["method"], scope["path"], scope["query_string"])
        await send_answer(send, answer or HttpAnswer(404))


def _usual_address() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as trial:
        try:
            trial.connect(_ANYWHERE)
            return str(trial.getsockname()[0])
        except OSError:
            return socket.gethostname()
