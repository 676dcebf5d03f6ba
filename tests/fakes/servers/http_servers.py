"""The servers of this package on loopback, as their processes make them, and one raw connection to a server."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from random import Random

from tests.fakes.node.agent_world import CONFIG, World
from tests.fakes.waiting import patience

from cotenant.drivers.http.address import Address
from cotenant.drivers.http.limits import ServerLimits
from cotenant.drivers.http.messages import Application
from cotenant.drivers.http.pages import HealthPages
from cotenant.drivers.http.server import HttpServer
from cotenant.drivers.http.tls import Tls
from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.drivers.metrics.registry import MetricsRegistry
from cotenant.model.fleet.configuration import AgentConfiguration
from cotenant.model.groups.quota import Quota
from cotenant.policy.placement.profiles import profile
from cotenant.services.agent.main import http_server
from cotenant.services.console.console_process import ConsoleOptions, ConsoleProcess
from cotenant.services.extender import extender_process as extender
from cotenant.services.extender.extender_arguments import ExtenderSettings
from cotenant.services.fleet.functions.forwarding import ForwardFunction
from cotenant.services.kube_process.leadership import Alone
from cotenant.services.reviewing.facts import WebhookFacts
from cotenant.services.reviewing.reviewer import Reviewer
from cotenant.services.reviewing.rules import ReviewRules
from cotenant.services.scheduler.scheduler_process import SchedulerProcess
from cotenant.services.scheduling.options import Options
from cotenant.services.traces import traces_process as traces
from cotenant.services.webhook import app as webhook
from cotenant.services.webhook.metrics import WebhookMetrics
from cotenant_local.apiserver.assembly import assemble
from cotenant_local.apiserver.http import app as apiserver
from cotenant_local.apiserver.http.auth import Credentials
from cotenant_local.apiserver.http.server import ApiServer
from cotenant_local.apiserver.storage.store import Store

LOOPBACK = Address("127.0.0.1", 0)
TOKEN = "token-of-the-tests"


@dataclass(frozen=True)
class Facts:
    """A page that answers without a body, one that reads a body, and the most bytes that it takes with
    `ServerLimits.body_bytes` = 1 MiB.
    """

    open_page: str
    body_page: str
    body_bytes: int


SERVERS = {
    "apiserver": Facts("/healthz", "/api/v1/namespaces", 3 << 20),
    "scheduler": Facts("/healthz", "/metrics/report", 64 << 10),
    "extender": Facts("/healthz", "/prioritize", 1 << 20),
    "agent": Facts("/healthz", "/v1/latency", 16 << 10),
    "webhook": Facts("/healthz", "/mutate-pod", 1 << 20),
    "traces": Facts("/healthz", "/v1/traces", 1 << 20),
    "console": Facts("/healthz", "/login", 16 << 10),
    "forwarding": Facts("/healthz", "/v1/traces", 1 << 20),
}


@asynccontextmanager
async def serving(name: str, limits: ServerLimits, tls: Tls | None = None) -> AsyncIterator[Address]:
    """One of `SERVERS`. With `tls`, its application on a server of its own, because not every process has an option
    for TLS.
    """
    limits = replace(limits, body_bytes=1 << 20)
    starting = {
        "apiserver": _apiserver,
        "scheduler": _scheduler,
        "extender": _extender,
        "agent": _agent,
        "webhook": _webhook,
        "traces": _traces,
        "console": _console,
        "forwarding": _forwarding,
    }[name]
    async with starting(limits, tls) as address:
        yield address


@asynccontextmanager
async def _apiserver(limits: ServerLimits, tls: Tls | None) -> AsyncIterator[Address]:
    api = assemble(Store())
    await api.bootstrap()
    server = ApiServer(apiserver.ApiServerApp(api, Credentials(TOKEN)), limits=limits, tls=tls)
    await server.start()
    try:
        yield server.address
    finally:
        await server.stop()
        await api.close()


@asynccontextmanager
async def _scheduler(limits: ServerLimits, tls: Tls | None) -> AsyncIterator[Address]:
    access = Access("http://127.0.0.1:1", FixedCredential(Credential("")))
    options = Options(listen=LOOPBACK, http=limits)
    process = SchedulerProcess(access, profile("least-allocated"), options, "one", lambda client: Alone())
    try:
        async with _running(process.server, process.pages, limits, tls) as address:
            yield address
    finally:
        await process.client.close()


@asynccontextmanager
async def _extender(limits: ServerLimits, tls: Tls | None) -> AsyncIterator[Address]:
    settings = ExtenderSettings(listen="127.0.0.1:0")
    if tls is not None:
        settings = replace(settings, tls_cert=tls.certificate, tls_key=tls.key)
    stop = asyncio.Event()
    heard: asyncio.Future[Address] = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(extender.serve(settings, stop, heard.set_result, limits))
    try:
        yield await heard
    finally:
        stop.set()
        await running


@asynccontextmanager
async def _agent(limits: ServerLimits, tls: Tls | None) -> AsyncIterator[Address]:
    process = World(CONFIG).process()
    async with _running(http_server(process, LOOPBACK, limits), process.pages, limits, tls) as address:
        yield address


@asynccontextmanager
async def _traces(limits: ServerLimits, tls: Tls | None) -> AsyncIterator[Address]:
    settings = traces.TraceSettings(http="127.0.0.1:0", grpc="")
    if tls is not None:
        settings = replace(settings, tls_cert=tls.certificate, tls_key=tls.key)
    stop = asyncio.Event()
    heard: asyncio.Future[Address] = asyncio.get_running_loop().create_future()

    def listening(at: traces.ListeningAddresses) -> None:
        heard.set_result(Address.parse("url", at.url.partition("//")[2]))

    running = asyncio.create_task(traces.serve(settings, stop, listening, limits=limits))
    try:
        yield await heard
    finally:
        stop.set()
        await running


@asynccontextmanager
async def _webhook(limits: ServerLimits, tls: Tls | None) -> AsyncIterator[Address]:
    facts, registry = WebhookFacts(time.monotonic), MetricsRegistry()
    metrics = WebhookMetrics(registry, facts, dict, float, dict)
    reviewer = Reviewer(facts, ReviewRules(), _no_pods, Random(0))
    app = webhook.WebhookApp(reviewer, metrics, HealthPages(registry.page))
    async with _running(HttpServer(app, LOOPBACK, limits=limits), app, limits, tls) as address:
        yield address


@asynccontextmanager
async def _console(limits: ServerLimits, tls: Tls | None) -> AsyncIterator[Address]:
    access = Access("http://127.0.0.1:1", FixedCredential(Credential("")))
    process = ConsoleProcess(access, ConsoleOptions(listen=LOOPBACK))
    try:
        async with _running(HttpServer(process.app, LOOPBACK, limits=limits), process.app, limits, tls) as address:
            yield address
    finally:
        await process.client.close()


@asynccontextmanager
async def _forwarding(limits: ServerLimits, tls: Tls | None) -> AsyncIterator[Address]:
    function = ForwardFunction()
    function.configure(AgentConfiguration(collector="http://127.0.0.1:1"))
    async with _running(HttpServer(function.serve, LOOPBACK, limits=limits), function.serve, limits, tls) as address:
        yield address


async def _no_pods(_: Quota) -> bool:
    return False


@asynccontextmanager
async def _running(
    server: HttpServer, app: Application, limits: ServerLimits, tls: Tls | None
) -> AsyncIterator[Address]:
    running = server if tls is None else HttpServer(app, LOOPBACK, limits=limits, tls=tls)
    await running.start()
    try:
        yield running.address
    finally:
        await running.stop()
        await server.stop()


class Raw:
    """A connection that sends what it is given."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.answered = False  # `rest` has received something

    @classmethod
    async def open(cls, address: Address, context: ssl.SSLContext | None = None) -> Raw:
        """Connect."""
        host = None if context is None else "127.0.0.1"
        opened = await asyncio.open_connection(address.host, address.port, ssl=context, server_hostname=host)
        return cls(*opened)

    def send(self, data: bytes) -> None:
        """Send, without waiting."""
        self.writer.write(data)

    async def rest(self, within_s: float = 20.0) -> bytes:
        """Everything until the server closes. Raises `TimeoutError` where it does not."""
        parts = []
        async with asyncio.timeout(patience(within_s)):
            try:
                while part := await self.reader.read(65536):
                    self.answered = True
                    parts.append(part)
            except ConnectionError:
                pass
        return b"".join(parts)

    async def answer(self) -> tuple[int, bytes]:
        """One answer with a Content-Length: its status and body."""
        async with asyncio.timeout(patience(20.0)):
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = 0
            for line in head.split(b"\r\n"):
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            return int(head.split(b" ", 2)[1]), await self.reader.readexactly(length)

    def close(self) -> None:
        """Hang up."""
        self.writer.close()


def head(method: str, path: str, *more: str) -> bytes:
    """A request's head, with the token."""
    lines = [f"{method} {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {TOKEN}", *more, "", ""]
    return "\r\n".join(lines).encode()
