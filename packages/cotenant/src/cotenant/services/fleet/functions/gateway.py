"""One agent that lists the exporters of all agents for Prometheus (http_sd): who joins is scraped, who left is not.

It hears heartbeats and asks agents who they are, which a fleet's file grants to hosts with `gateway: true` only.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping

import msgspec
from prometheus_client.core import GaugeMetricFamily

from cotenant.drivers.http.address import Address
from cotenant.drivers.http.messages import TEXT, HttpAnswer, Receive, Scope, Send, send_answer
from cotenant.drivers.http.pages import HEALTH_PATHS, HealthPages
from cotenant.drivers.http.server import HttpServer
from cotenant.drivers.metrics.registry import MetricsRegistry
from cotenant.drivers.nats.contract import Bus, BusMessage, Subscription
from cotenant.engine.fleet.discovery import targets
from cotenant.engine.fleet.registry import HostRegistry
from cotenant.model.errors import CotenantError
from cotenant.model.fleet.configuration import AgentConfiguration
from cotenant.model.fleet.host import Heartbeat, Registration
from cotenant.model.fleet.requests import Describe
from cotenant.model.fleet.states import AgentState
from cotenant.services.fleet.functions.contract import Beat
from cotenant.services.fleet.rpc import RpcVerb, call
from cotenant.services.running import cancelled

_log = logging.getLogger(__name__)
SD_PATH = "/sd"
_AT_ONCE = 16


class GatewayFunction:
    """Implements `Function`."""

    name = "gateway"

    def __init__(self, bus: Bus, now: Callable[[], float] = time.monotonic) -> None:
        self._bus = bus
        self._now = now
        self._settings = AgentConfiguration()
        self._hosts = HostRegistry()
        self._metrics = MetricsRegistry()
        self._metrics.read(
            GaugeMetricFamily, "cotenant_fleet_agents", "Agents by state, as this gateway hears them.", ("state",),
            self._states,
        )  # fmt: skip
        self._server: HttpServer | None = None
        self._subscriptions: list[Subscription] = []
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._limit = asyncio.Semaphore(_AT_ONCE)
        self._ticking: asyncio.Task[None] | None = None
        self._decode = msgspec.json.Decoder(Heartbeat).decode
        self.fault = ""
        self.verbs: Mapping[str, RpcVerb] = {}

    @property
    def url(self) -> str:
        """Where Prometheus asks; empty while it is off."""
        return f"{self._server.url.rstrip('/')}{SD_PATH}" if self._server is not None else ""

    def configure(self, configuration: AgentConfiguration) -> None:
        """As the Protocol."""
        self._settings = configuration

    async def start(self) -> None:
        """As the Protocol."""
        address = Address.parse("gateway", self._settings.gateway)
        try:
            server = HttpServer(self._serve, address)
        except CotenantError as error:
            self.fault = str(error)
            raise
        self._hosts = HostRegistry()
        self._subscriptions = [
            await self._bus.subscribe("hb.*", self._heartbeat),
            await self._bus.subscribe("fleet.leave.*", self._left),
        ]
        self._ticking = asyncio.create_task(self._tick(), name="gateway")
        await server.start()
        self._server, self.fault = server, ""
        _log.info("exporters of the fleet are listed at %s", self.url)

    async def stop(self) -> None:
        """As the Protocol."""
        for subscription in self._subscriptions:
            await subscription.unsubscribe()
        tasks = [*self._asking.values(), *([self._ticking] if self._ticking is not None else [])]
        await cancelled(tasks)
        if self._server is not None:
            await self._server.stop()
        self._server, self._ticking, self._subscriptions = None, None, []

    async def add_to(self, beat: Beat) -> None:
        """As the Protocol."""

    async def _heartbeat(self, message: BusMessage) -> None:
        try:
            beat = self._decode(message.data)
        except ValueError:
            return
        if message.subject != f"hb.{beat.guid}":
            return
        if not self._hosts.beat(beat, self._now()) and beat.guid not in self._asking:
            self._asking[beat.guid] = asyncio.create_task(self._ask_who(beat.guid))

    async def _left(self, message: BusMessage) -> None:
        self._hosts.leave(message.subject.rpartition(".")[2])

    async def _ask_who(self, guid: str) -> None:
        try:
            async with self._limit:
                found = await call(self._bus, f"guid.{guid}.rpc.describe", Describe(), Registration)
            if found.guid == guid:
                self._hosts.register(found, self._now())
            self.fault = ""
        except CotenantError as error:
            self.fault = f"who {guid} is: {error}"
        finally:
            del self._asking[guid]

    async def _tick(self) -> None:
        while True:
            self._hosts.tick(self._now())
            await asyncio.sleep(1.0)

    def _states(self) -> list[tuple[tuple[str, ...], float]]:
        found = Counter(host.state for host in self._hosts.hosts())
        return [((state.value,), found[state]) for state in AgentState]

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, method = scope["path"], scope["method"]
        if path == SD_PATH and method in ("GET", "HEAD"):
            await send_answer(send, HttpAnswer(200, msgspec.json.encode(targets(self._hosts.hosts()).groups)))
        elif path in HEALTH_PATHS:
            pages = HealthPages(self._metrics.page)
            await send_answer(send, pages.answer(method, path, scope["query_string"]) or HttpAnswer(404))
        else:
            await send_answer(send, HttpAnswer(404, b"/sd, /metrics\n", TEXT))
