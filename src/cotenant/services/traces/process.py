"""The trace process: arguments are checked, parts joined, time given to the engine.

Problem: a used port or an open receiver must be one clear line before anything is served. Choice: loopback by default; on other addresses a token, client certificates
or `--insecure` where the network is trusted. The engine gets the time every second; at the end its open traces are lost. Limits: one process, its state is in memory.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from cotenant.drivers.http.address import Address, bind
from cotenant.drivers.http.limits import ServerLimits
from cotenant.drivers.http.server import HttpServer
from cotenant.drivers.http.tls import Tls
from cotenant.drivers.http.tokens import BearerToken
from cotenant.drivers.http.traffic import Traffic
from cotenant.drivers.otlp.grpc_server import OtlpGrpcServer
from cotenant.drivers.otlp.resources import span_tags
from cotenant.engine.traces.trace_engine import TABLES, TraceEngine
from cotenant.model.errors import InvalidInput
from cotenant.services.running import TaskSet, log_to_stderr, raise_descriptors, run_until_signal
from cotenant.services.traces.app import LIMITS, Application
from cotenant.services.traces.metrics import TraceMetrics
from cotenant.services.traces.warming import warm

TICK_S = 1.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TraceSettings:
    """The command's arguments. An empty address turns a server off."""

    http: str = "127.0.0.1:4318"
    grpc: str = "127.0.0.1:4317"
    tls_cert: Path | None = None
    tls_key: Path | None = None
    client_ca: Path | None = None
    token_file: Path | None = None
    insecure: bool = False
    most_skew_s: float = 10.0
    log_level: str = "info"


@dataclass(frozen=True, slots=True)
class Checked:
    """What the settings mean."""

    http: Address
    grpc: Address | None
    tls: Tls | None
    token: BearerToken | None


def check(settings: TraceSettings) -> Checked:
    """Raises `InvalidInput` for what does not fit together."""
    http = Address.parse("--http", settings.http)
    grpc = Address.parse("--grpc", settings.grpc) if settings.grpc else None
    cert, key = settings.tls_cert, settings.tls_key
    if (cert is None) != (key is None):
        raise InvalidInput("--tls-cert, --tls-key", str(cert or key), "both or neither")
    if settings.client_ca is not None and cert is None:
        raise InvalidInput("--client-ca", str(settings.client_ca), "--tls-cert and --tls-key beside it")
    if grpc is not None and grpc.path:
        raise InvalidInput("--grpc", settings.grpc, "HOST:PORT")
    if not 0 <= settings.most_skew_s <= 3600:
        raise InvalidInput("--most-skew-s", settings.most_skew_s, "0 to 3600 seconds; 0 turns the correction off")
    token = None if settings.token_file is None else BearerToken(settings.token_file, "--token-file")
    tls = None if cert is None or key is None else Tls(cert, key, settings.client_ca)
    for option, address in (("--http", http), ("--grpc", grpc)):
        protected = token is not None or settings.client_ca is not None or settings.insecure
        if address is not None and not address.is_loopback and not protected:
            raise InvalidInput(
                option,
                str(address),
                "a loopback address, or --token-file, or --client-ca",
                "anyone who can reach it could send spans; --insecure says that the network is trusted",
            )
    return Checked(http, grpc, tls, token)


async def serve(
    settings: TraceSettings,
    stop: asyncio.Event,
    listening: Callable[[str, str], None],
    clock: Callable[[], float] = time.time,
    limits: ServerLimits = LIMITS,
) -> None:
    """Serve until `stop` is set. `listening` gets the HTTP URL and the gRPC address. Raises `InvalidInput`."""
    checked = check(settings)
    async with AsyncExitStack() as stack:
        bound = bind(checked.http)  # an address in use is reported before anything that takes seconds
        stack.callback(bound.close)
        engine = TraceEngine(clock(), span_tags, most_shift_ns=round(settings.most_skew_s * 1e9))
        metrics, traffic = TraceMetrics(engine), Traffic("traces")
        metrics.registry.register(traffic)
        app = Application(engine, metrics, clock, checked.token)
        grpc_server = None
        if checked.grpc is not None:
            grpc_server = OtlpGrpcServer(
                app.export,
                checked.grpc,
                tls=checked.tls,
                token=checked.token,
                answered=lambda code: metrics.answered("grpc", code),
            )
        warm(clock())
        server = HttpServer(app, bound, limits=limits, tls=checked.tls, traffic=traffic)
        if grpc_server is not None:
            await grpc_server.start()
            stack.push_async_callback(grpc_server.stop)
        tasks, end = TaskSet(), asyncio.Event()
        tasks.start("traces", _tick(engine, clock))
        serving = tasks.start("http", server.run(end))
        listening(server.url, "" if grpc_server is None else str(grpc_server.address))
        try:
            await tasks.wait(stop)
        finally:
            end.set()
            await asyncio.wait([serving])
            await tasks.cancel()


async def _tick(engine: TraceEngine, clock: Callable[[], float]) -> None:
    while True:
        await asyncio.sleep(TICK_S / TABLES)
        engine.tick_next(clock())


def run(settings: TraceSettings) -> int:
    """Run until SIGTERM or SIGINT. Raises `InvalidInput`."""
    check(settings)
    log_to_stderr(settings.log_level)
    raise_descriptors()

    def listening(url: str, grpc_address: str) -> None:
        print(f"OTLP/HTTP: {url}/v1/traces", flush=True)
        if grpc_address:
            print(f"OTLP/gRPC: {grpc_address}", flush=True)

    async def main(stop: asyncio.Event) -> None:
        await serve(settings, stop, listening)

    run_until_signal(main)
    return 0
